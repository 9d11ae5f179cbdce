"""The rows that the replicas of a model agree on: its publications, and which version answers.

    learner --propose--> publication: accepted once per version (claims.py) ----> serving: live, labels, frozen, ...
    operator, guard --ControlChange--> event in the log  ────────────────────────────^   in the same transaction

Only stores that several machines may share have these rows. Elsewhere the folder of the snapshots is all there is. Nothing
elects a leader: each replica that has applied the log until an offset has the same bytes, so it does not matter who is first.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, Index, delete, func, insert, select, text, update
from sqlmodel import Field, SQLModel

from online.schemas.control import ControlChange
from online.schemas.events import Event
from online.snapshots.agreed import Publication, ServingState, follow_change
from online.store.database.tables import table_of
from online.store.events import EVENTS, append_events, notify_replicas


class PublicationRow(SQLModel, table=True):
    """One accepted version; the fields are those of `Publication`. metrics: JSON."""

    __tablename__ = "publication"
    __table_args__ = (Index("publication_by_place", "model", "recipe", "relearned", "learned_until"),)

    model: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    parent: int | None
    learned_until: int
    taught_until: int
    relearned: int
    state_sha256: str
    weights_sha256: str
    feature_epoch: str
    metrics: str
    log_digest: str
    recipe: str
    determinism_domain: str
    created_at: str
    replica: str


class ServingRow(SQLModel, table=True):
    """The state of serving of one model: a `ServingState` as JSON, and its revision."""

    __tablename__ = "serving"

    model: str = Field(primary_key=True)
    revision: int
    state: str


PUBLICATIONS, SERVING = table_of(PublicationRow), table_of(ServingRow)
COLUMNS = [column for column in PUBLICATIONS.c if column.name != "model"]


class StoredPublications:
    """The publications of one model in the store."""

    def __init__(self, connection: Connection, model: str) -> None:
        self.connection, self.of_model = connection, PUBLICATIONS.c.model == model

    def find(self, version: int) -> Publication | None:
        """Return a publication; None if there is none of this version."""
        return self._one(select(*COLUMNS).where(self.of_model, PUBLICATIONS.c.version == version))

    def newest(self, recipe: str) -> Publication | None:
        """Return the one of a recipe that is last in the order of `Publication.place`."""
        of_recipe = select(*COLUMNS).where(self.of_model, PUBLICATIONS.c.recipe == recipe)
        by_place = (PUBLICATIONS.c.relearned.desc(), PUBLICATIONS.c.learned_until.desc(), PUBLICATIONS.c.version.desc())
        return self._one(of_recipe.order_by(*by_place).limit(1))

    def at(self, recipe: str, place: tuple[int, int]) -> Publication | None:
        """Return the first publication of a recipe at a place; None if there is none."""
        same = (PUBLICATIONS.c.relearned == place[0], PUBLICATIONS.c.learned_until == place[1])
        of_recipe = select(*COLUMNS).where(self.of_model, PUBLICATIONS.c.recipe == recipe, *same)
        return self._one(of_recipe.order_by(PUBLICATIONS.c.version).limit(1))

    def last_version(self) -> int:
        """Return the highest version of any recipe; 0 if there is none."""
        return self.connection.scalar(select(func.max(PUBLICATIONS.c.version)).where(self.of_model)) or 0

    def list(self, count: int, before: int | None = None) -> list[Publication]:
        """Return the newest publications before a version, newest first."""
        older = () if before is None else (PUBLICATIONS.c.version < before,)
        query = select(*COLUMNS).where(self.of_model, *older).order_by(PUBLICATIONS.c.version.desc()).limit(count)
        return [parse_row(dict(row)) for row in self.connection.execute(query).mappings()]

    def _one(self, query: Any) -> Publication | None:
        row = self.connection.execute(query).mappings().one_or_none()
        return None if row is None else parse_row(dict(row))


def parse_row(row: Mapping[str, Any]) -> Publication:
    """Return the publication in a row."""
    return Publication(**{**row, "metrics": json.loads(row["metrics"])})


def describe_row(model: str, publication: Publication) -> dict[str, object]:
    """Return the row of a publication."""
    return {"model": model, **asdict(publication), "metrics": json.dumps(publication.metrics)}


# reads


def load_serving(connection: Connection, model: str) -> ServingState | None:
    """Return what answers for a model; None where nothing was published or changed yet."""
    found = connection.scalar(select(SERVING.c.state).where(SERVING.c.model == model))
    return None if found is None else ServingState.parse(found)


def load_revisions(connection: Connection) -> dict[str, int]:
    """Return model -> the revision of what answers."""
    return dict(connection.execute(select(SERVING.c.model, SERVING.c.revision)).all())


def has_learned_version(connection: Connection, model: str) -> bool:
    """Return whether a version answers that has learned something."""
    state = load_serving(connection, model)
    live = None if state is None else StoredPublications(connection, model).find(state.live)
    return live is not None and live.learned_until > 0


def load_newest(connection: Connection, model: str, recipe: str) -> tuple[Publication | None, ServingState | None]:
    """Return the newest publication of a recipe, and what answers."""
    return StoredPublications(connection, model).newest(recipe), load_serving(connection, model)


def list_changes(connection: Connection, model: str, after: int) -> list[tuple[int, ControlChange]]:
    """Return (offset, change) of the control events after an offset."""
    query = select(EVENTS.c.offset, EVENTS.c.body).where(
        EVENTS.c.model == model, EVENTS.c.kind == "control", EVENTS.c.offset > after
    )
    rows = connection.execute(query.order_by(EVENTS.c.offset)).all()
    return [(offset, ControlChange.parse(Event.parse(body, b"", offset).control)) for offset, body in rows]


# writes


def lock_serving(connection: Connection, model: str) -> ServingState:
    """Return what answers for a model, and keep other transactions from changing it. On SQLite the transaction is the lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": serving_lock(model)})
    return load_serving(connection, model) or ServingState()


def serving_lock(model: str) -> str:
    """Return the name of the lock that those hold who change what answers for a model."""
    return f"online/serving/{model}"


def announce_recipe(connection: Connection, model: str, recipe: str) -> ServingState:
    """Let versions of a recipe go live from now on; those of another one, which went live before, do not any more."""
    state = lock_serving(connection, model)
    return state if state.recipe == recipe else save_serving(connection, model, state, replace(state, recipe=recipe))


def adopt_folder(
    connection: Connection, model: str, known: Sequence[Publication], state: ServingState
) -> ServingState | None:
    """Take over what a folder has published before there were rows of it; None if there are rows already."""
    lock_serving(connection, model)
    if load_serving(connection, model) is not None:
        return None
    for each in known:
        connection.execute(insert(PUBLICATIONS), [describe_row(model, each)])
    return save_serving(connection, model, ServingState(), state)


def record_change(connection: Connection, model: str, change: ControlChange, shared: bool) -> tuple[int, ServingState]:
    """Append a control change to the log; return its offset, and what answers then.

    shared: whether the store says what answers; otherwise the caller applies the change to its folder. Raises NotFound or
    Conflict for a change that is not possible, and then nothing was changed.
    """
    event = Event(f"control#{uuid.uuid4().hex}", "control", control=change.dump())
    offset = append_events(connection, model, [event], new=True, source="operator")[0]
    if not shared:
        return offset, ServingState()
    state = lock_serving(connection, model)
    after = follow_change(state, change, StoredPublications(connection, model))
    return offset, save_serving(connection, model, state, after)


def save_serving(connection: Connection, model: str, before: ServingState, after: ServingState) -> ServingState:
    """Save what answers, with the next revision; return it."""
    after = replace(after, revision=before.revision + 1)
    values = {"revision": after.revision, "state": after.dump()}
    found = connection.execute(update(SERVING).where(SERVING.c.model == model).values(**values))
    if not found.rowcount:
        connection.execute(insert(SERVING), [{"model": model, **values}])
    notify_replicas(connection, model)
    return after


def forget_publications(connection: Connection, model: str, before: int, state: ServingState) -> None:
    """Forget publications before a version, except those that the state names."""
    named = {state.live, state.previous, *(each.version for each in state.labels.values())}
    old = (PUBLICATIONS.c.model == model, PUBLICATIONS.c.version < before, PUBLICATIONS.c.version.not_in(named))
    connection.execute(delete(PUBLICATIONS).where(*old))
