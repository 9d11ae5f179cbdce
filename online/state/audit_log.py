"""Writes the audit log, and keeps its head outside the database, so that a tail that was cut off is noticed.

record --one transaction--> table `audit`   entries, each with a digest of all before it
       --then------------> audit.head      the number and the digest of the newest entry

Where replicas share the store, the head of each is the newest entry that it has appended itself, or the one that it began with: entries
after it are those of others.
"""

import hmac
import json
import logging
import threading
from collections import deque
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from online.errors import Unavailable
from online.io.atomic import replace_file
from online.io.locks import lock_file
from online.state.signing_keys import SigningKeys
from online.store import Store
from online.store.callers.audit import AuditEntry, AuditHead, BrokenEntry, append_audit, load_head, verify_audit
from online.telemetry import log_event

log = logging.getLogger("online.audit")

MAX_POSTPONED = 10_000  # entries; one more costs the oldest
PSEUDONYM_DIGITS = 16


class AuditLog:
    """The audit log of one state folder and its store."""

    def __init__(self, store: Store, state: Path, keys: SigningKeys) -> None:
        self.store, self.keys, self.path = store, keys, state / "audit.head"
        self._postponed, self._lock = deque[AuditEntry](), threading.Lock()

    def record_or_postpone(self, entry: AuditEntry) -> None:
        """Append an entry for what is done already, so that nothing can be refused any more. Slow: never on the event loop.

        What cannot be appended now is logged, and appended before the next entry.
        """
        try:
            self.record_postponed()
            self.record(entry)
        except (Unavailable, OSError) as error:
            self._postpone(entry, error)

    def record_postponed(self) -> None:
        """Append what waits, the oldest first. Raises Unavailable or OSError."""
        with self._lock:
            while self._postponed:
                self.record(self._postponed[0])
                self._postponed.popleft()

    def _postpone(self, entry: AuditEntry, reason: Exception) -> None:
        with self._lock:
            if len(self._postponed) >= MAX_POSTPONED:
                log_entry("lost to the audit log", self._postponed.popleft(), f"more than {MAX_POSTPONED} entries wait")
            self._postponed.append(entry)
        log_entry("not in the audit log yet", entry, str(reason))

    def record(self, entry: AuditEntry) -> None:
        """Append an entry; it is durable when this returns. Slow: never on the event loop. Raises Unavailable."""
        if entry.is_person:
            kind, _, name = entry.actor.partition(":")
            entry = replace(entry, actor=f"{kind}:{self.pseudonyms(name)[0]}")
        head = self.store.submit(partial(append_audit, entry=entry)).result()
        try:
            self.save_head(head)
        except OSError as error:  # the entry is recorded, and the next one saves a newer head
            log_event(log, "the head of the audit log is not saved", logging.ERROR, reason=str(error))

    def pseudonyms(self, user: str) -> list[str]:
        """Return what the log has in the place of a user's name, the newest first.

        The name itself could never be erased. Who has the keys can find the entries of a user whom they know.
        """
        digests = (
            hmac.digest(bytes.fromhex(key.secret), user.encode(), "sha256") for key in self.keys.valid_keys("audit")
        )
        return [digest.hex()[:PSEUDONYM_DIGITS] for digest in digests]

    def save_head(self, head: AuditHead) -> None:
        """Keep the head, unless another process keeps a newer one."""
        with lock_file(self.path.with_name("audit.lock"), mode=0o600):
            known = self.load_saved_head()
            if known is None or known.id < head.id:
                replace_file(self.path, json.dumps(asdict(head)).encode(), durable=True, mode=0o600)

    def join(self) -> None:
        """Begin with the present head where a new state folder joins a store that other replicas serve. Raises Unavailable, OSError."""
        if self.store.is_shared:
            self.save_head(self.store.read(load_head))

    def load_saved_head(self) -> AuditHead | None:
        """Return None if there is no file, or it is damaged."""
        try:
            return AuditHead(**json.loads(self.path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def verify(self) -> tuple[AuditHead, BrokenEntry | None]:
        """Return the head, and the first entry that is not what was recorded. Raises Unavailable."""
        saved = self.load_saved_head()
        head: AuditHead = self.store.read(load_head)
        broken: BrokenEntry | None = self.store.read(partial(verify_audit, known=saved))
        if broken is None and saved is None and head.id:
            broken = BrokenEntry(
                head.id, f"the file {self.path.name} is missing or damaged, so the end cannot be checked"
            )
        return head, broken


def log_entry(event: str, entry: AuditEntry, reason: str) -> None:
    """Log an entry that the audit log does not have."""
    named = {"action": entry.action, "model": entry.model, "target": entry.target}
    log_event(log, event, logging.ERROR, **named, reason=reason)
