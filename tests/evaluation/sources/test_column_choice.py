"""Which columns of a table are features: `--drop` and `--feature` of a replay."""

import base64
import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.runs import replay_all
from online.evaluation.sources.arrival import LabelDelay
from online.evaluation.sources.column_choice import ColumnChoice, list_names
from online.evaluation.sources.log_format import build_header
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions, Source
from online.models.encoders.rows import TableEncoder
from online.settings import ModelSettings
from tests.evaluation.replaying import ignore_progress, run_replay
from tests.support import run_online

ROWS = [({"size": n % 5, "colour": "red" if n % 2 else "blue", "n": n}, "odd" if n % 2 else "even") for n in range(60)]
COLUMNS = ["size", "colour", "n"]


def keep(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def write_csv(folder: Path) -> Path:
    with open(folder / "table.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*COLUMNS, "parity"])
        rows.writerows([*row.values(), label] for row, label in ROWS)
    return folder / "table.csv"


def write_parquet(folder: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = {name: [row[name] for row, _ in ROWS] for name in COLUMNS}
    parquet.write_table(pyarrow.table({**table, "parity": [label for _, label in ROWS]}), folder / "table.parquet")
    return folder / "table.parquet"


def write_jsonl(folder: Path, *names: str) -> Path:
    path = folder / f"table{'-'.join(names)}.jsonl"
    lines = [{"input": keep(row, *(names or COLUMNS)), "label": label} for row, label in ROWS]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def write_log(folder: Path, *names: str, kind: str = "classifier") -> Path:
    """Write a log of ours: each row is predicted, and then labelled."""
    names = names or tuple(COLUMNS)
    options = {"input": "table"}
    spec = ModelSettings(name="m", kind=kind, options=options)
    lines = [build_header(spec, spec.options, "table", len(ROWS), len(ROWS))]
    for offset, (row, label) in enumerate(ROWS, 1):
        features = base64.b64encode(TableEncoder().encode([keep(row, *names)])[0]).decode()
        seen = {"input": keep(row, *names), "features": features, "user": None, "created_at": None}
        answer = {
            "feedback_count": 1,
            "version": 1,
            "learned_until": 0,
            "choice": "odd",
            "propensity": 1.0,
            "candidates": [],
        }
        event = {"id": str(offset), "kind": "label", "label": label, "text": "", "reward": 1.0, "choice": "odd"}
        about = {"target": None, "user": None, "created_at": None, "prediction_id": f"p{offset}"}
        lines += [
            {"prediction": {"id": f"p{offset}", **seen, **answer}},
            {"event": {"offset": offset, **event, **about}},
        ]
    path = folder / f"log{'-'.join(names)}.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    return path


WRITERS = [write_csv, write_parquet, write_jsonl, write_log]
CHOICES = [ColumnChoice(drop=("n", "s*")), ColumnChoice(features=("colour",)), ColumnChoice(("n",), ("colour", "n*"))]


@pytest.mark.few(4)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("write", WRITERS)
def test_a_model_learns_as_if_the_other_columns_did_not_exist(tmp_path: Path, write: Any, choice: ColumnChoice) -> None:
    reads = ReadOptions(label="parity", columns=choice)
    chosen = run_replay(write(tmp_path), reads=reads).report()
    alone = run_replay(write_jsonl(tmp_path, "colour")).report()
    assert chosen.state_sha256 == alone.state_sha256 and chosen.figures["accuracy"] == alone.figures["accuracy"]
    assert chosen.left_out == ["size", "n"] and alone.left_out == []


def test_a_log_is_not_compared_with_what_was_served_if_columns_are_left_out(tmp_path: Path) -> None:
    """The service's model saw all of them."""
    reads = ReadOptions(columns=ColumnChoice(drop=("n",)))
    assert run_replay(write_log(tmp_path)).report().same_answers is not None
    chosen = run_replay(write_log(tmp_path), reads=reads).report()
    assert chosen.same_answers is None
    assert chosen.state_sha256 == run_replay(write_log(tmp_path, "size", "colour")).report().state_sha256


def test_another_kind_reads_the_same_columns_of_a_log(tmp_path: Path) -> None:
    reads = ReadOptions(columns=ColumnChoice(features=("colour",)))
    chosen = run_replay(write_log(tmp_path), "river", reads).report()
    assert chosen.state_sha256 == run_replay(write_jsonl(tmp_path, "colour"), "river").report().state_sha256


def test_all_models_of_a_replay_see_the_same_columns(tmp_path: Path) -> None:
    source = open_source(str(write_csv(tmp_path)), ReadOptions(label="parity", columns=ColumnChoice(drop=("colour",))))
    candidates = [CandidateSpec("classifier", name="one"), CandidateSpec("knn", name="two")]
    for result in replay_all(source, candidates, ScoredSpan(), 0.0, ignore_progress)[0]:
        alone = run_replay(write_jsonl(tmp_path, "size", "n"), CandidateSpec(result.candidate.kind)).report()
        assert result.report is not None and result.report.left_out == ["colour"]
        assert result.report.state_sha256 == alone.state_sha256


def test_a_column_that_is_left_out_can_still_be_the_time(tmp_path: Path) -> None:
    reads = ReadOptions(label="parity", delay=LabelDelay(by=3.0, at="n"), columns=ColumnChoice(drop=("n",)))
    lines = [*open_source(str(write_csv(tmp_path)), reads).lines()]
    assert [type(line).__name__ for line in lines[:4]] == ["LoggedPrediction"] * 3 + ["LoggedEvent"]
    assert lines[0].instance == {"size": 0.0, "colour": "blue"}


def open_with(path: Path | str, drop: tuple[str, ...] = (), features: tuple[str, ...] = ()) -> Source:
    return open_source(str(path), ReadOptions(label="parity", columns=ColumnChoice(drop, features)))


@pytest.mark.parametrize("write", WRITERS)
def test_an_unknown_column_is_refused_with_those_that_exist_and_the_closest(tmp_path: Path, write: Any) -> None:
    with pytest.raises(BadInput, match=r"--drop color: .* has no feature 'color'; did you mean 'colour'.*size, colour"):
        open_with(write(tmp_path), drop=("color",))
    with pytest.raises(BadInput, match=r"--feature z\*: .* has no feature 'z\*'; it has size, colour, n"):
        open_with(write(tmp_path), features=("z*",))


def test_the_label_cannot_be_dropped(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--drop parity: 'parity' is the label of"):
        open_with(write_csv(tmp_path), drop=("parity",))
    with pytest.raises(BadInput, match="--feature label: 'label' is the label of"):
        open_source(str(write_jsonl(tmp_path)), ReadOptions(columns=ColumnChoice(features=("label",))))


@pytest.mark.parametrize(
    ("drop", "features", "message"),
    [
        (("n",), ("n", "size"), "both name 'n'"),
        (("*",), (), "leave no feature"),
        (("size",), ("si*",), "leave no feature"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(
    tmp_path: Path, drop: tuple[str, ...], features: tuple[str, ...], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        open_with(write_csv(tmp_path), drop, features)


@pytest.mark.parametrize(("input", "kind"), [("a text", "texts"), ([1.0, 2.0], "vectors")])
def test_texts_and_vectors_have_no_columns(tmp_path: Path, input: Any, kind: str) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps({"input": input, "label": "a"}))
    with pytest.raises(BadInput, match=f"holds {kind}, which have no columns"):
        open_with(tmp_path / "log.jsonl", drop=("n",))


def test_a_dataset_of_vectors_has_no_columns() -> None:
    with pytest.raises(BadInput, match="sklearn:iris holds vectors"):
        open_with("sklearn:iris", drop=("n",))


def test_a_column_that_first_appears_late_is_found(tmp_path: Path) -> None:
    rows = [{"input": {"a": 1}, "label": "x"}] * 1_200 + [{"input": {"a": 1, "late": 2}, "label": "y"}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert open_with(tmp_path / "log.jsonl", drop=("late",)).left_out == ("late",)


def test_a_name_with_a_star_stands_for_itself_too() -> None:
    assert not ColumnChoice(drop=("a[1]",)).wants("a[1]") and not ColumnChoice(drop=("a[1]",)).wants("a1")
    assert ColumnChoice(drop=("a[1]",)).wants("a")


def test_a_long_list_of_columns_is_cut() -> None:
    assert list_names(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_vowpal_wabbits_features_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "rows.vw").write_text("1 |user age:3 clicks:2\n-1 |user age:5\n")
    source = open_with(tmp_path / "rows.vw", drop=("user^age",))
    assert [*source.instances()] == [{"user^clicks": 2.0}, {}] and source.left_out == ("user^age",)


def test_the_command_drops_columns_and_says_which(tmp_path: Path) -> None:
    path, page = write_csv(tmp_path), tmp_path / "page.html"
    command = ("replay", str(path), "--label", "parity", "--model", "majority", "--drop", "size", "--drop", "c*")
    process = run_online(*command, "--report", str(page))
    assert process.returncode == 0, process.stderr
    assert "without the columns size, colour" in process.stdout
    assert "without the columns size, colour" in page.read_text()
