"""One batch prediction job in its folder: what is read, what is written, and that a kill leaves no trace in it."""

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

from online.doorbell import Doorbell
from online.errors import BadInput, Conflict, NotFound, OnlineError, Unavailable
from online.models import Example, Part, create
from online.models.encoder import encoder, reads
from online.serving import batch_job
from online.serving.batch_job import BATCH, BatchJob, JobSpec, let_go, pinning
from online.serving.predictor import shown
from online.snapshots import Labelled, Manifest, Snapshots

VECTOR = {"input": "vector", "size": 2, "scale": 4.0}
TABLE = {"input": "table"}


class Scene:
    """Versions 1 and 2 of a model that knows two labels, in a folder of the test's own."""

    def __init__(self, folder: Path, options: Mapping[str, Any] = VECTOR, **how: Any) -> None:
        self.folder, self.how, self.reads = folder, how, reads("classifier", options)
        self.encoder = encoder(self.reads, folder)
        self.model = create("classifier", options)
        rows = [[0.0, 1.0], [1.0, 0.0]] if options is VECTOR else [{"a": 0.0, "b": "x"}, {"a": 1.0, "b": "y"}]
        inputs = self.encoder.encode(rows)
        self.model.learn([Example(n + 1, "label", inputs[n % 2], f"l{n % 2}") for n in range(10)])
        self.model.state()
        self.snapshots = Snapshots(folder / "snapshots", "m", Doorbell(folder / "bell"), retain=2)
        for version in (1, 2):
            self.publish(version)

    def publish(self, version: int) -> None:
        made = Manifest("m", version, None, version, "2026-01-01T00:00:00+00:00", "s", "", "e", "r", False)
        self.snapshots.publish({"w": Part({"w": np.array([version])}, serving=True)}, made)

    def write(self, name: str, content: bytes) -> Path:
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def spec(self, input: str = "in.jsonl", output: str = "out", **more: Any) -> JobSpec:
        return JobSpec(self.folder / input, self.folder / output, "m", **{"shards": 2, **self.how, **more})

    def job(self, spec: JobSpec | None = None, max_bad_ratio: float = 1.0) -> BatchJob:
        return BatchJob(spec or self.spec(), self.reads, max_bad_ratio, pinning(self.snapshots))

    def work(self, job: BatchJob, batches: int = 1_000_000) -> None:
        """So many batches at most."""
        for batch, _ in zip(job.batches(self.encoder), range(batches), strict=False):
            answers = self.model.predict(batch.inputs) if batch.inputs else []
            job.write(batch, [shown("classifier", each) for each in answers])

    def done(self, spec: JobSpec | None = None, max_bad_ratio: float = 1.0) -> BatchJob:
        job = self.job(spec, max_bad_ratio)
        try:
            if not job.done:
                self.work(job)
                job.finish()
            let_go(self.snapshots, job.spec)
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


# what is written


def test_results_stand_in_the_inputs_order_in_shards_named_as_vertex_names_them(scene: Scene) -> None:
    scene.write("in.jsonl", lines(101))
    job = scene.done(scene.spec(shards=4))
    names = sorted(path.name for path in (scene.folder / "out").iterdir())
    shards = [f"prediction.results-0000{n}-of-00004" for n in range(4)]
    assert names == ["job.json", "prediction.errors_stats-00000-of-00001", *shards]
    assert [each["instance"] for each in scene.results()] == [[n % 7 / 7, n % 3 / 3] for n in range(101)]
    sizes = [len(scene.files()[name].splitlines()) for name in shards]
    assert sizes == [25, 25, 25, 26] and scene.errors() == []
    assert set(scene.results()[0]["prediction"]) == {"label", "probabilities"}
    told = json.loads((scene.folder / "out" / "job.json").read_text())
    assert (told["version"], told["done"], told["counts"]["results"]) == (2, True, 101) and job.version == 2


def test_fewer_rows_than_shards_leave_empty_shards(scene: Scene) -> None:
    scene.write("in.jsonl", lines(2))
    scene.done(scene.spec(shards=5))
    assert len(scene.files()) == 6 and len(scene.results()) == 2


def test_with_a_key_it_stands_in_the_place_of_the_instance_and_is_no_part_of_it(scene: Scene) -> None:
    rows = [{"id": "a", "x": [0, 1]}, {"x": [1, 0]}, {"id": 7, "x": [1, 1]}, [1, 0]]
    scene.write("in.jsonl", "\n".join(map(json.dumps, rows)).encode())
    scene.done(scene.spec(key="id"))
    assert [(each["key"], set(each)) for each in scene.results()] == [
        ("a", {"key", "prediction"}),
        (7, {"key", "prediction"}),
    ]
    assert [(each["line"], each["error"]["message"]) for each in scene.errors()] == [
        (2, "it has no 'id', the field of the key"),
        (4, "it has no 'id', the field of the key"),
    ]


def test_rows_that_cannot_be_answered_are_told_with_their_line_and_cause(scene: Scene) -> None:
    scene.write("in.jsonl", b'[0, 1]\n\n{"no\n[1]\n"text"\n\xff\xfe\n[1, 0]\n[1, NaN]')
    job = scene.done()
    counts = job.counts
    assert (counts.rows, counts.done, counts.results, counts.errors) == (7, 7, 2, 5)
    assert [each["line"] for each in scene.errors()] == [3, 4, 5, 6, 8]
    told = [each["error"]["message"] for each in scene.errors()]
    assert told[0].startswith("it is not JSON: ") and told[1] == "it has 1 numbers; this model takes 2"
    assert told[2] == 'it must be a list of 2 numbers, not "text"' and "not JSON" in told[3] and "not JSON" in told[4]
    assert {each["error"]["code"] for each in scene.errors()} == {3}


def test_more_bad_rows_than_are_borne_end_it_and_bearing_them_lets_it_go_on(scene: Scene) -> None:
    scene.write("in.jsonl", b"?\n?\n" + lines(2 * BATCH))
    with pytest.raises(
        BadInput, match=r"2 of 66 rows cannot be answered, more than max_bad_ratio .0.02. bears: line 1: it"
    ):
        scene.done(max_bad_ratio=0.02)
    assert not scene.files()
    assert scene.done(max_bad_ratio=0.1).counts.errors == 2


# what is read


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_packed_files_are_read_as_they_are_named(scene: Scene, ending: str) -> None:
    packed = {"": lines(50), ".gz": gzip.compress(lines(50)), ".zst": zstandard.compress(lines(50))}
    scene.write(f"in.jsonl{ending}", packed[ending])
    assert scene.done(scene.spec(f"in.jsonl{ending}")).counts.results == 50


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_packed_file_that_is_cut_off_is_said(scene: Scene, ending: str) -> None:
    packed = gzip.compress(os.urandom(9_000)) if ending == ".gz" else zstandard.compress(os.urandom(9_000))
    scene.write(f"in.jsonl{ending}", packed[:5_000])
    with pytest.raises(BadInput, match="cut off"):
        scene.done(scene.spec(f"in.jsonl{ending}"))


def test_a_csv_is_read_by_its_columns(scene: Scene, tmp_path: Path) -> None:
    scene.write("in.csv", b'id,p,q\nr1,0,1\n"r\n2",1,0\nr3,1,0,9\nr4,1,x\nr5,1\n')
    scene.done(scene.spec("in.csv", key="id"))
    assert [each["key"] for each in scene.results()] == ["r1", "r\n2"]
    causes = {each["line"]: each["error"]["message"] for each in scene.errors()}
    assert causes == {
        5: "it has more cells than the header names",
        6: 'it must be numbers; at 1 it has "x"',
        7: "it has 1 numbers; this model takes 2",
    }
    table = Scene(tmp_path / "table", TABLE)
    table.write("in.csv", b"a,b\n1,x\n,y\n")
    table.done(table.spec("in.csv"))
    assert [each["instance"] for each in table.results()] == [{"a": 1.0, "b": "x"}, {"b": "y"}]


def test_parquet_is_read_by_its_columns(scene: Scene, tmp_path: Path) -> None:
    vectors = pyarrow.table({"id": [5, 6], "x": [[0.0, 1.0], [1.0, 0.0]]})
    pyarrow.parquet.write_table(vectors, scene.folder / "in.parquet")
    scene.done(scene.spec("in.parquet", key="id"))
    assert [each["key"] for each in scene.results()] == [5, 6]
    table = Scene(tmp_path / "table", TABLE)
    cells = pyarrow.table({"a": [1, None], "b": ["x", "y"]})
    pyarrow.parquet.write_table(cells, table.folder / "in.parquet")
    table.done(table.spec("in.parquet"))
    assert [each["instance"] for each in table.results()] == [{"a": 1.0, "b": "x"}, {"b": "y"}]


def test_a_text_is_read_out_of_an_object_of_fields() -> None:
    def text(record: Any) -> Any:
        return batch_job.as_instance(record, "text", "jsonl")

    assert text("hello") == "hello" and text({"text": "hello", "lang": "en"}) == "hello" and text({"q": "hi"}) == "hi"
    assert batch_job.as_instance({"q": "12"}, "text", "csv") == "12"
    with pytest.raises(ValueError, match="it has no field 'text', and 2 others"):
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
def test_an_input_that_cannot_be_read_is_said_and_leaves_no_job(
    scene: Scene, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        scene.write(name, content)
    with pytest.raises(BadInput, match=words):
        scene.job(scene.spec(name))
    assert not list((scene.folder / "out").glob("*")) and not scene.snapshots.labels()


# which version


def test_the_version_is_kept_until_the_job_has_ended_whatever_is_published_meanwhile(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3 * BATCH))
    job = scene.job()
    scene.work(job, 1)
    job.commit()
    job.close()  # as a kill would
    for version in range(3, 9):
        scene.publish(version)
        scene.snapshots.prune()
    assert scene.snapshots.versions() == [2, 7, 8]
    assert scene.done().version == 2
    scene.snapshots.prune()
    assert scene.snapshots.versions() == [7, 8] and not scene.snapshots.labels()


@pytest.mark.parametrize(("asked", "meant"), [("1", 1), ("latest", 2), ("stable", 1)])
def test_a_version_is_named_by_its_number_or_a_label(scene: Scene, asked: str, meant: int) -> None:
    scene.snapshots.set_label("stable", Labelled(1))
    scene.write("in.jsonl", lines(3))
    assert scene.done(scene.spec(version=asked)).version == meant


def test_a_version_that_is_not_there_leaves_no_job(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    for version, kind, words in (
        ("9", NotFound, "no version 9"),
        ("gold", NotFound, "'gold'"),
        ("?", BadInput, "label"),
    ):
        with pytest.raises(kind, match=words):
            scene.job(scene.spec(version=version))
    assert not list((scene.folder / "out").iterdir())


# taking it up again


@pytest.mark.parametrize("after", [0, 1, 3, 4])
def test_a_job_that_was_cut_short_comes_to_the_same_bytes(scene: Scene, after: int) -> None:
    scene.write("in.jsonl", lines(60) + b"?\n" + lines(60))
    whole = scene.done(scene.spec(output="whole"))
    job = scene.job()
    scene.work(job, after)
    job.commit()
    done = job.counts.done
    scene.work(job, 2)  # what nobody was told of
    for file in job._files.values():
        file.flush()
    job.close()
    again = scene.job()
    assert again.counts.done == done
    scene.work(again)
    again.finish()
    again.close()
    assert scene.files() == scene.files("whole") and again.counts == whole.counts


def test_a_kill_between_the_renames_is_made_good(scene: Scene) -> None:
    scene.write("in.jsonl", lines(50))
    scene.done(scene.spec(output="whole"))
    job = scene.job()
    scene.work(job)
    job.commit()
    job.close()
    os.rename(job._part(job.names[0]), scene.folder / "out" / job.names[0])
    assert scene.done().counts.results == 50
    assert scene.files() == scene.files("whole")


def test_the_same_job_again_changes_nothing(scene: Scene) -> None:
    scene.write("in.jsonl", lines(9))
    scene.done()
    before = scene.files()
    job = scene.job()
    assert job.done and job.counts.results == 9
    job.close()
    assert scene.files() == before


def test_an_input_that_changed_is_refused(scene: Scene) -> None:
    scene.write("in.jsonl", lines(2 * BATCH))
    job = scene.job()
    scene.work(job, 1)
    job.commit()
    job.close()
    scene.write("in.jsonl", lines(2 * BATCH).replace(b"0.0]", b"0.1]"))
    with pytest.raises(Conflict, match=r"in\.jsonl has changed since the job began; choose another folder"):
        scene.job()
    touched = scene.write("in.jsonl", lines(2 * BATCH))
    os.utime(touched)  # the same content is the same input
    assert scene.done().counts.results == 2 * BATCH


def test_an_input_that_changes_while_the_job_runs_is_refused_at_its_end(scene: Scene) -> None:
    path = scene.write("in.jsonl", lines(BATCH))
    job = scene.job()
    scene.work(job)
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
    scene.done()
    with pytest.raises(Conflict, match=words):
        scene.job(scene.spec(**change))


def test_a_folder_with_something_else_in_it_is_refused(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    (scene.folder / "out").mkdir()
    (scene.folder / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(Conflict, match=r"it holds thesis\.tex; choose another"):
        scene.job()


def test_two_at_once_in_one_folder_are_refused(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    job = scene.job()
    with pytest.raises(Conflict, match="another job is at work"):
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
def test_what_was_damaged_in_the_folder_is_said(scene: Scene, name: str, content: bytes, words: str) -> None:
    scene.write("in.jsonl", lines(3 * BATCH))
    job = scene.job()
    scene.work(job, 1)
    job.commit()
    job.close()
    (scene.folder / "out" / name).write_bytes(content)
    with pytest.raises(Conflict, match=words):
        scene.job()


def test_a_version_that_was_replaced_meanwhile_is_refused(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    scene.job().close()
    told = json.loads((scene.folder / "out" / "job.json").read_text())
    (scene.folder / "out" / "job.json").write_text(json.dumps({**told, "weights_sha256": "other"}))
    with pytest.raises(Conflict, match="not the one that the job began with"):
        scene.job()


def test_a_folder_that_cannot_be_written_is_said(scene: Scene) -> None:
    scene.write("in.jsonl", lines(3))
    scene.write("file", b"in the way")
    with pytest.raises(Unavailable, match="the results cannot be written: Not a directory"):
        scene.job(scene.spec(output="file/out"))


def test_a_discarded_job_leaves_the_folder_to_another(scene: Scene) -> None:
    scene.write("in.jsonl", lines(2 * BATCH))
    job = scene.job()
    scene.work(job, 1)
    job.commit()
    job.discard()
    job.close()
    assert not list((scene.folder / "out").iterdir())
    assert isinstance(scene.done(scene.spec(shards=1)), BatchJob)


@pytest.mark.parametrize("name", ["in.jsonl", "in.csv"])
def test_whoever_leaves_need_not_wait_until_a_long_input_is_read(scene: Scene, name: str) -> None:
    scene.write(name, b"a,b\n" + b"0,1\n" * 100_000 if name == "in.csv" else lines(100_000))
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 30:  # the checksum took fewer
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BatchJob(scene.spec(name), scene.reads, 1.0, pinning(scene.snapshots), check)
    assert not list((scene.folder / "out").iterdir()) and not scene.snapshots.labels()


def test_every_error_is_one_of_ours(scene: Scene) -> None:
    with pytest.raises(OnlineError):
        scene.job(scene.spec("nowhere/in.jsonl"))
