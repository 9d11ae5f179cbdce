"""The step `retract`: un-teach what a user said, and blank their words, their name and their features.

    their feedback                    --retracted, then blanked
    feedback about their questions    --retracted; words of others stay
    their questions, conversations    --blanked, deleted
    what plugins keep of them         --deleted; again in the step `void`, for what came meanwhile

The learner is woken as soon as all of their feedback is retracted, and un-learns it while the rest is done.
"""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection

from online.installed import collect
from online.serving.erasure.progress import FEEDBACK, ModelErasure, in_chunks
from online.serving.erasure.statement import describe_state
from online.serving.feedback.retraction import record_retractions
from online.store.callers.held_feedback import delete_held_of, list_held_ids_of
from online.store.callers.quotas import delete_quotas_of
from online.store.erasure import jobs, log, words

RETRACTED, NOTED, BLANKED = 50, 1_000, 200  # rows of one transaction, for which others wait some milliseconds


def retract(erasure: ModelErasure) -> bool:
    """Retract the user's feedback, a chunk at a time; return whether the step is done."""
    name, user = erasure.name, erasure.user
    note_state_before(erasure)
    own = erasure.read(partial(words.list_feedback, model=name, user=user))
    retract_feedback(erasure, own, "feedback")
    erasure.on_retracted()
    blank_feedback(erasure, own)
    after = ""
    while asked := erasure.read(partial(words.list_predictions, model=name, user=user, after=after, count=BLANKED)):
        retract_about(erasure, asked)
        after = asked[-1]
    erasure.commit(partial(delete_conversations, erasure), durable=False)
    last = erasure.read(partial(find_last_retraction, erasure))
    erasure.save("unlearn", **({"offset": [last]} if last else {}))
    return True


def note_state_before(erasure: ModelErasure) -> None:
    """Note the state of the model before the erasure, for the statement."""
    live = erasure.snapshots.folder.live()
    if "before" not in erasure.counts and live is not None:
        erasure.note(before=describe_state(erasure.snapshots.folder.manifest(live.version)))


def retract_about(erasure: ModelErasure, predictions: Sequence[str]) -> None:
    """Retract the feedback about questions of the user, and blank the questions.

    Feedback without a name is blanked too: nobody else is known to have given it.
    """
    about = erasure.read(partial(words.list_feedback_about, model=erasure.name, predictions=predictions))
    nameless = [id for id, user in about if user is None]
    foreign = [id for id, user in about if user is not None]
    retract_feedback(erasure, nameless, "feedback_without_user")
    blank_feedback(erasure, nameless)
    retract_feedback(erasure, foreign, "feedback_of_others")

    def blank(connection: Connection) -> None:
        words.blank_predictions(connection, erasure.name, predictions)
        erasure.add_counts(connection, predictions=len(predictions))

    erasure.commit(blank, durable=False)


def retract_feedback(erasure: ModelErasure, ids: Sequence[str], count: str) -> None:
    """Retract feedback, and note it for the steps that follow. count: the name under which it counts."""
    for chunk in in_chunks(ids, NOTED):
        erasure.commit(partial(note_feedback, erasure, chunk, count), durable=False)
    for chunk in in_chunks(ids, RETRACTED):
        erasure.commit(partial(record_retractions, spec=erasure.spec, ids=chunk), durable=False)


def note_feedback(erasure: ModelErasure, ids: Sequence[str], count: str, connection: Connection) -> None:
    """Note feedback whose events are made void later."""
    erasure.add_counts(connection, **{count: jobs.add_items(connection, *erasure.key, FEEDBACK, ids)})


def blank_feedback(erasure: ModelErasure, ids: Sequence[str]) -> None:
    """Blank the words of feedback."""
    for chunk in in_chunks(ids, BLANKED):
        erasure.commit(partial(words.blank_feedback, model=erasure.name, ids=chunk), durable=False)


def find_last_retraction(erasure: ModelErasure, connection: Connection) -> int:
    """Note the last retraction, which a version must have learned."""
    return words.find_last_retraction(connection, erasure.name, jobs.select_items(*erasure.key, FEEDBACK))


def delete_conversations(erasure: ModelErasure, connection: Connection) -> None:
    """Delete the user's conversations, held feedback and use of quotas, and what plugins keep of them."""
    name, user = erasure.name, erasure.user
    collect("forget_records", connection, name, list_held_ids_of(connection, name, user))
    count, held = words.delete_conversations(connection, name, user), delete_held_of(connection, name, user)
    delete_quotas_of(connection, user)
    erasure.add_counts(connection, conversations=count, **({"held": held} if held else {}))
    erasure.add_counts(connection, **log.forget_in_plugins(connection, log.ErasedNames(name, (), (user,))))
