"""API keys in the memory of a server, and their form.

    online_1f2e3d4c_<secret>      the id, by which a key is found and listed, and 32 random bytes
            |           |
            |           +-- only its SHA-256 is stored: a secret of 256 random bits needs no slow hash
            +-- row of the table `api_key`

The table is read once a second, so a revoked key is refused by every server within about a second, and once more when
an unknown key is shown, so a new key is accepted at once.
"""

import asyncio
import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from online.errors import Unavailable
from online.schemas.access.callers import SCOPES, Scope
from online.store import Store
from online.store.callers import api_keys
from online.store.callers.api_keys import ApiKeyRow
from online.telemetry import OutageLog

log = logging.getLogger("online.keys")

PREFIX = "online_"
READ_EVERY_S = 1.0
READ_AGAIN_S = 0.2  # the shortest time between two reads because of unknown keys
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time now, aware, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that is neither revoked nor expired. models: None for all."""

    id: str
    name: str
    digest: str
    scopes: frozenset[Scope]
    models: frozenset[str] | None
    expires_at: datetime | None


def parse_key(row: ApiKeyRow) -> ApiKey:
    """Return the key of a row, without scopes that this release does not know."""
    models = row.model_list
    return ApiKey(
        row.id,
        row.name,
        row.digest,
        frozenset(scope for scope in SCOPES if scope in row.scope_list),
        None if models is None else frozenset(models),
        None if row.expires_at is None else datetime.fromisoformat(row.expires_at),
    )


def digest_secret(secret: str) -> str:
    """Return the SHA-256 of a secret, which is all that is stored of it."""
    return sha256(secret.encode()).hexdigest()


class KeyTable:
    """The active keys of a store. `find` reads memory only."""

    def __init__(self, store: Store, clock: Clock = utc_now) -> None:
        """Read the keys. Raises Unavailable."""
        self.store, self.clock = store, clock
        self._keys: dict[str, ApiKey] = {}
        self._read_at = -READ_AGAIN_S  # seconds of the event loop's clock
        self._reading = asyncio.Lock()
        self.generation = 0  # changes at every read, and so at least once a second
        self._outage = OutageLog(log, "keys unreadable")
        self.read()

    def __bool__(self) -> bool:
        """Return whether there is any active key."""
        return bool(self._keys)

    def find(self, credential: str) -> ApiKey | None:
        """Return the active key that a credential is."""
        id, _, secret = credential.removeprefix(PREFIX).partition("_")
        key = self._keys.get(id)
        if key is None or not hmac.compare_digest(digest_secret(secret), key.digest):
            return None
        return key if self.is_current(key) else None

    def is_current(self, key: ApiKey) -> bool:
        """Return whether a key has not expired."""
        return key.expires_at is None or self.clock() < key.expires_at

    def get(self, id: str) -> ApiKey | None:
        """Return the active key with this id."""
        key = self._keys.get(id)
        return key if key is not None and self.is_current(key) else None

    def list_active(self) -> list[ApiKey]:
        """Return the keys that have not expired."""
        return [key for key in self._keys.values() if self.is_current(key)]

    def read(self) -> None:
        """Raise Unavailable; the keys read before stay in force then."""
        self.generation += 1
        rows = self.store.read(api_keys.load_keys)
        at = self.clock()
        self._keys = {row.id: parse_key(row) for row in rows if row.is_active(at)}
        self.generation += 1

    async def read_again(self) -> None:
        """Return once the table was read after this call. An outage is logged, and changes nothing.

        Reads are a moment apart, and callers that come meanwhile share one, so unknown keys cost the store little.
        """
        loop = asyncio.get_running_loop()
        called_at = loop.time()
        async with self._reading:
            if self._read_at > called_at:
                return
            await asyncio.sleep(self._read_at + READ_AGAIN_S - loop.time())
            self._read_at = loop.time()
            try:
                await asyncio.to_thread(self.read)
                self._outage.record_success()
            except Unavailable as error:
                self._outage.record_failure(error)

    async def watch(self) -> None:
        """Read the table once a second until cancelled."""
        while True:
            await asyncio.sleep(READ_EVERY_S)
            await self.read_again()
