"""Decides whether a model updates its solution between examples or solves it again.

Updated solutions differ in their last digits, depending on when they were solved from the sums. Whatever compares
or hashes answers to the last bit (a server with the learner, a model that contains others) has them solved; a
replay that answers before every event has them updated, at O(D^2) instead of O(D^3) an event.
"""

from online.models.contract import Model
from online.models.retirement import unwrap


def answer_by_updates(model: Model) -> None:
    """Let a model answer from updated solutions, if it has any; not those that it contains."""
    own = unwrap(model)
    if hasattr(own, "answers_by_updates"):
        own.answers_by_updates = True
