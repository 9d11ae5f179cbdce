"""Damaged exported logs, through every door that reads one: each line is learned, or named and counted."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from online.errors import BadInput
from online.evaluation.conclusion import conclude
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.replay.runs import replay_all
from online.evaluation.sources.file_pieces import check_history
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from online.io.records import ReadLimits
from online.plugins.off_policy.logged_decisions import DecisionReadOptions, read_decision_log
from online.plugins.reports.languages import ALL_WORDS
from online.plugins.reports.report_page import render_page
from online.plugins.reports.schemas import ReplayRequest
from online.plugins.reports.uploaded_log import replay_uploaded_log
from tests.evaluation.replaying import ignore_progress
from tests.support import run_online

LOGS = Path(__file__).parent / "logs"
PAIRS = 6  # predictions of a whole log, each with one label

# doors: a log --> raise BadInput, or read it


def replay(path: Path, max_bad_ratio: float = 0.0, models: int = 1) -> ReplayReport:
    """Replay with one model, or with several, each of them in its own process."""
    reads = ReadOptions(max_bad_ratio=max_bad_ratio)
    candidates = [CandidateSpec("classifier"), CandidateSpec("logistic")][:models]
    results, _ = replay_all(open_source(str(path), reads), candidates, ScoredSpan(), max_bad_ratio, ignore_progress)
    if results[0].report is None:
        raise BadInput(str(results[0].failure))
    return results[0].report


def upload(path: Path, folder: Path, max_bad_ratio: float = 0.0) -> str:
    """Return the page of an uploaded log."""
    shutil.copy(path, folder / path.name)
    asked = {"models": [], "label": "", "format": "", "size_bytes": 1, "created_at": ""}
    request = ReplayRequest(name="mine", file=path.name, max_bad_ratio=max_bad_ratio, **asked)
    (folder / "asked.json").write_text(request.model_dump_json())
    replay_uploaded_log(folder, ReadLimits(), lambda models: None, ignore_progress)
    return (folder / "report.html").read_text()


def evaluate(path: Path, max_bad_ratio: float = 0.0) -> Any:
    return read_decision_log(str(path), DecisionReadOptions(max_bad_ratio=max_bad_ratio))[0]


def open_door(door: str, path: Path, folder: Path) -> None:
    if door == "upload":
        upload(path, folder)
    elif door == "evaluate":
        evaluate(path)
    else:
        replay(path, models=2 if door == "replay of several models" else 1)


DOORS = ["replay", "replay of several models", "evaluate", "upload"]
UNUSABLE = {
    "unknown_line.jsonl": ("unknown_line", 6, r"line 6 is neither a prediction nor an event: 'noted'"),
    "unknown_kind_of_event.jsonl": ("unknown_line", 5, r"line 7 is an event of an unknown kind, 'praise'"),
    "line_of_another_program.jsonl": ("unknown_line", 6, r"line 5 is neither .*: 'time', 'level', 'message'"),
    "offset_as_text.jsonl": ("wrong_field", 5, r"line 7 .*: its 'offset' is \"3\", not a whole number from 1"),
    "label_null.jsonl": ("wrong_field", 5, r"line 7 .*: its 'label' is null, not a text"),
    "id_as_number.jsonl": ("wrong_field", 5, r"line 7 .*: its 'id' is 3, not a text"),
    "at_is_no_time.jsonl": (
        "wrong_field",
        5,
        r"line 7 .*: its 'created_at' is 'after lunch', which is neither a number nor a",
    ),
    "field_missing.jsonl": ("wrong_field", 5, r"line 7 .*: it lacks 'label'"),
    "features_too_short.jsonl": ("wrong_field", 5, r"line 6 .*: it has features of 3 bytes where 16 are expected"),
    "event_twice_with_other_contents.jsonl": (
        "contradiction",
        6,
        r"line 8 gives the event 'note-3' again, with other contents; the first one counts",
    ),
    "offset_twice.jsonl": ("contradiction", 6, r"line 8 has the offset 3, as another event before it; the first one"),
    "out_of_order.jsonl": ("out_of_order", 5, r"line 9 has the offset 3 behind 4: events stand in the order"),
    "cut_in_a_line.jsonl": ("cut_off", 5, r"line 13 is cut off: the file ends in the middle of it"),
    "two_logs.jsonl": ("other_log", 6, r"line 14 begins another log, which is not read: give each log by itself"),
}
NO_LOG = {
    "without_header.jsonl": r"has no header of online-log/3 in its first line: export the log again",
    "empty.jsonl": r"is empty",
}
WHOLE = ["version_2.jsonl", "windows.jsonl", "times_with_and_without_zone.jsonl", "times_in_ms_and_ns.jsonl"]
STATE = "as_exported.jsonl"


@pytest.mark.few(24)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", [*UNUSABLE, *NO_LOG])
def test_a_damaged_log_is_refused_at_every_door_in_one_sentence(door: str, name: str, tmp_path: Path) -> None:
    sentence = UNUSABLE[name][2] if name in UNUSABLE else NO_LOG[name]
    with pytest.raises(BadInput, match=sentence):
        open_door(door, LOGS / name, tmp_path)


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_lines_that_are_accepted_are_counted_by_what_is_wrong(name: str) -> None:
    problem, events, _ = UNUSABLE[name]
    count = 5 if name == "two_logs.jsonl" else 1
    report = replay(LOGS / name, 0.5)
    assert (report.events, report.bad, report.unusable["problems"]) == (events, count, {problem: count})
    decisions = evaluate(LOGS / name, 0.5)
    assert decisions.left_out["bad lines"] == count
    assert any(note.startswith("bad lines: ") for note in decisions.notes)


@pytest.mark.parametrize("name", WHOLE)
def test_a_log_of_another_system_or_with_other_times_is_the_same_log(name: str) -> None:
    report, whole = replay(LOGS / name), replay(LOGS / STATE)
    assert (report.events, report.bad, report.state_sha256) == (PAIRS, 0, whole.state_sha256)
    assert [part.sums["lateness"] for part in report.details.curve] == [1.0] * PAIRS


def test_a_line_that_repeats_another_one_counts_once(tmp_path: Path) -> None:
    report = replay(LOGS / "event_twice.jsonl", models=2)
    assert (report.events, report.repeated_lines, report.bad) == (PAIRS, 1, 0)
    assert report.state_sha256 == replay(LOGS / STATE).state_sha256
    sentence = "1 line repeats an earlier one and counts once"
    assert evaluate(LOGS / "event_twice.jsonl").notes == [sentence]
    assert sentence in upload(LOGS / "event_twice.jsonl", tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "missing", "first"), [("gap.jsonl", 2, 3), ("cut_at_a_line.jsonl", 2, 5)], ids=["gap", "end"]
)
def test_events_that_a_log_lacks_are_counted_and_said(name: str, missing: int, first: int, tmp_path: Path) -> None:
    for models in (1, 2):
        report = replay(LOGS / name, models=models)
        assert (report.events, report.missing_events, report.first_missing) == (PAIRS - missing, missing, first)
        assert report.missing_predictions == missing
    sentence = f"{missing} events are missing from the log, the first at offset {first}, so the state is not"
    assert evaluate(LOGS / name).notes[0].startswith(sentence)
    assert sentence in upload(LOGS / name, tmp_path)
    results, _ = replay_all(
        open_source(str(LOGS / name)), [CandidateSpec("classifier")], ScoredSpan(), 0.0, ignore_progress
    )
    assert conclude(results).level == "attention"
    for words in ALL_WORDS:
        assert words.plural("warn.missing", missing, first=first) in render_page(results, "log", False, words=words)


def test_the_command_line_says_it_with_its_status_and_its_json() -> None:
    refused = run_online("replay", str(LOGS / "offset_as_text.jsonl"), "--model", "classifier")
    assert refused.returncode == 2 and "its 'offset' is \"3\"" in refused.stderr
    process = run_online("replay", str(LOGS / "gap.jsonl"), "--model", "classifier", "--json")
    [result] = json.loads(process.stdout)["results"]
    assert process.returncode == 0
    assert (result["missing_events"], result["first_missing"], result["missing_predictions"]) == (2, 3, 2)
    assert result["warnings"][0].startswith("2 events are missing from the log")


@pytest.mark.parametrize("name", [STATE, "gap.jsonl", "cut_in_a_line.jsonl", "windows.jsonl"])
def test_a_log_is_no_file_of_rows_to_load_or_to_adapt_to(name: str) -> None:
    with pytest.raises(BadInput, match="is an exported log, whose events belong to its own model"):
        check_history(open_source(str(LOGS / name)))


def test_compressed_logs_are_read_or_named(tmp_path: Path) -> None:
    packed = gzip.compress((LOGS / STATE).read_bytes())
    for name, content in (("log.jsonl.gz", packed), ("cut.jsonl.gz", packed[:-60]), ("log.jsonl", packed)):
        (tmp_path / name).write_bytes(content)
    assert replay(tmp_path / "log.jsonl.gz").events == PAIRS
    with pytest.raises(BadInput, match="is cut off: its compressed data ends in the middle"):
        replay(tmp_path / "cut.jsonl.gz")
    with pytest.raises(BadInput, match=r"is compressed with gzip; let its name end in \.gz, or unpack it"):
        replay(tmp_path / "log.jsonl")
