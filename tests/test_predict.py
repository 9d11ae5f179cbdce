"""`online predict`: a file answered without a service, whatever kills it in the middle."""

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
"""
LONG = 80_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state that a service left behind, and a long input."""
    folder = tmp_path_factory.mktemp("predict")
    service = Service(folder / "state", config(folder, MODELS))
    with service.client("vec") as client:
        receipts = client.feedback([{"input": [n % 3, 1, 0, n % 2], "label": f"l{n % 3}"} for n in range(12)])
        client.wait_until_learned(receipts[-1]["offset"], 60)
    service.wait_learned("chat", 1)
    assert service.stop() == 0
    (folder / "long.jsonl").write_text("".join(f"[{n % 5}, {n % 3}, 1, 0]\n" for n in range(LONG)))
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, bytes]:
    """The results of the long input, undisturbed."""
    assert run_online(*command(folder, "whole")[3:]).returncode == 0
    return results(folder, "whole")


def results(folder: Path, out: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / out).glob("prediction.*")}


def flags(folder: Path, model: str = "vec") -> list[str]:
    return ["--state", str(folder / "state"), "--config", str(folder / "state.toml"), "--model", model]


def command(folder: Path, out: str) -> list[str]:
    ours = [sys.executable, "-m", "online", "predict", str(folder / "long.jsonl"), "--out", str(folder / out)]
    return [*ours, *flags(folder)]


def progress(folder: Path, out: str) -> int:
    try:
        return int(json.loads((folder / out / ".progress.json").read_text())["counts"]["done"])
    except FileNotFoundError:
        return 0


def labels(folder: Path) -> list[str]:
    kept = folder / "state" / "snapshots" / "vec" / "labels"
    return [path.name for path in kept.iterdir() if not path.name.startswith(".")] if kept.exists() else []


def test_what_was_killed_again_and_again_comes_to_the_bytes_of_what_was_not(
    folder: Path, whole: dict[str, bytes]
) -> None:
    before = 0
    for _ in range(3):
        killed = subprocess.Popen(command(folder, "killed"), stderr=subprocess.DEVNULL)
        until(lambda: progress(folder, "killed") > before, 120, "progress that is on disk")  # noqa: B023 (asked at once)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert progress(folder, "killed") > before  # what was done is not done again
        before = progress(folder, "killed")
        assert not list((folder / "killed").glob("prediction.*")) and len(labels(folder)) == 1
    done = run_online(*command(folder, "killed")[3:])
    assert done.returncode == 0, done.stderr
    assert "80,000 rows were answered by version" in done.stdout
    assert results(folder, "killed") == whole and len(whole) == 5 and labels(folder) == []
    assert sorted(path.name for path in (folder / "killed").iterdir()) == ["job.json", *sorted(whole)]


@contextmanager
def heard(number: signal.Signals) -> Iterator[None]:
    """What is started meanwhile hears a signal that this process may have been started to ignore, as in a shell's background."""
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_ctrl_c_leaves_a_job_that_goes_on(folder: Path) -> None:
    with heard(signal.SIGINT):
        stopped = subprocess.Popen(command(folder, "stopped"), stderr=subprocess.PIPE, text=True)
    until(lambda: progress(folder, "stopped"), 120, "progress that is on disk")
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate(timeout=60)
    assert stopped.returncode == 130, said
    assert "the same command goes on from here" in said and "Traceback" not in said
    done = run_online(*command(folder, "stopped")[3:], "--json")
    assert json.loads(done.stdout)["results"] == LONG and done.returncode == 0
    again = run_online(*command(folder, "stopped")[3:], "--json")
    assert again.stdout == done.stdout  # there is nothing left to do


def test_a_terminal_shows_how_far_it_is_how_fast_and_how_long_it_takes(folder: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    running = subprocess.Popen(command(folder, "watched"), stderr=theirs, stdout=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    seen = ""

    def shown() -> bool:
        nonlocal seen
        if select.select([ours], [], [], 0.1)[0]:
            seen += os.read(ours, 65_536).decode(errors="replace")
        return "rows/s" in seen and "%" in seen and "0:00:" in seen

    until(shown, 120, "a bar with a rate and the time left")
    running.kill()
    running.wait()
    os.close(ours)


def test_a_full_disk_is_said_and_freeing_some_lets_it_go_on(folder: Path, whole: dict[str, bytes]) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))

    said = subprocess.run(
        command(folder, "full"), preexec_fn=little_room, capture_output=True, text=True, timeout=120, check=False
    )
    assert said.returncode == 2 and "Traceback" not in said.stderr
    assert "the results cannot be written: File too large; what is done is kept" in said.stderr
    assert run_online(*command(folder, "full")[3:]).returncode == 0
    assert results(folder, "full") == whole


def test_a_ranker_and_a_regressor_answer_in_their_own_shapes(folder: Path) -> None:
    (folder / "questions.csv").write_text("id,text\n1,When do you open?\n2,Can I print here?\n")
    done = run_online(
        "predict", str(folder / "questions.csv"), "--out", str(folder / "q"), *flags(folder, "chat"), "--key", "id"
    )
    assert done.returncode == 0, done.stderr
    first = json.loads((folder / "q" / "prediction.results-00001-of-00004").read_text())
    assert first["key"] == "1" and first["prediction"]["reply"]["text"] == "We open at nine."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.jsonl", "--model", "vec"), "none.jsonl cannot be read: No such file"),
        (("long.jsonl", "--model", "nobody"), "there is no model 'nobody'"),
        (("long.jsonl",), "say which model with --model"),
        (("long.jsonl", "--model", "vec", "--version", "99"), "has no version 99"),
        (("long.jsonl", "--model", "vec", "--version", "gold"), "has the label 'gold'"),
        (("long.jsonl", "--model", "num"), "line 1: it has 4 numbers; this model takes 2"),
        (("long.jsonl", "--model", "vec", "--shards", "0"), "shards"),
        (("long.jsonl", "--model", "vec", "--format", "xml"), "xml"),
        (("long.jsonl", "--model", "vec", "--format", "parquet"), "long.jsonl cannot be read"),
        (
            ("long.jsonl", "--model", "vec", "--key", "id"),
            "more than max_bad_ratio (0.5) bears: line 1: it has no 'id'",
        ),
    ],
)
def test_what_cannot_be_meant_is_said(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    where = ["--state", str(folder / "state"), "--config", str(folder / "state.toml")]
    done = run_online("predict", *arguments, "--out", "refused", *where, cwd=folder)
    assert done.returncode == 2 and words in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr and not list((folder / "refused").glob("prediction.*"))
    if (folder / "refused" / "job.json").exists():
        for path in (folder / "refused").iterdir():
            path.unlink()


def test_a_version_that_other_options_made_is_refused(folder: Path) -> None:
    changed = (
        (folder / "state.toml")
        .read_text()
        .replace('scale = 4.0 }\n\n[[models]]\nname = "chat"', 'scale = 2.0 }\n\n[[models]]\nname = "chat"')
    )
    assert changed != (folder / "state.toml").read_text()
    (folder / "changed.toml").write_text(changed)
    where = ["--state", str(folder / "state"), "--config", str(folder / "changed.toml"), "--model", "vec"]
    done = run_online("predict", str(folder / "long.jsonl"), "--out", str(folder / "changed"), *where)
    assert done.returncode == 2 and "was made by another kind or by other options" in done.stderr
