"""Alerts: what is noticed, how it is signed and delivered, and that each is sent once by many servers."""

import asyncio
import json
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from online.plugins.alerts import delivery, messages
from online.plugins.alerts.alerts import send_test
from online.plugins.alerts.deliveries import (
    ALERTS,
    KEPT,
    AlertRow,
    add_alert,
    forget_alerts,
    load_alerts,
    load_deliveries,
)
from online.plugins.alerts.delivery import CLAIM_S, PAUSES_S, Deliverer
from online.plugins.alerts.messages import Webhook, create_client, send, sign
from online.plugins.alerts.observations import (
    Observation,
    observe_drift,
    observe_learner,
    observe_quarantine,
    observe_verdict,
)
from online.plugins.alerts.watching import ChangeRecorder
from online.schemas.models import LearnerState
from online.scoring.verdict import DriftSummary, VerdictInputs
from online.settings import Settings
from online.store import Store
from online.store.quarantine import QuarantineRow
from tests.plugins.alerts.receiver import Receiver, receive
from tests.support import until

SECRET = "a secret of the tests"
START = datetime(2026, 5, 1, tzinfo=UTC)
BAD = Observation("m", "verdict", "verdict", "needs_attention", "Needs attention: it is bad.", {}, True)
FINE = Observation("m", "verdict", "verdict", "fine", "Good.")


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    yield store
    store.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receive() as receiver:
        yield receiver


def settings_of(**values: Any) -> Settings:
    return Settings.model_validate({"alert_min_interval_s": 60, **values})


def recorder(store: Store, clock: Clock, *endpoints: str, **settings: Any) -> ChangeRecorder:
    ids = map("alert {:03}".format, count(1))
    return ChangeRecorder(settings_of(**settings), store, endpoints, lambda: next(ids), clock)


def sentences(store: Store, model: str = "m") -> list[str]:
    """Of the alerts, oldest first."""
    rows = store.read(lambda c: load_alerts(c, model, 100))
    return [json.loads(row.body)["sentence"] for row in reversed(rows)]


def add(store: Store, clock: Clock, endpoint: Webhook, id: str = "a1", text: str = "hello") -> None:
    row = AlertRow(id=id, model="m", event="test", created_at=clock().isoformat(), body=json.dumps({"text": text}))
    store.submit(lambda c: add_alert(c, row, [endpoint.id])).result()


def deliver(store: Store, clock: Clock, endpoint: Webhook, outcomes: list[str] | None = None) -> bool:
    """Make one attempt; return whether anything was due."""

    async def attempt() -> bool:
        count = (outcomes if outcomes is not None else []).append
        async with create_client() as client:
            return await Deliverer(endpoint, SECRET, store, count, clock=clock).deliver_next(client)

    return asyncio.run(attempt())


# what is noticed


def test_a_change_is_one_alert_however_often_it_is_noticed(store: Store, clock: Clock) -> None:
    changes = recorder(store, clock)
    assert [changes.record([each]) for each in (FINE, BAD, BAD, BAD)] == [0, 1, 0, 0]
    clock.advance(61)
    assert [changes.record([each]) for each in (FINE, FINE)] == [1, 0]
    assert sentences(store) == ["Needs attention: it is bad.", "Good."]


def test_what_is_bad_at_the_first_look_is_an_alert_and_old_news_is_not(store: Store, clock: Clock) -> None:
    drift = observe_drift("m", VerdictInputs(drift=DriftSummary(900, 950, "loss", 3)))
    assert recorder(store, clock).record([BAD, drift]) == 1


def test_what_may_be_gone_in_a_moment_must_be_noticed_twice(store: Store, clock: Clock) -> None:
    changes, moment = recorder(store, clock), replace(BAD, is_settled=False)
    fine = replace(FINE, is_settled=False)
    assert [changes.record([each]) for each in (fine, fine, moment, fine, moment, moment)] == [0, 0, 0, 0, 0, 1]


def test_alerts_of_one_kind_keep_their_interval_and_the_last_state_is_told_after_it(store: Store, clock: Clock) -> None:
    changes = recorder(store, clock)
    worse = replace(BAD, state="worse", sentence="It is worse.")
    other = replace(BAD, model="n")
    assert [changes.record([each]) for each in (BAD, FINE, worse, other)] == [1, 0, 0, 1]
    clock.advance(61)
    assert changes.record([worse]) == 1
    assert sentences(store) == ["Needs attention: it is bad.", "It is worse."]


def test_a_change_that_is_no_news_is_noted_silently(store: Store, clock: Clock) -> None:
    changes = recorder(store, clock)
    row = QuarantineRow(
        model="m",
        offset=9,
        since=5,
        until=None,
        reason="r",
        rolled_back_to=3,
        created_at="",
        ended_at=None,
        outcome=None,
    )
    opened, ended = observe_quarantine("m", row), observe_quarantine("m", None)
    assert [changes.record([each]) for each in (ended, opened, ended)] == [0, 1, 0]
    assert sentences(store) == [
        "The guard rolled back to version 3: r. The feedback since event 5 waits for your decision."
    ]
    stopped = observe_quarantine("m", row.model_copy(update={"rolled_back_to": None}))
    assert stopped.event == "quarantine" and "has stopped learning" in (stopped.sentence or "")


def test_of_several_servers_one_makes_the_alert(store: Store, clock: Clock) -> None:
    recorder(store, clock).record([FINE])
    servers = [ChangeRecorder(settings_of(), store, [], partial("server {}".format, n), clock) for n in range(8)]
    with ThreadPoolExecutor() as pool:
        assert sum(pool.map(lambda server: server.record([BAD]), servers)) == 1


def test_the_verdict_is_news_when_its_status_or_its_reasons_change() -> None:
    good = observe_verdict("m", VerdictInputs(rated=100))
    waits = observe_verdict("m", VerdictInputs())
    held = observe_verdict("m", VerdictInputs(rated=100, frozen_since="x", frozen_reason="holidays"))
    refused = observe_verdict("m", VerdictInputs(rated=100, refused=100, refused_of=100))
    rejected = observe_verdict("m", VerdictInputs(rated=100, refused=100, refused_of=100, rejected=1))
    assert good.state == waits.state == "fine"
    assert (held.state, refused.state) == ("not_learning", "needs_attention:much_refused")
    assert rejected.state == "needs_attention:much_refused:snapshots_rejected"
    assert (
        observe_verdict("m", VerdictInputs(rated=100, learner="restarting")).state == "fine"
    )  # the learner has its own alert
    assert [each.is_alarming for each in (good, waits, held, refused)] == [False, False, True, True]


def test_the_learner_is_told_down_with_the_reason_and_back() -> None:
    restarting, running = (
        LearnerState(state="restarting", reason="it ended with status 1"),
        LearnerState(state="running"),
    )
    down = observe_learner(restarting, "a.example")
    assert (down.key, down.state) == ("learner", "down")
    assert down.sentence == "The learner does not run: it ended with status 1."
    assert observe_learner(running, "a.example").sentence == "The learner runs again."
    of_replica = observe_learner(restarting, "a.example", "a-1")
    assert of_replica.sentence == "The learner on a.example does not run: it ended with status 1."


def test_the_learners_of_two_replicas_are_told_apart(store: Store, clock: Clock) -> None:
    states = {"a": LearnerState(state="restarting"), "b": LearnerState(state="running")}
    replicas = {name: recorder(store, clock) for name in states}
    alerts = 0
    for _ in range(4):
        clock.advance(3_600)
        for name, changes in replicas.items():
            alerts += changes.record([observe_learner(states[name], "a.example", name)])
    assert alerts == 1


def test_the_store_keeps_the_newest_alerts_only(sqlite_store: Store, clock: Clock) -> None:
    for number in range(KEPT + 3):
        clock.advance(1)
        add(sqlite_store, clock, Webhook("http://x/"), f"{number:04}")
    assert sqlite_store.read(lambda c: c.scalar(select(func.count()).select_from(ALERTS))) == KEPT
    assert sqlite_store.read(lambda c: load_deliveries(c, Webhook("http://x/").id))["waiting"] == KEPT


def test_an_erasure_deletes_the_alerts_that_name_its_words(store: Store, clock: Clock) -> None:
    add(store, clock, Webhook("http://x/"), "a1", "the class anna's own")
    add(store, clock, Webhook("http://x/"), "a2", "another")
    store.submit(lambda c: forget_alerts(c, "m", ["anna's own"])).result()
    assert [row.id for row in store.read(lambda c: load_alerts(c, "m", 10))] == ["a2"]


# delivery


def test_an_alert_arrives_signed_with_its_id(store: Store, clock: Clock, receiver: Receiver) -> None:
    endpoint, outcomes = Webhook(receiver.url), list[str]()
    add(store, clock, endpoint)
    assert deliver(store, clock, endpoint, outcomes) and not deliver(store, clock, endpoint)
    [got] = receiver.received
    time = int(re.findall(r"t=(\d+),v1=", got.headers["X-Online-Signature"])[0])
    assert got.headers["X-Online-Signature"] == sign(SECRET, time, got.body)
    assert (got.headers["X-Online-Event-Id"], json.loads(got.body), outcomes) == (
        "a1",
        {"text": "hello"},
        ["delivered"],
    )
    state = store.read(lambda c: load_deliveries(c, endpoint.id))
    assert state == {"waiting": 0, "delivered_at": START.isoformat(), "error": None, "failed_at": None}


def test_a_failed_delivery_is_repeated_later_each_time_and_then_given_up(
    store: Store, clock: Clock, receiver: Receiver
) -> None:
    endpoint, outcomes = Webhook(receiver.url), list[str]()
    receiver.statuses = [500] * 20
    add(store, clock, endpoint)
    for pause_s in PAUSES_S:
        assert deliver(store, clock, endpoint, outcomes)
        clock.advance(pause_s - 1)
        assert not deliver(store, clock, endpoint, outcomes)
        clock.advance(1)
    assert deliver(store, clock, endpoint, outcomes)
    clock.advance(1e6)
    assert not deliver(store, clock, endpoint, outcomes)
    assert outcomes == ["failed"] * len(PAUSES_S) + ["given_up"] and len(receiver.received) == len(PAUSES_S) + 1
    assert {each.headers["X-Online-Event-Id"] for each in receiver.received} == {"a1"}
    assert store.read(lambda c: load_deliveries(c, endpoint.id))["error"] == "status 500"


def test_a_dead_endpoint_delays_no_other(store: Store, clock: Clock, receiver: Receiver) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = Webhook(f"http://127.0.0.1:{unused.getsockname()[1]}/secret-token")
    living = Webhook(receiver.url)
    row = AlertRow(id="a1", model="m", event="test", created_at=clock().isoformat(), body="{}")
    store.submit(lambda c: add_alert(c, row, [dead.id, living.id])).result()
    assert deliver(store, clock, dead) and deliver(store, clock, living)
    assert store.read(lambda c: load_deliveries(c, dead.id))["error"] == "no answer: ConnectError"
    assert len(receiver.received) == 1


def test_a_slow_endpoint_is_left_after_the_time_limit(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "TIMEOUT_S", 0.2)
    receiver.released.clear()

    async def attempt() -> messages.Attempt:
        async with create_client() as client:
            return await send(client, Webhook(receiver.url), "a1", b"{}", None)

    assert asyncio.run(attempt()).error == "no complete answer within 0.2 s"
    assert "X-Online-Signature" not in receiver.received[0].headers


def test_redirects_are_not_followed_and_long_answers_not_read(receiver: Receiver) -> None:
    receiver.statuses, receiver.answer = [302], b"x" * 1_000_000

    async def attempt() -> messages.Attempt:
        async with create_client() as client:
            return await send(client, Webhook(receiver.url), "a1", b"{}", None)

    found = asyncio.run(attempt())
    assert (found.status, found.error) == (302, "status 302: redirects are not followed")
    assert len(receiver.received) == 1 and len(found.answer) <= messages.SHOWN_CHARS


def test_a_server_that_stops_in_the_middle_leaves_the_alert_to_the_next_one(
    store: Store, clock: Clock, receiver: Receiver
) -> None:
    endpoint = Webhook(receiver.url)
    add(store, clock, endpoint)
    receiver.released.clear()

    async def stop_while_sending() -> None:
        async with create_client() as client:
            sending = asyncio.create_task(Deliverer(endpoint, None, store, print, clock=clock).deliver_next(client))
            await asyncio.to_thread(receiver.wait)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(stop_while_sending())
    receiver.released.set()
    assert not deliver(store, clock, endpoint)  # it may still be under way
    clock.advance(CLAIM_S)
    assert deliver(store, clock, endpoint) and not deliver(store, clock, endpoint)
    assert [each.headers["X-Online-Event-Id"] for each in receiver.received] == ["a1", "a1"]


def test_two_servers_send_an_alert_once(store: Store, clock: Clock, receiver: Receiver) -> None:
    endpoint = Webhook(receiver.url)
    for number in range(6):
        add(store, clock, endpoint, f"a{number}")

    def send_all(_: int) -> None:
        while deliver(store, clock, endpoint):
            pass

    with ThreadPoolExecutor() as pool:
        list(pool.map(send_all, range(3)))
    deliver(store, clock, endpoint)
    assert sorted(each.headers["X-Online-Event-Id"] for each in receiver.received) == [f"a{n}" for n in range(6)]


def test_a_failing_endpoint_is_logged_once_without_its_secret_path(
    sqlite_store: Store, clock: Clock, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint, receiver.statuses = Webhook(receiver.url), [500, 500, 500]
    add(sqlite_store, clock, endpoint)

    async def attempts() -> None:
        async with create_client() as client:
            deliverer = Deliverer(endpoint, SECRET, sqlite_store, lambda outcome: None, clock=clock)
            for _ in range(4):
                await deliverer.deliver_next(client)
                clock.advance(1_000)

    with caplog.at_level(logging.DEBUG, logger="online"):
        asyncio.run(attempts())
    lines = [(record.getMessage(), str(getattr(record, "fields", ""))) for record in caplog.records]
    ours = [line for line in lines if "webhook" in line[0]]
    assert [message for message, _ in ours] == ["an alert webhook fails", "an alert webhook fails: recovered"]
    assert not any("secret" in part for line in lines for part in line)


def test_the_deliverer_sends_what_is_added_while_it_waits(
    sqlite_store: Store, clock: Clock, receiver: Receiver
) -> None:
    endpoint = Webhook(receiver.url)

    async def run() -> None:
        deliverer = Deliverer(endpoint, None, sqlite_store, lambda outcome: None, clock=clock)
        async with create_client() as client:
            running = asyncio.create_task(deliverer.run(client))
            for number in range(2):
                await asyncio.to_thread(add, sqlite_store, clock, endpoint, f"a{number}")
                deliverer.wake.set()
                await asyncio.to_thread(receiver.wait)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
    assert delivery.LOOK_EVERY_S > 10 and len(receiver.received) == 2


def test_a_test_alert_tells_what_each_endpoint_said(receiver: Receiver) -> None:
    settings = settings_of(alert_webhooks=[receiver.url], alert_secret=SECRET, public_url="https://bot.example.com/")
    [(endpoint, attempt)] = asyncio.run(send_test(settings, "my model", "id"))
    assert (attempt.status, attempt.error, attempt.answer) == (200, None, "ok")
    body = json.loads(receiver.received[0].body)
    assert body["link"] == "https://bot.example.com/learning?model=my%20model"
    assert body["text"] == f"my model: {body['sentence']} {body['link']}"
    assert endpoint.name == receiver.url.replace("/hooks/secret-token", "/…")


def test_the_receiver_of_the_manual_accepts_what_is_signed_and_refuses_the_rest(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/alerts.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    assert code.count("\n") <= 18
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "ALERT_SECRET": SECRET}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(port)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        url = f"http://127.0.0.1:{port}/"
        until(lambda: can_connect(port), what="the receiver's start")
        settings = settings_of(alert_webhooks=[url], alert_secret=SECRET)
        assert asyncio.run(send_test(settings, "chat", "id"))[0][1].status == 204
        forged = settings_of(alert_webhooks=[url], alert_secret="another long secret")
        assert asyncio.run(send_test(forged, "chat", "id"))[0][1].status == 403
        old = sign(SECRET, 1_700_000_000, b"{}")
        assert httpx.post(url, content=b"{}", headers={"X-Online-Signature": old}).status_code == 403
        assert process.stdout is not None and process.stdout.readline().startswith("chat: This is a test.")
    finally:
        process.kill()
        process.wait()


def can_connect(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
