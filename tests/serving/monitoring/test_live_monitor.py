"""The live monitor: a version that stops answering, or becomes slow, is rolled back."""

import asyncio
import re
from types import SimpleNamespace
from typing import cast

import numpy as np

from online.client import Client
from online.errors import Unavailable
from online.models import Answer, Candidate, Example, Model, create
from online.models.encoders.rows import VectorEncoder
from online.serving.live import LiveModel
from online.serving.monitoring.live_monitor import LiveMonitor, count_abstentions, find_regression
from online.serving.parts import AnsweredRequest
from online.serving.versions import ServedVersion
from online.state.guard import Guard
from tests.api.rest.test_versions import GUARDED, UP, post, predicted_class, teach
from tests.conftest import Start
from tests.support import Service, until

OPTIONS = {"input": "vector", "size": 2, "scale": 4.0}
ROWS = [row.tobytes() for row in np.random.default_rng(5).uniform(-1, 1, (64, 2))]


def create_classifier(*more: Example) -> Model:
    """A classifier of two classes that has also learned `more`."""
    model = create("classifier", OPTIONS)
    model.learn([Example(n, "label", row, "ab"[n % 2]) for n, row in enumerate(ROWS[:20], 1)])
    model.learn(more)
    return load_for_serving(model)


def load_for_serving(model: Model) -> Model:
    """Return a copy with only the parts that a server loads."""
    copy = create("classifier", OPTIONS)
    copy.restore({name: part for name, part in model.state(serving_only=True).items() if part.serving})
    return copy


def test_a_version_that_answers_as_before_is_no_regression() -> None:
    before = create_classifier()
    assert find_regression(before, create_classifier(Example(30, "label", ROWS[30], "b")), ROWS) is None


def test_a_version_that_leaves_questions_unanswered_is_a_regression() -> None:
    retired = create_classifier(Example(30, "retire", b"", "a"), Example(31, "retire", b"", "b"))
    assert (
        find_regression(create_classifier(), retired, ROWS)
        == "of the last 64 questions it left 64 unanswered, the version before 0"
    )


def test_answers_that_an_operator_has_retired_are_no_regression() -> None:
    def answer(choice: str | None, *candidates: str) -> Answer:
        return Answer(choice, tuple(Candidate(id, 0.5) for id in candidates))

    before = [answer("a", "a", "b"), answer("b", "a", "b"), answer(None, "a")]
    retired = [answer(None, "b"), answer(None, "a", "b"), answer(None, "b")]
    assert count_abstentions(before, retired) == (1, 2)


def test_questions_that_neither_version_answers_are_no_regression() -> None:
    untaught = load_for_serving(create("classifier", OPTIONS))
    answers = untaught.predict(ROWS)
    assert count_abstentions(answers, answers) == (64, 64)
    assert find_regression(untaught, untaught, ROWS) is None


def test_a_version_that_is_several_times_slower_is_a_regression() -> None:
    many_new_classes = (Example(n, "label", ROWS[n % 64], f"label {n}") for n in range(100, 1_000))
    reason = find_regression(create_classifier(), create_classifier(*many_new_classes), ROWS)
    assert reason is not None and reason.startswith("it takes ")


def test_a_rollback_that_fails_is_retried() -> None:
    rolled_back_since: list[int] = []

    def roll_back(offset: int, since: int, reason: str) -> None:
        rolled_back_since.append(since)
        if len(rolled_back_since) == 1:
            raise Unavailable("the store cannot be reached")

    async def nothing() -> None: ...

    async def run_monitor() -> None:
        encoder = VectorEncoder(2)
        abstaining = create_classifier(Example(30, "retire", b"", "a"), Example(31, "retire", b"", "b"))
        versions = ServedVersion(create_classifier(), encoder, 1, 20, ""), ServedVersion(abstaining, encoder, 2, 31, "")
        snapshots = SimpleNamespace(model="m")
        live = SimpleNamespace(
            frozen=None, current=versions[0], snapshots=snapshots, refresh=nothing, refresh_others=nothing
        )
        guard = SimpleNamespace(is_suspect=lambda since, until: True, act=roll_back)
        monitor = LiveMonitor(cast(LiveModel, live), lambda: cast(Guard, guard), lambda _: None)
        monitor.observe(AnsweredRequest([], ROWS, encoder, []))
        await monitor.check()
        live.current = versions[1]
        running = asyncio.create_task(monitor.run())
        while len(rolled_back_since) < 2:
            assert not running.done()
            await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(asyncio.wait_for(run_monitor(), 60))
    assert rolled_back_since == [21, 21]


def trusted_version(service: Service) -> int:
    shown = re.search(r'^online_trusted_version{.*model="vec".*} (\S+)$', service.http.get("/metrics").text, re.M)
    return int(float(shown[1])) if shown else 0


def test_the_guard_rolls_back_a_version_that_stops_answering_until_an_operator_decides(start: Start) -> None:
    service = start(GUARDED)
    good = teach(service, "up")  # once: a second version would be trusted only after TRUSTED_AFTER_S
    for _ in range(40):
        post(service, ":predict", {"instances": [UP]}).raise_for_status()
    with Client(service.url, "vec") as client:
        until(lambda: client.predict([UP])["model_version"] == good)
        until(lambda: trusted_version(service) >= int(good), what="the guard's trust")
        retired = service.http.delete("/v1/models/vec/labels/up").raise_for_status().json()
    quarantine = until(lambda: service.http.get("/v1/models/vec/quarantine").json()["quarantines"])[0]
    assert "unanswered" in quarantine["reason"]
    assert quarantine["since"] <= retired["offset"] <= quarantine["offset"]
    until(lambda: predicted_class(post(service, ":predict", {"instances": [UP]})) == "up")
    post(service, "/quarantine:end", {"outcome": "learned"}).raise_for_status()
    until(lambda: predicted_class(post(service, ":predict", {"instances": [UP]})) is None)
    teach(service, "down")  # the operator has decided, so the guard does not act again
    assert len(service.http.get("/v1/models/vec/quarantine").json()["quarantines"]) == 1
