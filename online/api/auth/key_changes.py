"""Create, list, rotate and revoke API keys: what `online keys` and the routes under /v1/keys do."""

import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from online.api.auth.keys import PREFIX, digest_secret, utc_now
from online.errors import BadInput, NotFound
from online.schemas.access.callers import SCOPES
from online.schemas.access.sessions import KeyInfo
from online.store import Store, now
from online.store.callers import api_keys
from online.store.callers.api_keys import ApiKeyRow

MAX_NAME_CHARS = 64


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just created. secret: the whole key; it is shown once and never again."""

    row: ApiKeyRow
    secret: str


def create_key(
    store: Store,
    name: str,
    scopes: Collection[str],
    models: Collection[str] | None = None,
    expires_at: datetime | None = None,
) -> NewKey:
    """Create a key and store its digest. Raises BadInput for an unknown scope or a name in use."""
    check_scopes(scopes)
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise BadInput(f"{name[:80]!r} is no name of a key: use 1 to {MAX_NAME_CHARS} printable characters")
    if any(row.name == name for row in active_keys(store)):
        raise BadInput(f"there is an active key named {name!r}; choose another name, or rotate that key")
    return add_key(store, name, scopes, models, expires_at)


def add_key(
    store: Store,
    name: str,
    scopes: Collection[str],
    models: Collection[str] | None,
    expires_at: datetime | None,
) -> NewKey:
    """Store a new key and return it with its secret, which is not stored. Raises BadInput for an unknown scope."""
    id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    row = ApiKeyRow(
        id=id,
        name=name,
        digest=digest_secret(secret),
        scopes=json.dumps([scope for scope in SCOPES if scope in set(scopes)]),
        models=None if models is None else json.dumps(sorted(models)),
        created_at=now(),
        expires_at=None if expires_at is None else expires_at.isoformat(),
        revoked_at=None,
    )
    store.submit(lambda connection: api_keys.add_key(connection, row)).result()
    return NewKey(row, f"{PREFIX}{id}_{secret}")


def check_scopes(scopes: Collection[str]) -> None:
    """Raise BadInput for a scope that does not exist."""
    if unknown := [scope for scope in scopes if scope not in SCOPES]:
        raise BadInput(f"unknown scope {unknown[0][:40]!r}; the scopes are {', '.join(SCOPES)}")
    if not scopes:
        raise BadInput(f"a key needs at least one scope; the scopes are {', '.join(SCOPES)}")


def active_keys(store: Store, at: datetime | None = None) -> list[ApiKeyRow]:
    """Return the keys that are neither revoked nor expired, by default now."""
    rows: list[ApiKeyRow] = store.read(api_keys.load_keys)
    return [row for row in rows if row.is_active(at or utc_now())]


def find_active(store: Store, name: str) -> ApiKeyRow:
    """Return the newest active key with this name or id. Raises NotFound."""
    found = [row for row in active_keys(store) if name in (row.name, row.id)]
    if not found:
        known = ", ".join(sorted({row.name for row in active_keys(store)})) or "none"
        raise NotFound(f"there is no active key {name[:80]!r}; the active keys are: {known}")
    return found[-1]


def revoke_key(store: Store, name: str) -> list[ApiKeyRow]:
    """Revoke every active key with this name or id. Raises NotFound."""
    find_active(store, name)
    rows = [row for row in active_keys(store) if name in (row.name, row.id)]
    ids = [row.id for row in rows]
    store.submit(lambda connection: api_keys.revoke_keys(connection, ids)).result()
    return rows


def rotate_key(store: Store, name: str, old_expires_at: datetime) -> NewKey:
    """Create a new key with the name, scopes and models of an active one, which expires then. Raises NotFound."""
    row = find_active(store, name)
    expires_at = None if row.expires_at is None else datetime.fromisoformat(row.expires_at)
    new = add_key(store, row.name, row.scope_list, row.model_list, expires_at)
    last = old_expires_at if expires_at is None else min(old_expires_at, expires_at)
    store.submit(lambda connection: api_keys.expire_key(connection, row.id, last.isoformat())).result()
    return new


def describe_key(row: ApiKeyRow) -> KeyInfo:
    """Return what may be shown of a key: everything except its digest."""
    fields = row.model_dump(exclude={"digest", "scopes", "models"})
    return KeyInfo(**fields, prefix=f"{PREFIX}{row.id}_", scopes=row.scope_list, models=row.model_list)
