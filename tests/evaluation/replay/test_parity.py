"""The log of a driven service, exported and replayed, gives the same counts and the same state."""

import json

import pytest

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.sources.opening import open_source
from online.scoring.class_score import ClassScore
from tests.evaluation.driven import Driven
from tests.evaluation.driving import TURNS


@pytest.mark.parametrize(("name", "kind"), [("chat", "ranker"), ("vec", "classifier"), ("rv", "river")])
def test_a_replay_reproduces_every_answer_every_count_and_the_state(driven: Driven, name: str, kind: str) -> None:
    log, live = driven[name]
    source = open_source(str(log))
    replay = Replay(source, CandidateSpec(kind))
    replay.run()
    report, metrics = replay.report(), live["metrics"]
    assert report.same_answers == report.asked == source.header["prediction_count"]
    assert report.asked > TURNS if name == "chat" else report.asked == TURNS  # some users asked for another reply
    assert report.events == metrics["events"] == live["learned_until"]
    assert report.figures["served_rated"] == metrics["rated"] > TURNS / 2
    assert report.figures["served_right"] == metrics["right"] > 0
    assert report.state_sha256 == live["state_sha256"]
    assert isinstance(replay.score, ClassScore)
    assert replay.score.hits["model"] == replay.score.hits["served"]  # the replayed model is the served one
    assert len(report.drift) == metrics["drift_alarms"]


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "kind"), [("chat", "ranker"), ("vec", "classifier"), ("rv", "river")])
def test_a_replay_after_an_erasure_reproduces_every_count_and_the_state(driven: Driven, name: str, kind: str) -> None:
    """The answers are not reproduced: some were given by versions that had learned the erased users."""
    log, live = driven[f"{name}, erased"]
    source = open_source(str(log))
    replay = Replay(source, CandidateSpec(kind))
    replay.run()
    report, metrics = replay.report(), live["metrics"]
    assert (
        0
        < report.asked
        == source.header["prediction_count"]
        < open_source(str(driven[name][0])).header["prediction_count"]
    )
    assert report.events == metrics["events"] == live["learned_until"]
    assert report.figures["served_rated"] == metrics["rated"]
    assert report.figures["served_right"] == metrics["right"]
    assert report.state_sha256 == live["state_sha256"]
    assert len(report.drift) == metrics["drift_alarms"]


@pytest.mark.parametrize("name", ["chat", "vec", "rv"])
def test_a_server_reports_the_counts_of_the_replay(driven: Driven, name: str) -> None:
    log, live = driven[name]
    replay = Replay(open_source(str(log)), CandidateSpec(live_kind(name)))
    replay.run()
    score, served_curve = replay.score, live["curve"]
    assert isinstance(score, ClassScore)
    assert served_curve["counted_until"] == served_curve["head"] == live["learned_until"]
    assert (served_curve["judged"], served_curve["judged_right"]) == (
        live["metrics"]["rated"],
        live["metrics"]["right"],
    )
    for name in ("served", "no_change", "majority"):
        assert served_curve["tallies"][name] == {"judged": score.hits[name].judged, "total": score.hits[name].right}, (
            name
        )
    for point, segment in zip(served_curve["points"], score.curve.segments(256), strict=True):
        assert (point["until"], point["offset"], point["ended"]) == (segment.until, segment.offset, segment.ended)
        assert point["counts"] == {name: segment.counts[name] for name in point["counts"]}
        assert point["sums"] == {name: segment.sums[name] for name in point["sums"]} and "served" in point["sums"]


def live_kind(name: str) -> str:
    return {"chat": "ranker", "vec": "classifier", "rv": "river"}[name]


def test_nothing_of_an_erased_user_remains_in_the_export(driven: Driven) -> None:
    lines = [json.loads(line) for line in driven["chat, erased"][0].read_text().splitlines()[1:]]
    users = {line[kind]["user"] for line in lines for kind in line}
    assert "user 3" in users and not users & {"user 1", "user 2"}
    predictions = [line["prediction"] for line in lines if "prediction" in line]
    assert predictions and all(prediction["user"] and prediction["features"] for prediction in predictions)
    void = [line["event"] for line in lines if "event" in line and line["event"]["kind"] == "void"]
    assert void and not any(event["features"] or event["label"] or event["input"] for event in void)


def test_another_kind_that_reads_texts_skips_the_erased_ones(
    driven: Driven,
) -> None:
    log, _ = driven["rv, erased"]
    replay = Replay(open_source(str(log)), CandidateSpec("classifier", {"input": "table"}))
    replay.run()
    report = replay.report()
    assert 0 < report.examples < TURNS and report.bad == 0 and report.figures["accuracy"] is not None
