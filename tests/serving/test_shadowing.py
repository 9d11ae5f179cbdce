"""A shadow that fails is nobody's trouble, and one that is slow costs its own answers alone."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from online.errors import Unavailable
from online.models import Answer, create
from online.models.encoder import VectorEncoder
from online.serving import shadowing
from online.serving.live import LiveModel
from online.serving.shadowing import Answered, Shadow
from online.shadow import ShadowRow
from online.snapshots import SHADOW

ENCODER = VectorEncoder(2)


class Faulty:
    """Fails at the first batch it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        self.asked += 1
        if self.asked == 1:
            raise ZeroDivisionError("it was never meant to")
        return create("classifier", {"input": "vector", "size": 2}).predict(inputs, keys)


class Tally:
    def __init__(self) -> None:
        self.count = 0

    def inc(self) -> None:
        self.count += 1


def answered(number: int) -> Answered:
    return Answered([f"p{number}"], ENCODER.encode([[number, 1]]), ENCODER, [None])


def live_with(model: object) -> LiveModel:
    served = SimpleNamespace(model=model, encoder=ENCODER, version=3)
    labels = {SHADOW: SimpleNamespace(version=3)}
    return cast(LiveModel, SimpleNamespace(labels=labels, available={3: served}, snapshots=SimpleNamespace(model="m")))


async def offered(shadow: Shadow, numbers: Sequence[int], written: list[ShadowRow], until: int) -> None:
    running = asyncio.create_task(shadow.run())
    for number in numbers:
        shadow.offer(answered(number))
        await asyncio.sleep(0.05)
    async with asyncio.timeout(10):
        while len(written) < until:
            await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()


def test_one_that_raises_goes_on_with_the_next() -> None:
    written: list[ShadowRow] = []

    async def write(rows: Sequence[ShadowRow]) -> None:
        written.extend(rows)

    asyncio.run(offered(Shadow(live_with(Faulty()), write, Tally()), range(3), written, 2))
    assert [row.prediction_id for row in written] == ["p1", "p2"]
    assert {(row.model, row.version, row.choice) for row in written} == {("m", 3, None)}


def test_where_its_rows_cannot_be_written_it_goes_on() -> None:
    written: list[ShadowRow] = []
    model, tries = create("classifier", {"input": "vector", "size": 2}), iter(range(9))

    async def write(rows: Sequence[ShadowRow]) -> None:
        if next(tries) == 0:
            raise Unavailable("the store is away")
        written.extend(rows)

    asyncio.run(offered(Shadow(live_with(model), write, Tally()), range(3), written, 2))
    assert [row.prediction_id for row in written] == ["p1", "p2"]


def test_what_finds_no_room_is_dropped_and_counted() -> None:
    async def write(rows: Sequence[ShadowRow]) -> None:
        raise AssertionError("nobody reads the queue")

    dropped = Tally()
    shadow = Shadow(live_with(None), write, dropped)
    for number in range(shadowing.MOST + 5):
        shadow.offer(answered(number))
    assert dropped.count == 5
