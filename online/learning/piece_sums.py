"""A piece of a bulk load, and its sums.

piece --ReadPiece--> Rows (examples) --PieceSummer--> PieceSums
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from online.learning.shares import pack_state, unpack_state
from online.models import BadExample, Example, Options, State, Tensors, admit_all, create, spec_of
from online.models.statistics.partial_sums import as_summing

P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class PieceRows:
    """The examples of a piece, in order. unusable: what is wrong with other rows, as messages; the first few of a piece."""

    examples: list[Example]
    unusable: tuple[str, ...] = ()
    unusable_count: int = 0


@dataclass(frozen=True, slots=True)
class PieceSums:
    """The result of a worker for a piece. sums: None if it must be learned one example after the other."""

    sums: Tensors | None
    example_count: int
    unusable: tuple[str, ...]
    unusable_count: int


class ReadPiece(Protocol[P_contra]):
    """Reads the examples of a piece: the same ones in every process. It can be pickled."""

    def __call__(self, piece: P_contra, /) -> PieceRows: ...


def create_summer(kind: str, options: Options, state: State, read: ReadPiece[P]) -> Callable[[], "PieceSummer[P]"]:
    """Return what creates a worker in any process. state: of the model, which says how it reads examples."""
    return partial(PieceSummer, kind, dict(options), pack_state(state), read)


def list_modules(kind: str) -> tuple[str, ...]:
    """Return the modules that a worker imports: those that take long."""
    return __name__, spec_of(kind).path.partition(":")[0], "torch"


class PieceSummer(Generic[P]):
    """Sums pieces as a model reads examples: a worker of a pool. state: the packed serving parts of the model."""

    def __init__(self, kind: str, options: Options, state: bytes, read: ReadPiece[P]) -> None:
        admit_all([(kind, options)])
        self.read, self.model = read, create(kind, options)
        self.model.restore(unpack_state(state))

    def __call__(self, piece: P) -> PieceSums:
        """Return the sums of a piece."""
        rows = self.read(piece)
        return PieceSums(self._sum(rows.examples), len(rows.examples), rows.unusable, rows.unusable_count)

    def _sum(self, examples: list[Example]) -> Tensors | None:
        try:
            return as_summing(self.model).sum_up(examples) if examples else None
        except BadExample:  # the learning process finds it, and refuses it
            return None
