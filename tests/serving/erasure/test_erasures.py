"""An erased user: nothing of them is left anywhere, and every model is as if it had never seen them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redis import Redis
from sqlalchemy import Connection, delete

from online.store import Store
from online.store.events import EVENTS
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS
from tests.conftest import Start, config
from tests.serving.erasure.searching import find_in_database, find_in_folder, find_in_redis, needles_of
from tests.support import Service, replay_json, run_online, until

MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "txt"
kind = "classifier"

[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }
"""
USER = "annasophia"
WORDS = {
    "name": USER,
    "question": "the quokkas of Rottnest smiled at my grandmother",
    "wrong question": "my zeppelin needs marmalade",
    "reply": "Feed the quokkas nothing, grandmother.",
    "comment": "an unmistakable remark about zithers",
    "class": "quokkaship",
    "title": "the quokkas of Rottnest",
    "title of their own": "Marsupial holidays with Ottilie",
}
MINE = [0.123456789, 3.987654321]  # a vector of theirs
DONE_S = 120.0


def erase(service: Service, user: str = USER, model: str | None = None) -> dict[str, Any]:
    """Erase a user, and return the erasure once it is done."""
    path = f"/v1/users/{user}" if model is None else f"/v1/models/{model}/users/{user}"
    begun = service.http.delete(path)
    assert begun.status_code == 202, begun.text
    return wait_until_done(service, begun.json()["id"])


def wait_until_done(service: Service, id: str) -> dict[str, Any]:
    def done() -> dict[str, Any] | None:
        status: dict[str, Any] = service.http.get(f"/v1/erasures/{id}").json()
        return status if status["state"] == "done" else None

    status: dict[str, Any] = until(done, DONE_S, "the end of the erasure")
    return status


def teach_as_bert(service: Service) -> dict[str, int]:
    """What another user teaches; return the last offset of each model."""
    heads, bert = {}, "bert"
    with service.client("chat", bert) as chat:
        answer = chat.predict(["When do you open?"], conversation="berts")
        chat.feedback([{"id": "b1", "prediction_id": answer["prediction_ids"][0], "reward": 1.0}])
        answer = chat.predict(["Do you sell stamps?"], conversation="berts")
        correction = {"prediction_id": answer["prediction_ids"][0], "correction": "Stamps are at the desk."}
        heads["chat"] = chat.feedback([{"id": "b2", **correction}])[-1]["offset"]
    with service.client("txt", bert) as txt:
        items = [{"id": f"t{n}", "input": f"question {n}", "label": "odd" if n % 2 else "even"} for n in range(6)]
        heads["txt"] = txt.feedback(items)[-1]["offset"]
    with service.client("num", bert) as num:
        numbers = [{"id": f"n{n}", "input": [n / 4, 1 - n / 8], "label": str(3 * n)} for n in range(9)]
        heads["num"] = num.feedback(numbers)[-1]["offset"]
    for model, offset in heads.items():
        service.wait_learned(model, offset)
    return heads


def teach_as_user(service: Service) -> None:
    """What the user does: questions, a conversation, a correction, thumbs without a name, a class of their own."""
    with service.client("chat", USER) as chat:
        asked = chat.predict([WORDS["question"]], conversation="theirs")["prediction_ids"][0]
        theirs, of_user = "/v1/models/chat/conversations/theirs", {"X-User": USER}
        change = {"title": WORDS["title of their own"], "pinned": True}
        service.http.patch(theirs, json=change, headers=of_user).raise_for_status()
        service.http.post(f"{theirs}:share", headers=of_user).raise_for_status()
        chat.feedback([{"id": f"{USER}-1", "prediction_id": asked, "correction": WORDS["reply"]}])
        other = chat.predict([WORDS["wrong question"]])["prediction_ids"][0]
        nameless = {"id": "nameless", "prediction_id": other, "label": "hours", "comment": WORDS["comment"]}
        with service.client("chat") as anonymous:
            head = anonymous.feedback([nameless])[-1]["offset"]
    service.wait_learned("chat", head)
    with service.client("txt", USER) as txt:
        head = txt.feedback([{"input": WORDS["question"], "label": WORDS["class"]}])[-1]["offset"]
        service.wait_learned("txt", head)
        with service.client("txt", "bert") as bert:
            bert.predict(["question 3"])  # its candidates name the class
    with service.client("num", USER) as num:
        asked = num.predict([MINE])["prediction_ids"][0]
        head = num.label(asked, "7.5")["offset"]
        service.wait_learned("num", head)


def teach_what_is_lost(service: Service) -> None:
    """One more feedback for each model, which the log that goes back in time will not have."""
    lost = (("chat", "Do you sell maps?", "hours"), ("txt", "a map", "odd"), ("num", [2.0, 2.0], "5"))
    for model, asked, label in lost:
        with service.client(model, "bert") as client:
            given = client.feedback([{"id": f"lost-{model}", "input": asked, "label": label}])
        service.wait_learned(model, given[-1]["offset"])


def lose_it(url: str) -> None:
    """Let the log go back in time, as a truncated write-ahead log or an older replica does."""

    def cut(connection: Connection) -> None:
        for table in (EVENTS, FEEDBACK):
            connection.execute(delete(table).where(table.c.id.like("lost-%")))

    store = Store(url)
    try:
        store.submit(cut).result()
    finally:
        store.close()


@dataclass
class Story:
    """A service that has erased the user. found: the needles before and after, in all that it keeps.

    set_aside: those found in versions of a lost log, before.
    """

    service: Service
    state: Path
    before: set[str]
    set_aside: set[str]
    after: set[str]
    needles: dict[str, bytes]
    erased: dict[str, Any]
    kept_before: dict[str, Any]
    kept_after: dict[str, Any]
    hashes: dict[str, str]
    more: dict[str, Any] = field(default_factory=dict)


def read_features(state: Path, store: str) -> dict[str, bytes]:
    """The features of the user's questions, as the database holds them."""
    database = Store(store or f"sqlite:///{state / 'online.db'}")
    query = PREDICTIONS.select().where(PREDICTIONS.c.user == USER)
    try:
        rows = database.read(lambda connection: connection.execute(query).mappings().all())
    finally:
        database.close()
    return {f"features {number}": bytes(row["features"]) for number, row in enumerate(rows)}


def read_hashes(service: Service) -> dict[str, str]:
    return {name: service.versions(name)[0]["state_sha256"] for name in ("chat", "txt", "num")}


def read_what_others_have(service: Service) -> dict[str, Any]:
    """The conversation, feedback and replies of the other user, as they see them."""
    with service.client("chat", "bert") as chat:
        reply = chat.predict(["Do you sell stamps?"], record=False)["predictions"][0]["reply"]
        replies = [each["text"] for each in chat.replies()]
        status = {id: chat.feedback_status(id)["status"] for id in ("b1", "b2")}
    talk = service.http.get("/v1/models/chat/conversations/berts", headers={"X-User": "bert"}).json()
    turns = [(turn["question"], turn["feedback"]) for turn in talk["said"]]
    theirs = [text for text in replies if text != WORDS["reply"]]
    return {"answer": reply and reply["text"], "replies": theirs, "status": status, "turns": turns}


def upload_log(service: Service) -> str:
    rows = "".join(f'{{"input": [{n}, 1], "label": "x", "who": "{USER}"}}\n' for n in range(4))
    sent = service.http.post("/v1/replays", content=rows.encode(), params={"name": f"{USER}.jsonl"})
    id: str = sent.json()["id"]
    until(lambda: service.http.get(f"/v1/replays/{id}").json()["state"] in ("done", "failed"), 120, "the replay")
    return id


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres and redis", marks=pytest.mark.long)])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder, settings, store, redis = tmp_path_factory.mktemp("erasure"), dict[str, Any](), "", ""
    if request.param != "sqlite":
        store, redis = (request.getfixturevalue(name) for name in ("module_postgres_url", "redis_url"))
        settings = {"store": store, "stream": redis}
    services = [Service(folder / "state", config(folder, MODELS, **settings))]

    def start_again() -> Service:
        assert services[-1].stop() == 0
        lose_it(store or f"sqlite:///{folder / 'state' / 'online.db'}")
        services.append(Service(folder / "state", config(folder, MODELS, **settings)))
        return services[-1]

    try:
        yield tell(services[0], start_again, folder / "state", store, redis)
    finally:
        services[-1].stop()
        if redis:
            clean_redis(redis, read_instance(store))


@pytest.fixture(scope="module")
def module_postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    from tests import conftest

    yield from conftest.create_database()


def read_instance(store: str) -> str:
    """The name by which a store tells its keys in Redis from those of others."""
    database = Store(store)
    database.close()
    return database.instance


def clean_redis(url: str, instance: str) -> None:
    client: Any = Redis.from_url(url)
    for key in [*client.scan_iter(f"online:{instance}:*")]:
        client.delete(key)


def tell(service: Service, start_again: Callable[[], Service], state: Path, store: str, redis: str) -> Story:
    teach_as_bert(service)
    hashes, kept_before = read_hashes(service), read_what_others_have(service)
    teach_as_user(service)
    teach_what_is_lost(service)
    service = start_again()
    until(lambda: service.http.get("/readyz").status_code == 200, 60, "the log is learned again")
    live = service.versions("txt")[0]["version"]
    service.http.put("/v1/models/txt/version_labels/stable", json={"version": live}).raise_for_status()
    upload = upload_log(service)
    features = {"vector": np.array(MINE).tobytes(), **read_features(state, store)}
    needles = needles_of(WORDS, features)

    def search() -> set[str]:
        found = find_in_folder(state, needles)
        found |= find_in_database(store, needles) if store else set()
        return found | (find_in_redis(redis, f"online:{read_instance(store)}:*", needles) if redis else set())

    before = search()
    set_aside = find_in_folder(state / "snapshots", needles, "*/set-aside/**/*")
    erased = erase(service)
    service.wait_learned("txt", erased["statement"]["models"]["txt"]["after"]["learned_until"])
    more = {"upload": upload, "labels": service.http.get("/v1/models/txt/versions").json()}
    kept_after = read_what_others_have(service)
    return Story(service, state, before, set_aside, search(), needles, erased, kept_before, kept_after, hashes, more)


def test_nothing_of_an_erased_user_is_left_in_files_database_and_redis(story: Story) -> None:
    raw = {name for name in story.needles if "hex" not in name and "base64" not in name}
    assert story.before >= raw, "the search finds everything before"
    assert story.set_aside >= {"class", "reply"}, "also in versions of a log that was lost"
    assert story.after == set()


def test_every_model_is_as_if_it_had_never_seen_them(story: Story) -> None:
    models = story.erased["statement"]["models"]
    assert {name: models[name]["after"]["state_sha256"] for name in models} == story.hashes
    assert all(models[name]["before"]["state_sha256"] != story.hashes[name] for name in models)
    assert all(models[name]["compared"]["is_same"] for name in models)
    assert read_hashes(story.service) == story.hashes


def test_what_others_have_is_unchanged(story: Story) -> None:
    assert story.kept_after == story.kept_before
    assert story.kept_before["answer"] == "Stamps are at the desk."


def test_the_statement_tells_what_was_removed_from_where(story: Story) -> None:
    statement = story.erased["statement"]
    assert USER not in json.dumps(statement)
    assert statement["models"]["txt"]["labels_removed"].keys() == {"stable"}
    assert statement["models"]["txt"]["labels"] == 1  # the class that only they gave
    assert all(each["set_aside_removed"] > 0 for each in statement["models"].values())
    assert statement["models"]["chat"]["conversations"] == 1
    assert statement["models"]["chat"]["feedback_without_user"] == 1
    assert statement["files"]["uploads_removed"] == [story.more["upload"]]
    assert {version["labels"][0] for version in story.more["labels"]["versions"] if version["labels"]} == {"latest"}


def test_the_statement_can_be_checked_and_a_changed_one_is_refused(story: Story, tmp_path: Path) -> None:
    path, flags = tmp_path / "statement.json", ("--state", str(story.state))
    path.write_text(json.dumps(story.erased["statement"]))
    config = str(story.state.with_suffix(".toml"))
    assert run_online("erase", "--verify", str(path), "--config", config, *flags).returncode == 0
    path.write_text(path.read_text().replace('"feedback": 1', '"feedback": 2', 1))
    refused = run_online("erase", "--verify", str(path), "--config", config, *flags)
    assert refused.returncode == 2 and "was changed after it was signed" in refused.stderr


def test_a_later_export_and_replay_know_nothing_of_them(story: Story, tmp_path: Path) -> None:
    log, config = tmp_path / "chat.jsonl", str(story.state.with_suffix(".toml"))
    flags = ("--config", config, "--state", str(story.state), "--model", "chat")
    assert run_online("log", "export", *flags, "--output", str(log)).returncode == 0
    assert not [what for what, needle in story.needles.items() if needle in log.read_bytes()]
    assert replay_json(str(log), "--model", "ranker")["state_sha256"] == story.hashes["chat"]


def test_feedback_on_an_erased_question_is_refused(start: Start) -> None:
    service = start(MODELS)
    with service.client("num", USER) as num:
        asked = num.predict([MINE])["prediction_ids"][0]
        erase(service, model="num")
        response = service.http.post(
            "/v1/models/num:feedback", json={"feedback": [{"prediction_id": asked, "label": "1"}]}
        )
    assert response.status_code == 404
