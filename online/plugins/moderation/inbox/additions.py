"""Replies and example questions that callers without the scope `curate` have added: shown to curators, with an undo.

    add, import --record_addition--> a decision `add` of its caller --undo--> new replies are retired, examples retracted

An import is one decision. What a curator adds is not recorded here: curators change the repertoire itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from online.plugins.moderation.inbox.tables import InboxDecisionRow, InboxOutcomeRow, Role, add_decision
from online.schemas.events import Event
from online.schemas.feedback import Receipt
from online.serving.feedback.events import change_reply
from online.serving.feedback.retraction import check_not_expired
from online.store import now
from online.store.events import append_events, build_retraction, derive_event_id, find_offsets, load_events
from online.store.repertoire.replies import find_reply, load_reply_texts

MAX_SHOWN = 5  # replies and example questions of one addition


@dataclass(frozen=True, slots=True)
class Addition:
    """The addition of a caller. replies: the texts of the first ones as they are now. questions: the first examples."""

    replies: Sequence[str]
    questions: Sequence[str]
    reply_count: int
    example_count: int


def record_addition(
    connection: Connection, model: str, by: str, id: str, replies: Sequence[str], examples: Sequence[str]
) -> None:
    """Let curators see what a caller has added, in the transaction that adds it. by: the id of the caller. id: of the decision.

    replies: ids of new replies. examples: ids of the events of example questions.
    """
    at = now()
    row = InboxDecisionRow(model=model, id=id, action="add", request="", decided_by=by, decided_at=at)
    roles: dict[str, Role] = {**dict.fromkeys(replies, "added_reply"), **dict.fromkeys(examples, "added_example")}
    outcomes = [
        InboxOutcomeRow(model=model, decision=id, item=item, role=role, created_at=at) for item, role in roles.items()
    ]
    add_decision(connection, row, outcomes)


def load_addition(connection: Connection, model: str, outcomes: Sequence[InboxOutcomeRow]) -> Addition:
    """outcomes: those of one decision `add`."""
    replies = [each.item for each in outcomes if each.role == "added_reply"]
    examples = [each.item for each in outcomes if each.role == "added_example"]
    events = [event for _, event in find_events(connection, model, examples[:MAX_SHOWN])]
    named = list(dict.fromkeys([*replies[:MAX_SHOWN], *(event.label for event in events if event.label)]))
    texts = load_reply_texts(connection, model, named)
    questions = [event.text for event in events if event.text]
    return Addition([texts[id] for id in named if id in texts][:MAX_SHOWN], questions, len(replies), len(examples))


def find_events(connection: Connection, model: str, ids: Sequence[str]) -> list[tuple[int, Event]]:
    """(offset, event) of the ids that are in the log, in its order."""
    return sorted(load_events(connection, model, [*find_offsets(connection, model, ids).values()]).items())


def undo_addition(connection: Connection, model: str, outcomes: Sequence[InboxOutcomeRow], key: str) -> list[Receipt]:
    """Retire the new replies, and retract the examples of other replies. key: for the ids of the events.

    What a curator has retired or deleted since then stays so. Raises PreconditionFailed for an example that has expired.
    """
    replies = [each.item for each in outcomes if each.role == "added_reply"]
    examples = [each.item for each in outcomes if each.role == "added_example"]
    retired = retire_replies(connection, model, replies, key)
    return [*retired, *retract_examples(connection, model, examples, {*replies})]


def retire_replies(connection: Connection, model: str, replies: Sequence[str], key: str) -> list[Receipt]:
    """Retire the replies that are active."""
    rows = [find_reply(connection, model, id) for id in replies]
    active = [row.id for row in rows if row is not None and row.active]
    events = [change_reply(connection, model, id, False, derive_event_id(key, f"retire:{id}")) for id in active]
    offsets = append_events(connection, model, events, source="operator")
    return [Receipt(id=id, offset=offset, status="accepted") for id, offset in zip(active, offsets, strict=True)]


def retract_examples(connection: Connection, model: str, examples: Sequence[str], retired: set[str]) -> list[Receipt]:
    """Retract the examples; those of a reply in `retired` stay, and count again once the reply is restored."""
    found = [
        (offset, event, build_retraction(event, offset))
        for offset, event in find_events(connection, model, examples)
        if event.kind == "label" and event.label not in retired
    ]
    gone = find_offsets(connection, model, [retraction.id for *_, retraction in found])
    unretracted = [each for each in found if each[2].id not in gone]
    for offset, event, _ in unretracted[:1]:  # the oldest one
        check_not_expired(connection, model, offset, f"an example question of the reply {event.label!r}")
    offsets = append_events(connection, model, [retraction for *_, retraction in unretracted], source="repertoire")
    return [
        Receipt(id=event.id, offset=offset, status="retracted")
        for (_, event, _), offset in zip(unretracted, offsets, strict=True)
    ]
