"""Make the events of erased feedback void: the place in the log stays, nothing else of them does.

    feedback --its events that are retracted, and those retractions--> kind `void`, no features, no words, no label

An event that is not retracted, a reply that others use, stays as it is. So does the retraction of somebody else's
reply, without which that reply would come back.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, String, column, delete, select, update, values

from online.installed import collect
from online.schemas.events import Event
from online.store.classes import CLASSES
from online.store.deletion.event_expiry import load_expiry
from online.store.drift_alarms import DRIFT_ALARMS
from online.store.events import EVENTS, append_events, derive_event_id, void_at
from online.store.log_rows import TALLIES
from online.store.refusals import REFUSALS, REJECTED_SNAPSHOTS
from online.store.usage.ratings import forget_rated_answers, update_ratings


@dataclass(frozen=True, slots=True)
class ErasedNames:
    """The names that plugins forget of an erased user, once for the user and once for the labels that only the user has given.

    labels: of classes and replies that no event names any more. words: that no table may have: the labels, or the user's name.
    """

    model: str
    labels: Sequence[str]
    words: Sequence[str]

    @property
    def user(self) -> str | None:
        """The user's name; None where the names are labels."""
        return None if self.labels else next(iter(self.words), None)


def void_events(connection: Connection, model: str, feedback: Sequence[str]) -> tuple[int, list[str]]:
    """Make the retracted events of feedback void; return how many, and the labels that they named."""
    update_ratings(connection, model, feedback)  # the retractions lose their place in the log before they are counted
    rows = find_retracted_events(connection, model, feedback)
    offsets = list(rows)
    retractions = select(EVENTS.c.offset).where(EVENTS.c.model == model, EVENTS.c.target_offset.in_(offsets))
    every = [*offsets, *connection.scalars(retractions)]
    if not every:
        return 0, []
    void_at(connection, model, every)
    connection.execute(delete(REFUSALS).where(REFUSALS.c.model == model, REFUSALS.c.offset.in_(every)))
    return len(every), sorted({label for label in rows.values() if label})


def find_retracted_events(connection: Connection, model: str, feedback: Sequence[str]) -> dict[int, str]:
    """Return offset -> label, of the events that feedback brought along and a retraction has taken back."""
    found: dict[int, str] = {}
    for of_feedback in (EVENTS.c.id, EVENTS.c.feedback_id):  # with an `or`, SQLite would read every event
        found |= load_retracted(connection, model, of_feedback.in_(feedback))
    return dict(sorted(found.items()))


def load_retracted(connection: Connection, model: str, condition: ColumnElement[bool]) -> dict[int, str]:
    """Return offset -> label, of the events that meet a condition and that a retraction has taken back."""
    retraction = EVENTS.alias()
    is_retracted = select(retraction.c.offset).where(
        retraction.c.model == EVENTS.c.model, retraction.c.target_offset == EVENTS.c.offset
    )
    chosen = (EVENTS.c.model == model, condition, EVENTS.c.target_offset.is_(None), is_retracted.exists())
    return dict(connection.execute(select(EVENTS.c.offset, EVENTS.c.label).where(*chosen)).all())


def list_kept_replies(connection: Connection, model: str, feedback: Sequence[str]) -> list[str]:
    """Return the ids of replies that feedback brought and that others use: they stay."""
    brought = (EVENTS.c.feedback_id.in_(feedback), EVENTS.c.kind == "reply")
    return list(connection.scalars(select(EVENTS.c.label).where(EVENTS.c.model == model, *brought)))


def rename_feedback_of_events(connection: Connection, model: str, id: str, new: str) -> None:
    """Let the events that stay belong to the new id of their feedback."""
    of_feedback = (EVENTS.c.model == model, EVENTS.c.feedback_id == id)
    connection.execute(update(EVENTS).where(*of_feedback).values(feedback_id=new))


def find_unnamed_labels(connection: Connection, model: str, labels: Collection[str]) -> list[str]:
    """Return those of the labels that no event names any more, nor one whose contents have expired."""
    if not labels:
        return []
    asked = values(column("label", String), name="asked").data([(label,) for label in labels]).cte()
    # label by label: with a list of them, SQLite would read every event of the model
    is_named = select(EVENTS.c.offset).where(EVENTS.c.model == model, EVENTS.c.label == asked.c.label).exists()
    unnamed = set(connection.scalars(select(asked.c.label).where(~is_named)))
    expired = select(CLASSES.c.id).where(
        CLASSES.c.model == model,
        CLASSES.c.id.in_(unnamed),
        CLASSES.c.offset <= load_expiry(connection, model).removed_until,
    )
    return sorted(unnamed - set(connection.scalars(expired)))


def forget_labels(connection: Connection, model: str, labels: Sequence[str], words: Sequence[str]) -> dict[str, object]:
    """Delete what the tables that are derived from the log say about labels, and what plugins keep of them.

    words: the labels, or the user's name. Returns the counts of the plugins for the statement.
    """
    connection.execute(delete(CLASSES).where(CLASSES.c.model == model, CLASSES.c.id.in_(labels)))
    connection.execute(delete(DRIFT_ALARMS).where(DRIFT_ALARMS.c.model == model, DRIFT_ALARMS.c.label.in_(labels)))
    reasons = select(REJECTED_SNAPSHOTS.c.since, REJECTED_SNAPSHOTS.c.reason).where(REJECTED_SNAPSHOTS.c.model == model)
    naming = [since for since, reason in connection.execute(reasons) if any(word in reason for word in words)]
    same = (REJECTED_SNAPSHOTS.c.model == model, REJECTED_SNAPSHOTS.c.since.in_(naming))
    connection.execute(delete(REJECTED_SNAPSHOTS).where(*same))
    forget_rated_answers(connection, model, labels)
    return forget_in_plugins(connection, ErasedNames(model, labels, words))


def forget_in_plugins(connection: Connection, erased: ErasedNames) -> dict[str, object]:
    """Delete what the tables of plugins keep of an erased user; return their counts for the statement, by name."""
    return {name: count for counts in collect("forget_user", connection, erased) for name, count in counts.items()}


def forget_counts(connection: Connection, model: str) -> None:
    """Delete the counts of the learning curve, which name every class: they are counted again from the log."""
    connection.execute(delete(TALLIES).where(TALLIES.c.model == model))


def ask_to_relearn(connection: Connection, model: str, erasure: str) -> int:
    """Append the event that lets learners learn the log again; return its offset. A repetition changes nothing."""
    event = Event(derive_event_id(erasure, "relearn"), "relearn")
    return append_events(connection, model, [event], source="operator")[0]
