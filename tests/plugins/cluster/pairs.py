"""Two real services on one store, and a client that goes from one to the other with each request."""

from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx

from tests.conftest import config
from tests.support import Service

SECRET = "a secret of the tests, long enough"
ADMIN = "open sesame"
MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
SOON_S = 3.0
Json = dict[str, Any]


class Pair:
    """Two services on one store."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.text = folder, config(folder, MODELS, admin_key=ADMIN, secret=SECRET, **settings)
        self.config = folder / "one.toml"
        with ThreadPoolExecutor(2) as starting:
            self.services = list(starting.map(self.start, ("one", "two")))

    def start(self, name: str) -> Service:
        return Service(self.folder / name, self.text)

    def browse(self, **headers: str) -> "Turns":
        return Turns(self, headers)

    def stop(self) -> None:
        for service in self.services:
            service.stop()


class Turns:
    """A client that sends each request to the other replica than the one before. Its cookies are those of both."""

    def __init__(self, pair: Pair, headers: dict[str, str]) -> None:
        self.pair, self.http = pair, httpx.Client(timeout=30, headers=headers)
        self._turns = cycle(service.url for service in pair.services)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.http.request(method, next(self._turns) + path, **options)

    def get(self, path: str, **options: Any) -> Json:
        return read(self.send("GET", path, **options))

    def post(self, path: str, content: Json | None = None, **options: Any) -> Json:
        return read(self.send("POST", path, json=content or {}, **options))

    def predict(self, model: str, instance: object, **more: Any) -> Json:
        return self.post(f"/v1/models/{model}:predict", {"instances": [instance], **more})

    def ask(self, question: str, conversation: str, **more: Any) -> str:
        return str(self.predict("chat", question, conversation=conversation, **more)["prediction_ids"][0])

    def give(self, model: str, **item: Any) -> Json:
        receipt: Json = self.post(f"/v1/models/{model}:feedback", {"feedback": [item]})["receipts"][0]
        return receipt

    def outcome(self, model: str, id: str) -> Json:
        return self.get(f"/v1/models/{model}/feedback/{id}")

    def both(self, method: str, path: str, **options: Any) -> list[httpx.Response]:
        return [self.send(method, path, **options) for _ in self.pair.services]


def read(response: httpx.Response) -> Json:
    assert response.status_code < 300, response.text
    content: Json = response.json()
    return content
