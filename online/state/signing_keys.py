"""The keys with which a service signs what it gives out and must recognise later, in one file of the state folder.

    keys.json   purpose --> keys, oldest first: the newest signs; every key that has not expired verifies
                    |
    sign(purpose, message) -> "<key id>.<signature>" -> check(purpose, message, signature)

Each purpose has keys of its own, so that what is signed for one is never valid for another. A rotation replaces the file; every
process that has it open reads it again within a second. Where replicas share a store, the file may be a copy of what is there
(shared_keys.py).
"""

import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from online.errors import SetupError
from online.io.atomic import replace_file
from online.io.locks import lock_file
from online.schemas.json_values import JSON

PURPOSES = ("links", "cookies", "river", "stream", "erasure", "audit", "peers")
# how long a retired key goes on to verify; None: without end, because what it signed is kept
GRACE_DAYS: Mapping[str, float | None] = {
    "links": 30,
    "cookies": 30,
    "river": None,
    "stream": None,
    "erasure": None,
    "audit": None,
    "peers": None,
}
FORMAT = 1
DAY_S = 86_400
SIGNATURE_DIGITS = 32  # 128 bits: the shortest that RFC 2104 recommends for SHA-256, because every answer carries one
REFRESH_S = 1.0  # the longest time until a process notices that keys were rotated


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key. The secret is 32 bytes in hexadecimal.

    retired_at: when it stopped signing. expires_at: when it stops verifying; None for a key that does not.
    """

    id: str
    secret: str
    created_at: str
    retired_at: str | None = None
    expires_at: str | None = None

    def is_valid(self, at: float) -> bool:
        """Return whether the key is not expired."""
        return self.expires_at is None or at < datetime.fromisoformat(self.expires_at).timestamp()


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """A new key, and the one that it replaces. expires_at: until when the old one verifies; None: without end."""

    purpose: str
    id: str
    replaced_id: str
    expires_at: str | None


KeyTable = dict[str, list[SigningKey]]
KeyChange = Callable[[KeyTable], KeyTable]


class SigningKeys:
    """Signs and verifies with the keys of a state folder, which it creates where there are none.

    `sign` takes about a microsecond: the HMAC of each newest key is prepared. Safe in threads: a new table replaces the old one.
    """

    def __init__(self, state: Path, clock: Callable[[], float] = time.time, first: KeyChange | None = None) -> None:
        """Read the keys, or create them. Raises SetupError for a damaged file, and OSError for a folder that cannot be written.

        first: a change to begin with, as in `change`. Without it, each purpose that has no key gets one.
        """
        self.path, self._clock = state / "keys.json", clock
        self._stamp: tuple[int, int] | None = None
        self._looked_at = clock()
        if first is not None or not self._has_every_purpose():
            self._replace(first or self._add_missing)  # the first of two processes that start at once wins
        self._load()

    def sign(self, purpose: str, message: bytes) -> str:
        """Return the id of the newest key and its signature, as "<id>.<hexadecimal digits>"."""
        if not 0 <= self._clock() - self._looked_at < REFRESH_S:
            self.refresh()
        prefix, prepared = self._signing[purpose]
        signing = prepared.copy()  # several times as fast as a new HMAC
        signing.update(message)
        return prefix + signing.hexdigest()[:SIGNATURE_DIGITS]

    def check(self, purpose: str, message: bytes, signature: str) -> bool:
        """Return whether a key of this purpose that has not expired has signed the message."""
        self.refresh()
        id = signature.partition(".")[0]
        key = next((key for key in self._table[purpose] if key.id == id and key.is_valid(self._clock())), None)
        if key is None:
            return False
        return hmac.compare_digest(f"{id}.{compute_signature(key, message)}".encode(), signature.encode())

    def valid_keys(self, purpose: str) -> list[SigningKey]:
        """Return the keys that verify, the newest first. For a reader that cannot call `check`."""
        self.refresh()
        return [key for key in reversed(self._table[purpose]) if key.is_valid(self._clock())]

    def derive_keys(self, purpose: str, subject: str) -> str:
        """Return keys bound to a subject, such as a model: "ID:HEX ID:HEX", the newest first, the only one to sign."""
        return " ".join(
            f"{key.id}:{hmac.digest(bytes.fromhex(key.secret), subject.encode(), 'sha256').hex()}"
            for key in self.valid_keys(purpose)
        )

    def rotate(self, purposes: Sequence[str] = (), grace_days: float | None = None) -> list[RotatedKey]:
        """Add a new key for each purpose (without any: for all of them), which signs from now on.

        grace_days: how long the replaced keys go on to verify, 0 for not at all; by default GRACE_DAYS. Keys that verify already
        for less long stay so. Raises ValueError for an unknown purpose.
        """
        rotation = Rotation(purposes, grace_days, self._clock())
        self.change(rotation.finish)
        return rotation.rotated

    def change(self, change: KeyChange) -> None:
        """Replace the keys by what `change` returns for the present ones. Other processes that change them wait meanwhile."""
        self._replace(change)
        self._load()

    def refresh(self) -> None:
        """Read the keys again if the file was replaced. Without a readable file the keys in memory stay in use."""
        self._looked_at = self._clock()
        try:
            stat = self.path.stat()
        except OSError:
            return
        if (stat.st_mtime_ns, stat.st_ino) != self._stamp:
            with suppress(SetupError):  # a service that runs goes on; one that starts reports it
                self._load()

    @property
    def table(self) -> KeyTable:
        """All keys, also those that have expired."""
        self.refresh()
        return self._table

    @property
    def revision(self) -> object:
        """Changes whenever the keys do."""
        self.refresh()
        return self._stamp

    def _has_every_purpose(self) -> bool:
        return self.path.exists() and set(PURPOSES) <= set(self._read()[0])

    def _add_missing(self, table: KeyTable) -> KeyTable:
        return add_missing(table, self._clock())

    def _replace(self, change: KeyChange) -> None:
        with self._locked():
            before = self._read()[0] if self.path.exists() else {}
            if (after := change(before)) != before:
                self._write(after)

    def _load(self) -> None:
        self._table, self._stamp = self._read()
        self._signing = {
            purpose: (f"{keys[-1].id}.", hmac.new(bytes.fromhex(keys[-1].secret), digestmod="sha256"))
            for purpose, keys in self._table.items()
        }

    def _read(self) -> tuple[KeyTable, tuple[int, int]]:
        try:
            with open(self.path, "rb") as file:
                stat = os.fstat(file.fileno())
                if stat.st_mode & 0o077:
                    os.fchmod(file.fileno(), 0o600)  # copied here with other permissions
                return parse_table(json.loads(file.read())), (stat.st_mtime_ns, stat.st_ino)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            raise SetupError(
                f"the file {self.path} is damaged; restore it from a backup, or delete it: feedback URLs and sessions are then "
                "no longer valid, and river models learn again from the log"
            ) from None

    def _write(self, table: KeyTable) -> None:
        """Write the file. The caller holds the lock."""
        replace_file(self.path, dump_table(table), durable=True, mode=0o600)

    def _locked(self) -> IO[str]:
        """Lock out other processes that create or rotate keys."""
        return lock_file(self.path.with_name("keys.lock"), mode=0o600)


class Rotation:
    """A rotation of keys. Both of its steps are the argument of `SigningKeys.change`.

    begin    the new keys verify, and the old ones go on to sign: for replicas, which learn of the new keys one after the other
    finish   the new keys sign, and the old ones verify until they expire
    """

    def __init__(self, purposes: Sequence[str], grace_days: float | None, at: float) -> None:
        """Create the new keys; the arguments are those of `SigningKeys.rotate`. Raises ValueError for an unknown purpose."""
        if unknown := sorted(set(purposes) - set(PURPOSES)):
            raise ValueError(f"there are no signing keys for {unknown[0]!r}; use {', '.join(PURPOSES)}")
        self.new = {purpose: create_key(at) for purpose in purposes or PURPOSES}
        self.grace_days, self.at = grace_days, at
        self.rotated: list[RotatedKey] = []  # once it has finished

    def begin(self, table: KeyTable) -> KeyTable:
        """Return the keys with the new ones, which do not sign yet."""
        return table | {purpose: [*table[purpose][:-1], new, table[purpose][-1]] for purpose, new in self.new.items()}

    def finish(self, table: KeyTable) -> KeyTable:
        """Return the keys with the new ones as those that sign."""
        after, self.rotated = dict(table), []
        for purpose, new in self.new.items():
            old = [key for key in table[purpose] if key.id != new.id]
            expires_at = find_expiry(GRACE_DAYS[purpose] if self.grace_days is None else self.grace_days, self.at)
            self.rotated.append(RotatedKey(purpose, new.id, old[-1].id, expires_at))
            after[purpose] = [*retire(old, self.at, expires_at), new]
        return after


def rotate_signing_keys(state: Path, purposes: Sequence[str] = (), grace_days: float | None = None) -> list[RotatedKey]:
    """Rotate keys of a state folder, beside running services; see `SigningKeys.rotate`. Raises SetupError or ValueError."""
    if not state.is_dir():
        raise SetupError(f"there is no state folder {state}; name the right one with --state")
    return SigningKeys(state).rotate(purposes, grace_days)


def compute_signature(key: SigningKey, message: bytes) -> str:
    """Return the signature of a message: HMAC-SHA256, truncated."""
    return hmac.digest(bytes.fromhex(key.secret), message, "sha256").hex()[:SIGNATURE_DIGITS]


def create_key(at: float) -> SigningKey:
    """Create a random key."""
    return SigningKey(secrets.token_hex(4), secrets.token_hex(32), format_instant(at))


def add_missing(table: KeyTable, at: float) -> KeyTable:
    """Return the keys with a first one for each purpose that has none."""
    return table | {purpose: [create_key(at)] for purpose in PURPOSES if purpose not in table}


def retire(keys: Sequence[SigningKey], at: float, expires_at: str | None) -> list[SigningKey]:
    """Return the keys as they are once another one signs. Those that have expired are dropped."""
    retired_at = format_instant(at)
    retired = [
        replace(
            key,
            retired_at=key.retired_at or retired_at,
            expires_at=min(filter(None, (key.expires_at, expires_at)), default=None),
        )
        for key in keys
    ]
    return [key for key in retired if key.is_valid(at)]


def dump_table(table: KeyTable) -> bytes:
    """Return the content of the file."""
    purposes = {purpose: [asdict(key) for key in keys] for purpose, keys in table.items()}
    return json.dumps({"format": FORMAT, "purposes": purposes}, indent=1).encode() + b"\n"


def parse_table(document: JSON) -> KeyTable:
    """Return the keys in a parsed file. Raises ValueError, TypeError, KeyError or AttributeError for a damaged one."""
    if document["format"] != FORMAT:
        raise ValueError("another format")
    table = {purpose: [SigningKey(**key) for key in keys] for purpose, keys in document["purposes"].items()}
    if not all(keys and all(is_secret(key.secret) for key in keys) for keys in table.values()):
        raise ValueError("a purpose without a valid key")
    return table


def is_secret(text: str) -> bool:
    """Return whether a text is 32 bytes in hex."""
    return len(text) == 64 and not set(text) - set("0123456789abcdef")


def find_expiry(grace_days: float | None, at: float) -> str | None:
    """Return when a rotated key expires; None for never."""
    return None if grace_days is None else format_instant(at + grace_days * DAY_S)


def format_instant(at: float) -> str:
    """Return an instant as ISO 8601, UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
