"""Erase the name and the words of one user."""

from dataclasses import replace

from sqlalchemy import Connection, case, delete, select, update

from online.schemas.events import Event
from online.store.callers.standing import STANDING
from online.store.conversations import CONVERSATIONS, TURNS
from online.store.database.values import ERASED, NO_TEXT
from online.store.events import EVENTS, build_retraction
from online.store.external_messages import delete_messages
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS


def erase_user(connection: Connection, model: str, user: str) -> tuple[int, int]:
    """Blank the questions and the feedback texts of one user; return how many feedback items and predictions.

    The user's conversations, and the links of their predictions to messages of other pages, are deleted.
    """
    of_user = (FEEDBACK.c.model == model) & (FEEDBACK.c.user == user)
    ids = list(connection.scalars(select(FEEDBACK.c.id).where(of_user)))
    for id in ids:
        erase_reply_text(connection, model, id)
    no_input = case((FEEDBACK.c.input.is_not(None), NO_TEXT), else_=None)
    connection.execute(update(FEEDBACK).where(of_user).values(user=None, input=no_input, content=ERASED))
    delete_conversations(connection, model, user)
    connection.execute(delete(STANDING).where(STANDING.c.model == model, STANDING.c.holder == user))
    predicted = (PREDICTIONS.c.model == model) & (PREDICTIONS.c.user == user)
    delete_messages(connection, select(PREDICTIONS.c.id).where(predicted))
    found = connection.execute(update(PREDICTIONS).where(predicted).values(user=None, input=NO_TEXT))
    return len(ids), found.rowcount


def delete_conversations(connection: Connection, model: str, user: str) -> None:
    owned = (CONVERSATIONS.c.model == model) & (CONVERSATIONS.c.user == user)
    ids = select(CONVERSATIONS.c.id).where(owned).scalar_subquery()
    turns = (TURNS.c.model == model) & TURNS.c.conversation.in_(ids)
    connection.execute(update(TURNS).where(turns).values(conversation=None))
    connection.execute(delete(CONVERSATIONS).where(owned))


def erase_reply_text(connection: Connection, model: str, id: str) -> None:
    """Blank the reply that a feedback brought, in its event and in the retraction of that event.

    A reply that is not retracted is still given to others, and keeps its text.
    """
    brought = select(EVENTS.c.offset).where(
        EVENTS.c.model == model, EVENTS.c.feedback_id == id, EVENTS.c.kind == "reply"
    )
    retractions = select(EVENTS).where(EVENTS.c.model == model, EVENTS.c.target_offset.in_(brought))
    for row in connection.execute(retractions).mappings().all():
        target = Event.parse(row["body"], b"").target
        assert target is not None, "a retraction has its target"
        blank = replace(target.event, text="")
        for offset, event in ((target.offset, blank), (row["offset"], build_retraction(blank, target.offset))):
            at = (EVENTS.c.model == model, EVENTS.c.offset == offset)
            connection.execute(update(EVENTS).where(*at).values(body=event.body()))
