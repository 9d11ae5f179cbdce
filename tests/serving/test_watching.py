"""What is live beside the version before it, on the questions that are asked: one that stops answering is taken back."""

import asyncio
from types import SimpleNamespace
from typing import cast

import httpx
import numpy as np

from online.client import Client
from online.errors import Unavailable
from online.models import Example, Model, create
from online.models.encoder import VectorEncoder
from online.serving.live import LiveModel, Served
from online.serving.watching import Watch, abstains, breach
from tests.conftest import Start
from tests.serving.test_versions import GUARDED, UP, post, said, teach
from tests.support import until

OPTIONS = {"input": "vector", "size": 2, "scale": 4.0}
ROWS = [row.tobytes() for row in np.random.default_rng(5).uniform(-1, 1, (64, 2))]


def classifier(*more: Example) -> Model:
    model = create("classifier", OPTIONS)
    model.learn([Example(n, "label", row, "ab"[n % 2]) for n, row in enumerate(ROWS[:20], 1)])
    model.learn(more)
    return served(model)


def served(model: Model) -> Model:
    """As a server has it."""
    made = create("classifier", OPTIONS)
    made.restore({name: part for name, part in model.state(serving_only=True).items() if part.serving})
    return made


def test_a_version_that_answers_as_before_is_not_to_blame() -> None:
    before = classifier()
    assert breach(before, classifier(Example(30, "label", ROWS[30], "b")), ROWS) is None


def test_a_version_that_leaves_questions_unanswered_is() -> None:
    retired = classifier(Example(30, "retire", b"", "a"), Example(31, "retire", b"", "b"))
    assert breach(classifier(), retired, ROWS) == "of the last 64 questions it left 64 unanswered, the version before 0"


def test_questions_that_nobody_can_answer_are_nobodys_fault() -> None:
    nothing = served(create("classifier", OPTIONS))
    assert abstains(nothing, ROWS) == 64
    assert breach(nothing, nothing, ROWS) is None


def test_a_version_that_takes_several_times_as_long_is() -> None:
    every_time_a_new_label = (Example(n, "label", ROWS[n % 64], f"label {n}") for n in range(100, 1_000))
    reason = breach(classifier(), classifier(*every_time_a_new_label), ROWS)
    assert reason is not None and reason.startswith("it takes ")


def test_where_the_guard_cannot_act_the_watch_goes_on_and_tries_again() -> None:
    told: list[int] = []

    def act(offset: int, since: int, reason: str) -> None:
        told.append(since)
        if len(told) == 1:
            raise Unavailable("the store cannot be reached")

    async def nothing() -> None: ...

    async def watched() -> None:
        encoder = VectorEncoder(2)
        silent = classifier(Example(30, "retire", b"", "a"), Example(31, "retire", b"", "b"))
        versions = Served(classifier(), encoder, 1, 20, ""), Served(silent, encoder, 2, 31, "")
        named = SimpleNamespace(model="m")
        live = SimpleNamespace(
            frozen=None, current=versions[0], snapshots=named, refresh=nothing, refresh_others=nothing
        )
        watch = Watch(cast(LiveModel, live), act)
        watch.saw(ROWS, encoder)
        await watch.look()
        live.current = versions[1]
        running = asyncio.create_task(watch.run())
        while len(told) < 2:
            assert not running.done()
            await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(asyncio.wait_for(watched(), 60))
    assert told == [21, 21]


def test_the_guard_takes_back_what_no_longer_answers_and_a_person_decides(start: Start) -> None:
    service = start(GUARDED)
    teach(service, "up")
    good = teach(service, "up")
    for _ in range(40):
        post(service, ":predict", {"instances": [UP]}).raise_for_status()
    with Client(service.url, "vec") as client:
        until(lambda: client.predict([UP])["model_version"] == good)
        retired = httpx.delete(f"{service.url}/v1/models/vec/labels/up").raise_for_status().json()
    found = until(lambda: httpx.get(f"{service.url}/v1/models/vec/quarantine").json()["quarantines"])[0]
    assert "unanswered" in found["reason"]
    assert found["since"] <= retired["offset"] <= found["offset"]
    until(lambda: said(post(service, ":predict", {"instances": [UP]})) == "up")
    post(service, "/quarantine:end", {"outcome": "learned"}).raise_for_status()
    until(lambda: said(post(service, ":predict", {"instances": [UP]})) is None)
    teach(service, "down")  # and it stays so: a person has decided
    assert len(httpx.get(f"{service.url}/v1/models/vec/quarantine").json()["quarantines"]) == 1
