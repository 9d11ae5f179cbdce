"""The shadow version: its failures affect no other version, and a slow one only loses its own answers."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from online.errors import Unavailable
from online.models import Answer, Model, create
from online.models.encoders.rows import VectorEncoder
from online.plugins.shadow.shadow import MAX_QUEUED, Shadow
from online.plugins.shadow.tables import ShadowAnswerRow
from online.serving.live import LiveModel
from online.serving.parts import AnsweredRequest
from online.serving.versions import ServedVersion
from online.snapshots.labels import SHADOW

ENCODER = VectorEncoder(2)


class FaultyModel:
    """A model that fails on its first batch."""

    def __init__(self) -> None:
        self.calls = 0

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        self.calls += 1
        if self.calls == 1:
            raise ZeroDivisionError("a fault of the model")
        return create("classifier", {"input": "vector", "size": 2}).predict(inputs, keys)


class FakeCounter:
    def __init__(self) -> None:
        self.count = 0

    def inc(self) -> None:
        self.count += 1


def make_request(number: int) -> AnsweredRequest:
    return AnsweredRequest([f"p{number}"], ENCODER.encode([[number, 1]]), ENCODER, [None])


def create_live_model(model: object) -> LiveModel:
    served = ServedVersion(cast(Model, model), ENCODER, 3, learned_until=0, weights_sha256="")
    labels = {SHADOW: SimpleNamespace(version=3)}
    return cast(LiveModel, SimpleNamespace(labels=labels, available={3: served}, snapshots=SimpleNamespace(model="m")))


async def run_shadow(shadow: Shadow, numbers: Sequence[int], written: list[ShadowAnswerRow], count: int) -> None:
    running = asyncio.create_task(shadow.run())
    for number in numbers:
        shadow.observe(make_request(number))
        await asyncio.sleep(0.05)
    async with asyncio.timeout(10):
        while len(written) < count:
            await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()


def test_a_shadow_that_raises_continues_with_the_next_batch() -> None:
    written: list[ShadowAnswerRow] = []

    async def write(rows: Sequence[ShadowAnswerRow]) -> None:
        written.extend(rows)

    asyncio.run(run_shadow(Shadow(create_live_model(FaultyModel()), write, FakeCounter()), range(3), written, 2))
    assert [row.prediction_id for row in written] == ["p1", "p2"]
    assert {(row.model, row.version, row.choice) for row in written} == {("m", 3, None)}


def test_a_shadow_whose_rows_cannot_be_written_continues() -> None:
    written: list[ShadowAnswerRow] = []
    model, attempts = create("classifier", {"input": "vector", "size": 2}), iter(range(9))

    async def write(rows: Sequence[ShadowAnswerRow]) -> None:
        if next(attempts) == 0:
            raise Unavailable("the store is down")
        written.extend(rows)

    asyncio.run(run_shadow(Shadow(create_live_model(model), write, FakeCounter()), range(3), written, 2))
    assert [row.prediction_id for row in written] == ["p1", "p2"]


def test_requests_beyond_the_queue_are_dropped_and_counted() -> None:
    async def write(rows: Sequence[ShadowAnswerRow]) -> None:
        raise AssertionError("the queue is not read in this test")

    dropped = FakeCounter()
    shadow = Shadow(create_live_model(None), write, dropped)
    for number in range(MAX_QUEUED + 5):
        shadow.observe(make_request(number))
    assert dropped.count == 5
