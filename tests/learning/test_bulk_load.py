"""A bulk load gives the model that one process learns, whatever the number of workers, and outlives their death."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from online.errors import BadInput
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.file_pieces import FilePiece, PieceReader, cut_files
from online.evaluation.sources.opening import open_sources
from online.evaluation.sources.replay_source import ReadOptions
from online.io.worker_pools import ProcessPool, WorkerPool
from online.learning.bulk_load import BulkLoad
from online.learning.piece_sums import PieceRows, PieceSums, create_summer, list_modules
from online.models import Model, Options, State, create
from online.models.checks import to_bytes

OPTIONS: Options = {"input": "table"}
COUNT = 20_000
LABELS = "abc"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "history.jsonl"
    with path.open("w") as file:
        for n in range(COUNT):
            row = {"x": (n * 37 % 101) / 10, "y": n % 3 + (n * 17 % 7) / 5, "shape": "rst"[n * 5 % 3]}
            file.write(f'{{"input": {row!r}, "label": "{LABELS[n % 3]}"}}\n'.replace("'", '"'))
    return path


class DyingReader(PieceReader):
    """Kills the process that reads a piece, once, unless it is the one that made this."""

    def __init__(self, options: Options, marker: Path) -> None:
        super().__init__(options)
        self.marker, self.parent = marker, os.getpid()

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "marker": self.marker, "parent": self.parent}

    def __call__(self, piece: FilePiece) -> PieceRows:
        if os.getpid() != self.parent and piece.first > 8_000 and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(piece)


def load(path: Path, read: PieceReader, processes: int, bad: BadLines | None = None) -> "BulkLoad[FilePiece]":
    bad = bad or BadLines()

    def open_pool(state: State) -> WorkerPool[FilePiece, PieceSums]:
        return ProcessPool(processes, create_summer("classifier", OPTIONS, state, read), list_modules("classifier"))

    pool: Callable[[State], WorkerPool[FilePiece, PieceSums]] | None = open_pool if processes > 1 else None
    found = BulkLoad(create("classifier", OPTIONS), read, pool, bad.add_all)
    found.learn(cut_files(open_sources([str(path)], ReadOptions()), bad))
    return found


@pytest.fixture(scope="module")
def alone(history: Path) -> "BulkLoad[FilePiece]":
    return load(history, PieceReader(OPTIONS), 1)


def memory(model: Model) -> dict[str, bytes]:
    """Every part but the solved weights, which are equal only to their last digits."""
    return {name: data for name, data in to_bytes(model.state()).items() if name != "weights"}


def test_two_processes_leave_the_state_that_one_leaves(history: Path, alone: "BulkLoad[FilePiece]") -> None:
    shared = load(history, PieceReader(OPTIONS), 2)
    assert shared.counts.examples == alone.counts.examples == COUNT
    assert shared.counts.merged > 0
    assert alone.counts.merged == 0
    assert memory(shared.model) == memory(alone.model)


def test_a_worker_that_dies_changes_nothing(history: Path, alone: "BulkLoad[FilePiece]", tmp_path: Path) -> None:
    shared = load(history, DyingReader(OPTIONS, tmp_path / "died"), 2)
    assert (tmp_path / "died").exists()
    assert shared.counts.examples == COUNT
    assert shared.model.fingerprint() == alone.model.fingerprint()


def test_rows_that_cannot_be_used_are_counted_where_they_are_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"input": {"x": 1}, "label": "a"}\n{"input": {"x": {}}, "label": "b"}\n{"label": "b"}\n')
    bad = BadLines(max_ratio=1.0)
    found = load(path, PieceReader(OPTIONS), 1, bad)
    assert found.counts.examples == 1
    assert bad.count == 2


def test_the_first_unusable_row_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"input": {"x": 1}, "label": "a"}\n' * 9_000 + "nonsense\n")
    bad = BadLines()
    load(path, PieceReader(OPTIONS), 1, bad)
    with pytest.raises(BadInput, match=r"some\.jsonl, line 9001"):
        bad.check(9_001)
