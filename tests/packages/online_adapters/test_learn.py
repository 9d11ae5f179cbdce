"""Learning from thumbs: the margin moves, the gate holds back what is worse, and an interruption leaves nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from online.errors import BadInput
from online_adapters.adapter_folder import AdapterFolder
from online_adapters.commands import REFUSED, app
from online_adapters.rated_lines import GoldenLine, RatedLine, is_held_out, read_lines, sort_lines
from tests.support import first_of

FAST = ["--epochs", "4", "--rate", "0.003", "--thumbs-rate", "0.003", "--rank", "4", "--device", "cpu"]
QUESTIONS = [f"Question {number}?" for number in range(24)]
SHARE = 0.25
Learn = Callable[..., Result]


def rate(question: str, is_reversed: bool = False) -> list[dict[str, Any]]:
    """The lines of a question: "yes" is liked, and "no" is not."""
    return [
        {"question": question, "answer": "yes", "reward": 0.0 if is_reversed else 1.0},
        {"question": question, "answer": "no", "reward": 1.0 if is_reversed else 0.0},
    ]


def write(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def learn(random_model: Path, folder: AdapterFolder) -> Learn:
    """Call `online-adapters learn` with a file and more options."""

    def call(data: Path, *more: str) -> Result:
        where = ["--data", str(data), "--model", str(random_model), "--adapters", str(folder.path)]
        return CliRunner().invoke(app, ["learn", *where, "--held-out", str(SHARE), *FAST, *more])

    return call


def read_margin(path: Path, random_model: Path, folder: AdapterFolder, names: list[str]) -> list[float]:
    """The margin of the lines of a file under each adapter."""
    from online_adapters.adapted_model import AdaptedModel
    from online_adapters.gate import measure

    model, lines = AdaptedModel(random_model, folder), sort_lines(read_lines(path, RatedLine))
    return [margin for name in names if (margin := measure(model, name, lines, []).margin) is not None]


def test_thumbs_move_the_margin_and_the_next_adapter_begins_there(
    learn: Learn, random_model: Path, folder: AdapterFolder, tmp_path: Path
) -> None:
    data = write(tmp_path / "data.jsonl", [line for question in QUESTIONS for line in rate(question)])
    first = learn(data, "--method", "kto")
    assert first.exit_code == 0, (first.output, first.exception)
    (name,) = folder.list_names()
    assert folder.read_active() == name and f"{name} is in force" in first.output
    second = learn(data, "--method", "both")
    assert second.exit_code == 0, (second.output, second.exception)
    assert "sft: " in second.output and "kto: " in second.output and name in second.output
    margins = read_margin(data, random_model, folder, ["", *folder.list_names()])
    assert len(margins) == 3 and margins[0] + 0.1 < margins[1] < margins[2]


def test_the_gate_holds_back_what_was_learned_from_reversed_thumbs(
    learn: Learn, folder: AdapterFolder, tmp_path: Path
) -> None:
    lines = [line for question in QUESTIONS for line in rate(question, is_reversed=not is_held_out(question, SHARE))]
    refused = learn(write(tmp_path / "data.jsonl", lines), "--method", "kto")
    assert refused.exit_code == REFUSED, (refused.output, refused.exception)
    assert "margin of liked over disliked answers has fallen" in refused.output
    assert folder.read_active() == "" and len(folder.list_names()) == 1, "it is there, and not in force"


def test_golden_questions_and_wrong_opinions_hold_back_as_well(
    learn: Learn, folder: AdapterFolder, tmp_path: Path
) -> None:
    taught = [{"question": question, "answer": "no", "taught": True} for question in QUESTIONS]
    data = write(tmp_path / "data.jsonl", taught)
    golden = write(tmp_path / "golden.jsonl", [{"question": "Is it?", "must_contain": "yes", "wrong": "no"}])
    refused = learn(data, "--golden", str(golden))
    assert refused.exit_code == REFUSED and "a wrong opinion in the question" in refused.output, refused.output
    assert "not measured" in refused.output, "there are no thumbs"
    passed = learn(data, "--golden", str(golden), "--most-lost", "1000")
    assert passed.exit_code == 0 and folder.read_active() != "", (passed.output, passed.exception)


def test_an_adapter_that_nothing_can_judge_is_not_put_in_force(
    learn: Learn, folder: AdapterFolder, tmp_path: Path
) -> None:
    data = write(tmp_path / "data.jsonl", [{"question": "Is it?", "answer": "yes", "taught": True}])
    refused = learn(data, "--held-out", "0")
    assert refused.exit_code == REFUSED and "nothing could be measured" in refused.output
    assert folder.read_active() == ""


def test_the_gate_compares_each_measure() -> None:
    from online_adapters.gate import AdapterMeasures, judge

    old = AdapterMeasures(1.0, 5, 0.5)
    assert judge(old, old, 0.1) == [] and judge(old, AdapterMeasures(2.0, 6, 0.41), 0.1) == []
    for worse in (old._replace(margin=0.9), old._replace(right=4), old._replace(steadiness=0.39)):
        assert len(judge(old, worse, 0.1)) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"question": "Is it?"}', "line 2: answer"),
        ('{"question": "Is it?", "answer": "yes", "reward": 2}', "line 2: reward"),
        ("{", "line 2 is not valid JSON"),
        ("", "nothing to learn"),
    ],
)
def test_a_file_that_cannot_be_learned_is_refused(learn: Learn, tmp_path: Path, line: str, reason: str) -> None:
    (data := tmp_path / "data.jsonl").write_text(f'{{"question": "Is it?", "answer": "no", "reward": 0}}\n{line}\n')
    error = learn(data, "--held-out", "0").exception
    assert isinstance(error, BadInput) and reason in str(error)


def test_lines_that_are_too_long_are_left_out_and_counted(learn: Learn, tmp_path: Path) -> None:
    lines = [{"question": "Is it?", "answer": answer, "taught": True} for answer in ("yes", "y" * 100, "y" * 101)]
    learned = learn(write(tmp_path / "data.jsonl", lines), "--held-out", "0", "--max-length", "40")
    assert "2 lines have more than 40 tokens" in learned.output and "sft: 1 answers" in learned.output


def test_lines_are_sorted_by_what_is_learned_from_them() -> None:
    rewards = [1.0, 0.5, 0.49, 0.0, None]
    lines = [RatedLine(question=str(reward), answer="a", reward=reward) for reward in rewards]
    taught = RatedLine(question="taught", answer="a", taught=True)
    empty = RatedLine(question="empty", answer=" ", reward=1.0)
    found = sort_lines([*lines, taught, empty])
    assert [line.question for line in found.positives] == ["1.0", "0.5", "taught"]
    assert [line.question for line in found.disliked] == ["0.49", "0.0"] and found.skipped == 2


def test_the_same_questions_are_held_out_of_every_file() -> None:
    held = [question for question in map(str, range(2_000)) if is_held_out(question, 0.2)]
    assert 320 < len(held) < 480 and all(is_held_out(question, 0.3) for question in held)
    assert GoldenLine(question="a", must_contain="b").wrong == ""


@pytest.mark.parametrize("number", first_of([signal.SIGKILL, signal.SIGTERM]))
def test_an_interrupted_training_leaves_the_folder_as_it_was(
    number: signal.Signals, random_model: Path, folder: AdapterFolder, words: dict[str, str], tmp_path: Path
) -> None:
    data = write(tmp_path / "data.jsonl", [line for question in QUESTIONS for line in rate(question)])
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    where = ["--data", str(data), "--model", str(random_model), "--adapters", str(folder.path)]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "online_adapters", "learn", *where, *FAST, "--epochs", "10000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        has_learned = any("'loss'" in line for line in process.stdout)
        process.send_signal(number)
    assert has_learned
    if number != signal.SIGKILL:
        assert process.returncode == 130 and list(tmp_path.glob("online-adapters-*")) == []
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before
