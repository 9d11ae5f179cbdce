"""A user is erased on every replica, whichever of them was asked: from journals, uploads and versions that only one has."""

import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.conftest import create_database
from tests.plugins.cluster.pairs import ADMIN, Json, Pair, read
from tests.support import Service, until

HEADERS = {"X-Admin-Key": ADMIN}


class Scene:
    """Two replicas and their store."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url, self.pair = url, Pair(folder, store=url, port=0)
        self.one, self.two = self.pair.services

    def predict(self, service: Service, user: str, words: str) -> str:
        body = {"instances": [words], "user": user}
        answer = service.http.post("/v1/models/chat:predict", json=body, headers=HEADERS)
        return str(read(answer)["prediction_ids"][0])

    def upload(self, service: Service, user: str) -> str:
        lines = [json.dumps({"input": f"words of {user} {n}", "label": "ab"[n % 2], "user": user}) for n in range(4)]
        path = f"/v1/replays?name={user}.jsonl&model=classifier:input=text"
        id = str(read(service.http.post(path, content="\n".join(lines), headers=HEADERS))["id"])
        until(
            lambda: read(service.http.get(f"/v1/replays/{id}", headers=HEADERS))["progress"] is None,
            180,
            "the replay",
            every_s=0.5,
        )
        return id

    def erase(self, service: Service, user: str) -> Json:
        begun = read(service.http.delete(f"/v1/users/{user}", headers=HEADERS))

        def statement() -> Json | None:
            found: Json | None = read(service.http.get(f"/v1/erasures/{begun['id']}", headers=HEADERS))["statement"]
            return found

        ended: Json = until(statement, 90, "the end of the erasure")
        return ended

    def rows(self, query: str, **values: Any) -> list[Any]:
        engine = create_engine(self.url)
        try:
            with engine.connect() as connection:
                return [*connection.execute(text(query), values)]
        finally:
            engine.dispose()

    def users(self, id: str) -> list[Any]:
        return [row[0] for row in self.rows('SELECT "user" FROM prediction WHERE id = :id', id=id)]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    for url in create_database():
        running = Scene(tmp_path_factory.mktemp("erasures"), url)
        yield running
        running.pair.stop()


def replica_of(service: Service) -> str:
    return (service.state / "replica").read_text()


def names_in(service: Service, user: str) -> list[str]:
    """The files of a replica that contain the name of a user."""
    files = (path for path in service.state.rglob("*") if path.is_file())
    return [str(path) for path in files if user.encode() in path.read_bytes()]


def test_a_user_whose_prediction_is_only_in_the_journal_of_another_replica_is_erased(scene: Scene) -> None:
    user = f"anna-{uuid.uuid4().hex[:8]}"
    upload = scene.upload(scene.two, user)
    with scene.two.stopped_copier():
        id = scene.predict(scene.two, user, f"my name is {user}")
        assert names_in(scene.two, user)
        statement = scene.erase(scene.one, user)
        assert scene.users(id) == [None]
    assert names_in(scene.one, user) == [] and names_in(scene.two, user) == []
    assert list(statement["replicas"]) == [replica_of(scene.two)]
    assert upload in json.dumps(statement["replicas"]) and not statement["absent_replicas"]


def test_a_replica_that_was_away_forgets_before_it_answers_again(scene: Scene) -> None:
    user = f"ben-{uuid.uuid4().hex[:8]}"
    scene.upload(scene.two, user)
    with scene.two.stopped_copier():
        id = scene.predict(scene.two, user, f"my name is {user}")
        for pid in (scene.two.copier_pid(), scene.two.process.pid):
            os.kill(int(pid or 0), signal.SIGKILL)
        scene.two.process.wait()
    until(lambda: scene.rows("SELECT id FROM replica WHERE seen_at < extract(epoch from clock_timestamp()) - 5"), 10)
    absent = replica_of(scene.two)
    statement = scene.erase(scene.one, user)
    assert statement["absent_replicas"] == [absent] and statement["replicas"] == {}
    assert names_in(scene.two, user)
    scene.pair.services[1] = scene.two = scene.pair.start("two")
    assert names_in(scene.two, user) == []
    other = scene.predict(scene.two, "somebody", "hello")
    until(lambda: scene.users(other) == ["somebody"], 10, "the copy")
    assert scene.users(id) == []
