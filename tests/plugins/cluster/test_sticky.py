"""Two replicas with one store: what begins at one of them goes on at the other, so that no router has to be sticky."""

import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.conftest import create_database
from tests.plugins.cluster.pairs import ADMIN, SOON_S, Json, Pair, Turns, read
from tests.support import run_online, until


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    for url in create_database():
        running = Pair(
            folder,
            store=url,
            stream=redis_url,
            public_teaching="review",
            trusted_proxies=["127.0.0.1"],
            requests_per_minute=40,
            feedback_per_hour=30,
            sign_ins_per_minute=4,
            job_folders=[str(folder)],
        )
        yield running
        running.stop()


@pytest.fixture
def admin(pair: Pair) -> Turns:
    return pair.browse(**{"X-Admin-Key": ADMIN})


ADDRESSES = iter(range(1, 250))


@pytest.fixture
def visitor(pair: Pair) -> Turns:
    """A visitor from an address of their own."""
    client = pair.browse(**{"X-Forwarded-For": f"203.0.113.{next(ADDRESSES)}", "Sec-Fetch-Site": "same-origin"})
    assert client.get("/v1/session")["caller"].startswith("visitor:")
    return client


@pytest.fixture
def program(pair: Pair, admin: Turns) -> Turns:
    """A program with a key of its own, whose feedback is neither reviewed nor trusted."""
    key = admin.post("/v1/keys", {"name": uuid.uuid4().hex, "scopes": ["predict", "feedback", "teach"]})["key"]
    return pair.browse(Authorization=f"Bearer {key}")


def test_a_conversation_goes_on_at_the_other_replica(program: Turns) -> None:
    id = uuid.uuid4().hex
    root = f"/v1/models/chat/conversations/{id}"
    first = program.ask("When do you open?", id)
    second = program.ask("Can I print here?", id)
    thumb = program.give("chat", prediction_id=first, reward=1.0)
    switched = program.give("chat", prediction_id=first, reward=0.0, reason="wrong")
    assert program.outcome("chat", thumb["id"])["status"] == "retracted"
    assert read(program.send("PATCH", root, json={"title": "Hours"}))["title"] == "Hours"
    branch = program.ask("Is there wifi?", id, after=first)
    said = program.get(root)["said"]
    assert [turn["prediction_id"] for turn in said] == [first, second, branch]
    assert [each["id"] for each in said[0]["feedback"]] == [switched["id"]]
    shared = program.post(f"{root}:share", {"until": second})["share_id"]
    assert program.get(f"/v1/shared/{shared}")["title"] == "Hours"
    assert program.send("DELETE", f"{root}:share").status_code == 200
    assert program.send("GET", f"/v1/shared/{shared}").status_code == 404
    assert program.send("DELETE", root).status_code == 200
    assert program.send("GET", root).status_code == 404


def test_a_follow_up_is_read_with_the_question_that_the_other_replica_answered(visitor: Turns) -> None:
    id = uuid.uuid4().hex
    visitor.ask("When do you open?", id)
    follow_up = visitor.ask("And on Sunday?", id)
    said = visitor.get(f"/v1/models/chat/conversations/{id}")["said"]
    assert said[1]["prediction_id"] == follow_up and said[1]["question"] == "And on Sunday?"


def test_feedback_on_a_prediction_of_the_other_replica_is_accepted_at_once(admin: Turns) -> None:
    id = admin.predict("vec", [1, 0])["prediction_ids"][0]
    assert admin.give("vec", prediction_id=id, label="a")["status"] == "accepted"


def test_feedback_on_many_predictions_of_the_other_replica_is_accepted_in_order(admin: Turns) -> None:
    answer = admin.post("/v1/models/vec:predict", {"instances": [[n % 3, n % 2] for n in range(200)]})
    items = [{"prediction_id": id, "label": "ab"[n % 2]} for n, id in enumerate(answer["prediction_ids"])]
    receipts = admin.post("/v1/models/vec:feedback", {"feedback": items})["receipts"]
    offsets = [each["offset"] for each in receipts]
    assert offsets == sorted(offsets) and len({*offsets}) == 200


def test_200_clients_at_once_rate_what_the_other_replica_answered(pair: Pair) -> None:
    def ask_and_rate(number: int) -> int:
        client = pair.browse(**{"X-Admin-Key": ADMIN})
        if number % 2:
            client.get("/healthz")
        id = client.predict("vec", [number % 3, 1])["prediction_ids"][0]
        return int(client.give("vec", prediction_id=id, label="ab"[number % 2])["offset"])

    with ThreadPoolExecutor(20) as threads:
        assert len({*threads.map(ask_and_rate, range(200))}) == 200


def test_an_unknown_prediction_is_refused(admin: Turns) -> None:
    item = {"prediction_id": uuid.uuid4().hex, "label": "a"}
    assert admin.send("POST", "/v1/models/vec:feedback", json={"feedback": [item]}).status_code == 404


def test_min_offset_waits_at_the_other_replica(admin: Turns) -> None:
    for number in range(4):
        offset = admin.give("vec", input=[number, 1], label="ab"[number % 2])["offset"]
        assert admin.predict("vec", [0, 0], min_offset=offset, timeout_ms=10_000)["learned_until"] >= offset


def test_a_user_gets_the_same_side_of_a_canary_at_both_replicas(admin: Turns) -> None:
    offset = admin.give("vec", input=[2, 1], label="a")["offset"]
    admin.predict("vec", [0, 0], min_offset=offset, timeout_ms=10_000)
    admin.predict("vec", [0, 0], min_offset=offset, timeout_ms=10_000)
    older = admin.get("/v1/models/vec/versions")["versions"][1]["version"]
    path = "/v1/models/vec/version_labels/canary"
    assert admin.send("PUT", path, json={"version": older, "percent": 50}).status_code < 300
    try:

        def sides() -> list[list[str]]:
            users = [f"user {number}" for number in range(20)]
            return [[admin.predict("vec", [0, 0], user=user)["model_version"] for _ in range(2)] for user in users]

        found = until(lambda: (both := sides()) and all(one == two for one, two in both) and both, SOON_S, "one side")
        assert {one for one, _ in found} > {str(older)}
    finally:
        assert admin.send("DELETE", path).status_code < 300


def test_a_caller_has_one_opinion_about_a_prediction(program: Turns) -> None:
    id = program.predict("chat", "When do you open?")["prediction_ids"][0]
    thumbs = [
        program.give("chat", prediction_id=id, label=label)["id"] for label in ("hours", "renew", "hours", "wifi")
    ]
    standing = [each for each in dict.fromkeys(thumbs) if program.outcome("chat", each)["status"] != "retracted"]
    assert standing == [thumbs[-1]]


def test_the_same_feedback_sent_again_has_no_second_effect(admin: Turns) -> None:
    item = {"id": uuid.uuid4().hex, "input": [1, 1], "label": "a"}
    assert len({json.dumps(admin.give("vec", **item)["offset"]) for _ in range(4)}) == 1


def test_the_same_feedback_sent_to_both_at_once_has_one_effect(pair: Pair) -> None:
    clients = [service.http for service in pair.services]
    for _ in range(10):
        item = {"id": uuid.uuid4().hex, "input": [1, 1], "label": "a"}
        start = threading.Barrier(8)

        def give(client: httpx.Client, item: Json = item, start: threading.Barrier = start) -> int:
            start.wait()
            answer = client.post("/v1/models/vec:feedback", json={"feedback": [item]}, headers={"X-Admin-Key": ADMIN})
            return int(read(answer)["receipts"][0]["offset"])

        with ThreadPoolExecutor(8) as threads:
            assert len({*threads.map(give, clients * 4)}) == 1


def test_the_quota_of_an_hour_is_that_of_both_replicas(program: Turns) -> None:
    def rate() -> int:
        id = program.predict("vec", [1, 0])["prediction_ids"][0]
        item = {"prediction_id": id, "label": "a"}
        return program.send("POST", "/v1/models/vec:feedback", json={"feedback": [item]}).status_code

    assert [rate() for _ in range(32)] == [202] * 30 + [429] * 2


def test_the_rate_limit_of_a_minute_is_that_of_both_replicas(visitor: Turns, pair: Pair) -> None:
    first, second = (service.url for service in pair.services)
    assert [visitor.http.get(f"{first}/v1/session").status_code for _ in range(36)] == [200] * 36
    admitted = list[int]()

    def is_refused() -> bool:
        admitted.append(visitor.http.get(f"{second}/v1/session").status_code)
        return admitted[-1] == 429

    until(is_refused, SOON_S, "the refusal")
    assert len(admitted) < 30
    until(lambda: visitor.http.get(f"{first}/v1/session").status_code == 429, SOON_S, "the refusal at the first")


def test_attempts_to_sign_in_are_counted_together(pair: Pair) -> None:
    guest = pair.browse(**{"X-Forwarded-For": "198.51.100.9", "Sec-Fetch-Site": "same-origin"})
    statuses = [guest.send("POST", "/v1/session", json={"key": "guess"}).status_code for _ in range(6)]
    assert statuses == [401] * 4 + [429] * 2


def test_a_session_of_one_replica_is_known_at_the_other(pair: Pair) -> None:
    person = pair.browse(**{"X-Forwarded-For": "198.51.100.10", "Sec-Fetch-Site": "same-origin"})
    assert person.post("/v1/session", {"key": ADMIN})["is_signed_in"]
    assert [person.get("/v1/session")["caller"] for _ in range(2)] == ["admin", "admin"]


def test_a_new_key_is_accepted_and_a_revoked_one_refused_at_the_other(admin: Turns, pair: Pair) -> None:
    key = admin.post("/v1/keys", {"name": uuid.uuid4().hex, "scopes": ["predict"]})
    program = pair.browse(Authorization=f"Bearer {key['key']}")
    assert [each.status_code for each in program.both("GET", "/v1/models")] == [200, 200]
    assert admin.send("DELETE", f"/v1/keys/{key['id']}").status_code < 300
    until(lambda: [each.status_code for each in program.both("GET", "/v1/models")] == [401, 401], 2.0, "the refusal")


def test_a_link_of_one_replica_is_valid_at_the_other(admin: Turns) -> None:
    answer = admin.predict("chat", "When do you open?", feedback_urls=True)
    path = "/" + answer["feedback_urls"][0].split("/", 3)[3]
    assert admin.send("POST", path, json={"reward": 1.0}).status_code == 202
    again = admin.send("POST", path, json={"reward": 1.0})
    assert again.status_code == 202


def test_a_curator_decides_at_one_replica_about_feedback_that_the_other_holds(visitor: Turns, admin: Turns) -> None:
    id = visitor.predict("chat", "Do you lend umbrellas?")["prediction_ids"][0]
    held = visitor.give("chat", prediction_id=id, correction=f"Umbrellas are at desk {id[:6]}.")
    assert held["status"] == "held"
    for _ in range(2):
        assert held["id"] in json.dumps(admin.get("/v1/models/chat/held"))
    admin.post(f"/v1/models/chat/held/{held['id']}:accept")
    assert visitor.outcome("chat", held["id"])["status"] in ("accepted", "learned")
    until(lambda: visitor.outcome("chat", held["id"])["status"] == "learned", 20, "the learning")


def test_the_audit_log_has_what_was_done_at_both(admin: Turns, pair: Pair) -> None:
    for _ in pair.services:
        id = admin.give("vec", input=[1, 1], label="a")["id"]
        assert admin.send("DELETE", f"/v1/models/vec/feedback/{id}").status_code == 202
    for service in pair.services:
        verified = run_online("audit", "verify", "--state", str(service.state), "--config", str(pair.config))
        assert verified.returncode == 0, verified.stdout + verified.stderr


def test_an_uploaded_log_is_followed_and_read_at_the_other_replica(admin: Turns) -> None:
    lines = "\n".join(json.dumps({"input": f"hello {n}", "label": "ab"[n % 2]}) for n in range(6))
    path = "/v1/replays?name=log.jsonl&model=classifier:input=text"
    id = read(admin.send("POST", path, content=lines))["id"]
    until(
        lambda: {each.json()["state"] for each in admin.both("GET", f"/v1/replays/{id}")} == {"done"},
        180,
        "the replay",
        every_s=0.5,
    )
    assert [id in each.text for each in admin.both("GET", "/v1/replays")] == [True, True]
    pages = {each.text for each in admin.both("GET", f"/v1/replays/{id}/report")}
    assert len(pages) == 1 and "<html" in pages.pop()
    assert admin.send("GET", "/healthz").status_code == 200  # whose turn it is
    assert admin.send("DELETE", f"/v1/replays/{id}").json() == {"id": id}
    assert [each.status_code for each in admin.both("GET", f"/v1/replays/{id}")] == [404, 404]


def test_only_who_may_operate_is_answered_by_the_other_replica(program: Turns, admin: Turns) -> None:
    assert [each.status_code for each in program.both("GET", f"/v1/replays/{'0' * 32}")] == [403, 403]
    assert [each.status_code for each in admin.both("GET", f"/v1/replays/{'0' * 32}")] == [404, 404]


def test_a_request_that_somebody_claims_to_send_for_a_replica_is_that_of_its_sender(pair: Pair) -> None:
    forged = {"X-Online-Replica": "Replica 1.forged", "X-Online-Replica-Caller": '[["127.0.0.1", 1], "http"]'}
    stranger = pair.browse(**{"X-Forwarded-For": "198.51.100.11", **forged})
    assert [each.status_code for each in stranger.both("GET", "/v1/replays")] == [401, 401]


def test_a_batch_job_is_followed_and_cancelled_at_the_other_replica(admin: Turns, pair: Pair) -> None:
    (pair.folder / "rows.jsonl").write_text("\n".join("[1, 0]" for _ in range(50)))
    root = "/v1/models/vec"
    body = {"input": "rows.jsonl", "output": f"results-{uuid.uuid4().hex}"}
    id = admin.post(f"{root}:batchPredict", body)["id"]
    until(
        lambda: {each.json()["state"] for each in admin.both("GET", f"{root}/jobs/{id}")} == {"done"},
        180,
        "the job",
        every_s=0.5,
    )
    assert [id in each.text for each in admin.both("GET", f"{root}/jobs")] == [True, True]
    assert [each.status_code for each in admin.both("POST", f"{root}/jobs/{id}:cancel")] == [409, 409]


def test_the_report_of_a_model_is_the_same_at_both(admin: Turns) -> None:
    admin.give("vec", input=[1, 1], label="a")
    admin.post("/v1/models/vec/report")
    path = "/v1/models/vec/report/state"
    until(
        lambda: all(each.json()["until"] for each in admin.both("GET", path)),
        180,
        "the report",
        every_s=0.5,
    )
    until_offset = admin.get(path)["until"]
    pages = {each.text for each in admin.both("GET", f"/v1/models/vec/report?until={until_offset}")}
    assert len(pages) == 1 and "<html" in pages.pop()


def test_an_export_is_the_same_at_both(admin: Turns) -> None:
    offset = admin.give("vec", input=[1, 0], label="b")["offset"]
    for _ in range(2):
        admin.predict("vec", [0, 0], min_offset=offset, timeout_ms=10_000)
    version = admin.get("/v1/models/vec/versions")["versions"][0]["version"]
    files = admin.both("GET", f"/v1/models/vec/versions/{version}/export")
    assert [each.status_code for each in files] == [200, 200], files[0].text
    assert files[0].content == files[1].content


def follow(client: Turns, url: str, seen: list[tuple[str, Json]], is_open: threading.Event, until_event: str) -> None:
    """Read the events of a model at one replica, until one of a name."""
    with client.http.stream("GET", f"{url}/v1/models/chat/events", timeout=30) as response:
        name = ""
        for line in response.iter_lines():
            is_open.set()
            kind, _, value = line.partition(": ")
            name = value if kind == "event" else name
            if kind == "data":
                seen.append((name, json.loads(value)))
                if name == until_event:
                    return


@pytest.mark.parametrize("name", ["learned", "inbox"])
def test_who_follows_the_events_of_one_replica_hears_of_feedback_at_the_other(
    program: Turns, admin: Turns, pair: Pair, name: str
) -> None:
    first, second = (service.url for service in pair.services)
    reader, seen, is_open = program if name == "learned" else admin, list[tuple[str, Json]](), threading.Event()
    thread = threading.Thread(target=follow, args=(reader, second, seen, is_open, name))
    thread.start()
    assert is_open.wait(30)
    answer = read(program.http.post(f"{first}/v1/models/chat:predict", json={"instances": ["Is there wifi?"]}))
    item = {"prediction_id": answer["prediction_ids"][0], "label": "wifi"}
    given = read(program.http.post(f"{first}/v1/models/chat:feedback", json={"feedback": [item]}))["receipts"][0]
    thread.join(30)
    assert not thread.is_alive() and seen[-1][0] == name
    if name == "learned":
        assert seen[-1][1]["id"] == given["id"]
