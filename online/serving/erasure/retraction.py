"""The step `retract`: un-teach what a user said, and blank their words, their name and their features.

    their feedback                    --retracted, then blanked
    feedback about their questions    --retracted; words of others stay
    their questions, conversations    --blanked, deleted

The learner is woken under way, so that it un-learns the first retractions while further ones are written.
"""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection

from online.serving.erasure.progress import CHUNK, FEEDBACK, ModelErasure, in_chunks
from online.serving.erasure.statement import describe_state
from online.serving.feedback.retraction import record_retractions
from online.store.callers.held_feedback import delete_held_of
from online.store.callers.quotas import delete_quotas_of
from online.store.callers.standing import delete_standing_of
from online.store.erasure import jobs, words

WAKE_EVERY = 6  # chunks; together somewhat more than a learner reads at once


def retract(erasure: ModelErasure) -> bool:
    name, user = erasure.name, erasure.user
    note_state_before(erasure)
    retract_own(erasure)
    after = ""
    while asked := erasure.read(partial(words.list_predictions, model=name, user=user, after=after, count=CHUNK)):
        retract_about(erasure, asked)
        after = asked[-1]
    erasure.commit(partial(delete_conversations, erasure), durable=False)
    erasure.save("unlearn")
    return True


def retract_own(erasure: ModelErasure) -> None:
    ids = erasure.read(partial(words.list_feedback, model=erasure.name, user=erasure.user))
    for number, chunk in enumerate(in_chunks(ids), 1):
        erasure.commit(partial(retract_and_blank, erasure, chunk, "feedback"), durable=False)
        if number % WAKE_EVERY == 0:
            erasure.on_retracted()
    erasure.on_retracted()


def note_state_before(erasure: ModelErasure) -> None:
    live = erasure.snapshots.live()
    if "before" not in erasure.counts and live is not None:
        erasure.save(erasure.model.step, before=describe_state(erasure.snapshots.manifest(live.version)))


def retract_about(erasure: ModelErasure, predictions: Sequence[str]) -> None:
    """Retract the feedback about questions of the user, and blank the questions.

    Feedback without a name is blanked too: nobody else is known to have given it.
    """
    about = erasure.read(partial(words.list_feedback_about, model=erasure.name, predictions=predictions))
    nameless = [id for id, user in about if user is None]
    foreign = [id for id, user in about if user is not None]
    for ids in in_chunks(nameless):
        erasure.commit(partial(retract_and_blank, erasure, ids, "feedback_without_user"), durable=False)
    for ids in in_chunks(foreign):
        erasure.commit(partial(retract_feedback, erasure, ids, "feedback_of_others"), durable=False)

    def blank(connection: Connection) -> None:
        words.blank_predictions(connection, erasure.name, predictions)
        erasure.add_counts(connection, predictions=len(predictions))

    erasure.commit(blank, durable=False)


def retract_and_blank(erasure: ModelErasure, ids: Sequence[str], count: str, connection: Connection) -> None:
    retract_feedback(erasure, ids, count, connection)
    words.blank_feedback(connection, erasure.name, ids)


def retract_feedback(erasure: ModelErasure, ids: Sequence[str], count: str, connection: Connection) -> None:
    """count: the name under which the feedback counts."""
    last = record_retractions(connection, erasure.spec, ids)
    new = jobs.add_items(connection, *erasure.key, FEEDBACK, ids)
    erasure.add_counts(connection, **{count: new, **({"offset": [last]} if last else {})})


def delete_conversations(erasure: ModelErasure, connection: Connection) -> None:
    name, user = erasure.name, erasure.user
    count, held = words.delete_conversations(connection, name, user), delete_held_of(connection, name, user)
    delete_quotas_of(connection, user)
    delete_standing_of(connection, name, user)
    erasure.add_counts(connection, conversations=count, **({"held": held} if held else {}))
