"""A batch prediction job in its folder: its inputs, its results, and how it resumes after an interruption."""

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from online.errors import BadInput, Conflict, NotFound, OnlineError, Unavailable
from online.io.wakeup import Wakeup
from online.models import Example, StatePart, create, input_options
from online.models.encoders.factory import create_encoder
from online.plugins.jobs.batch_job import BatchJob, JobSpec, pin_version, unpin_version
from online.plugins.jobs.batch_rows import read_object
from online.plugins.jobs.row_answers import BATCH_ROWS
from online.serving.answers import render_answer
from online.snapshots import Snapshots
from online.snapshots.labels import LabelTarget
from online.snapshots.manifest import Manifest

VECTOR = {"input": "vector", "size": 2, "scale": 4.0}
TABLE = {"input": "table"}


class Scene:
    """Versions 1 and 2 of a model of two classes, in the folder of the test."""

    def __init__(self, folder: Path, options: Mapping[str, Any] = VECTOR, **spec_options: Any) -> None:
        self.folder, self.spec_options, self.input_options = folder, spec_options, input_options("classifier", options)
        self.encoder = create_encoder(self.input_options, folder)
        self.model = create("classifier", options)
        rows = [[0.0, 1.0], [1.0, 0.0]] if options is VECTOR else [{"a": 0.0, "b": "x"}, {"a": 1.0, "b": "y"}]
        inputs = self.encoder.encode(rows)
        self.model.learn([Example(n + 1, "label", inputs[n % 2], f"l{n % 2}") for n in range(10)])
        self.model.state()
        self.snapshots = Snapshots(folder / "snapshots", "m", Wakeup(folder / "bell"), retain=2)
        for version in (1, 2):
            self.publish(version)

    def publish(self, version: int) -> None:
        manifest = Manifest("m", version, None, version, "2026-01-01T00:00:00+00:00", "s", "", "e", "r", False)
        self.snapshots.publisher.publish({"w": StatePart({"w": np.array([version])}, serving=True)}, manifest)

    def write(self, name: str, content: bytes) -> Path:
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def spec(self, input: str = "in.jsonl", output: str = "out", **more: Any) -> JobSpec:
        return JobSpec(self.folder / input, self.folder / output, "m", **{"shards": 2, **self.spec_options, **more})

    def job(self, spec: JobSpec | None = None, max_bad_ratio: float = 1.0) -> BatchJob:
        return BatchJob(spec or self.spec(), self.input_options, max_bad_ratio, pin_version(self.snapshots))

    def answer(self, job: BatchJob, batches: int = 1_000_000) -> None:
        """Answer at most this many batches."""
        for batch, _ in zip(job.batches(self.encoder), range(batches), strict=False):
            answers = self.model.predict(batch.inputs) if batch.inputs else []
            job.write(batch, [render_answer("classifier", each, 20) for each in answers])

    def run(self, spec: JobSpec | None = None, max_bad_ratio: float = 1.0) -> BatchJob:
        job = self.job(spec, max_bad_ratio)
        try:
            if not job.done:
                self.answer(job)
                job.finish()
            unpin_version(self.snapshots, job.spec)
        finally:
            job.close()
        return job

    def results(self, output: str = "out") -> list[dict[str, Any]]:
        paths = sorted((self.folder / output).glob("prediction.results-*"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def errors(self, output: str = "out") -> list[dict[str, Any]]:
        path = self.folder / output / "prediction.errors_stats-00000-of-00001"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def files(self, output: str = "out") -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.folder / output).glob("prediction.*")}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def lines(count: int) -> bytes:
    return "".join(f"[{n % 7 / 7}, {n % 3 / 3}]\n" for n in range(count)).encode()


# results


def test_results_are_in_input_order_in_shards_named_as_in_vertex_ai(scene: Scene) -> None:
    scene.write("in.jsonl", lines(101))
    job = scene.run(scene.spec(shards=4))
    names = sorted(path.name for path in (scene.folder / "out").iterdir())
    shards = [f"prediction.results-0000{n}-of-00004" for n in range(4)]
    assert names == ["job.json", "prediction.errors_stats-00000-of-00001", *shards]
    assert [each["instance"] for each in scene.results()] == [[n % 7 / 7, n % 3 / 3] for n in range(101)]
    sizes = [len(scene.files()[name].splitlines()) for name in shards]
    assert sizes == [25, 25, 25, 26] and scene.errors() == []
    assert set(scene.results()[0]["prediction"]) == {"label", "probabilities"}
    record = json.loads((scene.folder / "out" / "job.json").read_text())
    assert (record["version"], record["done"], record["counts"]["results"]) == (2, True, 101) and job.version == 2


def test_fewer_rows_than_shards_leave_empty_shards(scene: Scene) -> None:
    scene.write("in.jsonl", lines(2))
    scene.run(scene.spec(shards=5))
    assert len(scene.files()) == 6 and len(scene.results()) == 2


def test_results_have_the_key_of_a_row_instead_of_its_instance(scene: Scene) -> None:
    rows = [{"id": "a", "x": [0, 1]}, {"x": [1, 0]}, {"id": 7, "x": [1, 1]}, [1, 0]]
    scene.write("in.jsonl", "\n".join(map(json.dumps, rows)).encode())
    scene.run(scene.spec(key="id"))
    assert [(each["key"], set(each)) for each in scene.results()] == [
        ("a", {"key", "prediction"}),
        (7, {"key", "prediction"}),
    ]
    assert [(each["line"], each["error"]["message"]) for each in scene.errors()] == [
        (2, "it has no 'id', the field of the key"),
        (4, "it has no 'id', the field of the key"),
    ]


def test_rows_that_cannot_be_answered_are_listed_with_their_line_and_cause(scene: Scene) -> None:
    scene.write("in.jsonl", b'[0, 1]\n\n{"no\n[1]\n"text"\n\xff\xfe\n[1, 0]\n[1, NaN]')
    job = scene.run()
    counts = job.counts
    assert (counts.rows, counts.done, counts.results, counts.errors) == (7, 7, 2, 5)
    assert [each["line"] for each in scene.errors()] == [3, 4, 5, 6, 8]
    messages = [each["error"]["message"] for each in scene.errors()]
    assert messages[0].startswith("it is not JSON: ") and messages[1] == "it has 1 numbers; this model takes 2"
    assert (
        messages[2] == 'it must be a list of 2 numbers, not "text"'
        and "not JSON" in messages[3]
        and "not JSON" in messages[4]
    )
    assert {each["error"]["code"] for each in scene.errors()} == {3}


def test_too_many_bad_rows_end_a_job_and_a_higher_limit_lets_it_continue(scene: Scene) -> None:
    scene.write("in.jsonl", b"?\n?\n" + lines(2 * BATCH_ROWS))
    with pytest.raises(
        BadInput, match=r"2 of 66 rows cannot be answered, more than max_bad_ratio .0.02. allows: line 1: it"
    ):
        scene.run(max_bad_ratio=0.02)
    assert not scene.files()
    assert scene.run(max_bad_ratio=0.1).counts.errors == 2


# inputs


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_compressed_files_are_recognised_by_their_names(scene: Scene, ending: str) -> None:
    packed = {"": lines(50), ".gz": gzip.compress(lines(50)), ".zst": zstandard.compress(lines(50))}
    scene.write(f"in.jsonl{ending}", packed[ending])
    assert scene.run(scene.spec(f"in.jsonl{ending}")).counts.results == 50


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_truncated_compressed_file_is_refused(scene: Scene, ending: str) -> None:
    packed = gzip.compress(os.urandom(9_000)) if ending == ".gz" else zstandard.compress(os.urandom(9_000))
    scene.write(f"in.jsonl{ending}", packed[:5_000])
    with pytest.raises(BadInput, match="cut off"):
        scene.run(scene.spec(f"in.jsonl{ending}"))


def test_a_csv_is_read_by_its_columns(scene: Scene, tmp_path: Path) -> None:
    scene.write("in.csv", b'id,p,q\nr1,0,1\n"r\n2",1,0\nr3,1,0,9\nr4,1,x\nr5,1\n')
    scene.run(scene.spec("in.csv", key="id"))
    assert [each["key"] for each in scene.results()] == ["r1", "r\n2"]
    causes = {each["line"]: each["error"]["message"] for each in scene.errors()}
    assert causes == {
        5: "it has more cells than the header names (4, not 3)",
        6: 'it must be numbers; at 1 it has "x"',
        7: "it has fewer cells than the header names (2, not 3)",
    }
    table = Scene(tmp_path / "table", TABLE)
    table.write("in.csv", b"a,b\n1,x\n,y\n")
    table.run(table.spec("in.csv"))
    assert [each["instance"] for each in table.results()] == [{"a": 1.0, "b": "x"}, {"b": "y"}]


def test_parquet_is_read_by_its_columns(scene: Scene, tmp_path: Path) -> None:
    vectors = pyarrow.table({"id": [5, 6], "x": [[0.0, 1.0], [1.0, 0.0]]})
    pyarrow.parquet.write_table(vectors, scene.folder / "in.parquet")
    scene.run(scene.spec("in.parquet", key="id"))
    assert [each["key"] for each in scene.results()] == [5, 6]
    table = Scene(tmp_path / "table", TABLE)
    cells = pyarrow.table({"a": [1, None], "b": ["x", "y"]})
    pyarrow.parquet.write_table(cells, table.folder / "in.parquet")
    table.run(table.spec("in.parquet"))
    assert [each["instance"] for each in table.results()] == [{"a": 1.0, "b": "x"}, {"b": "y"}]


def test_a_text_is_read_from_an_object_of_fields() -> None:
    def text(record: Any) -> Any:
        return read_object(record, "text")

    assert text("hello") == "hello" and text({"text": "hello", "lang": "en"}) == "hello" and text({"q": "hi"}) == "hi"
    assert text({"q": "12"}) == "12"
    with pytest.raises(ValueError, match="none of its 2 fields is named 'text'"):
        text({"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.jsonl", None, "none.jsonl cannot be read: No such file"),
        ("empty.jsonl", b"\n\n", "empty.jsonl holds no rows"),
        ("header.csv", b"a,b\n", "header.csv holds no rows"),
        ("bad.parquet", b"PAR1?", "bad.parquet cannot be read"),
        ("bad.csv", b"a\n\xff\xfe\n", "bad.csv cannot be read"),
        ("bad.jsonl.gz", b"no gzip", "bad.jsonl.gz cannot be read"),
        (".", None, "cannot be read: Is a directory"),
    ],
)
def test_an_unreadable_input_is_refused_and_leaves_no_job(
    scene: Scene, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        scene.write(name, content)
    with pytest.raises(BadInput, match=words):
        scene.job(scene.spec(name))
    assert not list((scene.folder / "out").glob("*")) and not scene.snapshots.labels.read()


# versions


def test_the_version_of_a_job_is_not_pruned_until_the_job_has_ended(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3 * BATCH_ROWS))
    job = scene.job()
    scene.answer(job, 1)
    job.commit()
    job.close()  # as if the process was killed
    for version in range(3, 9):
        scene.publish(version)
        scene.snapshots.retention.prune()
    assert scene.snapshots.folder.versions() == [2, 7, 8]
    assert scene.run().version == 2
    scene.snapshots.retention.prune()
    assert scene.snapshots.folder.versions() == [7, 8] and not scene.snapshots.labels.read()


@pytest.mark.parametrize(("name", "version"), [("1", 1), ("latest", 2), ("stable", 1)])
def test_a_version_is_selected_by_its_number_or_by_a_label(scene: Scene, name: str, version: int) -> None:
    scene.snapshots.labels.set("stable", LabelTarget(1))
    scene.write("in.jsonl", lines(3))
    assert scene.run(scene.spec(version=name)).version == version


def test_an_unknown_version_is_refused_and_leaves_no_job(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    for version, kind, words in (
        ("9", NotFound, "no version 9"),
        ("gold", NotFound, "'gold'"),
        ("?", BadInput, "label"),
    ):
        with pytest.raises(kind, match=words):
            scene.job(scene.spec(version=version))
    assert not list((scene.folder / "out").iterdir())


# resuming


@pytest.mark.parametrize("after", [0, 1, 3, 4])
def test_an_interrupted_job_gives_the_same_bytes(scene: Scene, after: int) -> None:
    scene.write("in.jsonl", lines(60) + b"?\n" + lines(60))
    whole = scene.run(scene.spec(output="whole"))
    job = scene.job()
    scene.answer(job, after)
    job.commit()
    done = job.counts.done
    scene.answer(job, 2)  # results after the last commit
    for file in job._files.values():
        file.flush()
    job.close()
    resumed = scene.job()
    assert resumed.counts.done == done
    scene.answer(resumed)
    resumed.finish()
    resumed.close()
    assert scene.files() == scene.files("whole") and resumed.counts == whole.counts


def test_a_job_killed_between_the_renames_of_its_results_is_finished(scene: Scene) -> None:
    scene.write("in.jsonl", lines(50))
    scene.run(scene.spec(output="whole"))
    job = scene.job()
    scene.answer(job)
    job.commit()
    job.close()
    os.rename(job._part(job.names[0]), scene.folder / "out" / job.names[0])
    assert scene.run().counts.results == 50
    assert scene.files() == scene.files("whole")


def test_repeating_a_finished_job_changes_nothing(scene: Scene) -> None:
    scene.write("in.jsonl", lines(9))
    scene.run()
    before = scene.files()
    job = scene.job()
    assert job.done and job.counts.results == 9
    job.close()
    assert scene.files() == before


def test_an_input_that_changed_is_refused(scene: Scene) -> None:
    scene.write("in.jsonl", lines(2 * BATCH_ROWS))
    job = scene.job()
    scene.answer(job, 1)
    job.commit()
    job.close()
    scene.write("in.jsonl", lines(2 * BATCH_ROWS).replace(b"0.0]", b"0.1]"))
    with pytest.raises(Conflict, match=r"in\.jsonl has changed since the job began; choose another folder"):
        scene.job()
    touched = scene.write("in.jsonl", lines(2 * BATCH_ROWS))
    os.utime(touched)  # the same content is the same input
    assert scene.run().counts.results == 2 * BATCH_ROWS


def test_an_input_that_changes_while_the_job_runs_is_refused_at_its_end(scene: Scene) -> None:
    path = scene.write("in.jsonl", lines(BATCH_ROWS))
    job = scene.job()
    scene.answer(job)
    with open(path, "ab") as file:
        file.write(b"[1, 1]\n")
    with pytest.raises(Conflict, match="has changed while the job ran"):
        job.finish()
    job.close()
    assert not scene.files()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": "id"}, "another key"),
        ({"shards": 3}, "another shards"),
        ({"version": "1"}, "another version"),
        ({"format": "csv"}, "another format"),
    ],
)
def test_a_folder_of_another_job_is_refused(scene: Scene, change: dict[str, Any], words: str) -> None:
    scene.write("in.jsonl", lines(3))
    scene.run()
    with pytest.raises(Conflict, match=words):
        scene.job(scene.spec(**change))


def test_a_folder_with_other_files_is_refused(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    (scene.folder / "out").mkdir()
    (scene.folder / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(Conflict, match=r"it holds thesis\.tex; choose another"):
        scene.job()


def test_two_jobs_in_one_folder_are_refused(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    job = scene.job()
    with pytest.raises(Conflict, match="another job is writing to the folder"):
        scene.job()
    job.close()
    scene.job().close()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("job.json", b"{", "job.json of this folder is damaged"),
        (".progress.json", b"{", "progress of this job is damaged"),
        (".prediction.results-00000-of-00002.part", b"", "unfinished results of this job are damaged"),
    ],
)
def test_a_damaged_file_of_a_job_is_refused(scene: Scene, name: str, content: bytes, words: str) -> None:
    scene.write("in.jsonl", lines(3 * BATCH_ROWS))
    job = scene.job()
    scene.answer(job, 1)
    job.commit()
    job.close()
    (scene.folder / "out" / name).write_bytes(content)
    with pytest.raises(Conflict, match=words):
        scene.job()


def test_a_version_whose_weights_have_changed_is_refused(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    scene.job().close()
    record = json.loads((scene.folder / "out" / "job.json").read_text())
    (scene.folder / "out" / "job.json").write_text(json.dumps({**record, "weights_sha256": "other"}))
    with pytest.raises(Conflict, match="not the one that the job began with"):
        scene.job()


def test_a_folder_that_cannot_be_written_is_reported(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    scene.write("file", b"in the way")
    with pytest.raises(Unavailable, match="the results cannot be written: Not a directory"):
        scene.job(scene.spec(output="file/out"))


def test_the_folder_of_a_discarded_job_can_be_used_by_another_job(scene: Scene) -> None:
    scene.write("in.jsonl", lines(2 * BATCH_ROWS))
    job = scene.job()
    scene.answer(job, 1)
    job.commit()
    job.discard()
    job.close()
    assert not list((scene.folder / "out").iterdir())
    assert isinstance(scene.run(scene.spec(shards=1)), BatchJob)


@pytest.mark.parametrize("name", ["in.jsonl", "in.csv"])
def test_opening_a_long_input_can_be_interrupted(scene: Scene, name: str) -> None:
    scene.write(name, b"a,b\n" + b"0,1\n" * 100_000 if name == "in.csv" else lines(100_000))
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 30:  # after the checksum, which takes fewer calls
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BatchJob(scene.spec(name), scene.input_options, 1.0, pin_version(scene.snapshots), check)
    assert not list((scene.folder / "out").iterdir()) and not scene.snapshots.labels.read()


def test_an_invalid_job_raises_an_error_of_the_package(scene: Scene) -> None:
    with pytest.raises(OnlineError):
        scene.job(scene.spec("nowhere/in.jsonl"))
