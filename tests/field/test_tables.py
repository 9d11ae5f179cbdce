"""Small tables of the kinds that people have, through every door that reads tables: each gives the right rows, or one sentence."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from online.errors import BadInput
from online.evaluation.remarks import describe_columns
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.column_choice import ColumnChoice
from online.evaluation.sources.column_profile import ColumnProfile, create_treatment, profile_columns, read_instant
from online.evaluation.sources.file_pieces import PieceReader, cut_files, fit_files
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions, Source
from online.io.records import ReadLimits
from online.plugins.jobs.batch_rows import DirectReader, RowsRequest
from online.plugins.reports.schemas import ReplayRequest
from online.plugins.reports.uploaded_log import replay_uploaded_log
from tests.evaluation.replaying import ignore_progress, run_replay

TABLES = Path(__file__).parent / "tables"
LABELLED = ReadOptions(label="label")


# doors: a file --> the names of its classes, or the first sentence that refuses it


def replay(path: Path) -> list[str]:
    bad = BadLines()
    blocks = [*open_source(str(path), LABELLED).blocks(bad)]
    bad.check(0)
    return sorted({label for block in blocks for label in block.labels})


def load(path: Path) -> list[str]:
    bad = BadLines()
    sources, profile = fit_files([open_source(str(path), LABELLED)], "table")
    rows = [PieceReader({"input": "table"}, profile=profile)(piece) for piece in cut_files(sources, bad)]
    if unusable := [cause for each in rows for cause in each.unusable]:
        raise BadInput(unusable[0])
    bad.check(0)
    return sorted({example.label for each in rows for example in each.examples})


def upload(path: Path, folder: Path) -> list[str]:
    sent = folder / path.name
    sent.write_bytes(path.read_bytes())
    request = ReplayRequest(
        name=path.name,
        file=path.name,
        models=["majority"],
        label="label",
        format="",
        max_bad_ratio=0.0,
        size_bytes=1,
        created_at="",
    )
    (folder / "asked.json").write_text(request.model_dump_json())
    replay_uploaded_log(folder, ReadLimits(), lambda models: None, ignore_progress)
    return replay(path)


def open_door(door: str, path: Path, folder: Path) -> list[str]:
    return upload(path, folder) if door == "upload" else {"replay": replay, "load": load}[door](path)


CLASSES = {
    "number_labels_written_three_ways.csv": ["0", "1"],
    "number_labels_written_three_ways.jsonl": ["0", "1"],
    "leading_zero.csv": ["east", "none", "south"],
    "texts_like_numbers.csv": ["left", "right"],
    "row_numbers_and_dates.csv": ["left", "right"],
    "semicolons_and_decimal_commas.csv": ["left", "right"],
    "tabs.tsv": ["left", "right"],
    "tabs_without_a_known_ending.data": ["left", "right"],
    "numbers_with_units_and_dates_in_words.csv": ["left", "right"],
}
REFUSED = {
    "duplicate_header.csv": r"has the column 'x' 2 times \(columns 1, 2\): rename all but one",
    "header_with_a_space.csv": r"has the column 'x' 2 times",
    "ragged_lines.csv": r"line 3 has fewer cells than the header names \(2, not 3\)",
    "open_quote.csv": r"line 3 opens a quote that is not closed before the end of the file, 2 lines later",
    "array_of_objects.json": "is a JSON array; write one object a line",
    "columns_between_spaces.txt": "line 1 is no JSON; a table is read with --format csv",
    "columns_as_names.jsonl": "line 1: expected .* rows whose names are columns, .* are read from CSV or Parquet",
    "duplicate_name.jsonl": r"line 1 has the name 'x' twice; leave out one of them",
}


@pytest.mark.few(9)
@pytest.mark.parametrize("door", ["replay", "load", "upload"])
@pytest.mark.parametrize("name", CLASSES)
def test_a_table_has_the_same_classes_at_every_door(door: str, name: str, tmp_path: Path) -> None:
    assert open_door(door, TABLES / name, tmp_path) == CLASSES[name]


@pytest.mark.parametrize("door", ["replay", "load", "upload"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_would_lose_something_is_refused_at_every_door(door: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=REFUSED[name]):
        open_door(door, TABLES / name, tmp_path)


def read_for_predict(path: Path, input: str = "table", key: str = "label") -> list[tuple[Any, str | None]]:
    request = RowsRequest(path, {".tsv": "csv"}.get(path.suffix, path.suffix.removeprefix(".")), key, input)
    return [(row.instance, row.cause) for row in DirectReader().read(request, lambda: None)]


@pytest.mark.parametrize("name", [name for name in CLASSES if not name.endswith(("jsonl", "data"))])
def test_a_file_to_predict_has_every_row_of_the_table(name: str) -> None:
    rows = read_for_predict(TABLES / name)
    assert len(rows) == 60 and all(isinstance(instance, dict) and cause is None for instance, cause in rows)


@pytest.mark.parametrize("name", ["duplicate_header.csv", "header_with_a_space.csv"])
def test_a_file_to_predict_with_two_columns_of_one_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="has the column 'x' 2 times"):
        read_for_predict(TABLES / name)


def test_each_line_of_a_file_to_predict_that_is_no_row_has_its_own_error() -> None:
    assert [cause for _, cause in read_for_predict(TABLES / "ragged_lines.csv")] == [
        None,
        "it has fewer cells than the header names (2, not 3)",
        "it has more cells than the header names (4, not 3)",
        None,
    ]


# cells


def instances(source: Source) -> list[Any]:
    return [*source.instances()]


def test_a_column_with_a_leading_zero_is_text_in_every_row() -> None:
    zips = {row["zip"] for row in instances(open_source(str(TABLES / "leading_zero.csv"), LABELLED))}
    assert zips == {"01067", "1067", "80331", "080331"}


def test_texts_that_only_a_parser_takes_for_numbers_stay_texts() -> None:
    codes = {row["code"] for row in instances(open_source(str(TABLES / "texts_like_numbers.csv"), LABELLED))}
    assert codes == {"1_0", "NaN", "Infinity", "0x1f", "１２"}


def test_semicolons_and_decimal_commas_are_found() -> None:
    first = instances(open_source(str(TABLES / "semicolons_and_decimal_commas.csv"), LABELLED))[0]
    assert first == {"width": 0.5, "height": 0.0}


def test_a_cell_of_140000_characters_is_read_and_may_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("size,note,label\n" + "1,short,a\n" * 5 + f"2,{'x' * 140_000},b\n")
    dropped = ReadOptions(label="label", columns=ColumnChoice(drop=("note",)))
    assert len(instances(open_source(str(path), LABELLED))[5]["note"]) == 140_000
    assert instances(open_source(str(path), dropped))[5] == {"size": 2.0}


# columns


def columns_of(path: Path, reads: ReadOptions = LABELLED) -> dict[str, tuple[str, str]]:
    return {each.name: (each.kind, each.treatment) for each in open_source(str(path), reads).profile.columns}


def test_row_numbers_are_left_out_and_dates_become_numbers() -> None:
    path = TABLES / "row_numbers_and_dates.csv"
    assert columns_of(path) == {
        "idx": ("identifier", "left_out"),
        "when": ("date", "parsed"),
        "weight": ("number", "read"),
    }
    report = run_replay(path, "logistic", LABELLED).report()
    assert report.examples == 60 and [each.name for each in report.columns if each.treatment != "read"] == [
        "idx",
        "when",
    ]


def test_numbers_beside_a_unit_and_dates_in_words_are_read() -> None:
    path = TABLES / "numbers_with_units_and_dates_in_words.csv"
    source = open_source(str(path), LABELLED)
    found = {each.name: (each.kind, each.reads) for each in source.profile.columns}
    assert found == {
        "price": ("number", "grouped $"),
        "share": ("number", "number %"),
        "weight": ("number", "number kg"),
        "bought": ("date", "named"),
        "stamp": ("date", "compact"),
    }
    report = run_replay(path, "logistic", LABELLED).report()
    assert next(describe_columns(report.columns)).startswith(
        "the column price: its numbers are read without their unit"
    )
    rows = read_for_predict(path)
    assert rows[0][0]["bought.weekday"] == "Thu" and rows[0][0]["stamp.weekday"] == "Thu"
    assert rows[0][0]["price"] > 1_000 and 0 < rows[0][0]["share"] < 100 and rows[0][0]["bought.hour"] == 13


@pytest.mark.parametrize(
    "values",
    [
        [f"{n} kg" for n in range(9)] * 5,  # so few are names
        [f"A{n}" for n in range(50)],
        [f"{n} kg" for n in range(30)] + [f"{n} lb" for n in range(30)],
        [f"{n}" for n in range(10, 40)] + ["unknown"],
        ["3.5 of 10"] * 40,
    ],
    ids=["few", "codes", "two units", "no unit", "sentences"],
)
def test_what_only_resembles_numbers_with_a_unit_stays_a_name(values: list[str]) -> None:
    [column] = profile_columns([{"x": value} for value in values]).columns
    assert column.reason != "units"


def test_another_unit_behind_the_rows_that_were_looked_at_is_not_read_as_the_first() -> None:
    profile = profile_columns([{"x": f"{n} kg"} for n in range(40)])
    treat = create_treatment(profile)
    assert [treat({"x": text})["x"] for text in ("7 kg", "7kg", "7 lb", "7", "7 %", "heavy")] == [
        *(7.0, 7.0),
        *("7 lb", "7", "7 %", "heavy"),
    ]


def test_a_format_that_is_named_is_not_doubted(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("oops\n" + '{"input": {"x": 1}, "label": "a"}\n' * 9)
    named = ReadOptions(format="jsonl", max_bad_ratio=0.5)
    report = run_replay(path, "majority", named).report()
    assert (report.examples, report.bad) == (9, 1)
    with pytest.raises(BadInput, match=r"rows.txt, line 1 is no JSON; a table is read with --format csv"):
        open_source(str(path), ReadOptions(max_bad_ratio=0.5))


@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        ("03-May-2026", "named", "2026-05-03T00:00"),
        ("3. Mai 2026 14:05", "named", "2026-05-03T14:05"),
        ("Sept 1st, 2026 12:30 AM", "named", "2026-09-01T00:30"),
        ("12/31/2026 12:05 pm", "mdy", "2026-12-31T12:05"),
        ("31.12.2026, 7:05", "dmy", "2026-12-31T07:05"),
        ("3 Juli 2026 13:00 PM", "named", None),
        ("3 Nope 2026", "named", None),
        (20_260_503.0, "compact", "2026-05-03T00:00"),
        (20_261_303.0, "compact", None),
    ],
)
def test_dates_are_read_as_people_write_them(text: str | float, how: str, said: str | None) -> None:
    found = read_instant(text, how)
    assert (found and found.isoformat()[:16]) == said


def test_a_row_number_that_is_named_as_a_feature_is_read() -> None:
    reads = ReadOptions(label="label", columns=ColumnChoice(features=("idx", "weight")))
    kept = columns_of(TABLES / "row_numbers_and_dates.csv", reads)
    assert kept == {"idx": ("number", "read"), "weight": ("number", "read")}


@pytest.mark.parametrize("features", [(), ("sentence",)])
@pytest.mark.parametrize("options", [{}, {"input": "text"}])
def test_the_only_column_of_sentences_is_the_text(features: tuple[str, ...], options: dict[str, Any]) -> None:
    reads = ReadOptions(label="label", columns=ColumnChoice(features=features))
    candidate = CandidateSpec("classifier", {"text_features": "hashed", **options})
    report = run_replay(TABLES / "sentences_beside_row_numbers.csv", candidate, reads).report()
    accuracy = report.figures["accuracy"]
    assert report.examples == 60 and accuracy is not None and accuracy > 0.8
    assert ("sentence", "input") in [(each.name, each.treatment) for each in report.columns]


def test_rows_are_judged_or_named(tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text("x,label\n" + "1,a\n2,b\n" * 30 + "3\n4,a,5\n,\n6,b\n")
    report = run_replay(path, "logistic", ReadOptions(label="label", max_bad_ratio=0.5)).report()
    assert report.examples + report.bad == 64
    assert report.unusable["problems"] == {"too_few_cells": 1, "too_many_cells": 1, "no_label": 1}


def test_a_label_that_is_no_number_is_an_unusable_line_of_a_regressor(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("x,label\n" + "1,10\n2,20\n" * 30 + "1,unknown\n")
    report = run_replay(path, "regressor", ReadOptions(label="label", max_bad_ratio=0.1)).report()
    assert (report.examples, report.bad) == (60, 1) and "'unknown' is not a number" in report.unusable["first"][0]


# Parquet


def write_parquet(folder: Path, **columns: Any) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (pyarrow.array([1, 0], pyarrow.int64()), ["0", "1"]),
        (pyarrow.array([1.0, 0.0], pyarrow.float64()), ["0", "1"]),
        (pyarrow.array([b"1", b"0"], pyarrow.binary()), ["0", "1"]),
        (pyarrow.array([Decimal("1.00"), Decimal("0.00")]), ["0", "1"]),
        (pyarrow.array([True, False]), ["False", "True"]),
        (pyarrow.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        (pyarrow.array([2**64 - 1, 0], pyarrow.uint64()), ["0", "18446744073709551615"]),
    ],
)
def test_labels_of_parquet_are_named_by_what_they_are(tmp_path: Path, labels: Any, named: list[str]) -> None:
    assert replay(write_parquet(tmp_path, x=[1.0, 2.0], label=labels)) == named


@pytest.mark.parametrize("type", [pyarrow.list_(pyarrow.float32()), pyarrow.list_(pyarrow.float32(), 3)])
def test_the_only_column_of_lists_is_the_vector(tmp_path: Path, type: Any) -> None:
    vectors = pyarrow.array([[float(n % 2), 1.0, 0.0] for n in range(60)], type)
    path = write_parquet(tmp_path, id=[*range(60)], embedding=vectors, label=[str(n % 2) for n in range(60)])
    source, report = open_source(str(path), LABELLED), run_replay(path, "classifier", LABELLED).report()
    assert (source.input, source.size) == ("vector", 3) and (report.figures["accuracy"] or 0) > 0.9


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_parquet_are_read_in_any_unit(tmp_path: Path, unit: str) -> None:
    times = pyarrow.array([1, 2**40], pyarrow.timestamp(unit))
    assert (
        len(instances(open_source(str(write_parquet(tmp_path, t=times, x=[1.0, 2.0], label=["a", "b"])), LABELLED)))
        == 2
    )


def test_a_column_of_maps_is_refused_unless_it_is_dropped(tmp_path: Path) -> None:
    maps = pyarrow.array([[("a", 1)], []], pyarrow.map_(pyarrow.string(), pyarrow.int32()))
    path = write_parquet(tmp_path, m=maps, x=[1.0, 2.0], label=["a", "b"])
    with pytest.raises(BadInput, match=r"has the column 'm' of the type map<.*leave it out with --drop m"):
        open_source(str(path), LABELLED)
    dropped = ReadOptions(label="label", columns=ColumnChoice(drop=("m",)))
    assert instances(open_source(str(path), dropped)) == [{"x": 1.0}, {"x": 2.0}]


def test_parquet_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pyarrow.Table.from_arrays(
        [pyarrow.array([1]), pyarrow.array([9]), pyarrow.array(["a"])], ["x", "x", "label"]
    )
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(BadInput, match="has the column 'x' 2 times"):
        open_source(str(tmp_path / "t.parquet"), LABELLED)


def test_objects_of_jsonl_with_one_text_are_read_as_the_text(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    sentences = [f"Where is gate {n} of the old hall" if n % 2 else f"Pay {n} coins for my lunch" for n in range(60)]
    path.write_text("\n".join(json.dumps({"input": {"q": text}, "label": n % 2}) for n, text in enumerate(sentences)))
    source = open_source(str(path))
    assert source.input == "text" and source.profile.columns == (ColumnProfile("q", "text", "sentences", "input"),)


def test_empty_lists_hold_no_value(tmp_path: Path) -> None:
    empty = pyarrow.array([[], []], pyarrow.list_(pyarrow.float32()))
    assert columns_of(write_parquet(tmp_path, e=empty, x=[1.0, 2.0], label=["a", "b"])) == {
        "e": ("empty", "left_out"),
        "x": ("number", "read"),
    }
