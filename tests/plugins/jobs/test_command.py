"""`online predict` answers a file without a service, and resumes after an interruption."""

import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import config
from tests.preload import ForkedProcess
from tests.support import Service, run_online, until

MODELS = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 4, scale = 4.0 }

[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }

[[models]]
name = "river"
kind = "river"
options = { estimator = "logistic" }
"""
ROW_COUNT = 80_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a stopped service, and a long input."""
    folder = tmp_path_factory.mktemp("predict")
    service = Service(folder / "state", config(folder, MODELS))
    with service.client("vec") as client:
        receipts = client.feedback([{"input": [n % 3, 1, 0, n % 2], "label": f"l{n % 3}"} for n in range(12)])
        client.wait_until_learned(receipts[-1]["offset"], 60)
    service.wait_learned("chat", 1)
    assert service.stop() == 0
    (folder / "long.jsonl").write_text("".join(f"[{n % 5}, {n % 3}, 1, 0]\n" for n in range(ROW_COUNT)))
    return folder


@pytest.fixture(scope="module")
def uninterrupted(folder: Path) -> dict[str, bytes]:
    """The results for the long input without an interruption."""
    assert run_online(*command(folder, "whole")[3:]).returncode == 0
    return results(folder, "whole")


def results(folder: Path, out: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / out).glob("prediction.*")}


def flags(folder: Path, model: str = "vec") -> list[str]:
    return ["--state", str(folder / "state"), "--config", str(folder / "state.toml"), "--model", model]


def command(folder: Path, out: str) -> list[str]:
    arguments = ["predict", str(folder / "long.jsonl"), "--out", str(folder / out), *flags(folder)]
    return [sys.executable, "-m", "online", *arguments]


def progress(folder: Path, out: str) -> int:
    try:
        return int(json.loads((folder / out / ".progress.json").read_text())["counts"]["done"])
    except FileNotFoundError:
        return 0


def labels(folder: Path) -> list[str]:
    kept = folder / "state" / "snapshots" / "vec" / "labels"
    return [path.name for path in kept.iterdir() if not path.name.startswith(".")] if kept.exists() else []


def test_a_job_that_is_killed_repeatedly_gives_the_same_bytes(folder: Path, uninterrupted: dict[str, bytes]) -> None:
    before = 0
    for _ in range(3):
        killed = ForkedProcess(command(folder, "killed")[1:])
        until(lambda: progress(folder, "killed") > before, 120, "progress on disk")  # noqa: B023 (called immediately)
        killed.kill()
        killed.wait()
        assert progress(folder, "killed") > before  # the job resumed after the finished rows
        before = progress(folder, "killed")
        assert not list((folder / "killed").glob("prediction.*")) and len(labels(folder)) == 1
    process = run_online(*command(folder, "killed")[3:])
    assert process.returncode == 0, process.stderr
    assert "80,000 rows were answered by version" in process.stdout
    assert results(folder, "killed") == uninterrupted and len(uninterrupted) == 5 and labels(folder) == []
    assert sorted(path.name for path in (folder / "killed").iterdir()) == ["job.json", *sorted(uninterrupted)]


def test_several_processes_give_the_same_bytes(folder: Path, uninterrupted: dict[str, bytes]) -> None:
    process = run_online(*command(folder, "shared")[3:], "--processes", "2")
    assert process.returncode == 0, process.stderr
    assert results(folder, "shared") == uninterrupted


@contextmanager
def accepted_by_children(number: signal.Signals) -> Iterator[None]:
    """Let children receive the signal even if this process was started to ignore it."""
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.long
def test_a_job_resumes_after_ctrl_c(folder: Path) -> None:
    with accepted_by_children(signal.SIGINT):
        stopped = subprocess.Popen(command(folder, "stopped"), stderr=subprocess.PIPE, text=True)
    until(lambda: progress(folder, "stopped"), 120, "progress on disk")
    stopped.send_signal(signal.SIGINT)
    _, errors = stopped.communicate(timeout=60)
    assert stopped.returncode == 130, errors
    assert "run the same command again to resume" in errors and "Traceback" not in errors
    process = run_online(*command(folder, "stopped")[3:], "--json")
    assert json.loads(process.stdout)["results"] == ROW_COUNT and process.returncode == 0
    again = run_online(*command(folder, "stopped")[3:], "--json")
    assert again.stdout == process.stdout  # the finished job is not repeated


@pytest.mark.long
def test_a_terminal_shows_the_progress_the_rate_and_the_remaining_time(folder: Path) -> None:
    reader, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    running = subprocess.Popen(command(folder, "watched"), stderr=terminal, stdout=subprocess.DEVNULL, env=environment)
    os.close(terminal)
    output = ""

    def is_shown() -> bool:
        nonlocal output
        if select.select([reader], [], [], 0.1)[0]:
            output += os.read(reader, 65_536).decode(errors="replace")
        return "rows/s" in output and "%" in output and "0:00:" in output

    until(is_shown, 120, "a bar with a rate and the time left")
    running.kill()
    running.wait()
    os.close(reader)


@pytest.mark.long
def test_a_job_resumes_after_a_full_disk(folder: Path, uninterrupted: dict[str, bytes]) -> None:
    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))

    process = subprocess.run(
        command(folder, "full"), preexec_fn=limit_file_size, capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 2 and "Traceback" not in process.stderr
    assert "the results cannot be written: File too large; what is done is kept" in process.stderr
    assert run_online(*command(folder, "full")[3:]).returncode == 0
    assert results(folder, "full") == uninterrupted


def test_a_ranker_answers_with_replies(folder: Path) -> None:
    (folder / "questions.csv").write_text("id,text\n1,When do you open?\n2,Can I print here?\n")
    process = run_online(
        "predict", str(folder / "questions.csv"), "--out", str(folder / "q"), *flags(folder, "chat"), "--key", "id"
    )
    assert process.returncode == 0, process.stderr
    first = json.loads((folder / "q" / "prediction.results-00001-of-00004").read_text())
    assert first["key"] == "1" and first["prediction"]["reply"]["text"] == "We open at nine."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.jsonl", "--model", "vec"), "none.jsonl cannot be read: No such file"),
        (("long.jsonl", "--model", "nothing"), "there is no model 'nothing'"),
        (("long.jsonl",), "name the model with --model"),
        (("long.jsonl", "--model", "vec", "--version", "99"), "has no version 99"),
        (("long.jsonl", "--model", "vec", "--version", "gold"), "has the label 'gold'"),
        (("long.jsonl", "--model", "num"), "line 1: it has 4 numbers; this model takes 2"),
        (("long.jsonl", "--model", "vec", "--shards", "0"), "shards"),
        (("long.jsonl", "--model", "vec", "--address", "auto"), "--address needs --engine ray"),
        (("long.jsonl", "--model", "river", "--engine", "ray"), "signed with a key that stays on this machine"),
        (("long.jsonl", "--model", "vec", "--format", "xml"), "xml"),
        (("long.jsonl", "--model", "vec", "--format", "parquet"), "long.jsonl cannot be read"),
        (
            ("long.jsonl", "--model", "vec", "--key", "id"),
            "more than max_bad_ratio (0.5) allows: line 1: it has no 'id'",
        ),
    ],
)
def test_an_invalid_job_is_refused_with_the_reason(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    where = ["--state", str(folder / "state"), "--config", str(folder / "state.toml")]
    process = run_online("predict", *arguments, "--out", "refused", *where, cwd=folder)
    assert process.returncode == 2 and words in " ".join(process.stderr.split()), process.stderr
    assert "Traceback" not in process.stderr and not list((folder / "refused").glob("prediction.*"))
    if (folder / "refused" / "job.json").exists():
        for path in (folder / "refused").iterdir():
            path.unlink()


def test_a_version_of_a_model_with_other_options_is_refused(folder: Path) -> None:
    changed = (
        (folder / "state.toml")
        .read_text()
        .replace('scale = 4.0 }\n\n[[models]]\nname = "chat"', 'scale = 2.0 }\n\n[[models]]\nname = "chat"')
    )
    assert changed != (folder / "state.toml").read_text()
    (folder / "changed.toml").write_text(changed)
    where = ["--state", str(folder / "state"), "--config", str(folder / "changed.toml"), "--model", "vec"]
    process = run_online("predict", str(folder / "long.jsonl"), "--out", str(folder / "changed"), *where)
    assert process.returncode == 2 and "was created by another kind or with other options" in process.stderr
