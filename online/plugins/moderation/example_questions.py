"""Recognises feedback that contradicts the example questions of curators.

    a thumb down on a reply, for a question that is an example of it or almost one   --> contradicts
    another reply is right, for exactly a question that is an example of other ones  --> contradicts

A single thumb decides what the same question gets from then on. For the questions that curators have answered themselves,
a stranger's would decide against them. Whoever lets the chat page suggest a question makes it an example of its reply, too.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from online.models.ranker.exemplars import ALIKE, normalise_rows, stack_features
from online.schemas.events import is_positive
from online.serving.processes.store_messages import NewFeedback
from online.store.predictions import PredictionRow
from online.store.repertoire.replies import find_replies_with_example, load_example_features


def contradicts_examples(
    connection: Connection, model: str, item: NewFeedback, prediction: PredictionRow | None, subject: str | None
) -> bool:
    """subject: the reply that the item is about. Always False for models without a repertoire, which have no examples."""
    if prediction is None or subject is None or not prediction.features:
        return False
    if item.reward is not None and not is_positive(item.reward):
        return is_near(prediction.features, load_example_features(connection, model, subject))
    owners = find_replies_with_example(connection, model, prediction.features)
    return bool(owners) and subject not in owners


def is_near(question: bytes, examples: Sequence[bytes]) -> bool:
    """Return whether a thumb for a question counts for one of the examples as well."""
    if not examples:
        return False
    cosines = normalise_rows(stack_features(examples)) @ normalise_rows(stack_features([question]))[0]
    return bool(cosines.max() >= ALIKE)
