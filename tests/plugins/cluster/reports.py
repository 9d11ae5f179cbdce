"""Replicas that are only reports in a store, for what reads the store."""

from collections.abc import Mapping
from functools import partial

from sqlalchemy import Connection

from online.schemas.events import Event
from online.snapshots.agreed import Publication
from online.store import Store
from online.store.events import append_events, load_end
from online.store.replicas import report_replica

ONE = Publication(0, None, 0, 0, 0, "a" * 64, "", "", {}, "", "recipe", "domain", "2026-01-01T00:00:00+00:00", "first")
DIVERGED = {"version": 1, "learned_until": 3, "ours": "b" * 64, "published": "a" * 64, "determinism_domain": "other"}


def append(connection: Connection, count: int) -> None:
    end = load_end(connection, "m")[0]
    append_events(connection, "m", [Event(f"e{end + n}", "label", b"", "a") for n in range(count)])


def report(store: Store, id: str, state_sha256: str = "a" * 64, **changed: object) -> None:
    """Let a replica say that it is here."""
    facts: Mapping[str, object] = {
        "version": 1, "learned_until": 3, "state_sha256": state_sha256, "determinism_domain": "domain", "diverged": None,
    }  # fmt: skip
    service: Mapping[str, object] = {
        "release": "1", "learner": "running", "free_disk_bytes": 5_000_000_000, "clock_difference_s": 0.5, "signing_keys": "k",
    }  # fmt: skip
    models = {"m": {**facts, **{name: changed[name] for name in facts.keys() & changed.keys()}}}
    says = {**service, **{name: changed[name] for name in service.keys() & changed.keys()}, "models": models}
    store.submit(partial(report_replica, id=id, url=f"http://{id}:8000", report=says)).result()
