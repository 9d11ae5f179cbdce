"""Sources of replays: formats, invalid lines and delayed labels."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from online.errors import BadInput
from online.evaluation.replay_table import describe_report
from online.evaluation.sources.arrival import LabelDelay, arrange_rows
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.column_choice import ColumnChoice
from online.evaluation.sources.labelled_rows import LabelledRow
from online.evaluation.sources.log_format import Line, LoggedEvent, LoggedPrediction
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from tests.evaluation.replaying import run_replay
from tests.support import run_online

ROWS = [({"size": float(n % 5), "colour": "red" if n % 2 else "blue"}, "odd" if n % 2 else "even") for n in range(60)]


def order(lines: list[Line]) -> list[str]:
    """Return the order of predictions (?) and events (!): ["?1", "!1", ...]."""
    return [f"?{line.id}" if isinstance(line, LoggedPrediction) else f"!{line.prediction_id}" for line in lines]


def rows(count: int, **columns: list[Any]) -> list[LabelledRow]:
    return [LabelledRow(n + 1, {}, "a", {name: values[n] for name, values in columns.items()}) for n in range(count)]


# formats


def write_rows(folder: Path) -> list[tuple[Path, ReadOptions]]:
    text = "\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS)
    table = "size,colour,parity\n" + "\n".join(f"{row['size']},{row['colour']},{label}" for row, label in ROWS)
    (folder / "a.jsonl").write_text(text)
    (folder / "b.csv").write_text(table)
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    half = len(text) // 2
    (folder / "d.jsonl.zst").write_bytes(
        zstandard.compress(text[:half].encode()) + zstandard.compress(text[half:].encode())
    )
    columns = {"size": [row["size"] for row, _ in ROWS], "colour": [row["colour"] for row, _ in ROWS]}
    pyarrow.parquet.write_table(
        pyarrow.table({**columns, "parity": [label for _, label in ROWS]}), folder / "e.parquet"
    )
    labelled = ReadOptions(label="parity")
    return [
        (folder / "a.jsonl", ReadOptions()),
        (folder / "b.csv", labelled),
        (folder / "c.jsonl.gz", ReadOptions()),
        (folder / "d.jsonl.zst", ReadOptions()),
        (folder / "e.parquet", labelled),
    ]


def test_the_same_rows_in_every_format_give_the_same_state_and_figures(tmp_path: Path) -> None:
    reports = [run_replay(path, reads=reads).report() for path, reads in write_rows(tmp_path)]
    assert len({report.state_sha256 for report in reports}) == 1
    assert all(report.figures == reports[0].figures and report.examples == 60 for report in reports)


def test_the_text_of_vowpal_wabbit_becomes_a_table(tmp_path: Path) -> None:
    path = tmp_path / "log.vw"
    path.write_text("1 |user age:2.5 member |page:2 a\n-1 1 'tag| plain:3 word\n")
    lines = list(open_source(str(path)).lines())
    predictions = [line.instance for line in lines if isinstance(line, LoggedPrediction)]
    assert predictions == [{"user^age": 2.5, "user^member": 1.0, "page^a": 2.0}, {"plain": 3.0, "word": 1.0}]
    assert [line.event.label for line in lines if isinstance(line, LoggedEvent)] == ["1", "-1"]


def test_the_text_of_vowpal_wabbit_is_recognised_without_its_file_ending(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("1 | a b\n" * 3)
    assert run_replay(tmp_path / "data.txt").report().examples == 3


def test_the_digits_of_scikit_learn_are_vectors() -> None:
    source = open_source("sklearn:digits")
    assert (source.input, source.size, source.count) == ("vector", 64, 1_797)


def test_standard_input_is_read_like_a_file() -> None:
    text = "\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS)
    process = run_online("replay", "-", "--model", "river", "--json", input=text)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["results"][0]["examples"] == 60


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "pack"), [("log.jsonl.gz", gzip.compress), ("log.jsonl.zst", zstandard.compress)])
def test_truncated_compressed_data_is_reported(tmp_path: Path, name: str, pack: Any) -> None:
    draw = random.Random(0)
    text = "\n".join(json.dumps({"input": [draw.random()], "label": draw.random() < 0.5}) for _ in range(5_000))
    (tmp_path / name).write_bytes(pack(text.encode())[:-200])
    with pytest.raises(BadInput, match="is cut off: its compressed data ends in the middle"):
        run_replay(tmp_path / name)


def test_a_parquet_file_without_the_column_is_refused_with_its_columns(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"x": [1.0], "y": ["a"]}), tmp_path / "t.parquet")
    with pytest.raises(BadInput, match="has no column 'z'; it has x, y"):
        open_source(str(tmp_path / "t.parquet"), ReadOptions(label="z"))


def test_a_parquet_file_is_recognised_by_its_first_bytes(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"x": [1.0, 2.0], "y": ["a", "b"]}), tmp_path / "part-00000")
    assert open_source(str(tmp_path / "part-00000"), ReadOptions(label="y")).format == "parquet"


def test_an_invalid_parquet_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(BadInput, match=r"t\.parquet cannot be read"):
        open_source(str(tmp_path / "t.parquet"), ReadOptions(label="z"))


def test_a_log_of_an_older_format_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"format": "online-log/1", "kind": "classifier"}\n')
    with pytest.raises(
        BadInput, match="is an online-log/1; this release reads online-log/3 and online-log/2: export it again"
    ):
        open_source(str(tmp_path / "log.jsonl"))


# bad lines


def bad_log(folder: Path, bad: int, good: int = 100) -> Path:
    lines = [json.dumps({"input": [n % 2], "label": n % 2}) for n in range(good)]
    lines[10:10] = ['{"input": [1]}'] * bad
    path = folder / "log.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_without_a_ratio_one_bad_line_is_an_error_and_the_first_five_are_shown(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        run_replay(bad_log(tmp_path, bad=9))
    text = str(caught.value)
    assert text.startswith("at least 5 lines cannot be used") and text.count("expected") == 5 and "line 11" in text


def test_bad_lines_up_to_the_ratio_are_left_out_and_counted(tmp_path: Path) -> None:
    report = run_replay(bad_log(tmp_path, bad=9), reads=ReadOptions(max_bad_ratio=0.1)).report()
    assert (report.examples, report.bad) == (100, 9)
    assert report.state_sha256 == run_replay(bad_log(tmp_path, bad=0)).report().state_sha256


def test_more_bad_lines_than_the_ratio_are_an_error_with_their_number(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^30 lines of \d+ cannot be used: .*; 25 more$"):
        run_replay(bad_log(tmp_path, bad=30), reads=ReadOptions(max_bad_ratio=0.1))


def test_an_instance_that_the_model_cannot_read_is_a_bad_line_too(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps({"input": [1.0] * (2 + (n == 7)), "label": n % 2}) for n in range(20)))
    report = run_replay(path, reads=ReadOptions(max_bad_ratio=0.2)).report()
    assert (report.examples, report.bad) == (19, 1)
    with pytest.raises(BadInput, match="example 8: has 3 numbers; this model takes 2"):
        run_replay(path)


# delays


@pytest.mark.parametrize(
    ("delay_rows", "expected"),
    [
        (0, ["?1", "!1", "?2", "!2", "?3", "!3"]),
        (1, ["?1", "?2", "!1", "?3", "!2", "!3"]),
        (9, ["?1", "?2", "?3", "!1", "!2", "!3"]),
    ],
)
def test_labels_are_delayed_by_a_number_of_examples(delay_rows: int, expected: list[str]) -> None:
    lines = list(arrange_rows(iter(rows(3)), LabelDelay(rows=delay_rows), BadLines(), "s"))
    assert order(lines) == expected
    assert [line.event.offset for line in lines if isinstance(line, LoggedEvent)] == [1, 2, 3]


def test_labels_are_delayed_by_a_number_of_seconds() -> None:
    lines = arrange_rows(iter(rows(3, t=[0, 10, 30])), LabelDelay.parse("10s", "t"), BadLines(), "s")
    assert order(list(lines)) == ["?1", "!1", "?2", "!2", "?3", "!3"]
    lines = arrange_rows(iter(rows(3, t=[0, 10, 30])), LabelDelay.parse("25s", "t"), BadLines(), "s")
    assert order(list(lines)) == ["?1", "?2", "!1", "?3", "!2", "!3"]


def test_labels_arrive_at_the_times_of_a_column_in_the_order_of_arrival() -> None:
    times = ["2026-01-01T00:00", "2026-01-01T01:00", "2026-01-01T02:00"]
    arrivals = ["2026-01-02T00:00", "2026-01-01T01:30", "2026-01-03T00:00"]
    lines = list(arrange_rows(iter(rows(3, t=times, known=arrivals)), LabelDelay.parse("known", "t"), BadLines(), "s"))
    assert order(lines) == ["?1", "?2", "!2", "?3", "!1", "!3"]
    assert [line.event.offset for line in lines if isinstance(line, LoggedEvent)] == [1, 2, 3]


def test_the_time_of_arrival_is_not_part_of_the_inputs() -> None:
    row = LabelledRow(1, {"t": 0.0, "known": 5.0, "x": 1.0}, "a", {"t": 0.0, "known": 5.0, "x": 1.0})
    predictions = next(arrange_rows(iter([row]), LabelDelay.parse("known", "t"), BadLines(), "s"))
    assert isinstance(predictions, LoggedPrediction) and predictions.instance == {"t": 0.0, "x": 1.0}


def test_a_label_that_arrives_before_its_question_is_a_bad_line() -> None:
    bad = BadLines(1.0)
    list(arrange_rows(iter(rows(1, t=[5], known=[1])), LabelDelay.parse("known", "t"), bad, "s"))
    assert "before the question" in bad.first[0]


@pytest.mark.parametrize(("delay", "message"), [("60s", "--at COLUMN"), ("arrived", "the questions' times with --at")])
def test_a_delay_by_time_needs_the_column_of_the_times(delay: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        LabelDelay.parse(delay, "")


SEPARABLE = [(n, "a" if n % 3 else "b") for n in range(400)]
START = 1_767_225_600


def write_timed(path: Path, rows: list[tuple[int, str]], per_second: int = 1) -> Path:
    lines = [f"{(START + 600 * n) * per_second},{n % 3},{label}" for n, label in rows]
    path.write_text("\n".join(["t,x,y", *lines]) + "\n")
    return path


def test_rows_that_are_newest_first_are_sorted_by_their_times_which_the_report_says(tmp_path: Path) -> None:
    reads = ReadOptions(label="y", delay=LabelDelay.parse("3600s", "t"), columns=ColumnChoice(("t",)))
    forward = run_replay(write_timed(tmp_path / "a.csv", SEPARABLE), reads=reads).report()
    shuffled = random.Random(0).sample(SEPARABLE, len(SEPARABLE))
    for name, rows in (("b.csv", SEPARABLE[::-1]), ("c.csv", shuffled)):
        report = run_replay(write_timed(tmp_path / name, rows), reads=reads).report()
        assert report.figures["accuracy"] == forward.figures["accuracy"]
        assert (report.figures["accuracy"] or 0) > 0.9
        sentence = "the rows were not in the order of their times, and were sorted by t"
        assert sentence in [*describe_report(report, named=False)]
    assert not any("sorted" in line for line in describe_report(forward, named=False))


@pytest.mark.parametrize("per_second", [1_000, 1_000_000, 1_000_000_000])
def test_a_delay_in_seconds_holds_for_times_in_any_unit(tmp_path: Path, per_second: int) -> None:
    reads = ReadOptions(label="y", delay=LabelDelay.parse("200000s", "t"), columns=ColumnChoice(("t",)))
    in_seconds = order(list(open_source(str(write_timed(tmp_path / "s.csv", SEPARABLE)), reads).lines()))
    assert (
        order(list(open_source(str(write_timed(tmp_path / "x.csv", SEPARABLE, per_second)), reads).lines()))
        == in_seconds
    )


def test_a_time_in_another_unit_is_a_line_that_cannot_be_used(tmp_path: Path) -> None:
    bad = BadLines(1.0)
    times = [START, START + 60, (START + 120) * 1_000]
    list(arrange_rows(iter(rows(3, t=times)), LabelDelay.parse("10s", "t"), bad, "s"))
    assert bad.count == 1 and "which is in milliseconds, below values in seconds" in bad.first[0]


def test_a_question_in_utc_and_a_label_without_a_zone_are_half_an_hour_apart() -> None:
    times = {
        "t": ["2026-01-01T00:00:00Z", "2026-01-01T00:45:00Z"],
        "known": ["2026-01-01 00:30:00", "2026-01-01 01:00"],
    }
    lines = list(arrange_rows(iter(rows(2, **times)), LabelDelay.parse("known", "t"), BadLines(), "s"))
    assert order(lines) == ["?1", "!1", "?2", "!2"]


def test_a_delayed_label_is_scored_with_the_earlier_prediction_and_learned_on_arrival(tmp_path: Path) -> None:
    """no-change with a delay of 1 repeats the last label that has arrived: the one before the last."""
    labels = ["a", "b", "a", "b", "a", "b"]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps({"input": [1.0], "label": label}) for label in labels))
    at_once = run_replay(path).report().figures
    later = run_replay(path, reads=ReadOptions(delay=LabelDelay(rows=1))).report().figures
    assert at_once["no_change_accuracy"] == 0
    assert later["no_change_accuracy"] == pytest.approx(4 / 6, abs=1e-5)  # of the 3rd to the 6th


def test_the_end_state_does_not_depend_on_the_delay(tmp_path: Path) -> None:
    path, reads = write_rows(tmp_path)[0]
    states = {
        run_replay(path, reads=ReadOptions(delay=LabelDelay(rows=delay_rows))).report().state_sha256
        for delay_rows in (0, 7)
    }
    assert len(states) == 1 and reads == ReadOptions()


def test_reading_a_csv_with_a_byte_order_mark_and_crlf_names_its_columns(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes("\ufeffx,y\r\n1,a\r\n2,b\r\n".encode())
    source = open_source(str(tmp_path / "b.csv"), ReadOptions(label="y"))
    assert [line.instance for line in source.lines() if isinstance(line, LoggedPrediction)] == [{"x": 1.0}, {"x": 2.0}]


def test_a_first_line_that_cannot_be_used_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [json.dumps({"input": {"x": number % 2}, "label": "ab"[number % 2]}) for number in range(20)]
    for first in ('{"input": {"x": NaN}, "label": "a"}', "no JSON", '{"input": null, "label": "a"}'):
        path.write_text("\n".join([first, *rows]))
        bad = BadLines(max_ratio=0.1)
        examples = [*open_source(str(path), ReadOptions(max_bad_ratio=0.1))._rows(bad, lambda share: None)]
        assert len(examples) == 20 and bad.count == 1 and "line 1" in bad.first[0]
