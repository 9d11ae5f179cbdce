"""The work of a board's workers for one model's learner: sum what lies ahead, and learn parts of towers."""

from collections.abc import Callable, Mapping, Sequence

from online.learning.workers import LearnerWorkers, WorkerHost
from online.models import Example, Options, Tensors
from online.models.contract import Model
from online.plugins.workers.board import ShareBoard
from online.plugins.workers.catch_up import CatchUp
from online.plugins.workers.team import Team


class BoardLearnerWorkers(LearnerWorkers):
    """See `LearnerWorkers`."""

    def __init__(self, board: ShareBoard, name: str, kind: str, options: Options, device: str) -> None:
        self.catch_up = CatchUp(board, name, kind, options)
        self.team = Team(board, name, kind, options, device)

    def find_count(self, model: Model, learned_until: int, find_head: Callable[[], int]) -> int | None:
        return self.catch_up.find_count(model, learned_until, find_head())

    def find_sums(self, examples: Sequence[Example]) -> Tensors | None:
        return self.catch_up.find_sums(examples)

    def note_learned(self, count: int, is_merged: bool) -> None:
        self.catch_up.note_learned(count, is_merged)

    def wrap(self, model: Model) -> Model:
        return self.team.wrap(model)

    def dissolve(self) -> None:
        self.team.dissolve()

    def stop(self) -> None:
        self.catch_up.stop()
        self.team.stop()


class BoardHost(WorkerHost):
    """The workers that join a board."""

    def __init__(self, board: ShareBoard) -> None:
        self.board = board

    def serve(self, name: str, kind: str, options: Options, device: str) -> BoardLearnerWorkers:
        return BoardLearnerWorkers(self.board, name, kind, options, device)

    def count_sums(self) -> Mapping[tuple[str, str], int]:
        return self.board.tally.counts()
