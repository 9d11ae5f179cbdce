"""Errors that the code of an operator or of a library raised while it answered or learned, so that a replay can say so.

An answer that fails is an abstention, and an example that fails is refused. Neither is part of a state.
"""

import traceback
from dataclasses import dataclass
from pathlib import Path

from online.models.contract import Model
from online.models.retirement import unwrap

OURS = f"{Path(__file__).parents[1]}/"
MOST_FRAMES = 6
CANNOT_LEARN = "the estimator of this"  # begins the reason for which an example is refused where other code raised


@dataclass(slots=True)
class EstimatorFailures:
    """tried: how often it was asked. answers: how often it raised then. first: the first traceback, without our own frames.

    Examples at which it raised are counted by their refusals, because each is tried more than once.
    """

    tried: int = 0
    answers: int = 0
    first: str = ""

    @property
    def is_total(self) -> bool:
        """Whether it has never answered."""
        return 0 < self.tried == self.answers

    def note_answer(self, error: Exception) -> None:
        """Note an error while answering."""
        self.answers += 1
        self.first = self.first or describe_error(error)

    def note_example(self, error: Exception) -> None:
        """Note an error while learning."""
        self.first = self.first or describe_error(error)


def find_failures(model: Model) -> EstimatorFailures | None:
    """Return those of a model around an estimator; None for every other kind."""
    found: EstimatorFailures | None = getattr(unwrap(model), "failures", None)
    return found


def describe_error(error: Exception) -> str:
    """Return the end of a traceback, from where our code called other code."""
    found = traceback.TracebackException.from_exception(error, compact=True)
    others = [frame for frame in found.stack if not frame.filename.startswith(OURS)]
    lines = traceback.StackSummary.from_list(others[-MOST_FRAMES:]).format()
    return "".join([*lines, *found.format_exception_only()]).rstrip()
