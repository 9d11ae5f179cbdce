"""Events about predictions that do not stand before them: counted and named, at every door that reads a log."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from online.evaluation.conclusion import conclude
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.runs import replay_all
from online.evaluation.sources.opening import open_source
from online.models import create
from online.plugins.off_policy.logged_decisions import ORPHANS, DecisionReadOptions, read_decision_log
from online.plugins.reports.languages import ALL_WORDS
from online.plugins.reports.report_page import render_page
from tests.evaluation.replaying import ignore_progress, run_replay
from tests.support import run_online

OPTIONS = {"input": "vector", "size": 2, "scale": 4.0}
PAIRS = 120
LATER, NEVER = (10, 20, 30), (40, 50)  # events whose predictions stand behind them, or not in the log


def predict(number: int) -> dict[str, Any]:
    features = base64.b64encode(np.array([number % 2, 1.0]).tobytes()).decode()
    answer = {"choice": "a", "propensity": 0.5, "candidates": [["a", 0.5], ["b", 0.5]], "feedback_count": 1}
    known = {"version": 1, "learned_until": number - 1, "user": None, "created_at": "2026-11-27T10:00:00+00:00"}
    return {"prediction": {"id": f"p{number}", "input": [number % 2, 1.0], "features": features, **answer, **known}}


def label(number: int) -> dict[str, Any]:
    event = {"id": f"e{number}", "kind": "label", "label": "ab"[number % 2], "text": "", "reward": 1.0, "choice": "a"}
    return {
        "event": {
            "offset": number,
            **event,
            "target": None,
            "prediction_id": f"p{number}",
            "user": None,
            "created_at": None,
        }
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 120 predictions, each with a label; three predictions stand too late, and two are missing."""
    numbers = range(1, PAIRS + 1)
    lines = [line for n in numbers for line in ([label(n)] if n in LATER + NEVER else [predict(n), label(n)])]
    lines += [predict(n) for n in LATER]
    epoch = create("classifier", OPTIONS).feature_epoch()
    header = {"format": "online-log/3", "model": "m", "kind": "classifier", "options": OPTIONS, "drift": "watch"}
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, [{**header, "feature_epoch": epoch}, *lines])))
    return path


def test_a_replay_counts_events_without_their_prediction(log: Path) -> None:
    report = run_replay(log).report()
    assert (report.events, report.events_without_prediction) == (PAIRS - 5, 5)


def test_models_that_are_replayed_together_count_the_same(log: Path) -> None:
    models = [CandidateSpec("classifier"), CandidateSpec("logistic"), CandidateSpec("knn")]
    results, _ = replay_all(open_source(str(log)), models, ScoredSpan(), 0.0, ignore_progress)
    assert [result.report.events_without_prediction for result in results if result.report] == [5, 5, 5]


def test_the_verdict_the_json_the_text_and_the_page_say_so(log: Path) -> None:
    results, _ = replay_all(open_source(str(log)), [CandidateSpec("classifier")], ScoredSpan(), 0.0, ignore_progress)
    verdict = conclude(results)
    assert verdict.level == "attention"
    assert verdict.headline.startswith("5 events were not learned: they name predictions that do not stand before them")
    for words in ALL_WORDS:
        sentence = words.plural("warn.orphans", 5)
        assert sentence in render_page(results, "log", interrupted=False, words=words)
    process = run_online("replay", str(log), "--model", "classifier", "--json")
    printed = json.loads(process.stdout)
    [result], [concluded] = printed["results"], printed["verdicts"]
    assert process.returncode == 0
    assert result["events_without_prediction"] == 5
    assert result["warnings"][0] == concluded["warnings"][0] == verdict.headline
    table = run_online("replay", str(log), "--model", "classifier").stdout
    assert verdict.headline in " ".join(table.split())


def test_a_log_in_which_all_events_came_too_early_is_no_log_without_feedback(tmp_path: Path, log: Path) -> None:
    header, *lines = log.read_text().splitlines()
    moved = tmp_path / "moved.jsonl"
    moved.write_text("\n".join([header, *sorted(lines, key=lambda line: line.startswith('{"prediction"'))]))
    report = run_replay(moved).report()
    assert (report.events, report.events_without_prediction) == (0, PAIRS)
    results, _ = replay_all(open_source(str(moved)), [CandidateSpec("classifier")], ScoredSpan(), 0.0, ignore_progress)
    assert f"{PAIRS} events were not learned" in conclude(results).headline


def test_an_evaluation_of_decisions_names_them(log: Path) -> None:
    decisions, _ = read_decision_log(str(log), DecisionReadOptions())
    assert decisions.left_out[ORPHANS] == 5
    assert len(decisions) == PAIRS - 5
