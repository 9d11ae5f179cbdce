"""What a replay tells about tasks that come one after another."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from online.errors import BadInput
from online.evaluation.log import Asked, Told
from online.evaluation.race import raced
from online.evaluation.replay import Contender, Replay, Span
from online.evaluation.report import page
from online.evaluation.sources import Delay, Reads, open_source
from online.evaluation.tasks import Tasks
from tests.evaluation.test_race import nothing


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five tasks of two digits each, one after another."""
    rows, labels = load_digits(return_X_y=True)
    path = tmp_path_factory.mktemp("tasks") / "digits.jsonl"
    order = np.argsort(labels // 2, kind="stable")
    lines = ({"input": rows[at].tolist(), "label": int(labels[at]), "pair": int(labels[at] // 2)} for at in order)
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


BY_PAIR = Reads(task="pair")
EXACT = Contender("classifier", {"scale": 16.0}, "exact", every=20)


def replayed(path: Path, contender: Contender, reads: Reads = BY_PAIR) -> Replay:
    replay = Replay(open_source(str(path), reads), contender)
    replay.run()
    return replay


def test_a_fifth_of_each_task_is_held_out_and_never_learned(digits: Path) -> None:
    lines = list(open_source(str(digits), BY_PAIR).lines())
    held = [line for line in lines if isinstance(line, Asked) and line.held is not None]
    told = [line for line in lines if isinstance(line, Told)]
    assert len(held) + len(told) == 1_797
    assert {line.id for line in held}.isdisjoint({line.asked for line in told})
    for task in "01234":
        assert sum(line.task == task for line in held) == pytest.approx(360 / 5, abs=4)


def test_exact_sums_forget_next_to_nothing_and_what_was_not_learned_is_not_known(digits: Path) -> None:
    replay = replayed(digits, EXACT)
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


def test_the_measures_by_hand() -> None:
    tasks = Tasks(["a", "b", "c"], [[], [], []], current=2)
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


def test_no_model_sees_which_task_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,pair,y\n" + "1,a,u\n2,b,v\n" * 10)
    for line in open_source(str(path), Reads(label="y", task="pair")).lines():
        assert isinstance(line, Told) or line.instance.keys() == {"x"}


def test_a_row_without_a_task_is_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,pair,y\n1,a,u\n2,,v\n")
    with pytest.raises(BadInput, match="line 3 has no task 'pair'"):
        replayed(path, Contender("knn"), Reads(label="y", task="pair"))


@pytest.mark.parametrize("reads", [Reads(task="pair"), Reads(delay=Delay(rows=3))])
def test_a_log_has_no_tasks_and_its_own_delays(reads: Reads) -> None:
    with pytest.raises(BadInput, match="--task and --delay are for labelled rows"):
        open_source("data/desk.jsonl", reads)


def test_the_page_shows_the_matrix(digits: Path) -> None:
    results, _ = raced(open_source(str(digits), BY_PAIR), [EXACT], Span(), 0.0, nothing)
    text = page(results, "digits", interrupted=False)
    assert "<h2>Tasks</h2>" in text and "<h2>Forgetting (exact)</h2>" in text
