"""Columns and conditions of indexes in the short form in which migrations write them."""

from typing import Any

import sqlalchemy as sa

from online.store.database.values import PartialIndex

TEXT, INTEGER, FLOAT, BYTES, FLAG = sa.String(), sa.Integer(), sa.Float(), sa.LargeBinary(), sa.Boolean()


def columns(type: sa.types.TypeEngine[Any], *names: str, nullable: bool = False) -> list["sa.Column[Any]"]:
    """Return columns of one type."""
    return [sa.Column(name, type, nullable=nullable) for name in names]


def keys(type: sa.types.TypeEngine[Any], *names: str) -> list["sa.Column[Any]"]:
    """Return columns of the primary key, whose values the database does not number by itself."""
    return [sa.Column(name, type, primary_key=True, autoincrement=False) for name in names]


def where(condition: str) -> PartialIndex:
    """Return the arguments of an index that holds only the rows that meet a condition."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
