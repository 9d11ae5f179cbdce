"""Services whose callers need keys, and keys for them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from fastapi import FastAPI
from fastapi.testclient import TestClient

from online.api.app import create_app
from online.api.auth.key_changes import create_key
from online.settings import ModelSettings, Settings
from tests.conftest import REPERTOIRE

VEC = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2, "scale": 4.0})
CHAT = ModelSettings(name="chat", kind="ranker")
ADMIN_KEY = "open sesame"
VISITS = {"Sec-Fetch-Site": "same-origin"}


def build(folder: Path, *models: ModelSettings, **settings: object) -> FastAPI:
    """An application without a learner. Its callers need keys unless the settings say otherwise.

    models: by default a classifier of vectors, which starts much faster than a chat.
    """
    folder.mkdir(exist_ok=True)
    repertoire = folder / "repertoire.jsonl"
    repertoire.write_text("\n".join(map(json.dumps, REPERTOIRE)))
    known = {"state": folder, "models": models or (VEC,), "admin_key": ADMIN_KEY, "repertoire": repertoire}
    values = {**known, **settings}
    return create_app(Settings.model_validate(values), with_learner=False)


class Browser(TestClient):
    """A client with cookies of its own. The first one of an application is entered, and runs it for all others."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.app.state.portal = self.portal  # type: ignore[attr-defined]
        return self


def browse(app: FastAPI, address: str = "203.0.113.7", **headers: str) -> Browser:
    client = Browser(app, "http://127.0.0.1:8000", client=(address, 50_000), headers={**VISITS, **headers})
    client.portal = getattr(app.state, "portal", None)
    return client


def new_key(app: FastAPI, *scopes: str, name: str | None = None, models: Iterable[str] | None = None) -> str:
    """The headers' value of a new key with these scopes."""
    store = app.state.runtime.workspace.store
    chosen = None if models is None else list(models)
    return create_key(store, name or f"key of {' '.join(scopes)}", scopes, chosen).secret


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def ask(client: TestClient, question: str = "When do you open?", **more: Any) -> dict[str, Any]:
    """Ask the chat a question; return the answer."""
    headers = more.pop("headers", None)
    response = client.post("/v1/models/chat:predict", json={"instances": [question], **more}, headers=headers)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def rate(client: TestClient, headers: dict[str, str] | None = None, **item: Any) -> Any:
    """Send one feedback; return the response."""
    return client.post("/v1/models/chat:feedback", json={"feedback": [item]}, headers=headers)
