"""A service that was driven with everything people do, exported and replayed: the same counts, the same state."""

import json

import pytest

from online.evaluation.replay import Contender, Replay
from online.evaluation.scores import LabelScore
from online.evaluation.sources import open_source
from tests.evaluation.conftest import Driven
from tests.evaluation.driving import TURNS


@pytest.mark.parametrize(("name", "kind"), [("chat", "ranker"), ("vec", "classifier"), ("rv", "river")])
def test_a_replay_gives_every_answer_every_count_and_the_state_again(driven: Driven, name: str, kind: str) -> None:
    log, live = driven[name]
    source = open_source(str(log))
    replay = Replay(source, Contender(kind))
    replay.run()
    report, metrics = replay.report(), live["metrics"]
    assert report.same_answers == report.asked == source.header["asked"]
    assert report.asked > TURNS if name == "chat" else report.asked == TURNS  # some wanted another reply
    assert report.events == metrics["events"] == live["learned_until"]
    assert report.figures["served_rated"] == metrics["rated"] > TURNS / 2
    assert report.figures["served_right"] == metrics["right"] > 0
    assert report.state_sha256 == live["state_sha256"]
    assert isinstance(replay.score, LabelScore)
    assert replay.score.hits["model"] == replay.score.hits["served"]  # the model is what was served
    assert len(report.drift) == metrics["drift_alarms"]


@pytest.mark.parametrize("name", ["chat", "vec", "rv"])
def test_a_server_tells_the_counts_of_the_replay(driven: Driven, name: str) -> None:
    log, live = driven[name]
    replay = Replay(open_source(str(log)), Contender(live_kind(name)))
    replay.run()
    score, told = replay.score, live["curve"]
    assert isinstance(score, LabelScore)
    assert told["counted_until"] == told["head"] == live["learned_until"]
    assert (told["rated"], told["right"]) == (live["metrics"]["rated"], live["metrics"]["right"])
    for who in ("served", "no_change", "majority"):
        assert told["tallies"][who] == {"judged": score.hits[who].judged, "total": score.hits[who].right}, who
    for point, stretch in zip(told["points"], score.curve.stretches(256), strict=True):
        assert (point["until"], point["offset"], point["ended"]) == (stretch.until, stretch.offset, stretch.ended)
        assert point["counts"] == {who: stretch.counts[who] for who in point["counts"]}
        assert point["sums"] == {who: stretch.sums[who] for who in point["sums"]} and "served" in point["sums"]


def live_kind(name: str) -> str:
    return {"chat": "ranker", "vec": "classifier", "rv": "river"}[name]


def test_nothing_a_user_said_or_asked_is_left_in_words(driven: Driven) -> None:
    lines = [json.loads(line) for line in driven["chat"][0].read_text().splitlines()[1:]]
    users = {line[kind]["user"] for line in lines for kind in line}
    assert "user 3" in users and not users & {"user 1", "user 2"}
    erased = [line["asked"] for line in lines if "asked" in line and line["asked"]["user"] is None]
    assert erased and all(asked["input"] is None and asked["features"] for asked in erased)


def test_another_kind_that_reads_the_words_does_without_the_erased_ones(
    driven: Driven,
) -> None:
    log, _ = driven["rv"]
    replay = Replay(open_source(str(log)), Contender("classifier", {"input": "table"}))
    replay.run()
    report = replay.report()
    assert 0 < report.examples < TURNS and report.bad == 0 and report.figures["accuracy"] is not None
