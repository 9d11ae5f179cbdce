"""Replays of public streams and of every kind of source, and sources that are refused."""

import base64
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.replay_table import describe_report
from online.evaluation.sources.arrival import LabelDelay
from online.evaluation.sources.log_format import build_header
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from online.evaluation.words import IN_ENGLISH
from online.models.encoders.rows import TableEncoder
from online.plugins.reports.report_page import build_subtitle
from online.settings import Drift, ModelSettings
from tests.evaluation.replaying import run_replay
from tests.support import replay_json, run_online

KEYS = {"log", "name", "kind", "examples", "events", "asked", "same_answers", "figures"}
KEYS |= {"examples_per_second", "state_sha256", "drift", "bad", "details", "options", "against_champion"}
KEYS |= {"leads", "remedies", "warnings", "settings", "events_without_prediction", "outside", "targets_outside"}


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "examples", "minimum"), [("ImageSegments", 2_310, 0.85), ("Phishing", 1_250, 0.88)])
def test_the_classifier_exceeds_its_minimum_accuracy_on_the_streams_of_river(
    name: str, examples: int, minimum: float
) -> None:
    report = replay_json(f"river:{name}", "--model", "classifier")
    assert set(report) == KEYS and report["examples"] == examples
    assert report["figures"]["accuracy"] > minimum > report["figures"]["no_change_accuracy"]


ROWS = [({"size": n % 5, "colour": "red" if n % 2 else "blue"}, "odd" if n % 2 else "even") for n in range(60)]


def test_plain_jsonl_csv_and_gzip_of_the_same_rows_give_the_same_state(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS)
    table = "size,colour,parity\n" + "\n".join(f"{row['size']},{row['colour']},{label}" for row, label in ROWS)
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.csv").write_text(table)
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    replays = [
        run_replay(tmp_path / "a.jsonl"),
        run_replay(tmp_path / "b.csv", reads=ReadOptions(label="parity")),
        run_replay(tmp_path / "c.jsonl.gz"),
    ]
    assert len({replay.report().state_sha256 for replay in replays}) == 1
    assert replays[0].report().figures["accuracy"] == replays[1].report().figures["accuracy"]
    assert replays[0].report().examples == 60


def test_the_no_change_and_majority_baselines_follow_their_definitions(tmp_path: Path) -> None:
    labels = ["a", "a", "b", "a", "a"]
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"input": [1.0], "label": label}) for label in labels))
    report = run_replay(tmp_path / "log.jsonl").report()
    assert report.figures["no_change_accuracy"] == 2 / 5  # the 2nd and the 5th
    assert report.figures["majority_accuracy"] == 3 / 5  # the 2nd, 4th and 5th


def test_a_regressor_is_scored_by_its_errors_and_compared_with_baselines(tmp_path: Path) -> None:
    numbers = [1.0, 3.0, 2.0, 6.0]
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"input": {}, "label": label}) for label in numbers))
    report = run_replay(tmp_path / "log.jsonl", "regressor").report()
    assert report.examples == 4
    assert report.figures["mean_mae"] == pytest.approx((2 + 0 + 4) / 3, abs=1e-5)  # 1; 2; 2
    assert report.figures["no_change_mae"] == pytest.approx((2 + 1 + 4) / 3, abs=1e-5)
    assert report.figures["mae"] == pytest.approx((2 + 0 + 4) / 3, abs=1e-3)  # with no features the mean is all it has
    assert report.figures["rmse"] == pytest.approx((20 / 3) ** 0.5, abs=1e-3)
    assert report.figures["r2"] == pytest.approx(1 - 20 / (26 / 3), abs=1e-3)


@pytest.mark.long
def test_a_regressor_replays_the_regression_streams_of_river_and_a_classifier_does_not() -> None:
    report = replay_json("river:TrumpApproval", "--model", "regressor")
    assert report["examples"] == 1_001
    assert report["figures"]["mae"] < 0.5 < report["figures"]["mean_mae"]
    with pytest.raises(BadInput, match="replay it with --model regressor"):
        Replay(open_source("river:TrumpApproval"), CandidateSpec("classifier"))


def test_a_label_that_is_not_a_number_is_reported_by_a_regressor(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"input": [1], "label": 3}\n{"input": [1], "label": "spam"}')
    with pytest.raises(BadInput, match=r"line 2: the label 'spam' is not a number"):
        run_replay(tmp_path / "log.jsonl", "regressor")


def test_river_models_replay_the_same_sources(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS))
    assert run_replay(tmp_path / "log.jsonl", "river").report().examples == 60


def test_towers_read_the_same_sources_as_classifiers(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS))
    (tmp_path / "numbers.jsonl").write_text(
        "\n".join(json.dumps({"input": [n % 2], "label": n % 2}) for n in range(60))
    )
    for name in ("rows.jsonl", "numbers.jsonl"):
        report = run_replay(tmp_path / name, "tower").report()
        assert report.examples == 60
        assert (report.figures["accuracy"] or 0) > 0.8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("not json", "line 1 is not JSON"),
        ("[1]", "line 1 is not a JSON object"),
        ('{"label": "a"}', "expected"),
        ('{"input": [1], "label": "a"}\n{"input": [1]}', "line 2"),
        ('{"input": [1], "label": "a"}\n{"input": [1, 2], "label": "a"}', "has 2 numbers; this model takes 1"),
        ('{"input": [1], "label": "a"}\n{"input": [NaN], "label": "a"}', "line 2 is not JSON"),
        ('{"input": [1], "label": "a"}\n{"input": [1], "label": null}', "line 2 has no label"),
        ('{"input": [1], "label": ""}', "line 1 has no label"),
    ],
)
def test_the_error_names_the_invalid_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        run_replay(tmp_path / "log.jsonl")


def test_a_csv_needs_the_name_of_its_label_column(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("x,y\n1,a\n")
    with pytest.raises(BadInput, match="--label COLUMN"):
        open_source(str(tmp_path / "b.csv"))
    with pytest.raises(BadInput, match="has no column 'z'; it has x, y"):
        open_source(str(tmp_path / "b.csv"), ReadOptions(label="z"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2", "line 3 has fewer cells than the header names"),
        ("2,", "line 3 has no label"),
        ("2,a,9", "line 3 has more cells"),
    ],
)
def test_a_csv_row_without_label_or_with_too_many_cells_is_reported(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "b.csv").write_text(f"x,y\n1,a\n{row}\n")
    with pytest.raises(BadInput, match=message):
        run_replay(tmp_path / "b.csv", reads=ReadOptions(label="y"))


@pytest.mark.parametrize("name", ["b.jsonl", "b.csv", "b.jsonl.gz", "folder"])
def test_a_file_that_is_not_text_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    if name != "folder":
        (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=f"{name} cannot be read"):
        open_source(str(tmp_path / name), ReadOptions(label="y"))


def test_labelled_rows_are_replayed_with_the_settings_of_a_service_which_the_report_says(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS))
    reads = ReadOptions(delay=LabelDelay(rows=2))
    candidate = CandidateSpec("classifier", {"recent": 0, "input": "table"}, every=4)
    report = run_replay(tmp_path / "a.jsonl", candidate, reads).report()
    assert report.settings["drift"] == ModelSettings(name="m", kind="classifier").drift == "act"
    assert report.settings == {"drift": "act", "delay": "2", "every": 4, "options": {"recent": 0, "input": "table"}}
    sentence = 'replayed with drift = "act", delay = "2", every = 4, options = { recent = 0, input = "table" }'
    assert sentence in [*describe_report(report, named=False)]
    assert sentence in build_subtitle([report], False, IN_ENGLISH)


@pytest.mark.parametrize(
    ("kind", "option", "expected"), [("knn", None, "act"), ("knn", "off", "off"), ("logistic", None, "act")]
)
def test_a_log_is_replayed_with_the_drift_of_its_service(
    tmp_path: Path, kind: str, option: Drift | None, expected: Drift
) -> None:
    spec = ModelSettings(name="m", kind="knn", options={"input": "table"}, drift="act")
    (tmp_path / "log.jsonl").write_text(json.dumps(build_header(spec, spec.options, "table")))
    assert (
        Replay(open_source(str(tmp_path / "log.jsonl")), CandidateSpec(kind, drift=option)).training.drift == expected
    )


def test_the_table_shows_the_baselines() -> None:
    process = run_online("replay", "river:Phishing", "--model", "river")
    assert process.returncode == 0
    for message in ("river", "no change", "majority", "1,250 examples", "log-loss"):
        assert message in process.stdout


def test_labels_with_their_own_input_are_predicted_in_order_and_not_counted_as_served(tmp_path: Path) -> None:
    spec = ModelSettings(name="m", kind="classifier", options={"input": "table"})
    header = build_header(spec, spec.options, "table", event_count=len(ROWS))
    lines = [json.dumps(header)]
    for offset, (row, label) in enumerate(ROWS, 1):
        event = {"id": str(offset), "kind": "label", "label": label, "text": "", "reward": 1.0, "choice": None}
        features = base64.b64encode(TableEncoder().encode([row])[0]).decode()
        rest = {
            "target": None,
            "input": row,
            "features": features,
            "user": None,
            "created_at": "2026-01-01T00:00:00+00:00",
        }
        lines.append(json.dumps({"event": {"offset": offset, **event, **rest}}))
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS))
    logged, plain = run_replay(tmp_path / "log.jsonl").report(), run_replay(tmp_path / "rows.jsonl").report()
    assert logged.examples == plain.examples == 60
    assert logged.figures["accuracy"] == plain.figures["accuracy"]
    assert (logged.asked, logged.figures["served_rated"], logged.state_sha256) == (0, 0, plain.state_sha256)


REPLAY_AND_COUNT_THREADS = """
import sys, torch
from pathlib import Path
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.runs import replay_all
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions

before = torch.get_num_threads()
source = open_source(sys.argv[1], ReadOptions())
replay_all(source, [CandidateSpec("classifier")], ScoredSpan(), 0.0, lambda share, examples: None)
print(before, torch.get_num_threads())
"""


REPLAY_AND_COUNT_NUMPYS_THREADS = """
import sys

from threadpoolctl import threadpool_info

from online.cli.app import main

sys.argv = ["online", "replay", sys.argv[1], "--model", "classifier", "--json"]
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
print(*{each["num_threads"] for each in threadpool_info() if each["internal_api"] == "openblas"}, file=sys.stderr)
"""


def test_the_command_computes_on_one_thread_of_numpy(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS))
    unset = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", REPLAY_AND_COUNT_NUMPYS_THREADS, str(tmp_path / "log.jsonl")]
    found = subprocess.run(command, env=unset, capture_output=True, text=True)
    assert (found.returncode, found.stderr.strip().splitlines()[-1:]) == (0, ["1"]), found.stderr


@pytest.mark.long
def test_a_replay_computes_on_one_thread(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS))
    command = [sys.executable, "-c", REPLAY_AND_COUNT_THREADS, str(tmp_path / "log.jsonl")]
    found = subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}, capture_output=True, text=True
    )
    assert (found.stdout.split(), found.returncode) == ([str(min(2, len(os.sched_getaffinity(0)))), "1"], 0), (
        found.stderr
    )
