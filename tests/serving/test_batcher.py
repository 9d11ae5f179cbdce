"""The batcher: interactive requests first, a bounded queue, and no work for cancelled requests."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from online.errors import DeadlineExceeded, Overloaded
from online.models import Answer, Encoder, create, input_options
from online.models.encoders.factory import create_encoder
from online.serving.batcher import Answered, AwaitedRequest, Batcher, InteractiveLoad, Limits
from online.serving.versions import ServedVersion

VECTOR = {"input": "vector", "size": 2, "scale": 4.0}


class RecordingObserver:
    """Records the micro-batches. now: the time on the batcher's clock."""

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
    """A batcher over a model that has learned nothing. order: names of requests as they were answered."""

    def __init__(self, tmp: Path, **limits: float) -> None:
        self.encoder: Encoder = create_encoder(input_options("classifier", VECTOR), tmp)
        self.served = ServedVersion(create("classifier", VECTOR), self.encoder, 1, 0, "")
        self.observer, self.order = RecordingObserver(), list[str]()
        bounds = Limits(
            int(limits.get("max_batch", 4)), int(limits.get("max_waiting", 100)), limits.get("timeout_s", 10.0)
        )
        self.load = InteractiveLoad()
        self.batcher = Batcher(
            lambda: self.served, self._record, bounds, self.observer, lambda: self.observer.now, self.load
        )

    def _record(self, served: ServedVersion, answered: Answered) -> None:
        assert all(not request.rows for request, _ in answered)

    def ask(self, name: str, size: int = 1, from_job: bool = False) -> "asyncio.Task[Sequence[Answer]]":
        inputs = self.encoder.encode([[0.0, 1.0]] * size)

        async def request() -> Sequence[Answer]:
            pending = AwaitedRequest(inputs, self.encoder, [None] * size)
            (self.batcher.submit_for_job if from_job else self.batcher.submit)(pending)
            _, answers = await pending.result
            self.order.append(name)
            return answers

        return asyncio.create_task(request())


async def answer_all(scene: Scene, *tasks: "asyncio.Task[Sequence[Answer]]") -> list[object]:
    """Run the batcher until every request has answers or an error; return these."""
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert scene.load.gone.is_set()
    return list(results)


def test_interactive_requests_are_answered_before_jobs_and_never_with_them(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_batch=2)

    async def run_requests() -> None:
        jobs = [scene.ask(f"job {n}", from_job=True) for n in range(2)]
        people = [scene.ask(f"person {n}") for n in range(3)]
        await answer_all(scene, *jobs, *people)

    asyncio.run(run_requests())
    assert scene.order == ["person 0", "person 1", "person 2", "job 0", "job 1"]
    assert scene.observer.sizes == [2, 1] and scene.observer.waiting == [1, 0]  # jobs are not counted
    assert scene.observer.computed_count == 4


def test_a_job_neither_fills_the_queue_nor_has_a_deadline(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_waiting=5, timeout_s=2.0)

    async def run_requests() -> None:
        job = scene.ask("job", 50, from_job=True)
        await asyncio.sleep(0)
        scene.observer.now = 100.0
        results = await answer_all(scene, job, scene.ask("person", 5))
        assert [len(each) for each in results if isinstance(each, list)] == [50, 5]

    asyncio.run(run_requests())
    assert sorted(scene.order) == ["job", "person"]


def test_nothing_is_computed_for_a_cancelled_job(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def run_requests() -> None:
        cancelled, other = scene.ask("cancelled", 3, from_job=True), scene.ask("other", from_job=True)
        await asyncio.sleep(0)
        cancelled.cancel()
        await answer_all(scene, cancelled, other)

    asyncio.run(run_requests())
    assert scene.order == ["other"] and scene.observer.computed_count == 1


def test_a_request_beyond_the_queue_is_refused_immediately(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_waiting=5)

    async def run_requests() -> None:
        tasks = [scene.ask("four", 4), scene.ask("two more", 2), scene.ask("one more", 1)]
        four, two, one = await answer_all(scene, *tasks)
        assert isinstance(two, Overloaded) and "max_waiting" in str(two)
        assert isinstance(four, list) and isinstance(one, list) and (len(four), len(one)) == (4, 1)
        (large,) = await answer_all(scene, scene.ask("large", 50))  # an empty queue takes a request of any size
        assert isinstance(large, list) and len(large) == 50

    asyncio.run(run_requests())


def test_a_request_past_its_deadline_fails_without_a_call_of_the_model(tmp_path: Path) -> None:
    scene = Scene(tmp_path, timeout_s=2.0)

    async def run_requests() -> None:
        late = scene.ask("late", 3)
        await asyncio.sleep(0)
        scene.observer.now = 2.5
        in_time = scene.ask("in time")
        results = await answer_all(scene, late, in_time)
        assert isinstance(results[0], DeadlineExceeded) and "2.5 s" in str(results[0])
        assert scene.observer.sizes == [1]

    asyncio.run(run_requests())
    assert scene.order == ["in time"]


def test_nothing_is_computed_for_a_cancelled_request(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def run_requests() -> None:
        cancelled, other = scene.ask("cancelled", 3), scene.ask("other")
        await asyncio.sleep(0)
        cancelled.cancel()
        await answer_all(scene, cancelled, other)

    asyncio.run(run_requests())
    assert (scene.order, scene.observer.sizes) == (["other"], [1])


@pytest.mark.parametrize("size", [1, 64, 65])
def test_a_request_is_never_split(tmp_path: Path, size: int) -> None:
    scene = Scene(tmp_path, max_batch=4)

    async def run_requests() -> None:
        (answers,) = await answer_all(scene, scene.ask("whole", size))
        assert isinstance(answers, list) and len(answers) == size

    asyncio.run(run_requests())
    assert scene.observer.sizes == [size]
