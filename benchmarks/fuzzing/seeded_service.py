"""What a service holds of others before it is fuzzed, and whether it is the same afterwards.

seed_service   a conversation, feedback, a reply, a version label, a key, a replay and an erasure, by an operator
view_others    the same as the operator sees it later
empty_journal  so that the copier changes nothing more by itself
digest_state   every table and file of the state folder, by its digest
"""

import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service import BenchmarkError
from online.journal import list_segments

USER, ERASED, CONVERSATION = "hazel", "basil", "diary"
QUESTION_WORD, KEY_WORD, REPLY_WORD, CLASS_WORD = "zanzibarquince", "walnutkeyring", "gooseberrylane", "persimmonclass"
PRIVATE_WORDS = (QUESTION_WORD, KEY_WORD)  # only their user and curators see them
WORDS = (*PRIVATE_WORDS, REPLY_WORD, CLASS_WORD)
SETTLED_S = 120.0
LOG = b"x1,x2,side\n" + b"1,2,left\n2,1,right\n" * 50
# attempts to sign in are recorded, and what only says where a process waits is no state
CHANGING = ("audit", "audit.head", "audit.lock", "online.db", "online.db-wal", "online.db-shm", "bells")


@dataclass(frozen=True, slots=True)
class Seeded:
    """Ids of what exists. known: as `prepare_document` takes it."""

    known: dict[str, list[str]]
    paths: tuple[str, ...]


def send(operator: httpx.Client, method: str, path: str, **more: Any) -> Any:
    response = operator.request(method, path, **more)
    if response.is_error:
        raise BenchmarkError(f"{method} {path} was answered {response.status_code}: {response.text[:300]}")
    return response.json()


def seed_service(operator: httpx.Client) -> Seeded:
    """Let an operator fill a service, and wait until it has nothing to do. Raises BenchmarkError."""
    chat, vec = "/v1/models/chat", "/v1/models/vec"
    reply = send(operator, "POST", f"{chat}/replies", json={"id": "lane", "text": f"It is in {REPLY_WORD}."})["id"]
    question = {"instances": [f"Where is my {QUESTION_WORD}?"], "user": USER, "conversation": CONVERSATION}
    chats = send(operator, "POST", f"{chat}:predict", json=question)["prediction_ids"]
    own = {"X-User": USER}
    shared = send(operator, "POST", f"{chat}/conversations/{CONVERSATION}:share", headers=own)["share_id"]
    rated = [{"prediction_id": chats[0], "label": reply, "user": USER}]
    feedback = send(operator, "POST", f"{chat}:feedback", json={"feedback": rated})["receipts"][0]
    labelled = [{"input": [n, -n], "label": CLASS_WORD, "user": ERASED} for n in range(3)]
    learned = send(operator, "POST", f"{vec}:feedback", json={"feedback": labelled})["receipts"][-1]
    for path, receipt in ((chat, feedback), (vec, learned)):
        send(operator, "GET", path, params={"min_offset": receipt["offset"], "timeout_ms": 60_000})
    send(operator, "PUT", f"{vec}/version_labels/stable", json={"version": "latest"})
    key = send(operator, "POST", "/v1/keys", json={"name": KEY_WORD, "scopes": ["predict"]})["id"]
    query = {"name": "log.csv", "model": "knn", "label": "side"}
    replay = send(operator, "POST", "/v1/replays", content=LOG, params=query)["id"]
    erasure = send(operator, "DELETE", f"/v1/users/{ERASED}")["id"]
    vectors = send(operator, "POST", f"{vec}:predict", json={"instances": [[1, 2]], "user": USER})["prediction_ids"]
    wait_until_ended(operator, (f"/v1/replays/{replay}", f"/v1/erasures/{erasure}"))
    known = {
        "user": [USER, ERASED],
        "prediction_id": [*chats, *vectors],
        "predictions": [*chats, *vectors],
        "conversations": [CONVERSATION],
        "feedback": [feedback["id"]],
        "replies": [reply],
        "classes": [CLASS_WORD],
        "label": ["stable"],
        "keys": [key],
        "replays": [replay],
        "erasures": [erasure],
    }
    paths = (
        f"{chat}/conversations/{CONVERSATION}",
        f"/v1/shared/{shared}",
        f"{chat}/feedback/{feedback['id']}",
        f"{chat}/replies/{reply}",
        f"{vec}/versions",
        f"{chat}/versions",
        "/v1/keys",
        f"/v1/replays/{replay}",
        f"/v1/erasures/{erasure}",
    )
    return Seeded(known, paths)


def wait_until_ended(operator: httpx.Client, paths: tuple[str, ...]) -> None:
    deadline = time.monotonic() + SETTLED_S
    for path in paths:
        while (state := send(operator, "GET", path)["state"]) not in ("done", "failed"):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{path} is {state} after {SETTLED_S:.0f} s")
            time.sleep(0.2)
        if state == "failed":
            raise BenchmarkError(f"{path} has failed: {send(operator, 'GET', path)}")


def view_others(operator: httpx.Client, seeded: Seeded) -> dict[str, Any]:
    """Return what an operator sees of what was seeded: by path, without what others may change."""
    shown = {path: send(operator, "GET", path, headers={"X-User": USER}) for path in seeded.paths}
    return {path: keep_own(path, content) for path, content in shown.items()}


def keep_own(path: str, content: dict[str, Any]) -> dict[str, Any]:
    """Leave out the versions, and how often a reply was given: everybody who teaches makes new ones."""
    if path.endswith("/versions"):
        labels = [each["label"] for each in content["labels"]]
        return {"labels": sorted(labels), "frozen": content["frozen"]}
    return {"text": content["text"], "active": content["active"]} if "/replies/" in path else content


def empty_journal(state: Path) -> None:
    """Let all predictions be copied, and their segments be deleted, which would happen within minutes."""
    end, left = time.monotonic() + SETTLED_S, "SELECT count(*) FROM meta WHERE key LIKE 'journal/%'"
    with closing(sqlite3.connect(f"file:{state / 'online.db'}?mode=ro", uri=True)) as store:
        while list_segments(state / "journal") or store.execute(left).fetchone()[0]:
            for segment in list_segments(state / "journal"):
                with suppress(FileNotFoundError):
                    segment.seal()
            if time.monotonic() > end:
                raise BenchmarkError(f"the journal was not copied within {SETTLED_S:.0f} s")
            time.sleep(0.1)


def digest_state(state: Path) -> dict[str, str]:
    """Return the digest of each table of the store, and of each file, of a service with SQLite."""
    digests = {}
    with sqlite3.connect(f"file:{state / 'online.db'}?mode=ro", uri=True) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            rows = sorted(repr(row) for row in connection.execute(f'SELECT * FROM "{name}"'))
            digests[name] = sha256("\n".join(rows).encode()).hexdigest()
    connection.close()
    for path in state.rglob("*"):
        if path.is_file():
            digests[str(path.relative_to(state))] = sha256(path.read_bytes()).hexdigest()
    return {name: digest for name, digest in digests.items() if name.split("/")[0] not in CHANGING}


def changed_names(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
