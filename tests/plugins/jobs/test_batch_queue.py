"""Batch prediction jobs of a service: requested, watched, cancelled and resumed, on files within job_folders only."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Start, config
from tests.io.bombs import MB, gzip_bomb, zstd_bomb
from tests.support import Service, run_online, until

DONE_S = 120.0
LONG = 80_000  # rows that take a while
UNENDING = 600_000  # rows that are not all answered when a busy machine checks
MODELS = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 4, scale = 4.0 }

[[models]]
name = "other"
kind = "classifier"
options = { input = "vector", size = 4, scale = 4.0 }
"""


def with_feedback(service: Service) -> Service:
    with service.client("vec") as client:
        receipts = client.feedback([{"input": [n % 3, 1, 0, n % 2], "label": f"l{n % 3}"} for n in range(12)])
        client.wait_until_learned(receipts[-1]["offset"], 60)
    return service


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    (folder / "files").mkdir()
    folders = f'job_folders = ["{folder / "files"}", "{folder / "more"}"]\n'
    running = with_feedback(Service(folder / "state", folders + config(folder, MODELS)))
    yield running
    running.stop()


def rows(count: int) -> bytes:
    return b"".join(b"[%d, %d, 1, 0]\n" % (n % 5, n % 3) for n in range(count))


def request_job(service: Service, **body: Any) -> Any:
    return service.http.post("/v1/models/vec:batchPredict", json={"input": "in.jsonl", **body})


def start_job(service: Service, **body: Any) -> dict[str, Any]:
    response = request_job(service, **body)
    assert response.status_code == 202, response.text
    job: dict[str, Any] = response.json()
    assert response.headers["Location"] == f"/v1/models/vec/jobs/{job['id']}"
    return job


def read_job(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = service.http.get(f"/v1/models/vec/jobs/{job['id']}").json()
    return shown


def wait_until_ended(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        shown = read_job(service, job)
        return shown if shown["state"] not in ("waiting", "running") else None

    shown: dict[str, Any] = until(over, DONE_S, "the job's end")
    return shown


def wait_until_running(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = until(lambda: (it := read_job(service, job))["done"] and it, DONE_S, "its first rows")
    assert shown["state"] == "running"
    return shown


def version_labels(service: Service) -> list[str]:
    content = service.http.get("/v1/models/vec/versions").json()["labels"]
    return [each["label"] for each in content]


def test_a_job_answers_a_file_and_reports_its_progress(service: Service, folder: Path) -> None:
    (folder / "files" / "in.jsonl").write_bytes(rows(500) + b"?\n")
    job = start_job(service, output="answers", shards=2)
    assert (job["state"], job["rows"], job["model_version"]) == ("waiting", 0, None)
    shown = wait_until_ended(service, job)
    assert (shown["state"], shown["rows"], shown["results"], shown["errors"]) == ("done", 501, 500, 1)
    assert shown["model_version"] == str(service.http.get("/v1/models/vec").headers["X-Model-Version"])
    written = sorted(path.name for path in (folder / "files" / "answers").iterdir())
    assert written[1:] == [
        "prediction.errors_stats-00000-of-00001",
        "prediction.results-00000-of-00002",
        "prediction.results-00001-of-00002",
    ]
    line = (folder / "files" / "answers" / written[2]).read_text().splitlines()[0]
    alone = service.http.post("/v1/models/vec:predict", json={"instances": [[0, 0, 1, 0]], "record": False}).json()
    assert json.loads(line) == {"instance": [0, 0, 1, 0], "prediction": alone["predictions"][0]}
    assert version_labels(service) == []
    assert read_job(service, job) == service.http.get("/v1/models/vec/jobs").json()["jobs"][0]
    assert service.http.get("/v1/models/other/jobs").json() == {"jobs": []}
    assert service.http.get(f"/v1/models/other/jobs/{job['id']}").status_code == 404
    metrics = service.http.get("/metrics").text
    assert 'online_job_rows_total{model="vec",outcome="refused"} 1.0' in metrics and "online_jobs 0.0" in metrics


def test_the_command_line_gives_the_same_bytes_as_a_job(service: Service, folder: Path) -> None:
    (folder / "files" / "in.jsonl").write_bytes(rows(300))
    assert wait_until_ended(service, start_job(service, output="by-api"))["state"] == "done"
    source, out = folder / "files" / "in.jsonl", folder / "by-hand"
    where = ("--state", str(folder / "state"), "--config", str(folder / "state.toml"), "--model", "vec")
    done = run_online("predict", str(source), "--out", str(out), *where)
    assert done.returncode == 0, done.stderr
    api = {path.name: path.read_bytes() for path in (folder / "files" / "by-api").glob("prediction.*")}
    assert api == {path.name: path.read_bytes() for path in out.glob("prediction.*")}


def test_answers_of_a_job_are_not_recorded(service: Service, folder: Path) -> None:
    (folder / "files" / "in.jsonl").write_bytes(rows(64))
    before = service.http.get("/metrics").text.count("online_predictions_total{")
    assert wait_until_ended(service, start_job(service, output="unrecorded"))["state"] == "done"
    assert service.http.get("/metrics").text.count("online_predictions_total{") == before
    out = folder / "log.jsonl"
    where = ("--state", str(folder / "state"), "--config", str(folder / "state.toml"), "--model", "vec")
    assert run_online("log", "export", *where, "--output", str(out)).returncode == 0
    assert not [line for line in out.read_text().splitlines() if line.startswith('{"prediction"')]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"input": "none.jsonl", "output": "o"}, 404, "there is no file 'none.jsonl' under job_folders"),
        ({"input": "../state.toml", "output": "o"}, 403, "'../state.toml' is not in any of job_folders"),
        ({"input": "/etc/passwd", "output": "o"}, 403, "is not in any of job_folders"),
        ({"input": "leads-out.jsonl", "output": "o"}, 403, "is not in any of job_folders"),
        ({"output": "../o"}, 403, "'../o' is not in any of job_folders"),
        ({"output": "way-out/o"}, 403, "is not in any of job_folders"),
        ({"output": "."}, 403, "is not in any of job_folders"),
        ({"input": "a\0b", "output": "o"}, 400, "NUL"),
        ({"input": "x" * 300, "output": "o"}, 404, "there is no file 'xxx"),
        ({"input": "sub", "output": "o"}, 404, "there is no file 'sub'"),
        ({"output": "o", "version": 99_999}, 404, "no version 99999"),
        ({"output": "o", "version": "gold"}, 404, "'gold'"),
        ({"output": "o", "version": "?"}, 400, "version must be a number"),
        ({"output": "o", "shards": 0}, 400, "shards"),
        ({"output": "o", "format": "xml"}, 400, "format"),
        ({"output": "o", "max_bad_ratio": 2}, 400, "max_bad_ratio"),
        ({"output": "o", "colour": "red"}, 400, "colour"),
        ({}, 400, "output"),
    ],
)
def test_an_invalid_request_is_refused_and_starts_no_job(
    service: Service, folder: Path, body: dict[str, Any], status: int, words: str
) -> None:
    files = folder / "files"
    (files / "in.jsonl").write_bytes(rows(3))
    (files / "sub").mkdir(exist_ok=True)
    for link, target in (("leads-out.jsonl", folder / "state.toml"), ("way-out", folder)):
        if not (files / link).is_symlink():
            (files / link).symlink_to(target)
    before = service.http.get("/v1/models/vec/jobs").json()
    response = request_job(service, **body)
    assert response.status_code == status and words in response.json()["error"], response.text
    assert service.http.get("/v1/models/vec/jobs").json() == before
    assert not (folder / "o").exists() and not (files / "o").exists()


def test_a_failed_job_names_the_reason_without_server_paths(service: Service, folder: Path) -> None:
    files = folder / "files"
    (files / "in.jsonl").write_bytes(b"?\n" * 9 + rows(3))
    shown = wait_until_ended(service, start_job(service, output="bad"))
    assert shown["state"] == "failed" and (shown["rows"], shown["errors"]) == (12, 9)
    assert "9 of 12 rows cannot be answered, more than max_bad_ratio (0.5) allows: line 1: it is not" in shown["error"]
    (files / "packed.jsonl.gz").write_bytes(b"no gzip")
    shown = wait_until_ended(service, start_job(service, input="packed.jsonl.gz", output="bad-2"))
    assert shown["error"].startswith("packed.jsonl.gz cannot be read") and str(folder) not in shown["error"]
    (files / "full").mkdir(exist_ok=True)
    (files / "full" / "thesis.tex").write_text("years of work")
    assert (
        "it holds thesis.tex" in wait_until_ended(service, start_job(service, output="full", max_bad_ratio=1))["error"]
    )
    again = wait_until_ended(service, start_job(service, output="bad", max_bad_ratio=1))
    assert (again["state"], again["results"], again["errors"]) == ("done", 3, 9)


def test_a_cancelled_job_ends_and_leaves_nothing(service: Service, folder: Path) -> None:
    (folder / "files" / "long.jsonl").write_bytes(rows(LONG))
    job = start_job(service, input="long.jsonl", output="long")
    waiting = start_job(service, input="long.jsonl", output="long-2")
    response = request_job(service, input="long.jsonl", output="long")
    assert response.status_code == 409 and "writes to 'long' already" in response.json()["error"]
    assert wait_until_running(service, job)["rows"] == LONG and read_job(service, waiting)["state"] == "waiting"
    assert len(version_labels(service)) == 1
    for each in (waiting, job):
        shown = service.http.post(f"/v1/models/vec/jobs/{each['id']}:cancel").json()
        assert shown["state"] == read_job(service, each)["state"] == "cancelled"
    assert not list((folder / "files" / "long").iterdir()) and version_labels(service) == []
    again = service.http.post(f"/v1/models/vec/jobs/{job['id']}:cancel")
    assert again.status_code == 409 and "is cancelled" in again.json()["error"]
    assert service.http.post(f"/v1/models/vec/jobs/{'0' * 32}:cancel").status_code == 404
    assert service.http.get("/v1/models/vec/jobs/..%2F..%2Fsecret").status_code == 400


@pytest.mark.long
def test_requests_are_not_slowed_down_by_a_job(service: Service, folder: Path) -> None:
    (folder / "files" / "long.jsonl").write_bytes(rows(LONG))

    def measure_ms(count: int) -> list[float]:
        durations_ms = []
        for n in range(count):
            started = time.perf_counter()
            response = service.http.post("/v1/models/vec:predict", json={"instances": [[n % 5, 1, 0, 0]]})
            durations_ms.append(1000 * (time.perf_counter() - started))
            assert response.status_code == 200, response.text
        return sorted(durations_ms)

    alone = measure_ms(200)
    job = start_job(service, input="long.jsonl", output="starving")
    before = wait_until_running(service, job)["done"]
    beside = measure_ms(200)
    after = read_job(service, job)
    assert after["state"] == "running" and after["done"] > before  # the job makes progress too
    assert beside[197] < 10 * alone[197] + 100, f"p99 {alone[197]:.1f} ms alone, {beside[197]:.1f} ms beside a job"
    assert service.http.post(f"/v1/models/vec/jobs/{job['id']}:cancel").status_code == 200


def with_job_folders(path: Path) -> str:
    return f'job_folders = ["{path}"]\n{MODELS}'


@pytest.mark.long
def test_a_job_survives_kills_and_restarts_of_the_service(start: Start, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(rows(LONG))
    service = with_feedback(start(with_job_folders(tmp_path)))
    job = start_job(service, output="answers")
    waiting = start_job(service, output="answers-2", input="small.jsonl") if write_small_input(tmp_path) else {}
    for number in (signal.SIGKILL, signal.SIGINT):
        wait_until_running(service, job)
        until((tmp_path / "answers" / ".progress.json").exists, what="progress on disk")
        done = json.loads((tmp_path / "answers" / ".progress.json").read_text())["counts"]["done"]
        service.http.close()
        service.process.send_signal(number)
        service.process.wait()
        service = start(with_job_folders(tmp_path))
        assert until(lambda: read_job(service, job)["done"], DONE_S, "its progress") >= done  # noqa: B023 (called immediately)
    shown = wait_until_ended(service, job)
    assert (shown["state"], shown["results"]) == ("done", LONG)
    assert wait_until_ended(service, waiting)["state"] == "done"
    where = ("--state", str(tmp_path / "state"), "--config", str(tmp_path / "state.toml"), "--model", "vec")
    whole = run_online("predict", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "whole"), *where)
    assert whole.returncode == 0, whole.stderr
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).glob("prediction.*")}
        for name in ("answers", "whole")
    ]
    assert files[0] == files[1] and len(files[0]) == 5


def write_small_input(folder: Path) -> Path:
    (folder / "small.jsonl").write_bytes(rows(5))
    return folder


def test_jobs_need_the_admin_key_and_are_disabled_without_job_folders(start: Start, tmp_path: Path) -> None:
    service = start(MODELS, admin_key="correct horse")
    body = {"input": "in.jsonl", "output": "o"}
    for method, path in (("POST", ":batchPredict"), ("GET", "/jobs"), ("GET", "/jobs/1"), ("POST", "/jobs/1:cancel")):
        assert service.http.request(method, f"/v1/models/vec{path}", json=body).status_code == 401
    service.http.headers["X-Admin-Key"] = "correct horse"
    response = request_job(service, **body)
    assert response.status_code == 403
    assert "batch prediction jobs are disabled: set job_folders to the folders" in response.json()["error"]
    assert service.http.get("/v1/models/vec/jobs").json() == {"jobs": []}


def test_the_number_of_waiting_jobs_is_limited(service: Service, folder: Path) -> None:
    (folder / "files" / "long.jsonl").write_bytes(rows(LONG))
    jobs = [start_job(service, input="long.jsonl", output=f"queue/{n}") for n in range(32)]
    response = request_job(service, input="long.jsonl", output="queue/one-more")
    assert response.status_code == 429 and "32 jobs are waiting already" in response.json()["error"]
    assert response.headers["Retry-After"]
    for job in reversed(jobs):
        assert service.http.post(f"/v1/models/vec/jobs/{job['id']}:cancel").status_code in (200, 409)  # or done by now


@pytest.mark.long
def test_a_job_of_a_removed_model_fails_with_the_reason(start: Start, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(rows(UNENDING))
    service = with_feedback(start(with_job_folders(tmp_path)))
    job = start_job(service, output="answers")
    wait_until_running(service, job)
    service.stop(signal.SIGKILL)
    remaining = MODELS.replace('"vec"', '"renamed"')
    service = start(f'job_folders = ["{tmp_path}"]\n{remaining}')
    path = tmp_path / "state" / "jobs" / f"{job['id']}.json"
    content = until(lambda: (it := json.loads(path.read_text()))["state"] == "failed" and it, DONE_S, "its failure")
    assert content["error"] == "there is no model 'vec' any more"


@pytest.mark.long
def test_only_one_of_two_services_on_one_state_folder_runs_jobs(start: Start, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(rows(UNENDING))
    first = with_feedback(start(with_job_folders(tmp_path)))
    second = start(with_job_folders(tmp_path), flags=("--no-learner",))
    job = start_job(first, output="answers")
    wait_until_running(first, job)
    assert read_job(second, job)["state"] == "running"
    response = request_job(second, output="answers-2")
    assert (
        response.status_code == 503
        and "another service on the same state folder runs its jobs" in response.json()["error"]
    )
    assert first.http.post(f"/v1/models/vec/jobs/{job['id']}:cancel").json()["state"] == "cancelled"


@pytest.mark.long
def test_a_small_file_that_unpacks_to_one_endless_line_fails_its_job_with_little_memory(
    service: Service, folder: Path
) -> None:
    path = zstd_bomb(folder / "files" / "line.jsonl.zst", b"x", 200 * MB)
    assert path.stat().st_size < 20_000
    before = peak_memory_bytes(service)
    shown = wait_until_ended(service, start_job(service, input="line.jsonl.zst", output="of-a-line"))
    assert shown["state"] == "failed" and "line.jsonl.zst has a line of more than" in shown["error"]
    assert "max_line_bytes" in shown["error"]
    assert peak_memory_bytes(service) - before < 64 * MB


@pytest.mark.long
def test_sigterm_ends_a_service_while_a_job_reads_a_file_without_an_end(start: Start, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    gzip_bomb(tmp_path / "files" / "in.jsonl.gz", b"\n", 4_000 * MB)
    folders = {"job_folders": [str(tmp_path / "files")], "max_unpacked_ratio": 1e9}
    service = with_feedback(start(MODELS, **folders))
    job = start_job(service, input="in.jsonl.gz", output="out")
    until(lambda: read_job(service, job)["state"] == "running", what="the job")
    assert service.stop(signal.SIGTERM) == 0


@pytest.mark.long
def test_a_job_that_takes_too_long_is_ended_with_its_process_and_the_next_one_has_its_turn(
    start: Start, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    gzip_bomb(files / "endless.jsonl.gz", b"\n", 4_000 * MB)
    for name in ("in.jsonl", "pipe.jsonl"):
        (files / name).write_bytes(rows(5))
    limits = {"max_unpacked_ratio": 1e9, "max_job_hours": 12 / 3600}  # the short job takes a second or two
    service = with_feedback(start(MODELS, job_folders=[str(files)], **limits))
    endless = start_job(service, input="endless.jsonl.gz", output="endless")
    piped, short = start_job(service, input="pipe.jsonl", output="piped"), start_job(service, output="short")
    (files / "pipe.jsonl").unlink()
    os.mkfifo(files / "pipe.jsonl")
    ended = [wait_until_ended(service, each) for each in (endless, piped, short)]
    assert [each["state"] for each in ended] == ["failed", "failed", "done"]
    assert "it took longer than" in ended[0]["error"] and "max_job_hours" in ended[0]["error"]
    assert "pipe.jsonl is not a regular file" in ended[1]["error"]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            assert str(files / "endless.jsonl.gz").encode() not in process.read_bytes()


def peak_memory_bytes(service: Service) -> int:
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))
