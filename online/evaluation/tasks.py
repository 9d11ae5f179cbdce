"""What is kept of earlier tasks while later ones are learned: the measures of continual learning.

    rows of a task: every fifth is held out     R[t, k]: accuracy on what is held out of task k, once task t is learned

Beside the matrix, the tasks begun so far are tested again and again in between: what is lost for a moment only (the
stability gap) is not seen at the tasks' ends. Shapes: T tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from online.evaluation.log import Asked
from online.models import Model

HELD_OUT = 5  # every so-manyth row of a task
MOST_HELD = 500  # rows of a task
AGAIN = 200  # examples from test to test


@dataclass(slots=True)
class Tasks:
    """names: in the order in which they begin. held: (features, label) of each. current: the place of the one at hand."""

    names: list[str] = field(default_factory=list)
    held: list[list[tuple[bytes, str]]] = field(default_factory=list)
    current: int = -1
    ends: list[list[float]] = field(default_factory=list)  # R, a row for each task that has ended
    between: list[list[float]] = field(default_factory=list)  # accuracies of the tasks begun by then, at every test
    since: int = 0

    def hold(self, line: Asked) -> None:
        """Keep what is held out, before anything is learned."""
        if line.task not in self.names:
            self.names.append(str(line.task))
            self.held.append([])
        rows = self.held[self.names.index(str(line.task))]
        if len(rows) < MOST_HELD:
            rows.append((line.features or b"", str(line.held)))

    def ends_before(self, line: Asked) -> bool:
        """Whether the task at hand ends where this is asked."""
        return self.current >= 0 and line.task != self.names[self.current]

    def due(self) -> bool:
        return self.since >= AGAIN

    def begin(self, line: Asked) -> None:
        self.current = self.names.index(str(line.task)) if line.task in self.names else self.current
        self.since += 1

    def test(self, model: Model, ended: bool) -> None:
        """ended: all tasks, as a row of the matrix; otherwise those begun so far."""
        count = len(self.names) if ended else self.current + 1
        accuracies = [accuracy(model, rows) for rows in self.held[:count]]
        self.since = 0
        self.between.append(accuracies[: self.current + 1])
        if ended:
            self.ends.append(accuracies)

    # measures

    def matrix(self) -> NDArray[np.float64]:
        """[T, T]; of the tasks that have ended."""
        return np.array(self.ends).reshape(len(self.ends), len(self.names))

    def figures(self) -> dict[str, float | None]:
        """Lopez-Paz & Ranzato (2017); Chaudhry et al. (2018) for forgetting; De Lange et al. (2023) for the least."""
        done = len(self.ends)
        if done == 0:
            return {}
        r_TT = self.matrix()[:, :done]
        last, own = r_TT[-1], np.diag(r_TT)
        best = [r_TT[task:, task].max() for task in range(done)]
        before = [r_TT[task - 1, task] for task in range(1, done)]
        return {
            "average_accuracy": mean(last),
            "forgetting": mean([best[task] - last[task] for task in range(done - 1)]),
            "backward_transfer": mean([last[task] - own[task] for task in range(done - 1)]),
            "forward_transfer": mean(before),
            "average_anytime_accuracy": mean([float(np.mean(each)) for each in self.between if each]),
            "least_accuracy": mean([self._least(task) for task in range(done - 1)]),
        }

    def _least(self, task: int) -> float:
        """The least ever measured on a task once a later one had begun."""
        return min(each[task] for each in self.between if len(each) > task + 1)


def accuracy(model: Model, rows: Sequence[tuple[bytes, str]]) -> float:
    answers = model.predict([features for features, _ in rows])
    return float(np.mean([answer.choice == label for answer, (_, label) in zip(answers, rows, strict=True)]))


def mean(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    return round(float(np.mean(values)), 6) if len(values) else None
