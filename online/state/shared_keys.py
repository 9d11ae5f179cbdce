"""The signing keys of replicas: services on machines of their own that share one store on Postgres.

    with the setting `secret`     the store holds the keys, encrypted --copied within a second--> keys.json of each state folder
    without it                    keys.json has the keys; the store holds their ids, and a folder with other keys is refused

All processes sign and verify with keys.json (signing_keys.py), so that no signature waits for the store. A store on SQLite belongs
to one state folder and holds nothing of the keys.
"""

import json
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes

from sqlalchemy import Connection

from online.errors import SetupError
from online.settings import Settings, reveal
from online.state.signing_keys import (
    REFRESH_S,
    KeyChange,
    KeyTable,
    RotatedKey,
    Rotation,
    SigningKeys,
    add_missing,
    dump_table,
    parse_table,
    rotate_signing_keys,
)
from online.store import Store
from online.store.database.engine import is_sqlite, without_password
from online.store.database.meta import load_signing_keys, lock_signing_keys, save_signing_keys

FORMAT = 1
SPREAD_S = 3 * REFRESH_S  # after which every replica verifies with a key that was added to the store
SCRYPT = {"length": 32, "n": 2**15, "r": 8, "p": 1}  # 32 MiB and about a tenth of a second
PURPOSE_OF_SEAL = b"online/signing-keys"  # authenticated with the keys
SHARE = "`online keys share-signing`"
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The row of the store about the signing keys.

    signing: the id of the key that signs, by purpose. revision: a digest of all ids. sealed: all keys, encrypted; None without
    a secret.
    """

    signing: Mapping[str, str]
    revision: str
    sealed: Mapping[str, str] | None = None

    def knows(self, table: KeyTable) -> bool:
        """Return whether keys verify what is signed now. Those of an earlier or later release may lack a purpose."""
        common = self.signing.keys() & table.keys()
        return bool(common) and all(self.signing[each] in {key.id for key in table[each]} for each in common)


class SharedKeys:
    """The signing keys of a state folder, in agreement with those of other replicas. Slow: never on the event loop.

    keys: what all processes of the folder sign and verify with. is_copied: whether they are a copy of those in the store.
    """

    def __init__(self, store: Store, state: Path, secret: str | None, clock: Clock = time.time) -> None:
        """Read or create the keys.

        Raises SetupError for another secret, or for a secret where a replica without one has other keys; Unavailable; and what
        SigningKeys raises.
        """
        self.store, self.secret, self.clock = store, secret or "", clock
        self.is_copied = store.is_shared and secret is not None
        self.keys = SigningKeys(state, clock, self._take_over if self.is_copied else None)

    def refresh(self) -> None:
        """Copy the keys from the store if they have changed there.

        Raises Unavailable, and SetupError for keys that another replica has put there without this secret.
        """
        if not self.is_copied:
            return
        stored = self.store.read(load_stored)
        if stored is not None and stored.sealed is None:
            raise SetupError(
                f"another replica serves the store {self._url} without ONLINE_SECRET; set it there as well"
            )
        if stored is None or stored.revision != compute_revision(self.keys.table):
            self.keys.change(self._take_over)

    def check(self) -> None:
        """Raise SetupError if the store is shared, and is served with other signing keys. If it knows none, note these."""
        if self.store.is_shared and not self.is_copied:
            self.store.submit(self._note).result()

    def rotate(
        self, purposes: Sequence[str] = (), grace_days: float | None = None, spread_s: float = SPREAD_S
    ) -> list[RotatedKey]:
        """Rotate the keys on every replica; see `SigningKeys.rotate`.

        The new keys begin to sign after `spread_s`, when every replica verifies with them; at once where grace_days is 0,
        because the old ones may be stolen. Without a secret they are those of this state folder only.
        Raises SetupError, Unavailable, or ValueError for an unknown purpose.
        """
        rotation = Rotation(purposes, grace_days, self.clock())
        self.check()
        if self.is_copied:
            if grace_days != 0:
                self._change(rotation.begin)
                threading.Event().wait(spread_s)
            self._change(rotation.finish)
        else:
            self.keys.change(rotation.finish)
            self.check()
        return rotation.rotated

    @property
    def _url(self) -> str:
        return without_password(self.store.url)

    def _take_over(self, local: KeyTable) -> KeyTable:
        """Return the keys of the store. If it has none, it takes those of this state folder, or new ones."""
        stored = self.store.read(load_stored)
        if stored is not None and stored.sealed is not None:
            table = self._unseal(stored.sealed)
            if add_missing(table, self.clock()) == table:
                return table
        return self.store.submit(partial(self._put, local)).result()

    def _put(self, local: KeyTable, connection: Connection) -> KeyTable:
        """Put the keys of this state folder into the store, unless another replica was first. The transaction is the caller's."""
        lock_signing_keys(connection)
        stored = load_stored(connection)
        if stored is not None and stored.sealed is not None:
            local = self._unseal(stored.sealed)
        elif stored is not None and not stored.knows(local):
            raise SetupError(
                f"the store {self._url} is served with the signing keys of another state folder, which are not in the store yet; start "
                "that service with the same ONLINE_SECRET first, or copy its keys.json into this state folder; if it is gone, let the "
                f"keys of this folder take their place: {SHARE}"
            )
        table = add_missing(local, self.clock())
        save_stored(connection, table, self.secret)
        return table

    def _change(self, change: KeyChange) -> None:
        """Change the keys in the store, then in the state folder."""

        def change_stored(connection: Connection) -> KeyTable:
            lock_signing_keys(connection)
            stored = load_stored(connection)
            assert stored is not None and stored.sealed is not None, "the keys were put there when these were opened"
            table = change(self._unseal(stored.sealed))
            save_stored(connection, table, self.secret)
            return table

        self.keys.change(lambda _: self.store.submit(change_stored).result())

    def _unseal(self, sealed: Mapping[str, str]) -> KeyTable:
        try:
            return unseal(sealed, self.secret)
        except ValueError:
            raise SetupError(
                f"ONLINE_SECRET is not the secret with which the signing keys in the store {self._url} are encrypted; set it to the "
                f"same text as on the other replicas; if that is lost, let the keys of this state folder take their place: {SHARE}"
            ) from None

    def _note(self, connection: Connection) -> None:
        """Note which keys sign, for the store of a service without a secret. The transaction is the caller's."""
        lock_signing_keys(connection)
        stored, table = load_stored(connection), self.keys.table
        if stored is not None and stored.sealed is not None:
            raise SetupError(
                f"the signing keys of the store {self._url} are encrypted: set ONLINE_SECRET to the same text as on the other replicas; "
                f"to serve it without a secret, on this machine only, stop the others and use {SHARE}"
            )
        if stored is not None and not stored.knows(table):
            raise SetupError(
                f"another replica with other signing keys serves the store {self._url}: neither would accept what the other has signed; "
                "set ONLINE_SECRET to the same random text on each replica, and start the other one first; or copy its keys.json into "
                f"this state folder; if it is gone, let the keys of this folder take their place: {SHARE}"
            )
        if stored is None or stored.revision != compute_revision(table):
            save_stored(connection, table, "")


def rotate_shared_keys(
    settings: Settings, purposes: Sequence[str] = (), grace_days: float | None = None
) -> list[RotatedKey]:
    """Rotate the signing keys of a state folder, and those in a store that replicas share. Raises as `SharedKeys.rotate`."""
    if is_sqlite(settings.store_url):
        return rotate_signing_keys(settings.state, purposes, grace_days)
    check_folder(settings.state)
    with closing(Store(settings.store_url)) as store:
        return SharedKeys(store, settings.state, reveal(settings.secret)).rotate(purposes, grace_days)


def share_signing_keys(settings: Settings) -> None:
    """Let the keys of a state folder be those of the store, in the place of any others.

    With a secret they are encrypted with it; without one, only this state folder can serve the store. Raises SetupError, for a
    store that replicas cannot share as well, and Unavailable.
    """
    if is_sqlite(settings.store_url):
        raise SetupError("a store on SQLite is not shared: its signing keys are those of the state folder in any case")
    check_folder(settings.state)
    with closing(Store(settings.store_url)) as store:
        table, secret = SigningKeys(settings.state).table, reveal(settings.secret) or ""

        def save(connection: Connection) -> None:
            lock_signing_keys(connection)
            save_stored(connection, table, secret)

        store.submit(save).result()


def check_folder(state: Path) -> None:
    """Raise SetupError for a state folder that does not exist."""
    if not state.is_dir():
        raise SetupError(f"there is no state folder {state}; name the right one with --state")


def compute_revision(table: KeyTable) -> str:
    """Return a digest of the ids of all keys, in order: it changes whenever a key is added or another one signs."""
    return sha256(json.dumps({each: [key.id for key in table[each]] for each in sorted(table)}).encode()).hexdigest()


def load_stored(connection: Connection) -> StoredKeys | None:
    """Return what the store holds of the signing keys; None for nothing. Raises SetupError for another format."""
    text = load_signing_keys(connection)
    if text is None:
        return None
    document = json.loads(text)
    if document.pop("format") != FORMAT:
        raise SetupError("another version of online has written the signing keys in the store; install that version")
    return StoredKeys(**document)


def save_stored(connection: Connection, table: KeyTable, secret: str) -> None:
    """Save the keys, encrypted; without a secret, only their ids."""
    signing = {purpose: keys[-1].id for purpose, keys in table.items()}
    stored = StoredKeys(signing, compute_revision(table), seal(table, secret) if secret else None)
    save_signing_keys(connection, json.dumps({"format": FORMAT, **asdict(stored)}))


def seal(table: KeyTable, secret: str) -> dict[str, str]:
    """Encrypt keys with AES-256-GCM, and a key that scrypt derives from the secret and a new salt."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce = token_bytes(16), token_bytes(12)
    data = AESGCM(derive_key(secret, salt)).encrypt(nonce, dump_table(table), PURPOSE_OF_SEAL)
    return {name: b64encode(part).decode() for name, part in (("salt", salt), ("nonce", nonce), ("data", data))}


def unseal(sealed: Mapping[str, str], secret: str) -> KeyTable:
    """Return the keys. Raises ValueError for another secret, or if anything was changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce, data = (b64decode(sealed[name]) for name in ("salt", "nonce", "data"))
    try:
        return parse_table(json.loads(AESGCM(derive_key(secret, salt)).decrypt(nonce, data, PURPOSE_OF_SEAL)))
    except InvalidTag:
        raise ValueError("another secret, or other data") from None


def derive_key(secret: str, salt: bytes) -> bytes:
    """Return 32 bytes."""
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt, **SCRYPT).derive(secret.encode())
