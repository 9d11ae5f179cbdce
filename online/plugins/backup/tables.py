"""The rows of all tables: read at one moment of the store, and written into an empty one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select, text, update

from online.schemas.events import Event
from online.snapshots.agreed import ServingState
from online.store.classes import CLASSES
from online.store.database.meta import META
from online.store.database.schema import list_groups
from online.store.database.values import copy_rows, insert_rows
from online.store.deletion.event_expiry import load_expiry
from online.store.events import EVENTS
from online.store.leases import LEASES
from online.store.publications import SERVING, StoredPublications, list_changes, load_serving
from online.store.repertoire.examples import EXAMPLES, add_examples
from online.store.repertoire.replies import REPLIES, set_reply_active, update_reply_text
from online.store.replicas import REPLICAS
from online.store.usage.counts import USAGE_COUNTS
from online.store.usage.ratings import counted_key

OF_PROCESSES = {REPLICAS.name, LEASES.name}  # of services that run: another store has others
ROWS_AT_ONCE = 2_000
RATED = ("rated", "good", "bad", "corrected", "helped")
COMPUTED = ("tally", "rating", "answer_rating")  # tables that are counted again from the log
Row = dict[str, Any]


def list_tables() -> list[Table]:
    """Return the tables that a backup holds. Predictions come first: what belongs to one that is left out follows them."""
    tables = [table for group in list_groups() for table in group.tables if table.name not in OF_PROCESSES]
    return sorted(tables, key=lambda table: table.name != "prediction")


def read_revisions() -> dict[str, str]:
    """Return the newest revision of each group of tables."""
    return {group.name: group.head for group in list_groups()}


def read_pages(connection: Connection, table: Table) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a table in pages, in the order of its key."""
    query = select(table).order_by(*table.primary_key.columns)
    result = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query)
    for page in result.partitions():
        yield [tuple(row) for row in page]


def count_rows(connection: Connection, tables: Sequence[Table]) -> int:
    """Return the number of rows of all tables. On Postgres it is an estimate, for the progress only."""
    if connection.dialect.name == "postgresql":
        names = [table.name for table in tables]
        query = text("SELECT coalesce(sum(greatest(reltuples, 0)), 0) FROM pg_class WHERE relname = ANY(:names)")
        return int(connection.scalar(query, {"names": names}) or 0)
    return sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables)


def read_heads(connection: Connection) -> dict[str, int]:
    """Return model -> the last offset of its log."""
    return dict(connection.execute(select(EVENTS.c.model, func.max(EVENTS.c.offset)).group_by(EVENTS.c.model)).all())


def find_filled(connection: Connection) -> str | None:
    """Return a table that has rows, other than what every new store has; None if the store is empty."""
    for table in list_tables():
        if table.name != META.name and connection.execute(select(table).limit(1)).first() is not None:
            return table.name
    return None


def empty_meta(connection: Connection) -> None:
    """Delete the values of a new store, among them its name: it gets those of the backup."""
    connection.execute(delete(META))


def write_page(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that have every column."""
    if rows:
        write = copy_rows if connection.dialect.name == "postgresql" else insert_rows
        write(connection, table, rows)


class Cut:
    """Leaves out what follows an offset of a model's log. until: by model. newest: the newest version that is kept, by model."""

    def __init__(self, until: Mapping[str, int], newest: Mapping[str, int]) -> None:
        self.until, self.newest = until, newest
        self._predictions, self._decisions = set[str](), set[str]()

    def keep(self, table: str, row: Row) -> Row | None:
        """Return a row as it is to be written; None for one that belongs to what follows."""
        if table == META.name:
            return None if row["key"] in {counted_key(model) for model in self.until} else row
        until = self.until.get(row.get("model") or "")
        if until is None:
            return row
        return self._cut(table, row, until)

    def _cut(self, table: str, row: Row, until: int) -> Row | None:
        if table in COMPUTED or (row.get("prediction_id") in self._predictions and table != "feedback"):
            return None
        match table:
            case "prediction" if row["learned_until"] > until:
                self._predictions.add(row["id"])
                return None
            case "publication" if row["learned_until"] > until:
                return None
            case "usage_count":
                return {**row, **dict.fromkeys(RATED, 0)}
            case "inbox_decision" if row["last_offset"] is not None and row["last_offset"] > until:
                self._decisions.add(row["id"])
                return None
            case "inbox_outcome" if row["decision"] in self._decisions:
                return None
            case "refused_candidates" if row["until"] > until:
                return None
            case "feedback":
                return self._cut_feedback(row, until)
        return None if "offset" in row and row["offset"] > until else row

    def _cut_feedback(self, row: Row, until: int) -> Row | None:
        """Return feedback as it was at the offset: not retracted later, and learned by no version that is left out."""
        if row["offset"] > until:
            return None
        if row["retracted_offset"] is not None and row["retracted_offset"] > until:
            row = {**row, "retracted_offset": None, "status": "accepted", "version": None, "learned_at": None}
        if row["version"] is not None and row["version"] > self.newest.get(row["model"], 0):
            status = "accepted" if row["status"] == "learned" else row["status"]
            row = {**row, "version": None, "learned_at": None, "status": status}
        return row


def finish_cut(connection: Connection, model: str, until: int) -> None:
    """Bring what was changed in place to what it was at an offset: replies, classes, example questions, and what answers."""
    rebuild_repertoire(connection, model)
    cut_serving(connection, model, until)
    connection.execute(
        delete(USAGE_COUNTS).where(
            USAGE_COUNTS.c.model == model, USAGE_COUNTS.c.asked == 0, USAGE_COUNTS.c.answered == 0
        )
    )


def rebuild_repertoire(connection: Connection, model: str) -> None:
    """Compute the texts and states of replies and classes, and the example questions, from the events that are kept."""
    expired = load_expiry(connection, model).removed_until  # of events before, nothing can be computed
    connection.execute(delete(EXAMPLES).where(EXAMPLES.c.model == model, EXAMPLES.c.offset > expired))
    columns = (EVENTS.c.offset, EVENTS.c.body, EVENTS.c.source)
    query = select(*columns).where(EVENTS.c.model == model, EVENTS.c.kind != "void").order_by(EVENTS.c.offset)
    texts, active, examples = dict[str, str](), dict[str, tuple[int, bool]](), dict[int, tuple[int, str, str]]()
    for offset, body, source in connection.execute(query):
        event = Event.parse(body, b"", offset)
        if event.kind == "reply" and event.text:
            texts[event.label] = event.text
        if event.kind in ("retire", "restore"):
            active[event.label] = offset, event.kind == "restore"
        if source == "repertoire" and event.kind == "label":
            examples[offset] = (offset, event.label, event.text)
        if event.target is not None:
            examples.pop(event.target.offset, None)
    for id, reply_text in texts.items():
        update_reply_text(connection, model, id, reply_text)
    for id in connection.scalars(select(REPLIES.c.id).where(REPLIES.c.model == model)).all():
        if id in active or not expired:
            set_reply_active(connection, model, id, active.get(id, (0, True))[1])
    if examples:
        add_examples(connection, model, [*examples.values()])
    rows = [{"model": model, "id": id, "offset": at, "active": is_active} for id, (at, is_active) in active.items()]
    replies = set(connection.scalars(select(REPLIES.c.id).where(REPLIES.c.model == model)))
    known = set(connection.scalars(select(CLASSES.c.id).where(CLASSES.c.model == model)))
    write_page(connection, CLASSES, [row for row in rows if row["id"] not in replies | known])


def cut_serving(connection: Connection, model: str, until: int) -> None:
    """Let what answers name no publication that was left out, and no freeze that came later."""
    state, publications = load_serving(connection, model), StoredPublications(connection, model)
    if state is None:
        return
    newest = publications.newest(state.recipe)
    if newest is None:
        connection.execute(delete(SERVING).where(SERVING.c.model == model))
        return
    is_kept = publications.find(state.live) is not None
    cut = ServingState(
        live=state.live if is_kept else newest.version,
        previous=state.previous if publications.find(state.previous) is not None else 0,
        held_until=state.held_until if state.held_until <= until and is_kept else 0,
        frozen=state.frozen,
        labels={name: each for name, each in state.labels.items() if publications.find(each.version) is not None},
        rolled_back=state.rolled_back if state.rolled_back is not None and state.rolled_back.since <= until else None,
        recipe=state.recipe,
        first_version=state.first_version,
        revision=state.revision + 1,
    )
    at = {change.at for _, change in list_changes(connection, model, 0)}
    if cut.frozen is not None and cut.frozen.since not in at:
        cut = replace(cut, frozen=None)
    values = {"revision": cut.revision, "state": cut.dump()}
    connection.execute(update(SERVING).where(SERVING.c.model == model).values(**values))
