"""The batcher: people first, no more waiting than may, nothing computed for whom it is too late."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from online.errors import DeadlineExceeded, Overloaded
from online.models import Answer, Encoder, create
from online.models.encoder import encoder, reads
from online.serving.batcher import Batcher, Limits
from online.serving.live import Served

VECTOR = {"input": "vector", "size": 2, "scale": 4.0}


class Seen:
    """The micro-batches there were; now: what the clock says."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.waiting: list[int] = []
        self.computed_count = 0
        self.now = 0.0

    def gathered(self, size: int, waited_s: float, still_waiting: int) -> None:
        self.sizes.append(size)
        self.waiting.append(still_waiting)

    def computed(self, seconds: float) -> None:
        assert seconds >= 0
        self.computed_count += 1


class Scene:
    """A batcher over a model that knows nothing; `ask` remembers in which order answers came."""

    def __init__(self, tmp: Path, **limits: float) -> None:
        self.encoder: Encoder = encoder(reads("classifier", VECTOR), tmp)
        self.served = Served(create("classifier", VECTOR), self.encoder, 1, 0, "")
        self.seen, self.order = Seen(), list[str]()
        most = Limits(
            int(limits.get("max_batch", 4)), int(limits.get("max_waiting", 100)), limits.get("timeout_s", 10.0)
        )
        self.batcher = Batcher(lambda: self.served, self._write, most, self.seen, lambda: self.seen.now)

    async def _write(self, rows: object, encoders: object) -> None:
        raise AssertionError("a dry run leaves no row")

    def ask(self, name: str, size: int = 1, of_a_job: bool = False) -> "asyncio.Task[Sequence[Answer]]":
        inputs = self.encoder.encode([[0.0, 1.0]] * size)

        async def asked() -> Sequence[Answer]:
            keys = [None] * size
            _, answers = await self.batcher.ask(inputs, self.encoder, keys, None, "", of_a_job=of_a_job)
            self.order.append(name)
            return answers

        return asyncio.create_task(asked())


async def answered(scene: Scene, *tasks: "asyncio.Task[Sequence[Answer]]") -> list[object]:
    """Let the batcher run until all are answered."""
    await asyncio.sleep(0)  # so that each stands in the queue
    running = asyncio.create_task(scene.batcher.run())
    told = await asyncio.gather(*tasks, return_exceptions=True)
    running.cancel()
    return list(told)


def test_people_are_answered_before_jobs_and_never_with_them(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_batch=2)

    async def act() -> None:
        jobs = [scene.ask(f"job {n}", of_a_job=True) for n in range(2)]
        people = [scene.ask(f"person {n}") for n in range(3)]
        await answered(scene, *jobs, *people)

    asyncio.run(act())
    assert scene.order == ["person 0", "person 1", "person 2", "job 0", "job 1"]
    assert scene.seen.sizes == [2, 1] and scene.seen.waiting == [1, 0]  # a job is not among those that wait
    assert scene.seen.computed_count == 4


def test_a_job_turns_nobody_away_and_waits_for_as_long_as_it_takes(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_waiting=5, timeout_s=2.0)

    async def act() -> None:
        job = scene.ask("job", 50, of_a_job=True)
        await asyncio.sleep(0)
        scene.seen.now = 100.0
        told = await answered(scene, job, scene.ask("person", 5))
        assert [len(each) for each in told if isinstance(each, list)] == [50, 5]

    asyncio.run(act())
    assert scene.order == ["person", "job"]


def test_nothing_is_computed_for_a_job_that_was_cancelled(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def act() -> None:
        gone, stays = scene.ask("gone", 3, of_a_job=True), scene.ask("stays", of_a_job=True)
        await asyncio.sleep(0)
        gone.cancel()
        await answered(scene, gone, stays)

    asyncio.run(act())
    assert scene.order == ["stays"] and scene.seen.computed_count == 1


def test_more_than_may_wait_are_turned_away_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_waiting=5)

    async def act() -> None:
        tasks = [scene.ask("four", 4), scene.ask("two more", 2), scene.ask("one more", 1)]
        four, two, one = await answered(scene, *tasks)
        assert isinstance(two, Overloaded) and "max_waiting" in str(two)
        assert isinstance(four, list) and isinstance(one, list) and (len(four), len(one)) == (4, 1)
        (alone,) = await answered(scene, scene.ask("alone", 50))  # nobody waits: whatever it is, it is let in
        assert isinstance(alone, list) and len(alone) == 50

    asyncio.run(act())


def test_whose_time_is_over_is_told_so_and_the_model_is_not_called_for_them(tmp_path: Path) -> None:
    scene = Scene(tmp_path, timeout_s=2.0)

    async def act() -> None:
        late = scene.ask("late", 3)
        await asyncio.sleep(0)
        scene.seen.now = 2.5
        in_time = scene.ask("in time")
        told = await answered(scene, late, in_time)
        assert isinstance(told[0], DeadlineExceeded) and "2.5 s" in str(told[0])
        assert scene.seen.sizes == [1]

    asyncio.run(act())
    assert scene.order == ["in time"]


def test_nothing_is_computed_for_a_caller_that_went_away(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def act() -> None:
        gone, stays = scene.ask("gone", 3), scene.ask("stays")
        await asyncio.sleep(0)
        gone.cancel()
        await answered(scene, gone, stays)

    asyncio.run(act())
    assert (scene.order, scene.seen.sizes) == (["stays"], [1])


@pytest.mark.parametrize("size", [1, 64, 65])
def test_a_request_is_never_split(tmp_path: Path, size: int) -> None:
    scene = Scene(tmp_path, max_batch=4)

    async def act() -> None:
        (told,) = await answered(scene, scene.ask("all of it", size))
        assert isinstance(told, list) and len(told) == size

    asyncio.run(act())
    assert scene.seen.sizes == [size]
