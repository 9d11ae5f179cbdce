"""Measures of continual learning: how much of earlier tasks is retained while later ones are learned.

    every fifth row of a task is held out     R[t, k]: accuracy on the held-out rows of task k after task t

In addition to the matrix R, the tasks begun so far are tested at intervals: a short loss of accuracy
(the stability gap) does not show at the ends of tasks. Shapes: T tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from online.evaluation.sources.log_format import LoggedPrediction
from online.models import Model

HELD_OUT_EVERY = 5  # one row in so many of a task
MAX_HELD_OUT = 500  # rows per task
TEST_EVERY = 200  # examples between tests


@dataclass(slots=True)
class TaskSequence:
    """The tasks of a source, and the accuracies measured on them.

    names: in the order in which the tasks begin. held: the held-out (features, class) of each.
    current: the index of the current task.
    """

    names: list[str] = field(default_factory=list)
    held: list[list[tuple[bytes, str]]] = field(default_factory=list)
    current: int = -1
    ends: list[list[float]] = field(default_factory=list)  # R, one row per finished task
    between: list[list[float]] = field(default_factory=list)  # at every test: accuracies of the tasks begun by then
    since: int = 0

    def hold(self, line: LoggedPrediction) -> None:
        """Add a held-out row, before anything is learned."""
        if line.task not in self.names:
            self.names.append(str(line.task))
            self.held.append([])
        rows = self.held[self.names.index(str(line.task))]
        if len(rows) < MAX_HELD_OUT:
            rows.append((line.features or b"", str(line.held_out_class)))

    def ends_before(self, line: LoggedPrediction) -> bool:
        """Return whether the current task ends at this prediction."""
        return self.current >= 0 and line.task != self.names[self.current]

    def due(self) -> bool:
        """Return whether the held-out rows are to be predicted now."""
        return self.since >= TEST_EVERY

    def begin(self, line: LoggedPrediction) -> None:
        """Note the task of a line, and count the line."""
        self.current = self.names.index(str(line.task)) if line.task in self.names else self.current
        self.since += 1

    def test(self, model: Model, ended: bool) -> None:
        """Test the model on the held-out rows: of all tasks if one ended, else of those begun so far."""
        count = len(self.names) if ended else self.current + 1
        accuracies = [compute_accuracy(model, rows) for rows in self.held[:count]]
        self.since = 0
        self.between.append(accuracies[: self.current + 1])
        if ended:
            self.ends.append(accuracies)

    # measures

    def matrix(self) -> NDArray[np.float64]:
        """Return R for the finished tasks, [T, T]."""
        return np.array(self.ends).reshape(len(self.ends), len(self.names))

    def figures(self) -> dict[str, float | None]:
        """Return the measures by name; empty before the first task ends.

        Sources: Lopez-Paz & Ranzato (2017); Chaudhry et al. (2018) for forgetting; De Lange et al. (2023)
        for the least accuracy.
        """
        done = len(self.ends)
        if done == 0:
            return {}
        r_TT = self.matrix()[:, :done]
        last, own = r_TT[-1], np.diag(r_TT)
        best = [r_TT[task:, task].max() for task in range(done)]
        before = [r_TT[task - 1, task] for task in range(1, done)]
        return {
            "average_accuracy": compute_mean(last),
            "forgetting": compute_mean([best[task] - last[task] for task in range(done - 1)]),
            "backward_transfer": compute_mean([last[task] - own[task] for task in range(done - 1)]),
            "forward_transfer": compute_mean(before),
            "average_anytime_accuracy": compute_mean([float(np.mean(each)) for each in self.between if each]),
            "least_accuracy": compute_mean([self._least(task) for task in range(done - 1)]),
        }

    def _least(self, task: int) -> float:
        """Return the lowest accuracy measured on a task after a later one had begun."""
        return min(each[task] for each in self.between if len(each) > task + 1)


def compute_accuracy(model: Model, rows: Sequence[tuple[bytes, str]]) -> float:
    """Return the share of rows that a model answers right."""
    answers = model.predict([features for features, _ in rows])
    return float(np.mean([answer.choice == label for answer, (_, label) in zip(answers, rows, strict=True)]))


def compute_mean(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Return the rounded mean; None of no values."""
    return round(float(np.mean(values)), 6) if len(values) else None
