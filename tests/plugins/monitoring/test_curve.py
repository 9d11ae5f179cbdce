"""The prequential counts of a server equal those of a replay of its exported log, also after restarts."""

import asyncio
import json
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.sources.log_export import LogExport
from online.evaluation.sources.opening import open_source
from online.plugins.monitoring.curve import FORMAT, REMEMBERED, CurveCounts, CurveKeeper, per_minute
from online.schemas.events import Event
from online.scoring.class_score import ClassScore
from online.scoring.number_score import NumberScore
from online.scoring.prequential import Curve, names_right_answer
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.store import Store
from online.store.database import values
from online.store.deletion.event_expiry import EventExpiry, save_expiry
from online.store.events import EVENTS, append_events, build_retraction
from online.store.feedback import FEEDBACK, add_feedback, mark_retracted
from online.store.log_rows import Outcome, load_log_rows, load_outcomes, save_counts
from online.store.predictions import PREDICTIONS, add_predictions
from online.store.usage.answer_ratings import ANSWER_RATINGS
from online.store.usage.ratings import count_page
from tests.api.rest.test_predict import give, predict
from tests.api.rest.test_versions import flags_of
from tests.conftest import Start
from tests.support import Service, first_of, run_online

SPEC = ModelSettings(name="m", kind="knn", options={"input": "vector", "size": 1, "window": 8})
NUMBERS = ModelSettings(name="m", kind="regressor", options={"input": "vector", "size": 1, "scale": 4.0})
FEATURES = struct.pack("<d", 1.0)
LABELS = ("a", "b", "c")
NOT_ANSWERED = "not answered"  # an example before any version had learned something


class Log:
    """A random log of predictions, feedback and retractions. Predictions are up to `lag` events behind the log."""

    def __init__(self, store: Store, seed: int, lag: int, numbers: bool = False) -> None:
        self.store, self.draw, self.lag, self.numbers = store, random.Random(seed), lag, numbers
        self.head = 0
        self.retracted: set[int] = set()  # offsets

    def grow(self, events: int) -> None:
        self.store.submit(lambda connection: self._grow(connection, events)).result()

    def _grow(self, connection: Connection, events: int) -> None:
        until = self.head + events
        while self.head < until:
            draw = self.draw.random()
            if draw < 0.1 and not self.numbers:
                self._example(connection)
            elif draw < 0.15 and self.head:
                self._retraction(connection)
            else:
                self._outcome(connection)

    def _label(self) -> str:
        return str(self.draw.randrange(9)) if self.numbers else self.draw.choice(LABELS)

    def _example(self, connection: Connection) -> None:
        event = Event(f"f{self.head}", "label", FEATURES, self._label())
        answer = self.draw.choice((*LABELS, None)) if self.draw.random() < 0.3 else NOT_ANSWERED
        self._add_feedback(connection, event, None, "[1.0]", answer)

    def _outcome(self, connection: Connection) -> None:
        known = max(0, self.head - self.draw.randrange(self.lag))
        choice = None if known == 0 or self.draw.random() < 0.1 else self._label()
        prediction_id = f"{known:012d}-{self.head}"
        row = {"id": prediction_id, "model": "m", "version": 1, "learned_until": known, "user": None, "input": "[1.0]"}
        answer = {"choice": choice, "propensity": 1.0, "candidates": "[]", "created_at": values.now()}
        add_predictions(connection, [{**row, "features": FEATURES, **answer}])
        if self.numbers or choice is None or self.draw.random() < 0.5:
            event = Event(f"f{self.head}", "label", FEATURES, self._label(), choice=choice)
        else:
            reward = self.draw.choice((0.0, 0.5, 1.0))
            event = Event(f"f{self.head}", "reward", FEATURES, choice, reward=reward, choice=choice)
        self._add_feedback(connection, event, prediction_id, None)

    def _add_feedback(
        self,
        connection: Connection,
        event: Event,
        prediction_id: str | None,
        input: str | None,
        answer: str | None = NOT_ANSWERED,
    ) -> None:
        """answer: to an input of its own, before it was learned; None where the version abstained."""
        was_answered = answer is not NOT_ANSWERED
        self.head = append_events(connection, "m", [event])[0]
        row = {
            "model": "m",
            "id": event.id,
            "offset": self.head,
            "content": "{}",
            "prediction_id": prediction_id,
            "input": input,
            "answer": answer if was_answered else None,
            "answered_until": self.draw.randrange(self.head) if was_answered else None,
        }
        add_feedback(connection, [{**row, "user": None, "created_at": values.now(), "status": "accepted"}])

    def _retraction(self, connection: Connection) -> None:
        target = self.draw.randrange(self.head) + 1
        row = load_log_rows(connection, "m", target - 1, 1)[0]
        event = Event.parse(row.body, FEATURES)
        if event.kind != "retraction" and row.offset not in self.retracted:
            self.retracted.add(target)
            self.head = append_events(connection, "m", [build_retraction(event, target)])[0]
            mark_retracted(connection, "m", event.id, self.head)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(Settings(state=tmp_path / "state", models=(SPEC,)))
    yield workspace
    workspace.store.close()


def create_keeper(workspace: Workspace, numbers: bool = False) -> CurveKeeper:
    return CurveKeeper("m", numbers, workspace.store, lambda *_, **__: None)


def count_all(keeper: CurveKeeper) -> CurveCounts:
    async def read_counts() -> CurveCounts:
        counts: CurveCounts = await keeper.summarize(lambda counts: counts, patience_s=60)
        return counts

    return asyncio.run(read_counts())


def replay_exported_log(workspace: Workspace, spec: ModelSettings, folder: Path) -> Replay:
    path = folder / "log.jsonl"
    LogExport(workspace, spec).write(path, lambda done, of: None)
    replay = Replay(open_source(str(path)), CandidateSpec(spec.kind))
    replay.run()
    return replay


def served_segments(curve: Curve) -> list[dict[str, Any]]:
    """The segments without what a server does not know: the answers of a replay, and the times of learning."""
    known = ("served", "no_change", "majority", "mean")
    return [
        {
            **asdict(each),
            **{part: {n: v for n, v in asdict(each)[part].items() if n in known} for part in ("counts", "sums")},
        }
        for each in curve.segments()
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize("lag", [40, 1, 500])
def test_every_count_equals_that_of_a_replay_of_the_exported_log(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lag: int
) -> None:
    # With a small limit, some feedback is older than the remembered predictions.
    monkeypatch.setattr("online.plugins.monitoring.curve.REMEMBERED", 100)
    log = Log(workspace.store, seed=lag, lag=lag)
    log.grow(1_500)
    counts = count_all(create_keeper(workspace))
    score = replay_exported_log(workspace, SPEC, tmp_path).score
    assert isinstance(score, ClassScore)
    for name in ("served", "no_change", "majority"):
        assert (counts.tallies[name].judged, counts.tallies[name].total) == (
            score.hits[name].judged,
            score.hits[name].right,
        ), name
    assert counts.served == score.served.hits and counts.served.judged > 800
    assert served_segments(counts.curve) == served_segments(score.curve)
    assert count_ratings(workspace) == count_in_force(workspace)


def count_ratings(workspace: Workspace) -> dict[str, list[int]]:
    """Answer -> how many ratings of it stand, and how many of those are good, as the service counts them."""
    while not workspace.store.submit(lambda connection: count_page(connection, "m")).result().is_complete:
        pass
    rows = workspace.store.read(lambda connection: connection.execute(select(ANSWER_RATINGS)).all())
    return {row.answer: [row.good + row.bad, row.good] for row in rows if row.good + row.bad}


def count_in_force(workspace: Workspace) -> dict[str, list[int]]:
    """Choice -> how much feedback that stands judges it, and how much of that says that it was right."""
    found: dict[str, list[int]] = {}
    joined = FEEDBACK.join(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id).join(
        EVENTS, (EVENTS.c.model == FEEDBACK.c.model) & (EVENTS.c.offset == FEEDBACK.c.offset)
    )
    standing = (FEEDBACK.c.retracted_offset.is_(None), PREDICTIONS.c.choice.is_not(None))
    query = select(EVENTS.c.body, PREDICTIONS.c.choice).select_from(joined).where(*standing)
    for body, choice in workspace.store.read(lambda connection: connection.execute(query).all()):
        event = Event.parse(body, b"")
        counted = found.setdefault(choice, [0, 0])
        counted[0] += 1
        counted[1] += names_right_answer(event) and event.label == choice
    return found


@pytest.mark.long
def test_the_error_of_a_regressor_equals_that_of_a_replay(workspace: Workspace, tmp_path: Path) -> None:
    Log(workspace.store, seed=1, lag=30, numbers=True).grow(600)
    counts = count_all(create_keeper(workspace, numbers=True))
    replay = replay_exported_log(workspace, NUMBERS, tmp_path)
    assert isinstance(replay.score, NumberScore)
    figures, served = replay.score.figures(), counts.tallies["served"]
    assert served.judged == replay.score.judged["served"] and counts.served == replay.score.served.hits
    assert served.total / served.judged == pytest.approx(figures["served_mae"], rel=1e-5)


@pytest.mark.long
def test_counts_are_the_same_after_any_number_of_restarts(workspace: Workspace) -> None:
    log, keeper = Log(workspace.store, seed=3, lag=200), create_keeper(workspace)
    for _ in range(12):
        log.grow(random.Random(log.head).randrange(1, 900))
        count_all(keeper)
        asyncio.run(keeper.stop())
        keeper = create_keeper(workspace)
    assert count_all(keeper).to_json() == count_all(fresh_keeper(workspace)).to_json()


def fresh_keeper(workspace: Workspace) -> CurveKeeper:
    keeper = create_keeper(workspace)
    keeper.counts = CurveCounts(numbers=False)
    return keeper


def test_the_number_of_a_judged_answer_is_exact_at_every_offset_also_after_restarts(workspace: Workspace) -> None:
    log, keeper = Log(workspace.store, seed=8, lag=20), create_keeper(workspace)
    for events in (1_300, 7, 900):
        log.grow(events)
        count_all(keeper)
        asyncio.run(keeper.stop())
        keeper = create_keeper(workspace)
    counts, one_by_one = count_all(keeper), CurveCounts(numbers=False)
    expected = {0: 0}
    for offset in range(1, log.head + 1):
        rows = workspace.store.read(partial(load_outcomes, model="m", after=offset - 1, until=offset))
        one_by_one.take(rows, offset)
        expected[offset] = one_by_one.tallies["served"].judged if "served" in one_by_one.tallies else 0
    assert counts.judged_until(expected) == expected
    assert 800 < expected[log.head] < log.head - 200
    assert counts.judged_until([log.head + 1, 5, 10**15]) == {log.head + 1: None, 5: expected[5], 10**15: None}


def save_without_numbers(workspace: Workspace, counts: CurveCounts) -> None:
    """Save counts as a release did that kept no numbers of judged answers."""
    kept = {name: value for name, value in json.loads(counts.to_json()).items() if name != "judged"}
    workspace.store.submit(lambda connection: save_counts(connection, "m", FORMAT, json.dumps(kept))).result()


def test_numbers_that_an_older_release_did_not_keep_are_counted_again(workspace: Workspace) -> None:
    Log(workspace.store, seed=9, lag=20).grow(600)
    before = count_all(create_keeper(workspace))
    save_without_numbers(workspace, before)
    assert count_all(create_keeper(workspace)).to_json() == before.to_json()


def test_where_events_expired_before_a_number_was_kept_it_is_unknown_and_later_ones_are_exact(
    workspace: Workspace,
) -> None:
    log = Log(workspace.store, seed=10, lag=20)
    log.grow(600)
    before = count_all(create_keeper(workspace))
    save_without_numbers(workspace, before)
    expiry = EventExpiry(closed_until=300, closed_at=600, removing_until=300, removing_at=600)
    workspace.store.submit(lambda connection: save_expiry(connection, "m", expiry)).result()
    log.grow(100)
    after = count_all(create_keeper(workspace))
    numbers, served = after.judged_until([599, 600, 700]), before.tallies["served"].judged
    assert numbers == {599: None, 600: served, 700: after.tallies["served"].judged}
    assert served < after.tallies["served"].judged


@pytest.mark.long
def test_a_long_log_is_summarised_as_far_as_it_is_counted(workspace: Workspace) -> None:
    Log(workspace.store, seed=4, lag=10).grow(5_000)
    events: list[dict[str, Any]] = []
    keeper = CurveKeeper("m", False, workspace.store, lambda name, **data: events.append({"name": name, **data}))

    async def read_twice() -> tuple[int, int]:
        early: int = await keeper.summarize(lambda counts: counts.until, patience_s=0)
        assert keeper.running is not None
        await keeper.running
        return early, await keeper.summarize(lambda counts: counts.until)

    early, late = asyncio.run(read_twice())
    assert early < late == 5_000
    assert events == [{"name": "counted", "counted_until": 5_000}]


def test_a_failed_count_continues_from_the_last_stored_counts(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    Log(workspace.store, seed=5, lag=10).grow(700)
    keeper = create_keeper(workspace)
    take = CurveCounts.take

    def broken(counts: CurveCounts, rows: Sequence[Outcome], until: int) -> None:
        take(counts, rows[:100], until)
        raise RuntimeError("half way")

    monkeypatch.setattr(CurveCounts, "take", broken)
    with pytest.raises(RuntimeError):
        count_all(keeper)
    monkeypatch.setattr(CurveCounts, "take", take)
    assert count_all(keeper).to_json() == count_all(create_keeper(workspace)).to_json()


def test_the_rate_covers_the_last_minute_or_the_remembered_events() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert per_minute(times(now, 90, 30, 5), now) == 2
    assert per_minute(times(now, *([30] * REMEMBERED)), now) == pytest.approx(2 * REMEMBERED)


def times(now: datetime, *ages_s: float) -> Any:
    return CurveCounts(numbers=False).times.__class__((now - timedelta(seconds=age)).isoformat() for age in ages_s)


def test_the_curve_counts_new_feedback(service: Service) -> None:
    before = service.http.get("/v1/models/tab/curve").json()
    for x, label in ((1.0, "in"), (-1.0, "out"), (1.0, "in"), (-1.0, "out")):
        answer = predict(service, "tab", [{"x": x}])
        receipt = give(service, "tab", prediction_id=answer["prediction_ids"][0], label=label)
        service.wait_learned("tab", receipt["offset"])
    after = service.http.get("/v1/models/tab/curve").json()
    assert after["measure"] == "right" and after["counted_until"] == after["head"] == receipt["offset"]
    assert after["feedback"] == before["feedback"] + 4 and after["feedback_per_minute"] >= 4
    points = service.http.get("/v1/models/tab/curve", params={"points": 8}).json()["points"]
    assert len(points) <= 8 and points[-1]["until"] == after["points"][-1]["until"]
    assert sum(point["counts"].get("served", 0) for point in points) == after["tallies"]["served"]["judged"]
    assert service.http.get("/v1/models/tab/curve", params={"points": 100_000}).status_code == 400


@pytest.mark.parametrize("kind", first_of(["classifier", "knn", "logistic", "regressor"]))
def test_labels_with_an_input_are_judged_before_they_are_learned(start: Start, tmp_path: Path, kind: str) -> None:
    """A label that comes with its input judges what the live version answers to that, live as in a replay of the log."""
    service = start(f'[[models]]\nname = "m"\nkind = "{kind}"\n[models.options]\ninput = "table"\n')
    client = service.client("m")
    for batch in (1, 40, 40, 1, 40):
        items = [{"input": {"x": n % 2}, "label": str(n % 2)} for n in range(batch)]
        service.wait_learned("m", client.feedback(items)[-1]["offset"])
    curve = service.http.get("/v1/models/m/curve").json()
    assert curve["judged"] == 121, "the first label found nothing that had learned"
    assert kind == "regressor" or curve["tallies"]["served"]["total"] > 100
    log = tmp_path / "log.jsonl"
    exported = run_online("log", "export", *flags_of(service), "--output", str(log))
    assert exported.returncode == 0, exported.stderr
    replay = Replay(open_source(str(log)), CandidateSpec(kind))
    replay.run()
    assert replay.score.figures()["served_rated"] == 121
    if isinstance(replay.score, ClassScore):
        tallies = {name: {"judged": hits.judged, "total": hits.right} for name, hits in replay.score.hits.items()}
        assert curve["tallies"] == {name: tallies[name] for name in curve["tallies"]}
    else:
        served = curve["tallies"]["served"]
        assert replay.score.figures()["served_mae"] == pytest.approx(served["total"] / served["judged"], rel=1e-5)


def test_the_verdict_is_on_answers_to_requests_and_the_lifetime_on_labels_with_an_input_as_well(start: Start) -> None:
    service = start('[[models]]\nname = "m"\nkind = "classifier"\n[models.options]\ninput = "table"\n')
    client = service.client("m")
    for _ in range(3):
        items = [{"input": {"x": n % 2}, "label": str(n % 2)} for n in range(40)]
        service.wait_learned("m", client.feedback(items)[-1]["offset"])
    answered = client.predict([{"x": 1}])
    service.wait_learned("m", give(service, "m", prediction_id=answered["prediction_ids"][0], label="1")["offset"])
    health = service.http.get("/v1/models/m/health").json()
    assert health["lifetime"]["count"] == 81 and health["recent"]["count"] == 1
    assert health["reasons"][0]["figures"] == {"rated": 1, "enough": 30}
