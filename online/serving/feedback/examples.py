"""Lists the examples that taught a classifier's classes, and lets a user take a whole class back."""

import json
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection

from online.schemas.classes import ExamplesAnswer, ForgottenClass, RejectedExample, TaughtClass, TaughtExample
from online.schemas.feedback import FeedbackStatus, Receipt
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.held import withdraw
from online.serving.feedback.retraction import find_closed_until, record_retractions
from online.store.callers.held_feedback import Decision, HeldFeedbackRow, list_held_of_user
from online.store.classes import (
    ExampleRow,
    list_examples_of_class,
    list_retired_classes,
    load_newest_examples,
)
from online.store.quarantine import load_open

MAX_EXAMPLES = 1_000  # of one answer
MAX_INPUT_CHARS = 4_000_000  # of all inputs of one answer
RETRACTED = 50  # of one transaction, for which others wait some milliseconds


def load_examples(connection: Connection, model: str, user: str | None, of_each: int) -> ExamplesAnswer:
    """Return the newest examples of each class by a user, with those that are held or were rejected; user None: by every user, without held and rejected ones."""
    rows = load_newest_examples(connection, model, user, of_each, MAX_EXAMPLES)
    set_aside = [] if user is None else list_held_of_user(connection, model, user)
    held, rejected = labels_of(set_aside, None), labels_of(set_aside, "rejected")[:of_each]
    retired, quarantine = list_retired_classes(connection, model), load_open(connection, model)
    since = None if quarantine is None else quarantine.since
    examples, counts, waiting = (
        defaultdict[str, list[TaughtExample]](list),
        dict[str, int](),
        defaultdict[str, int](int),
    )
    for label, item in held:
        waiting[label] += 1
        if waiting[label] <= of_each:
            examples[label].append(describe_held(item))
    for row in within_limit(rows):
        counts[row.label] = row.of_class
        examples[row.label].append(describe_example(row, since))
    classes = [
        TaughtClass(
            label=label,
            active=label not in retired,
            count=counts.get(label, 0),
            held=waiting[label],
            examples=sorted(given, key=lambda each: each.given_at, reverse=True)[:of_each],
        )
        for label, given in examples.items()
    ]
    classes.sort(key=lambda each: each.examples[0].given_at, reverse=True)
    return ExamplesAnswer(
        classes=classes, count=sum(counts.values()), rejected=[describe_rejected(*each) for each in rejected]
    )


def within_limit(rows: Sequence[ExampleRow]) -> Sequence[ExampleRow]:
    """Return the first rows, whose inputs are together not too long to send."""
    chars = 0
    for place, row in enumerate(rows):
        chars += len(row.input or "")
        if chars > MAX_INPUT_CHARS:
            return rows[:place]
    return rows


def list_held_labels(connection: Connection, model: str, user: str) -> list[tuple[str, HeldFeedbackRow]]:
    """Return (class, item) of the labels of a user that wait for a decision, the newest first."""
    return labels_of(list_held_of_user(connection, model, user), None)


def labels_of(rows: Sequence[HeldFeedbackRow], decision: Decision | None) -> list[tuple[str, HeldFeedbackRow]]:
    """Return (class, item) of the labels among rows, oldest first, with this decision; the newest first."""
    labels = [(json.loads(row.content).get("label"), row) for row in reversed(rows) if row.decision == decision]
    return [(label, row) for label, row in labels if label is not None]


def describe_example(row: ExampleRow, quarantined_since: int | None) -> TaughtExample:
    """Return an example as the API shows it. quarantined_since: the offset from which it is not learned."""
    is_quarantined = quarantined_since is not None and row.offset >= quarantined_since
    return describe(
        row.id,
        row.prediction_id,
        row.input,
        "quarantined" if is_quarantined else row.status,
        row.offset,
        row.created_at,
    )


def describe_held(row: HeldFeedbackRow) -> TaughtExample:
    """Return held feedback as an example that waits."""
    about = json.loads(row.content).get("prediction_id")
    return describe(row.id, about, row.question, "held", None, row.created_at)


def describe_rejected(label: str, row: HeldFeedbackRow) -> RejectedExample:
    """Return rejected feedback as an example."""
    return RejectedExample(
        id=row.id, label=label, input=json.loads(row.question), reason=row.note, given_at=row.created_at
    )


def describe(
    id: str, prediction_id: str | None, input: str | None, status: FeedbackStatus, offset: int | None, given_at: str
) -> TaughtExample:
    """Return an example as the API shows it."""
    value = None if input is None else json.loads(input)
    return TaughtExample(
        id=id, prediction_id=prediction_id, input=value, status=status, offset=offset, given_at=given_at
    )


async def forget_class(feedback: Feedback, label: str, user: str, by: str) -> ForgottenClass:
    """Take back all examples of a class that a user taught, in many small transactions. by: the id of the caller.

    What has expired stays: it cannot be un-learned any more.
    """
    count, last, after = 0, 0, 0

    def retract_some(connection: Connection) -> tuple[int, int, int]:
        """Returns how many, the offset of the last retraction, and of the last example."""
        closed_until = find_closed_until(connection, feedback.name)
        found = list_examples_of_class(connection, feedback.name, user, label, max(after, closed_until), RETRACTED)
        offset = record_retractions(connection, feedback.spec, [id for _, id in found])
        return len(found), offset, found[-1][0] if found else 0

    def withdraw_all(connection: Connection) -> int:
        held = [row for named, row in list_held_labels(connection, feedback.name, user) if named == label]
        for row in held:
            withdraw(connection, row, by)
        return len(held)

    count += await feedback.transactions.commit(withdraw_all)
    while True:
        retracted, offset, after = await feedback.transactions.commit(retract_some)
        if not retracted:
            break
        count, last = count + retracted, offset
    if last:
        feedback.note_acknowledged([Receipt(id=label, offset=last, status="retracted")])
    return ForgottenClass(label=label, count=count, offset=last)
