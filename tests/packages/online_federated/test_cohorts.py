"""A cohort over REST: the sum of its survivors becomes one contribution, or nothing is merged."""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import Connection

from online.models import Example
from online.models.classifier import Classifier
from online.schemas.access.callers import SERVICE
from online.serving.feedback.sums.submission import submit_sums
from online.settings import ModelSettings
from online.store import Store
from online.store.erasure.jobs import load_counts
from online_federated import cohorts
from online_federated.cohorts import Cohorts, time_to_add
from online_federated.membership import end_cohorts_of
from online_federated.schemas import CohortAnswer
from online_federated.secure_aggregation.client import AggregationClient
from online_federated.tables import (
    CohortMessageRow,
    CohortRow,
    add_cohort,
    add_message,
    change_cohort,
    list_open,
    load_bodies,
    load_cohort,
    prune_cohorts,
)
from online_federated.total import id_of_feedback, recover
from tests.api.auth.access import ADMIN_KEY, bearer, browse, build, new_key
from tests.packages.online_federated.members import COHORTS, Member, encode
from tests.serving.feedback.sums.files import OPTIONS, central_fingerprint, draw, make_file

LAB = ModelSettings(name="lab", kind="classifier", options=dict(OPTIONS))
KNN = ModelSettings(name="near", kind="knn", options={"input": "vector", "size": 2})
ADMIN = {"X-Admin-Key": ADMIN_KEY}
PARAMETERS = {"classes": ["a", "b"], "size": 5, "max_examples": 10, "round_s": 60}
SEEDS = count(1)
ROW = CohortRow(
    model="lab",
    id="c",
    state="joining",
    parameters="{}",
    width=2,
    features="{}",
    member_count=0,
    created_at="2030-01-01T00:00:00+00:00",
    deadline="2030-01-01T00:01:00+00:00",
    reason=None,
)


class Clock:
    """The service's clock, which only goes when a test says so."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_round(self) -> None:
        self.now += timedelta(seconds=61)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    app = build(tmp_path_factory.mktemp("cohorts"), LAB, KNN, min_cohort_members=3, max_cohort_members=8)
    with browse(app):
        yield app


@pytest.fixture
def clock(app: FastAPI) -> Clock:
    app.state.runtime.model("lab").parts.find(Cohorts).clock = clock = Clock()
    return clock


@pytest.fixture
def client(app: FastAPI, clock: Clock) -> TestClient:
    return browse(app)


def create(client: TestClient, **changes: Any) -> str:
    response = client.post(COHORTS, json={**PARAMETERS, **changes}, headers=ADMIN)
    assert response.status_code == 201, response.text
    assert response.json()["state"] == "joining"
    return str(response.json()["id"])


def gather(client: TestClient, cohort: str, size: int = 5) -> list[Member]:
    """Members with rows of their own, which have joined."""
    members = [Member(client, cohort, draw(6, seed=next(SEEDS)), ADMIN) for _ in range(size)]
    for member in members:
        assert member.join().status_code == 201
    return members


def load(client: TestClient, cohort: str) -> Any:
    return client.get(f"{COHORTS}/{cohort}", headers=ADMIN).json()


def rows_in_log(app: FastAPI, cohort: str) -> list[Example]:
    """The contributions of a cohort in the log."""
    entries = app.state.runtime.model("lab").stream.read(0, 1_000)
    return [Example(entry.offset, "sums", entry.features, "") for entry in entries if entry.id == f"cohort#{cohort}"]


def merged_fingerprint(contributions: list[Example]) -> str:
    model = Classifier(OPTIONS)
    model.learn(contributions)
    return model.fingerprint()


def test_the_sum_of_a_cohort_becomes_one_contribution(app: FastAPI, client: TestClient) -> None:
    cohort = create(client)
    members = gather(client, cohort)
    pass_rounds(members)
    ended = load(client, cohort)
    assert (ended["state"], ended["member_count"], ended["reason"]) == ("done", 5, None)
    found = rows_in_log(app, cohort)
    assert len(found) == 1
    assert merged_fingerprint(found) == central_fingerprint([row for member in members for row in member.rows])
    outcome = client.get(f"/v1/models/lab/feedback/cohort%23{cohort}", headers=ADMIN).json()
    assert outcome["status"] == "accepted"
    retracted = client.delete(f"/v1/models/lab/feedback/cohort%23{cohort}", headers=ADMIN)
    assert retracted.status_code == 202


def pass_rounds(members: list[Member]) -> None:
    for round in ("share", "mask", "unmask"):
        for member in members:
            assert getattr(member, round)().status_code == 200


def test_no_member_can_take_the_id_of_the_total(app: FastAPI, client: TestClient) -> None:
    cohort = create(client)
    members = gather(client, cohort)
    for id, status in ((f"cohort-{cohort}", 202), (f"cohort#{cohort}", 400)):
        taken = client.post("/v1/models/lab:merge", params={"id": id}, content=make_file(draw(5)), headers=ADMIN)
        assert taken.status_code == status
    pass_rounds(members)
    assert load(client, cohort)["state"] == "done"
    assert len(rows_in_log(app, cohort)) == 1


def test_a_cohort_whose_total_conflicts_with_other_feedback_has_failed(app: FastAPI, client: TestClient) -> None:
    cohort = create(client)
    members = gather(client, cohort)
    feedback = app.state.runtime.model("lab").feedback
    app.state.portal.call(submit_sums, feedback, make_file(draw(5)), id_of_feedback(cohort), None, SERVICE)
    pass_rounds(members)
    ended = load(client, cohort)
    assert ended["state"] == "failed" and "used before" in ended["reason"]


def test_the_total_is_recovered_once_however_many_ask_meanwhile(
    app: FastAPI, client: TestClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort, calls = create(client), count(0)
    members = gather(client, cohort)
    for round, left in (("share", 5), ("mask", 5), ("unmask", 4)):
        for member in members[:left]:
            assert getattr(member, round)().status_code == 200

    def count_and_recover(*given: Any) -> Any:
        next(calls)
        return recover(*given)

    monkeypatch.setattr(cohorts, "recover", count_and_recover)

    async def ask_together() -> list[CohortAnswer]:
        own: Cohorts = app.state.runtime.model("lab").parts.find(Cohorts)
        return await asyncio.gather(*(own.load(cohort) for _ in range(5)))

    clock.pass_round()
    answers = app.state.portal.call(ask_together)
    assert {answer.state for answer in answers} <= {"adding", "done"} and load(client, cohort)["state"] == "done"
    assert next(calls) == 1


def test_members_that_drop_out_in_each_round_are_recovered_or_left_out(
    app: FastAPI, client: TestClient, clock: Clock
) -> None:
    """Of seven, one is gone before sharing, and one after it; five are needed."""
    cohort = create(client, size=7)
    members = gather(client, cohort, 7)
    for member in members[:6]:
        member.share()
    assert load(client, cohort)["state"] == "sharing"
    clock.pass_round()
    for member in members[:5]:
        assert member.mask().status_code == 200
    clock.pass_round()
    for member in members[:5]:
        assert member.unmask().status_code == 200
    assert load(client, cohort)["state"] == "done"
    rows = [row for member in members[:5] for row in member.rows]
    assert merged_fingerprint(rows_in_log(app, cohort)) == central_fingerprint(rows)


@pytest.mark.parametrize(
    ("joining", "sharing", "masking", "unmasking"), [(2, 0, 0, 0), (6, 4, 0, 0), (6, 6, 4, 0), (6, 6, 6, 4)]
)
def test_with_too_few_survivors_a_cohort_fails_and_nothing_is_merged(
    app: FastAPI, client: TestClient, clock: Clock, joining: int, sharing: int, masking: int, unmasking: int
) -> None:
    """A cohort needs three members, and then five of six in each round."""
    cohort = create(client, size=6)
    members = gather(client, cohort, joining)
    for round, left in (("share", sharing), ("mask", masking), ("unmask", unmasking)):
        for member in members[:left]:
            getattr(member, round)()
    clock.pass_round()
    ended = load(client, cohort)
    assert ended["state"] == "failed" and "are needed" in ended["reason"]
    assert rows_in_log(app, cohort) == []
    assert members[0].put("values", {"packed": ""}).status_code == 404, "its messages are gone"


@pytest.mark.parametrize(("sharing", "masking"), [(5, 0), (6, 5)])
def test_the_total_is_never_of_fewer_members_than_the_cohort_must_have(
    app: FastAPI, client: TestClient, clock: Clock, sharing: int, masking: int
) -> None:
    """Five of seven could recover their total, and at least six must be in it."""
    cohort = create(client, size=7, least=6)
    members = gather(client, cohort, 7)
    for round, left in (("share", sharing), ("mask", masking)):
        for member in members[:left]:
            assert getattr(member, round)().status_code == 200
        clock.pass_round()
    ended = load(client, cohort)
    assert ended["state"] == "failed" and "and 6 are needed" in ended["reason"]
    assert rows_in_log(app, cohort) == []


def test_a_cohort_whose_shares_were_tampered_with_fails_and_nothing_is_merged(app: FastAPI, client: TestClient) -> None:
    cohort = create(client)
    members = gather(client, cohort)
    for round in ("share", "mask"):
        for member in members:
            getattr(member, round)()
    for member in members:
        member.unmask(tampered=member is members[0])
    ended = load(client, cohort)
    assert ended["state"] == "failed" and "tampered with" in ended["reason"]
    assert rows_in_log(app, cohort) == []


def test_a_cohort_whose_sum_no_examples_can_have_fails_and_nothing_is_merged(app: FastAPI, client: TestClient) -> None:
    cohort = create(client)
    members = gather(client, cohort)
    for member in members:
        member.share()
    for member in members[1:]:
        member.mask()
    sums = members[0].sum_rows()
    sums.counts[0, 0] = -30
    members[0].sum_rows = lambda: sums  # type: ignore[method-assign]
    members[0].mask()
    for member in members:
        member.unmask()
    ended = load(client, cohort)
    assert ended["state"] == "failed" and "negative number of examples" in ended["reason"]
    assert rows_in_log(app, cohort) == []


def test_a_repeated_message_is_accepted_and_another_one_is_a_conflict(client: TestClient) -> None:
    cohort = create(client)
    members = gather(client, cohort)
    member = members[0]
    seen: list[Any] = []
    put = member.put
    member.put = lambda name, body: seen.append(body) or put(name, body)  # type: ignore[method-assign, func-returns-value]
    assert member.share().status_code == 200
    [body] = seen
    assert put("shares", body).status_code == 200
    other = put("shares", {**body, "commitment": "A" * 43 + "="})
    assert other.status_code == 409


def test_messages_of_another_round_or_shape_are_refused(client: TestClient) -> None:
    cohort = create(client)
    member = gather(client, cohort)[0]
    assert member.put("values", {"packed": ""}).status_code == 409
    for body in (
        {},
        {"sealed": {}, "commitment": "AA=="},
        {"sealed": {"2": "?"}, "commitment": "x" * 100},
        {"sealed": 3},
    ):
        assert member.put("shares", body).status_code == 400, body


def test_a_full_cohort_takes_no_further_member(client: TestClient) -> None:
    cohort = create(client)
    gather(client, cohort)
    response = Member(client, cohort, [], ADMIN).join()
    assert response.status_code == 409 and "no further members" in response.json()["error"]


def test_a_member_is_known_by_its_token_alone(client: TestClient) -> None:
    cohort = create(client)
    members = gather(client, cohort, 3)
    members[0].membership = {**members[0].membership, "token": members[1].membership["token"]}
    response = client.get(members[0].url, headers=members[0].own_headers)
    assert response.status_code == 404
    without = client.get(members[1].url, headers=ADMIN)
    assert without.status_code == 400 and "X-Cohort-Token" in without.json()["error"]


def test_a_holder_joins_once_and_must_be_allowed_to_teach(app: FastAPI, client: TestClient) -> None:
    cohort = create(client)
    device = Member(client, cohort, [], bearer(new_key(app, "feedback", "teach", name="device")))
    assert device.join().status_code == 201
    assert device.join().status_code == 409
    rater = Member(client, cohort, [], bearer(new_key(app, "feedback", name="only rates")))
    assert rater.join().status_code == 403
    backend = bearer(new_key(app, "feedback", "teach", "impersonate", name="app's backend"))
    users = [Member(client, cohort, [], backend).join(user=user) for user in ("ann", "ben", "ann")]
    assert [response.status_code for response in users] == [201, 201, 409]


def test_keys_that_other_members_would_refuse_are_refused_at_joining(client: TestClient) -> None:
    cohort = create(client)
    first = gather(client, cohort, 1)[0].secrets.advertise()
    own = AggregationClient(os.urandom).advertise()
    not_reduced = bytes([0xED + 9, *[0xFF] * 30, 0x7F])  # the same point as 9
    for sealing, masking, status in (
        (own.sealing, own.sealing, 400),
        (own.sealing, bytes(32), 400),
        (not_reduced, own.masking, 400),
        (own.sealing, first.sealing, 409),
        (first.masking, own.masking, 409),
        (own.sealing, own.masking, 201),
    ):
        body = {"sealing": encode(sealing), "masking": encode(masking)}
        response = client.post(f"{COHORTS}/{cohort}/members", json=body, headers=ADMIN)
        assert response.status_code == status, response.text


def test_only_curators_begin_a_cohort(app: FastAPI, client: TestClient) -> None:
    key = bearer(new_key(app, "feedback", "teach", name="no curator"))
    assert client.post(COHORTS, json=PARAMETERS, headers=key).status_code == 403


@pytest.mark.parametrize(
    ("model", "changes", "error"),
    [
        ("near", {}, "takes no sums"),
        ("lab", {"classes": ["a", "a"]}, "named twice"),
        ("lab", {"classes": ["a", " "]}, "not blank"),
        ("lab", {"classes": ["a", "b" * 10_000]}, "max_label_chars"),
        ("lab", {"least": 2}, "min_cohort_members"),
        ("lab", {"size": 9}, "max_cohort_members"),
        ("lab", {"least": 5, "size": 4}, "a cohort of 5 to 4"),
        ("lab", {"max_examples": 1_001}, "max_merge_examples"),
        ("lab", {"classes": []}, "classes"),
        ("lab", {"other": 1}, "unknown field"),
    ],
)
def test_parameters_that_cannot_be_are_refused(
    client: TestClient, model: str, changes: dict[str, Any], error: str
) -> None:
    response = client.post(f"/v1/models/{model}/cohorts", json={**PARAMETERS, **changes}, headers=ADMIN)
    assert response.status_code == 400 and error in response.json()["error"], response.text


def test_an_unknown_cohort_is_not_found(client: TestClient) -> None:
    assert client.get(f"{COHORTS}/none", headers=ADMIN).status_code == 404
    assert Member(client, "none", [], ADMIN).join().status_code == 404


def test_the_total_is_of_the_features_that_the_members_used(tmp_path: Path) -> None:
    """A model that reads other features when the cohort ends takes nothing of it."""
    folder, changed = tmp_path / "changed", LAB.model_copy(update={"options": {**OPTIONS, "scale": 2.0}})
    with browse(build(folder, LAB, min_cohort_members=3)) as client:
        cohort = create(client)
        described = load(client, cohort)["features"]
        assert described == Classifier(OPTIONS).describe_features()
        members = gather(client, cohort)
        for round in ("share", "mask"):
            for member in members:
                assert getattr(member, round)().status_code == 200
    with browse(build(folder, changed, min_cohort_members=3)) as client:
        for member in members:
            member.client = client
            assert member.unmask().status_code == 200
        ended = load(client, cohort)
        assert ended["state"] == "failed" and "sums are of other features" in ended["reason"]
        assert ended["features"] == described


def test_the_number_of_open_cohorts_is_limited_and_those_whose_time_is_up_do_not_count(
    tmp_path: Path,
) -> None:
    app = build(tmp_path / "limited", LAB, min_cohort_members=3)
    with browse(app) as client:
        app.state.runtime.model("lab").parts.find(Cohorts).clock = clock = Clock()
        for _ in range(16):
            create(client)
        assert client.post(COHORTS, json=PARAMETERS, headers=ADMIN).status_code == 429
        clock.pass_round()
        create(client)


def test_polls_are_answered_while_the_writer_of_the_store_is_busy(app: FastAPI, client: TestClient) -> None:
    cohort, released = create(client), Event()
    member = gather(client, cohort)[0]
    app.state.runtime.workspace.store.submit(lambda connection: released.wait(30))
    try:
        assert load(client, cohort)["state"] == "sharing"
        assert len(member.look()["keys"]) == 5
    finally:
        released.set()


def test_a_member_that_has_sent_its_message_is_answered_the_state_alone(client: TestClient) -> None:
    cohort = create(client)
    members = gather(client, cohort)
    for round, needed in (("share", "keys"), ("mask", "sealed"), ("unmask", "survivors")):
        for member in members[:-1]:
            assert needed in member.look()
            sent = getattr(member, round)()
            assert sent.status_code == 200 and needed not in sent.json()
        getattr(members[-1], round)()


@pytest.mark.few(1)
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_two_processes_of_one_database_add_up_a_cohort_once(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    """Each of the two has locks of its own; while one adds, the other one answers that it is being added."""
    shared = {"store": request.getfixturevalue("postgres_url")} if database == "postgres" else {}
    app, calls, started, released = (
        build(tmp_path / "two", LAB, min_cohort_members=3, **shared),
        count(),
        Event(),
        Event(),
    )

    def recover_when_released(*given: Any) -> Any:
        next(calls)
        started.set()
        assert released.wait(30)
        return recover(*given)

    monkeypatch.setattr(cohorts, "recover", recover_when_released)
    with browse(app) as client:
        own: Cohorts = app.state.runtime.model("lab").parts.find(Cohorts)
        other = Cohorts(own.feedback, own.clock, own.random)
        cohort = create(client)
        members = gather(client, cohort)
        for round in ("share", "mask"):
            for member in members:
                assert getattr(member, round)().status_code == 200
        for member in members[:-1]:
            assert member.unmask().status_code == 200

        async def end_and_ask() -> tuple[str, str]:
            first = asyncio.create_task(asyncio.to_thread(members[-1].unmask))
            await asyncio.to_thread(started.wait, 30)
            meanwhile = (await other.load(cohort)).state
            released.set()
            return meanwhile, (await first).json()["state"]

        assert asyncio.run(end_and_ask()) == ("adding", "done")
        assert next(calls) == 1
        assert len(rows_in_log(app, cohort)) == 1


def test_a_process_that_is_gone_while_it_adds_up_is_replaced_after_a_while(
    app: FastAPI, client: TestClient, clock: Clock
) -> None:
    cohort = create(client)
    members = gather(client, cohort)
    for round in ("share", "mask"):
        for member in members:
            getattr(member, round)()
    for member in members[:-1]:
        member.unmask()
    own: Cohorts = app.state.runtime.model("lab").parts.find(Cohorts)

    async def claim_and_go() -> None:
        row = await own.transactions.read(lambda connection: load_cohort(connection, "lab", cohort))
        assert row is not None
        ready = await own._change(row, {"state": "adding", "deadline": clock().isoformat()})
        assert ready is not None and await own._claim(cohort) is not None

    app.state.portal.call(claim_and_go)
    assert load(client, cohort)["state"] == "adding"
    clock.now += time_to_add(5)
    assert load(client, cohort)["state"] == "done"


def test_of_two_processes_that_move_a_cohort_on_one_does(store: Store) -> None:
    second, changes = Store(store.url), {"state": "sharing", "deadline": "2030-01-02T00:00:00+00:00", "member_count": 3}
    try:
        store.submit(partial(add_cohort, row=ROW)).result()
        seen = [each.read(partial(load_cohort, model="lab", id="c")) for each in (store, second)]
        assert seen[0] is not None and seen[1] is not None
        first = store.submit(partial(change_cohort, row=seen[0], changes=changes)).result()
        assert first is not None and first.member_count == 3
        assert second.submit(partial(change_cohort, row=seen[1], changes=changes)).result() is None
    finally:
        second.close()


def test_cohorts_are_deleted_some_time_after_their_last_deadline(store: Store) -> None:
    """The one that nobody asked about again goes too, with what its members have sent."""
    later = CohortRow(**ROW.model_dump() | {"id": "later", "deadline": "2030-01-09T00:00:00+00:00"})

    def prune(connection: Connection) -> tuple[int, list[str], dict[int, bytes]]:
        for row in (ROW, later):
            add_cohort(connection, row)
            message = CohortMessageRow(model="lab", cohort=row.id, number=1, round="joining", body=b"keys")
            add_message(connection, message)
        pruned = prune_cohorts(connection, "2030-01-08T00:00:00+00:00", 10)
        return pruned, list_open(connection, "lab"), load_bodies(connection, "lab", ROW.id, "joining")

    assert store.submit(prune).result() == (1, ["later"], {})


def test_an_erased_user_ends_the_cohorts_of_which_it_is_a_member(app: FastAPI, client: TestClient) -> None:
    backend = bearer(new_key(app, "feedback", "teach", "impersonate", name="backend of an app"))
    joined, other = create(client), create(client)
    for cohort, user in ((joined, "eva"), (joined, "ben"), (other, "ben")):
        assert Member(client, cohort, [], backend).join(user=user).status_code == 201
    started = client.delete("/v1/users/eva", headers=ADMIN)
    assert started.status_code == 202, started.text
    ended = load(client, joined)
    assert (ended["state"], ended["reason"]) == ("failed", "a member was erased")
    store = app.state.runtime.workspace.store
    assert store.read(lambda connection: load_bodies(connection, "lab", joined, "joining")) == {}
    assert load(client, other)["state"] == "joining"
    erasure = started.json()["id"]
    counts = store.read(lambda connection: load_counts(connection, erasure, "lab"))
    assert counts["cohorts"] == 1, "the statement says how many"


def test_a_cohort_that_ends_while_its_total_is_added_gives_none(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = bearer(new_key(app, "feedback", "teach", "impersonate", name="backend of a shop"))
    cohort = create(client)
    members = gather(client, cohort, 4)
    erased = Member(client, cohort, draw(6, seed=next(SEEDS)), backend)
    assert erased.join(user="cleo").status_code == 201
    store = app.state.runtime.workspace.store

    def recover_and_erase(*given: Any) -> Any:
        total = recover(*given)
        assert store.submit(partial(end_cohorts_of, model="lab", holder="cleo")).result() == 1
        return total

    monkeypatch.setattr(cohorts, "recover", recover_and_erase)
    pass_rounds([*members, erased])
    ended = load(client, cohort)
    assert (ended["state"], ended["reason"]) == ("failed", "a member was erased")
    assert rows_in_log(app, cohort) == []


def test_a_number_that_no_member_has_is_refused(client: TestClient) -> None:
    response = client.get(f"{COHORTS}/{create(client)}/members/{2**70}", headers={**ADMIN, "X-Cohort-Token": "t"})
    assert response.status_code == 400, response.text


def test_retention_deletes_cohorts_after_days_of_their_own(app: FastAPI, client: TestClient) -> None:
    kept, runtime = create(client), app.state.runtime
    old = CohortRow(**ROW.model_dump() | {"id": "old", "state": "done", "deadline": "2020-01-01T00:01:00+00:00"})
    runtime.workspace.store.submit(partial(add_cohort, row=old)).result()
    app.state.portal.call(runtime.retention.prune)
    assert client.get(f"{COHORTS}/old", headers=ADMIN).status_code == 404
    assert load(client, kept)["state"] == "joining"
