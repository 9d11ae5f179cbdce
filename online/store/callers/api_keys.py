"""API keys: who may call the service, and what for. Only a digest of each key's secret is stored."""

import json
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, insert, select, update
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of
from online.store.database.values import now


class ApiKeyRow(SQLModel, table=True):
    """One key. digest: SHA-256 of its secret, hex. scopes, models: JSON lists; models is None for all models."""

    __tablename__ = "api_key"

    id: str = Field(primary_key=True)
    name: str = Field(index=True)
    digest: str
    scopes: str
    models: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None

    @property
    def scope_list(self) -> list[str]:
        """The scopes of the key."""
        scopes: list[str] = json.loads(self.scopes)
        return scopes

    @property
    def model_list(self) -> list[str] | None:
        """The models that the key may use; None for all."""
        models: list[str] | None = None if self.models is None else json.loads(self.models)
        return models

    def is_active(self, at: datetime) -> bool:
        """Return whether it is neither revoked nor expired."""
        is_expired = self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= at
        return self.revoked_at is None and not is_expired


API_KEYS = table_of(ApiKeyRow)


def add_key(connection: Connection, row: ApiKeyRow) -> None:
    """Store a new key."""
    connection.execute(insert(API_KEYS).values(**row.model_dump()))


def load_keys(connection: Connection) -> list[ApiKeyRow]:
    """Return all keys, the oldest first; revoked and expired ones too."""
    found = connection.execute(select(API_KEYS).order_by(API_KEYS.c.created_at, API_KEYS.c.id))
    return [ApiKeyRow(**row) for row in found.mappings()]


def revoke_keys(connection: Connection, ids: Sequence[str]) -> None:
    """Revoke keys, unless they are revoked."""
    unrevoked = (API_KEYS.c.id.in_(ids), API_KEYS.c.revoked_at.is_(None))
    connection.execute(update(API_KEYS).where(*unrevoked).values(revoked_at=now()))


def expire_key(connection: Connection, id: str, at: str) -> None:
    """Let a key expire at an instant."""
    connection.execute(update(API_KEYS).where(API_KEYS.c.id == id).values(expires_at=at))
