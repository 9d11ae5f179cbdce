"""The prequential counts of a server: the same as a replay of its exported log, however they are cut and kept."""

import asyncio
import random
import struct
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from online import store
from online.evaluation.export import Export
from online.evaluation.replay import Contender, Replay
from online.evaluation.scores import LabelScore, NumberScore
from online.evaluation.sources import open_source
from online.prequential import Curve
from online.schemas import Event
from online.serving.curve import REMEMBERED, Counts, CurveKeeper, per_minute
from online.settings import ModelSettings, Settings
from online.store import Store
from online.stream import append_events
from online.workspace import Workspace
from tests.serving.test_api import give, predict
from tests.support import Service

SPEC = ModelSettings(name="m", kind="knn", options={"input": "vector", "size": 1, "window": 8})
NUMBERS = ModelSettings(name="m", kind="regressor", options={"input": "vector", "size": 1, "scale": 4.0})
FEATURES = struct.pack("<d", 1.0)
LABELS = ("a", "b", "c")


class Log:
    """People whose answers lag behind what is known, by up to `lag` events; some of it taken back."""

    def __init__(self, store: Store, seed: int, lag: int, numbers: bool = False) -> None:
        self.store, self.draw, self.lag, self.numbers = store, random.Random(seed), lag, numbers
        self.head = 0
        self.gone: set[int] = set()  # taken back

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
        self._told(connection, Event(f"f{self.head}", "label", FEATURES, self._label()), None, "[1.0]")

    def _outcome(self, connection: Connection) -> None:
        known = max(0, self.head - self.draw.randrange(self.lag))
        choice = None if known == 0 or self.draw.random() < 0.1 else self._label()
        asked = f"{known:012d}-{self.head}"
        row = {"id": asked, "model": "m", "version": 1, "learned_until": known, "user": None, "input": "[1.0]"}
        answered = {"choice": choice, "propensity": 1.0, "candidates": "[]", "created_at": store.now()}
        store.add_predictions(connection, [{**row, "features": FEATURES, **answered}])
        if self.numbers or choice is None or self.draw.random() < 0.5:
            event = Event(f"f{self.head}", "label", FEATURES, self._label(), choice=choice)
        else:
            reward = self.draw.choice((0.0, 0.5, 1.0))
            event = Event(f"f{self.head}", "reward", FEATURES, choice, reward=reward, choice=choice)
        self._told(connection, event, asked, None)

    def _told(self, connection: Connection, event: Event, asked: str | None, own: str | None) -> None:
        self.head = append_events(connection, "m", [event])[0]
        row = {"model": "m", "id": event.id, "offset": self.head, "content": "{}", "prediction_id": asked, "input": own}
        store.add_feedback(connection, [{**row, "user": None, "created_at": store.now(), "status": "accepted"}])

    def _retraction(self, connection: Connection) -> None:
        target = self.draw.randrange(self.head) + 1
        found = store.log_rows(connection, "m", target - 1, 1)[0]
        event = Event.parse(found["body"], FEATURES)
        if event.kind != "retraction" and found["offset"] not in self.gone:
            self.gone.add(target)
            self.head = append_events(connection, "m", [store.retraction(event, target)])[0]
            store.mark_retracted(connection, "m", event.id, self.head)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace(Settings(state=tmp_path / "state", models=(SPEC,)))
    yield opened
    opened.store.close()


def keeper(workspace: Workspace, numbers: bool = False) -> CurveKeeper:
    return CurveKeeper("m", numbers, workspace.store, lambda *_, **__: None)


def counted(keeper: CurveKeeper) -> Counts:
    async def ask() -> Counts:
        counts: Counts = await keeper.shown(lambda counts: counts, patience_s=60)
        return counts

    return asyncio.run(ask())


def replayed(workspace: Workspace, spec: ModelSettings, folder: Path) -> Replay:
    path = folder / "log.jsonl"
    Export(workspace, spec).write(path, lambda done, of: None)
    replay = Replay(open_source(str(path)), Contender(spec.kind))
    replay.run()
    return replay


def of_the_served(curve: Curve) -> list[dict[str, Any]]:
    """Without what a server does not know: what the model would have said today, and when it had learned."""
    known = ("served", "no_change", "majority", "mean")
    return [
        {
            **asdict(each),
            **{part: {n: v for n, v in asdict(each)[part].items() if n in known} for part in ("counts", "sums")},
        }
        for each in curve.stretches()
    ]


@pytest.mark.parametrize("lag", [1, 40, 500])
def test_every_count_is_what_a_replay_of_the_exported_log_says(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lag: int
) -> None:
    monkeypatch.setattr("online.serving.curve.REMEMBERED", 100)  # so that some feedback is older than that
    log = Log(workspace.store, seed=lag, lag=lag)
    log.grow(1_500)
    counts = counted(keeper(workspace))
    score = replayed(workspace, SPEC, tmp_path).score
    assert isinstance(score, LabelScore)
    for name in ("served", "no_change", "majority"):
        assert (counts.tallies[name].judged, counts.tallies[name].total) == (
            score.hits[name].judged,
            score.hits[name].right,
        ), name
    assert counts.served == score.served.hits and counts.served.judged > 800
    assert of_the_served(counts.curve) == of_the_served(score.curve)
    rated = sum(hits.judged for hits in counts.choices.values())
    assert set(counts.choices) == set(LABELS) and rated == counts.served.judged


def test_errors_of_numbers_are_what_a_replay_says(workspace: Workspace, tmp_path: Path) -> None:
    Log(workspace.store, seed=1, lag=30, numbers=True).grow(600)
    counts = counted(keeper(workspace, numbers=True))
    replay = replayed(workspace, NUMBERS, tmp_path)
    assert isinstance(replay.score, NumberScore)
    figures, served = replay.score.figures(), counts.tallies["served"]
    assert served.judged == replay.score.judged["served"] and counts.served == replay.score.served.hits
    assert served.total / served.judged == pytest.approx(figures["served_mae"], rel=1e-5)


def test_counts_that_were_kept_and_taken_up_again_anywhere_are_the_same(workspace: Workspace) -> None:
    log, kept = Log(workspace.store, seed=3, lag=200), keeper(workspace)
    for _ in range(12):
        log.grow(random.Random(log.head).randrange(1, 900))
        counted(kept)
        asyncio.run(kept.stop())
        kept = keeper(workspace)
    assert counted(kept).dumped() == counted(fresh_keeper(workspace)).dumped()


def fresh_keeper(workspace: Workspace) -> CurveKeeper:
    made = keeper(workspace)
    made.counts = Counts(numbers=False)
    return made


def test_a_long_log_is_told_of_as_far_as_it_is_counted(workspace: Workspace) -> None:
    Log(workspace.store, seed=4, lag=10).grow(5_000)
    told: list[dict[str, Any]] = []
    made = CurveKeeper("m", False, workspace.store, lambda name, **data: told.append({"name": name, **data}))

    async def ask() -> tuple[int, int]:
        early: int = await made.shown(lambda counts: counts.until, patience_s=0)
        assert made.running is not None
        await made.running
        return early, await made.shown(lambda counts: counts.until)

    early, late = asyncio.run(ask())
    assert early < late == 5_000
    assert told == [{"name": "counted", "counted_until": 5_000}]


def test_a_count_that_failed_half_way_is_made_again_from_what_was_kept(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    Log(workspace.store, seed=5, lag=10).grow(700)
    made = keeper(workspace)
    whole = Counts.take

    def broken(counts: Counts, rows: list[dict[str, Any]], until: int) -> None:
        whole(counts, rows[:100], until)
        raise RuntimeError("in the middle of it")

    monkeypatch.setattr(Counts, "take", broken)
    with pytest.raises(RuntimeError):
        counted(made)
    monkeypatch.setattr(Counts, "take", whole)
    assert counted(made).dumped() == counted(keeper(workspace)).dumped()


def test_the_rate_is_of_the_last_minute_and_of_what_is_remembered_where_more_came() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert per_minute(times(now, 90, 30, 5), now) == 2
    assert per_minute(times(now, *([30] * REMEMBERED)), now) == pytest.approx(2 * REMEMBERED)


def times(now: datetime, *ages_s: float) -> Any:
    return Counts(numbers=False).times.__class__((now - timedelta(seconds=age)).isoformat() for age in ages_s)


def test_the_curve_tells_what_came_back_since(service: Service) -> None:
    before = service.http.get("/v1/models/tab/curve").json()
    for x, label in ((1.0, "in"), (-1.0, "out"), (1.0, "in"), (-1.0, "out")):
        asked = predict(service, "tab", [{"x": x}])
        receipt = give(service, "tab", prediction_id=asked["prediction_ids"][0], label=label)
        service.wait_learned("tab", receipt["offset"])
    after = service.http.get("/v1/models/tab/curve").json()
    assert after["measure"] == "right" and after["counted_until"] == after["head"] == receipt["offset"]
    assert after["feedback"] == before["feedback"] + 4 and after["feedback_per_minute"] >= 4
    points = service.http.get("/v1/models/tab/curve", params={"points": 8}).json()["points"]
    assert len(points) <= 8 and points[-1]["until"] == after["points"][-1]["until"]
    assert sum(point["counts"].get("served", 0) for point in points) == after["tallies"]["served"]["judged"]
    assert service.http.get("/v1/models/tab/curve", params={"points": 100_000}).status_code == 400
