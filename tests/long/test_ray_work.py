"""Loads and predictions on a real Ray cluster: the bytes of one process, whatever dies and whatever the files are."""

import gzip
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from online.errors import SetupError
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.file_pieces import FilePiece, PieceReader, cut_files, fit_files
from online.evaluation.sources.opening import open_sources
from online.evaluation.sources.replay_source import ReadOptions
from online.io.engines import RayEngine
from online.io.installation import Installation
from online.io.ray_cluster import RayPool, connect
from online.io.worker_pools import WorkerLost, WorkerPool, do_in_order
from online.learning.bulk_load import BulkLoad
from online.learning.piece_sums import PieceSums, create_summer, list_modules
from online.models import Options, State, create, encoder_options
from online.plugins.jobs.batch_job import JobSpec
from online.plugins.jobs.offline import PIECE_BATCHES, OfflineJob
from online.plugins.jobs.row_answers import BATCH_ROWS
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from tests.evaluation.replay.ray_scene import with_ray  # noqa: F401
from tests.learning.scene import VECTOR, Scene, vector_events
from tests.support import run_online

ROWS = 24_000
TABLE: Options = {"input": "table"}
DEADLY = 7


@pytest.fixture(scope="module")
def ray(with_ray: None) -> Iterator[Any]:  # noqa: F811
    with connect("") as connected:
        yield connected


def describe_row(n: int) -> dict[str, object]:
    return {"x": (n * 37 % 101) / 10, "y": n % 3 + (n * 17 % 7) / 5, "shape": "rst"[n * 5 % 3]}


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same rows as files of each format."""
    folder, rows = tmp_path_factory.mktemp("histories"), [(describe_row(n), "abc"[n % 3]) for n in range(ROWS)]
    lines = "".join(json.dumps({"input": row, "label": label}) + "\n" for row, label in rows).encode()
    cells = "".join(",".join(map(str, [*row.values(), label])) + "\n" for row, label in rows)
    contents = {
        "h.jsonl": lines,
        "h.jsonl.gz": gzip.compress(lines),
        "h.jsonl.zst": zstandard.compress(lines),
        "h.csv": b"x,y,shape,label\n" + cells.encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    columns = pyarrow.Table.from_pylist([{**row, "label": label} for row, label in rows])
    pyarrow.parquet.write_table(columns, folder / "h.parquet")
    return {name: folder / name for name in [*contents, "h.parquet"]}


def load(path: Path, kind: str, options: Options, engine: RayEngine | None) -> "BulkLoad[Any]":
    bad, reads = BadLines(), ReadOptions(label="" if path.name.startswith("h.jsonl") else "label")
    sources, profile = fit_files(open_sources([str(path)], reads), "table")
    read = PieceReader(encoder_options(kind, options), profile=profile)

    def open_pool(state: State) -> WorkerPool[FilePiece, PieceSums]:
        assert engine is not None
        return engine.open_pool(create_summer(kind, options, state, read), list_modules(kind), False)

    found = BulkLoad(create(kind, options), read, None if engine is None else open_pool, bad.add_all)
    found.learn(cut_files(sources, bad))
    return found


@pytest.mark.parametrize("name", ["h.jsonl.gz", "h.jsonl.zst", "h.csv", "h.parquet"])
def test_a_load_leaves_the_sums_of_one_process(ray: Any, histories: dict[str, Path], name: str) -> None:
    alone = load(histories[name], "classifier", TABLE, None)
    shared = load(histories[name], "classifier", TABLE, RayEngine(ray, 2))
    assert shared.counts.examples == alone.counts.examples == ROWS
    assert shared.counts.merged > 0
    assert shared.model.fingerprint() == alone.model.fingerprint()


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_does_not_matter(ray: Any, histories: dict[str, Path], workers: int) -> None:
    alone = load(histories["h.jsonl"], "majority", TABLE, None)
    shared = load(histories["h.jsonl"], "majority", TABLE, RayEngine(ray, workers))  # one of three may find no core
    assert shared.model.fingerprint() == alone.model.fingerprint()


# nodes


def create_squarer(marker: Path) -> Callable[[int], int]:
    """A worker that dies of one piece, once."""

    def square(number: int) -> int:
        if number == DEADLY and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number < 0:
            raise ValueError("it has no root")
        return number * number

    return square


def test_the_piece_of_a_dead_worker_goes_to_another(ray: Any, tmp_path: Path) -> None:
    def refuse(number: int) -> int:
        raise AssertionError("no piece is left to this process")

    def open_pool() -> RayPool[int, int]:
        return RayPool(ray, 2, partial(create_squarer, tmp_path / "died"), True)

    assert [*do_in_order(range(30), open_pool, refuse)] == [number * number for number in range(30)]
    assert (tmp_path / "died").exists()


def test_a_piece_that_fails_on_a_node_names_the_cause(ray: Any, tmp_path: Path) -> None:
    pool = RayPool[int, int](ray, 1, partial(create_squarer, tmp_path / "died"), True)
    with pytest.raises(WorkerLost, match="ValueError: it has no root"):
        pool.submit(-1)()
    assert pool.submit(3)() == 9
    pool.close()


def test_a_node_of_another_release_is_refused(ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Installation.of_this_machine()
    monkeypatch.setattr(Installation, "of_this_machine", lambda: replace(own, host="head", code="another"))
    pool = RayPool[int, int](ray, 1, partial(create_squarer, tmp_path / "died"), True)
    with pytest.raises(SetupError, match=r"cannot be used: .* has other code of `online` than head: install the same"):
        pool.submit(3)
    pool.close()


def test_a_worker_that_cannot_start_is_reported(ray: Any, tmp_path: Path) -> None:
    pool = RayPool[int, int](ray, 1, partial(create_squarer, tmp_path, 4), False)  # type: ignore[call-arg]
    with pytest.raises(SetupError, match="workers cannot start on the Ray cluster: TypeError"):
        pool.submit(3)
    pool.close()


# predictions


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a version of a model of vectors, and inputs with rows that cannot be answered."""
    folder = tmp_path_factory.mktemp("predict")
    scene = Scene(folder)
    scene.learn(*vector_events(40))
    scene.workspace.store.close()
    rows = [[n % 5 / 5, n % 3 / 3, 1.0] for n in range(3 * PIECE_BATCHES * BATCH_ROWS + 17)]
    lines = [json.dumps(row) for row in rows]
    lines[5], lines[600] = "?", '["a", 1, 2]'
    (folder / "in.jsonl").write_text("\n".join(lines))
    (folder / "in.jsonl.zst").write_bytes(zstandard.compress((folder / "in.jsonl").read_bytes()))
    (folder / "in.csv").write_text("a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows) + "1,x,2\n")
    columns = [{"a": a, "b": b, "c": c} for a, b, c in rows]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(columns), folder / "in.parquet")
    return folder


def predict(folder: Path, name: str, out: Path, shards: int, engine: RayEngine | None) -> dict[str, bytes]:
    model = ModelSettings.model_validate({"name": "m", "kind": "classifier", "options": VECTOR})
    workspace = Workspace(Settings(state=folder / "state", models=(model,)))
    with closing(workspace.store):
        spec = JobSpec(folder / name, out, "m", shards=shards)
        OfflineJob(workspace, model, spec, 0.5).run(engine, lambda what, done, total: None)
    return {path.name: path.read_bytes() for path in out.glob("prediction.*")}


@pytest.mark.parametrize(("name", "shards"), [("in.jsonl", 4), ("in.jsonl.zst", 1), ("in.csv", 3), ("in.parquet", 2)])
def test_a_prediction_has_the_bytes_of_one_process(
    ray: Any, published: Path, tmp_path: Path, name: str, shards: int
) -> None:
    alone = predict(published, name, tmp_path / "alone", shards, None)
    assert len(alone) == shards + 1
    assert predict(published, name, tmp_path / "shared", shards, RayEngine(ray, 2)) == alone


# the commands

CONFIG = """state = "{state}"

[[models]]
name = "m"
kind = "classifier"
options = {{ input = "vector", size = 3, scale = 4.0 }}
"""
ENGINES = {"alone": ["--processes", "1"], "shared": ["--engine", "ray", "--processes", "2"]}


def run_json(folder: Path, state: Path, *arguments: str) -> dict[str, Any]:
    config = folder / f"{state.name}.toml"
    config.write_text(CONFIG.format(state=state))
    done = run_online(*arguments, "--config", str(config), "--json")
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_the_command_loads_on_a_cluster_of_its_own(tmp_path: Path) -> None:
    rows = [{"input": [n % 2 - 0.5, n % 5 / 5, 1.0], "label": "ab"[n % 2]} for n in range(ROWS)]
    history = tmp_path / "history.jsonl"
    history.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = {name: run_json(tmp_path, tmp_path / name, "load", str(history), *ENGINES[name]) for name in ENGINES}
    assert found["shared"]["sha256"] == found["alone"]["sha256"]
    assert found["shared"]["summed_by_workers"] > 0


def test_the_command_predicts_on_a_cluster_of_its_own(published: Path, tmp_path: Path) -> None:
    for name, flags in ENGINES.items():
        out = str(tmp_path / name)
        run_json(tmp_path, published / "state", "predict", str(published / "in.jsonl"), "--out", out, *flags)
    results = {path.name: path.read_bytes() for path in (tmp_path / "alone").glob("prediction.*")}
    assert results == {path.name: path.read_bytes() for path in (tmp_path / "shared").glob("prediction.*")}
    assert len(results) == 5
