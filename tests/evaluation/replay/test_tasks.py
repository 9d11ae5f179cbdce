"""Replays of tasks that arrive one after another: accuracy matrix, forgetting and transfer."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.runs import replay_all
from online.evaluation.replay.tasks import TaskSequence
from online.evaluation.sources.arrival import LabelDelay
from online.evaluation.sources.log_format import LoggedEvent, LoggedPrediction
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from online.plugins.reports.report_page import render_page
from tests.evaluation.replaying import ignore_progress, run_replay


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five tasks of two digits each, one after another."""
    rows, labels = load_digits(return_X_y=True)
    path = tmp_path_factory.mktemp("tasks") / "digits.jsonl"
    order = np.argsort(labels // 2, kind="stable")
    lines = ({"input": rows[row].tolist(), "label": int(labels[row]), "pair": int(labels[row] // 2)} for row in order)
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


BY_PAIR = ReadOptions(task="pair")
EXACT = CandidateSpec("classifier", {"scale": 16.0}, "exact", drift="watch", every=20)  # a task is no drift here


def test_a_fifth_of_each_task_is_held_out_and_never_learned(digits: Path) -> None:
    lines = list(open_source(str(digits), BY_PAIR).lines())
    held_out = [line for line in lines if isinstance(line, LoggedPrediction) and line.held_out_class is not None]
    events = [line for line in lines if isinstance(line, LoggedEvent)]
    assert len(held_out) + len(events) == 1_797
    assert {line.id for line in held_out}.isdisjoint({line.prediction_id for line in events})
    for task in "01234":
        assert sum(line.task == task for line in held_out) == pytest.approx(360 / 5, abs=4)


def test_an_exact_model_forgets_almost_nothing_and_knows_no_future_task(digits: Path) -> None:
    replay = run_replay(digits, EXACT, BY_PAIR)
    figures, tasks = replay.report().figures, replay.tasks
    assert tasks is not None
    matrix = tasks.matrix()
    assert matrix.shape == (5, 5)
    assert not np.triu(matrix, 1).any() and figures["forward_transfer"] == 0
    assert (np.diag(matrix) > 0.8).all()
    assert (figures["average_accuracy"] or 0) > 0.9 and (figures["forgetting"] or 0) < 0.06
    assert (
        figures["least_accuracy"] is not None and figures["least_accuracy"] <= (figures["average_accuracy"] or 0) + 0.05
    )


def test_the_measures_equal_values_computed_by_hand() -> None:
    tasks = TaskSequence(["a", "b", "c"], [[], [], []], current=2)
    tasks.ends = [[0.9, 0.2, 0.0], [0.7, 0.8, 0.1], [0.6, 0.5, 1.0]]
    tasks.between = [[0.9], [0.4, 0.5], [0.7, 0.8], [0.6, 0.5, 1.0]]
    assert tasks.figures() == {
        "average_accuracy": 0.7,
        "forgetting": pytest.approx((0.3 + 0.3) / 2),
        "backward_transfer": pytest.approx((-0.3 - 0.3) / 2),
        "forward_transfer": pytest.approx((0.2 + 0.1) / 2),
        "average_anytime_accuracy": pytest.approx((0.9 + 0.45 + 0.75 + 0.7) / 4),
        "least_accuracy": pytest.approx((0.4 + 0.5) / 2),
    }


def test_the_task_is_not_part_of_the_inputs(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,pair,y\n" + "1,a,u\n2,b,v\n" * 10)
    for line in open_source(str(path), ReadOptions(label="y", task="pair")).lines():
        assert isinstance(line, LoggedEvent) or line.instance.keys() == {"x"}


def test_a_row_without_a_task_is_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,pair,y\n1,a,u\n2,,v\n")
    with pytest.raises(BadInput, match="line 3 has no task 'pair'"):
        run_replay(path, CandidateSpec("knn"), ReadOptions(label="y", task="pair"))


@pytest.mark.parametrize("reads", [ReadOptions(task="pair"), ReadOptions(delay=LabelDelay(rows=3))])
def test_a_log_has_no_tasks_and_its_own_delays(reads: ReadOptions) -> None:
    with pytest.raises(BadInput, match="--task and --delay are for labelled rows"):
        open_source("data/desk.jsonl", reads)


def test_the_page_shows_the_matrix(digits: Path) -> None:
    results, _ = replay_all(open_source(str(digits), BY_PAIR), [EXACT], ScoredSpan(), 0.0, ignore_progress)
    text = render_page(results, "digits", interrupted=False)
    assert "<h2>Tasks</h2>" in text and "<h2>Forgetting (exact)</h2>" in text
