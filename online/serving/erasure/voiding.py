"""The steps `void` and `copy`: nothing of the user is left in the log, and in its copy in Redis.

their events                          --> void: no features, no words, no class
classes that only they named          --> left out of the answers that others got
the copy in Redis                     --> deleted, and written again
"""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection

from online.serving.erasure.files import NameSearch
from online.serving.erasure.progress import FEEDBACK, LABEL, REMOVED, ModelErasure, in_chunks
from online.serving.erasure.statement import digest_user
from online.store.deletion.event_expiry import load_expiry
from online.store.deletion.expired_events import remove_feedback_events
from online.store.erasure import jobs, log, words

CHUNK = 25  # feedback, labels or predictions of one transaction, for which others wait some milliseconds
PAGE = 1_000  # predictions read at once in the search for removed classes


def void(erasure: ModelErasure) -> bool:
    """Make the user's events void, a chunk at a time; return whether the step is done."""
    while ids := erasure.load_items(FEEDBACK, CHUNK):
        erasure.commit(partial(void_feedback, erasure, ids), durable=False)
    erasure.erasable.forget_counts()
    erasure.commit(partial(forget_counts, erasure), durable=False)
    while labels := erasure.load_items(LABEL, CHUNK):
        erasure.commit(partial(find_removed_labels, erasure, labels), durable=False)
    erasure.erasable.forget_counts()
    remove_labels(erasure)
    expired = erasure.read(partial(load_expiry, model=erasure.name)).learned_count
    voided = erasure.load_counts().get("events")
    erasure.save("copy" if voided else "set_aside", **({"expired_events": expired} if expired else {}))
    return True


def void_feedback(erasure: ModelErasure, ids: Sequence[str], connection: Connection) -> None:
    """Make events void, and note labels that only they named."""
    name = erasure.name
    count, labels = log.void_events(connection, name, ids)
    expired_count, expired_labels = remove_feedback_events(connection, name, ids)
    count, labels = count + expired_count, [*labels, *expired_labels]
    kept = log.list_kept_replies(connection, name, ids)
    pattern = NameSearch(erasure.user).pattern
    for id in ids:
        if pattern.search(id.encode()):
            new = f"erased-{digest_user(erasure.context.workspace.keys, f'{name}/{id}')[:32]}"
            words.rename_feedback(connection, name, id, new)
            log.rename_feedback_of_events(connection, name, id, new)
    jobs.add_items(connection, *erasure.key, LABEL, labels)
    jobs.drop_items(connection, *erasure.key, FEEDBACK, ids)
    erasure.add_counts(connection, events=count, replies_kept=kept)


def forget_counts(erasure: ModelErasure, connection: Connection) -> None:
    """Forget counts that name the labels or the user."""
    counts = log.forget_labels(connection, erasure.name, [], [erasure.user])
    log.forget_counts(connection, erasure.name)
    erasure.add_counts(connection, labels=0, **counts)


def find_removed_labels(erasure: ModelErasure, labels: Sequence[str], connection: Connection) -> None:
    """Note labels that no event names any more."""
    unnamed = log.find_unnamed_labels(connection, erasure.name, labels)
    counts = log.forget_labels(connection, erasure.name, unnamed, unnamed)
    jobs.add_items(connection, *erasure.key, REMOVED, unnamed)
    jobs.drop_items(connection, *erasure.key, LABEL, labels)
    erasure.add_counts(connection, labels=len(unnamed), **counts)


def remove_labels(erasure: ModelErasure) -> None:
    """Leave classes that nobody names any more out of the answers that others got."""
    labels = set(erasure.load_items(REMOVED))
    page = partial(words.load_answers_with, model=erasure.name, labels=labels, count=PAGE)
    after: str | None = "" if labels else None
    while after is not None:
        found, last = erasure.read(partial(page, after=after))
        for answers in in_chunks(found, CHUNK):
            erasure.commit(partial(words.remove_labels, answers=answers, labels=labels), durable=False)
        after = last or None


def rewrite_copy(erasure: ModelErasure) -> bool:
    """Have the copy in Redis written again; return whether that is done."""
    copy, before = erasure.erasable.copy, erasure.context.copies_before
    if copy is None:
        erasure.save("relearn")
        return True
    if erasure.key not in before:
        before[erasure.key] = copy.rebuilds
        copy.request_rebuild()
        return True
    if copy.rebuilds == before[erasure.key]:
        return False
    erasure.save("relearn", redis_copy="deleted and written again")
    return True
