"""Replay: the bars on public streams, every kind of source, and what is refused."""

import base64
import gzip
import json
from pathlib import Path

import pytest

from online.errors import BadInput
from online.evaluation.log import header
from online.evaluation.replay import Contender, Replay
from online.evaluation.sources import Reads, open_source
from online.models.encoder import TableEncoder
from online.settings import Drift, ModelSettings
from tests.support import replay_json, run_online

KEYS = {"log", "name", "kind", "examples", "events", "asked", "same_answers", "figures"}
KEYS |= {"examples_per_second", "state_sha256", "drift", "bad", "details", "options", "against_champion"}


@pytest.mark.parametrize(("name", "examples", "bar"), [("ImageSegments", 2_310, 0.85), ("Phishing", 1_250, 0.88)])
def test_the_classifier_beats_its_bar_on_rivers_streams(name: str, examples: int, bar: float) -> None:
    report = replay_json(f"river:{name}", "--model", "classifier")
    assert set(report) == KEYS and report["examples"] == examples
    assert report["figures"]["accuracy"] > bar > report["figures"]["no_change_accuracy"]


def replayed(path: Path, kind: str = "classifier", label: str = "") -> Replay:
    replay = Replay(open_source(str(path), Reads(label=label)), Contender(kind))
    replay.run()
    return replay


ROWS = [({"size": n % 5, "colour": "red" if n % 2 else "blue"}, "odd" if n % 2 else "even") for n in range(60)]


def test_plain_jsonl_csv_and_gzip_of_the_same_rows_give_the_same_state(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS)
    table = "size,colour,parity\n" + "\n".join(f"{row['size']},{row['colour']},{label}" for row, label in ROWS)
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.csv").write_text(table)
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    ends = [
        replayed(tmp_path / "a.jsonl"),
        replayed(tmp_path / "b.csv", label="parity"),
        replayed(tmp_path / "c.jsonl.gz"),
    ]
    assert len({replay.report().state_sha256 for replay in ends}) == 1
    assert ends[0].report().figures["accuracy"] == ends[1].report().figures["accuracy"]
    assert ends[0].report().examples == 60


def test_no_change_and_majority_are_what_they_say(tmp_path: Path) -> None:
    labels = ["a", "a", "b", "a", "a"]
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"input": [1.0], "label": label}) for label in labels))
    report = replayed(tmp_path / "log.jsonl").report()
    assert report.figures["no_change_accuracy"] == 2 / 5  # the 2nd and the 5th
    assert report.figures["majority_accuracy"] == 3 / 5  # the 2nd, 4th and 5th


def test_a_regressor_is_scored_by_its_errors_beside_no_change_and_the_mean(tmp_path: Path) -> None:
    numbers = [1.0, 3.0, 2.0, 6.0]
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"input": {}, "label": label}) for label in numbers))
    report = replayed(tmp_path / "log.jsonl", "regressor").report()
    assert report.examples == 4
    assert report.figures["mean_mae"] == pytest.approx((2 + 0 + 4) / 3, abs=1e-5)  # 1; 2; 2
    assert report.figures["no_change_mae"] == pytest.approx((2 + 1 + 4) / 3, abs=1e-5)
    assert report.figures["mae"] == pytest.approx((2 + 0 + 4) / 3, abs=1e-3)  # with no features the mean is all it has
    assert report.figures["rmse"] == pytest.approx((20 / 3) ** 0.5, abs=1e-3)
    assert report.figures["r2"] == pytest.approx(1 - 20 / (26 / 3), abs=1e-3)


def test_a_regressor_replays_rivers_regression_streams_and_a_classifier_does_not() -> None:
    report = replay_json("river:TrumpApproval", "--model", "regressor")
    assert report["examples"] == 1_001
    assert report["figures"]["mae"] < 0.5 < report["figures"]["mean_mae"]
    with pytest.raises(BadInput, match="replay it with --model regressor"):
        Replay(open_source("river:TrumpApproval"), Contender("classifier"))


def test_a_label_that_is_no_number_is_named_where_numbers_are_predicted(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"input": [1], "label": 3}\n{"input": [1], "label": "spam"}')
    with pytest.raises(BadInput, match=r"example 2: the label 'spam' is not a number"):
        replayed(tmp_path / "log.jsonl", "regressor")


def test_river_models_replay_the_same_sources(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS))
    assert replayed(tmp_path / "log.jsonl", "river").report().examples == 60


def test_towers_read_what_classifiers_read(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS))
    (tmp_path / "numbers.jsonl").write_text(
        "\n".join(json.dumps({"input": [n % 2], "label": n % 2}) for n in range(60))
    )
    for name in ("rows.jsonl", "numbers.jsonl"):
        report = replayed(tmp_path / name, "tower").report()
        assert report.examples == 60
        assert (report.figures["accuracy"] or 0) > 0.8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1 is not JSON"),
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
def test_a_line_that_cannot_be_replayed_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(BadInput, match=words.replace("(", r"\(")):
        replayed(tmp_path / "log.jsonl")


def test_a_csv_wants_to_know_its_label(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("x,y\n1,a\n")
    with pytest.raises(BadInput, match="--label COLUMN"):
        open_source(str(tmp_path / "b.csv"))
    with pytest.raises(BadInput, match="has no column 'z'; it has x, y"):
        open_source(str(tmp_path / "b.csv"), Reads(label="z"))


@pytest.mark.parametrize(
    ("row", "words"),
    [("2", "line 3 has no label, but None"), ("2,", "line 3 has no label"), ("2,a,9", "line 3 has more cells")],
)
def test_a_row_of_a_csv_that_lacks_its_label_or_has_too_many_cells_is_named(
    tmp_path: Path, row: str, words: str
) -> None:
    (tmp_path / "b.csv").write_text(f"x,y\n1,a\n{row}\n")
    with pytest.raises(BadInput, match=words):
        replayed(tmp_path / "b.csv", label="y")


@pytest.mark.parametrize("name", ["b.jsonl", "b.csv", "b.jsonl.gz", "folder"])
def test_what_cannot_be_read_as_text_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    if name != "folder":
        (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=f"{name} cannot be read"):
        open_source(str(tmp_path / name), Reads(label="y"))


@pytest.mark.parametrize(
    ("kind", "given", "used"), [("knn", None, "act"), ("knn", "off", "off"), ("logistic", None, "watch")]
)
def test_a_log_is_replayed_with_the_drift_of_its_service(
    tmp_path: Path, kind: str, given: Drift | None, used: Drift
) -> None:
    spec = ModelSettings(name="m", kind="knn", options={"input": "table"}, drift="act")
    (tmp_path / "log.jsonl").write_text(json.dumps(header(spec, spec.options, "table")))
    assert Replay(open_source(str(tmp_path / "log.jsonl")), Contender(kind, drift=given)).pupil.drift == used


def test_the_table_for_people_shows_the_baselines() -> None:
    done = run_online("replay", "river:Phishing", "--model", "river")
    assert done.returncode == 0
    for words in ("river", "no change", "majority", "1,250 examples", "log-loss"):
        assert words in done.stdout


def test_labels_that_came_with_their_input_are_asked_as_they_come_and_served_to_nobody(tmp_path: Path) -> None:
    spec = ModelSettings(name="m", kind="classifier", options={"input": "table"})
    head = header(spec, spec.options, "table", told=len(ROWS))
    lines = [json.dumps(head)]
    for offset, (row, label) in enumerate(ROWS, 1):
        event = {"id": str(offset), "kind": "label", "label": label, "text": "", "reward": 1.0, "choice": None}
        features = base64.b64encode(TableEncoder().encode([row])[0]).decode()
        rest = {"target": None, "input": row, "features": features, "user": None, "at": "2026-01-01T00:00:00+00:00"}
        lines.append(json.dumps({"told": {"offset": offset, **event, **rest}}))
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"input": row, "label": label}) for row, label in ROWS))
    logged, plain = replayed(tmp_path / "log.jsonl").report(), replayed(tmp_path / "rows.jsonl").report()
    assert logged.examples == plain.examples == 60
    assert logged.figures["accuracy"] == plain.figures["accuracy"]
    assert (logged.asked, logged.figures["served_rated"], logged.state_sha256) == (0, 0, plain.state_sha256)
