"""Find and blank the words, the name, the features and the answers of one user.

feedback of the user, feedback about their questions   --> blanked; the log's part: see `log`
their predictions                                      --> no words, no features, no answer
conversations --> deleted
"""

import json
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Select, case, delete, func, select, update

from online.installed import collect
from online.store.conversations.conversations import CONVERSATIONS
from online.store.conversations.turns import TURNS
from online.store.database.values import ERASED, NO_TEXT
from online.store.feedback import FEEDBACK
from online.store.predictions import PREDICTIONS

NOTHING = {"user": None, "input": NO_TEXT, "features": b"", "choice": None, "candidates": "[]"}  # of a prediction


def list_feedback(connection: Connection, model: str, user: str) -> list[str]:
    """Return the ids of the feedback that a user gave, in order."""
    query = select(FEEDBACK.c.offset, FEEDBACK.c.id).where(FEEDBACK.c.model == model, FEEDBACK.c.user == user)
    return [id for _, id in sorted(map(tuple, connection.execute(query)))]  # sorted here: SQLite would read every row


def list_predictions(connection: Connection, model: str, user: str, after: str, count: int) -> list[str]:
    """Return the ids of predictions that a user asked for, after an id, in order. It reads all predictions."""
    of_user = (PREDICTIONS.c.model == model, PREDICTIONS.c.user == user, PREDICTIONS.c.id > after)
    return list(connection.scalars(select(PREDICTIONS.c.id).where(*of_user).order_by(PREDICTIONS.c.id).limit(count)))


def list_predictions_of_digests(
    connection: Connection, until: str, is_erased: Callable[[str, str], bool]
) -> dict[str, list[str]]:
    """Return model -> the ids of predictions until an instant that users asked for who are erased. It reads all predictions.

    is_erased: of a user and an instant.
    """
    columns = (PREDICTIONS.c.model, PREDICTIONS.c.id, PREDICTIONS.c.user, PREDICTIONS.c.created_at)
    asked = select(*columns).where(PREDICTIONS.c.user.is_not(None), PREDICTIONS.c.created_at <= until)
    found = dict[str, list[str]]()
    for model, id, user, created_at in connection.execute(asked):
        if is_erased(user, created_at):
            found.setdefault(model, []).append(id)
    return found


def list_feedback_about(connection: Connection, model: str, predictions: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return (id, user) of the feedback about predictions that still has words, no matter who gave it.

    Its features are those of the questions.
    """
    about = (FEEDBACK.c.model == model, FEEDBACK.c.prediction_id.in_(predictions), FEEDBACK.c.content != ERASED)
    query = select(FEEDBACK.c.offset, FEEDBACK.c.id, FEEDBACK.c.user).where(*about)
    return [(id, user) for _, id, user in sorted(map(tuple, connection.execute(query)))]


def find_last_retraction(connection: Connection, model: str, ids: Select[str]) -> int:
    """Return the offset of the last retraction of feedback; 0 if there is none. ids: a query."""
    retracted = (FEEDBACK.c.model == model, FEEDBACK.c.id.in_(ids))
    return connection.scalar(select(func.max(FEEDBACK.c.retracted_offset)).where(*retracted)) or 0


def blank_feedback(connection: Connection, model: str, ids: Sequence[str]) -> None:
    """Blank feedback of the user. Its row stays, so that it cannot be given once more."""
    no_input = case((FEEDBACK.c.input.is_not(None), NO_TEXT), else_=None)
    collect("forget_records", connection, model, ids)
    values = {
        "user": None,
        "input": no_input,
        "content": ERASED,
        "refusal": None,
        "caller": None,
        "about": None,
        "answer": None,
        "answered_until": None,
    }
    own = (FEEDBACK.c.model == model, FEEDBACK.c.id.in_(ids))
    connection.execute(update(FEEDBACK).where(*own).values(**values))
    about = select(FEEDBACK.c.prediction_id).where(*own).scalar_subquery()
    deleted = (PREDICTIONS.c.id.in_(about), PREDICTIONS.c.input == NO_TEXT)  # of conversations that they deleted
    connection.execute(update(PREDICTIONS).where(*deleted).values(**NOTHING))


def rename_feedback(connection: Connection, model: str, id: str, new: str) -> None:
    """Replace an id that names the user, and the slot that does so."""
    by_id = (FEEDBACK.c.model == model, FEEDBACK.c.id == id)
    connection.execute(update(FEEDBACK).where(*by_id).values(id=new, slot=None, slot_turn=None))
    collect("forget_records", connection, model, [id])


def blank_predictions(connection: Connection, model: str, ids: Sequence[str]) -> None:
    """Blank predictions of the user and what belongs to them. Their rows stay: a caller may still hold their ids."""
    collect("forget_records", connection, model, ids)
    turns = (TURNS.c.model == model, TURNS.c.prediction_id.in_(ids))
    connection.execute(update(TURNS).where(*turns).values(conversation=None, parent=None, exclude="[]"))
    connection.execute(update(PREDICTIONS).where(PREDICTIONS.c.id.in_(ids)).values(**NOTHING))


def delete_conversations(connection: Connection, model: str, user: str) -> int:
    """Delete a user's conversations; return how many."""
    owned = (CONVERSATIONS.c.model == model) & (CONVERSATIONS.c.user == user)
    ids = select(CONVERSATIONS.c.id).where(owned).scalar_subquery()
    turns = (TURNS.c.model == model) & TURNS.c.conversation.in_(ids)
    connection.execute(update(TURNS).where(turns).values(conversation=None, parent=None))
    return int(connection.execute(delete(CONVERSATIONS).where(owned)).rowcount)


class RecordedAnswer(NamedTuple):
    """The answer of a prediction. candidates: JSON, as in its row."""

    id: str
    choice: str | None
    candidates: str


def load_answers_with(
    connection: Connection, model: str, labels: Collection[str], after: str, count: int
) -> tuple[list[RecordedAnswer], str]:
    """Return, of the next `count` predictions after an id, those that list one of these labels, and the last id.

    The id is "" after the last page.
    """
    page = select(PREDICTIONS.c.id, PREDICTIONS.c.choice, PREDICTIONS.c.candidates).where(
        PREDICTIONS.c.model == model, PREDICTIONS.c.id > after
    )
    answers = [RecordedAnswer(*row) for row in connection.execute(page.order_by(PREDICTIONS.c.id).limit(count))]
    found = [answer for answer in answers if names_label(answer, labels)]
    return found, (answers[-1].id if len(answers) == count else "")


def names_label(answer: RecordedAnswer, labels: Collection[str]) -> bool:
    """Return whether a prediction names one of the labels."""
    return answer.choice in labels or any(id in labels for id, _ in json.loads(answer.candidates))


def remove_labels(connection: Connection, answers: Sequence[RecordedAnswer], labels: Collection[str]) -> None:
    """Leave labels out of recorded answers. An answer that was one of them becomes an abstention."""
    for answer in answers:
        left = [[id, score] for id, score in json.loads(answer.candidates) if id not in labels]
        values = {"candidates": json.dumps(left), "choice": None if answer.choice in labels else answer.choice}
        connection.execute(update(PREDICTIONS).where(PREDICTIONS.c.id == answer.id).values(**values))
