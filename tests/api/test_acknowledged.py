"""What is committed is acknowledged, also where no file can be opened for what follows: the audit log, a wake-up, a swap."""

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.api.auth.access import ADMIN_KEY, bearer, browse, build
from tests.api.auth.access import CHAT as CHAT_MODEL
from tests.api.test_audit import CHAT, read_entries
from tests.conftest import Start
from tests.support import Service

ROOT = "/v1/models/chat"


@pytest.fixture
def chat(start: Start) -> Service:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    return service


@contextmanager
def no_free_files(service: Service) -> Iterator[None]:
    """The service cannot open any file or connection; those that are open stay so."""
    pid = service.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_a_retraction_is_acknowledged_where_no_file_can_be_opened(chat: Service) -> None:
    feedback = {"input": "Where are you?", "label": "hours"}
    receipt = chat.http.post(f"{ROOT}:feedback", json={"feedback": [feedback]}).json()["receipts"][0]
    with no_free_files(chat):
        answer = chat.http.delete(f"{ROOT}/feedback/{receipt['id']}")
    assert (answer.status_code, answer.json()["status"]) == (202, "retracted")
    assert chat.http.get(f"{ROOT}/feedback/{receipt['id']}").json()["status"] == "retracted"
    assert [entry["action"] for entry in read_entries(chat)][-1] == "retract"


@pytest.mark.long
def test_a_new_key_is_shown_where_no_file_can_be_opened(chat: Service) -> None:
    with no_free_files(chat):
        answer = chat.http.post("/v1/keys", json={"name": "till", "scopes": ["predict"]})
    assert answer.status_code == 201 and answer.json()["key"]
    assert [entry["action"] for entry in read_entries(chat)][-1] == "key_created"


def test_a_roll_back_is_acknowledged_where_no_file_can_be_opened_after_it(
    chat: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    version = chat.versions("chat")[-1]["version"]
    chat.stop()
    app = build(chat.state, CHAT_MODEL)
    with browse(app, **bearer(ADMIN_KEY)) as client:
        model = app.state.runtime.models["chat"]

        async def fail() -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(model.live, "refresh", fail)
        answer = client.post(f"{ROOT}:rollback", json={"version": version, "freeze": True})
        assert answer.status_code == 200, answer.text
        assert model.snapshots.control.frozen() is not None
    assert "the version is swapped in later" in caplog.messages


@pytest.mark.long
def test_what_cannot_be_done_without_a_file_is_refused_in_words(chat: Service) -> None:
    before = chat.versions("chat")
    with no_free_files(chat):
        answer = chat.http.post(f"{ROOT}:rollback", json={"version": before[-1]["version"], "freeze": True})
    assert (answer.status_code, answer.json()["error"]) == (
        503,
        "the service can open no more files (ulimit -n); try again later",
    )
    assert chat.versions("chat") == before
