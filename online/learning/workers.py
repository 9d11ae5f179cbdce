"""The work of other processes for learners. These classes do nothing; a plugin derives from them.

find_support() --> WorkerSupport --host(settings)--> WorkerHost --serve(model)--> LearnerWorkers, asked by the learner
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from online.errors import SetupError
from online.installed import collect_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from online.models import Example, Options, Tensors
    from online.models.contract import Model
    from online.settings import Settings
    from online.state.workspace import Workspace


class LearnerWorkers:
    """The workers of one model's learner."""

    def find_count(self, model: "Model", learned_until: int, find_head: "Callable[[], int]") -> int | None:
        """Return how many entries to read next, far behind the head of the log; None where workers do not help."""
        return None

    def find_sums(self, examples: "Sequence[Example]") -> "Tensors | None":
        """Return the sums of exactly these examples, if a worker has computed them."""
        return None

    def note_learned(self, count: int, is_merged: bool) -> None:
        """Count examples. is_merged: whether their sums came from a worker."""

    def wrap(self, model: "Model") -> "Model":
        """Return the model that the learner uses: this one, or one that learns with workers."""
        return model

    def dissolve(self) -> None:
        """Let workers forget the model: the learner resumes from a durable version."""

    def stop(self) -> None:
        """Let all workers go."""


class WorkerHost:
    """The workers of one learner process."""

    def serve(self, name: str, kind: str, options: "Options", device: str) -> LearnerWorkers:
        """Return what workers do for a model, by its name."""
        return LearnerWorkers()

    def count_sums(self) -> Mapping[tuple[str, str], int]:
        """Return how many examples were summed, by model and process."""
        return {}


class WorkerSupport:
    """Starts workers, and makes a process one."""

    def check(self, settings: "Settings") -> None:
        """Raise SetupError for settings with which no learner can start."""

    @contextmanager
    def host(self, settings: "Settings") -> "Iterator[WorkerHost]":
        """Start the workers of a learner process; they end with the block. Raises SetupError."""
        yield WorkerHost()

    def find_place(self, settings: "Settings", environment: Mapping[str, str]) -> "tuple[Settings, str | None]":
        """Return the settings of a learner that a launcher of several processes has started, or the address that it joins."""
        return settings, None

    def join(self, workspace: "Workspace", address: str) -> int:
        """Work for the learner at an address until it ends; return how many ranges were summed. Raises SetupError."""
        raise SetupError("--join needs the plugin `workers`, which is not installed")


def find_support() -> WorkerSupport:
    """Return that of the plugin which has workers; else one that has none."""
    return collect_one("worker_support", WorkerSupport())
