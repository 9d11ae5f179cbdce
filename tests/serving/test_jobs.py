"""Batch prediction jobs of a service: asked for, looked at, cancelled, taken up again; files stay where they may lie."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Start, config
from tests.support import Service, run_online, until

DONE_S = 120.0
LONG = 80_000  # rows that take a while
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


def taught(service: Service) -> Service:
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
    running = taught(Service(folder / "state", folders + config(folder, MODELS)))
    yield running
    running.stop()


def rows(count: int) -> bytes:
    return b"".join(b"[%d, %d, 1, 0]\n" % (n % 5, n % 3) for n in range(count))


def asked(service: Service, **body: Any) -> Any:
    return service.http.post("/v1/models/vec:batchPredict", json={"input": "in.jsonl", **body})


def begun(service: Service, **body: Any) -> dict[str, Any]:
    response = asked(service, **body)
    assert response.status_code == 202, response.text
    job: dict[str, Any] = response.json()
    assert response.headers["Location"] == f"/v1/models/vec/jobs/{job['id']}"
    return job


def look(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = service.http.get(f"/v1/models/vec/jobs/{job['id']}").json()
    return shown


def ended(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        shown = look(service, job)
        return shown if shown["state"] not in ("waiting", "running") else None

    shown: dict[str, Any] = until(over, DONE_S, "the job's end")
    return shown


def on_its_way(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = until(lambda: (it := look(service, job))["done"] and it, DONE_S, "its first rows")
    assert shown["state"] == "running"
    return shown


def labels(service: Service) -> list[str]:
    told = service.http.get("/v1/models/vec/versions").json()["labels"]
    return [each["label"] for each in told]


def test_a_job_answers_a_file_and_tells_how_far_it_is(service: Service, folder: Path) -> None:
    (folder / "files" / "in.jsonl").write_bytes(rows(500) + b"?\n")
    job = begun(service, output="answers", shards=2)
    assert (job["state"], job["rows"], job["model_version"]) == ("waiting", 0, None)
    shown = ended(service, job)
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
    assert labels(service) == []
    assert look(service, job) == service.http.get("/v1/models/vec/jobs").json()["jobs"][0]
    assert service.http.get("/v1/models/other/jobs").json() == {"jobs": []}
    assert service.http.get(f"/v1/models/other/jobs/{job['id']}").status_code == 404
    metrics = service.http.get("/metrics").text
    assert 'online_job_rows_total{model="vec",outcome="refused"} 1.0' in metrics and "online_jobs 0.0" in metrics


def test_the_command_line_comes_to_the_same_bytes_beside_the_service(service: Service, folder: Path) -> None:
    (folder / "files" / "in.jsonl").write_bytes(rows(300))
    assert ended(service, begun(service, output="by-api"))["state"] == "done"
    source, out = folder / "files" / "in.jsonl", folder / "by-hand"
    where = ("--state", str(folder / "state"), "--config", str(folder / "state.toml"), "--model", "vec")
    done = run_online("predict", str(source), "--out", str(out), *where)
    assert done.returncode == 0, done.stderr
    api = {path.name: path.read_bytes() for path in (folder / "files" / "by-api").glob("prediction.*")}
    assert api == {path.name: path.read_bytes() for path in out.glob("prediction.*")}


def test_answers_of_a_job_are_no_predictions(service: Service, folder: Path) -> None:
    (folder / "files" / "in.jsonl").write_bytes(rows(64))
    before = service.http.get("/metrics").text.count("online_predictions_total{")
    assert ended(service, begun(service, output="unrecorded"))["state"] == "done"
    assert service.http.get("/metrics").text.count("online_predictions_total{") == before
    out = folder / "log.jsonl"
    where = ("--state", str(folder / "state"), "--config", str(folder / "state.toml"), "--model", "vec")
    assert run_online("log", "export", *where, "--output", str(out)).returncode == 0
    assert not [line for line in out.read_text().splitlines() if line.startswith('{"asked"')]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"input": "none.jsonl", "output": "o"}, 404, "there is no file 'none.jsonl' under job_folders"),
        ({"input": "../state.toml", "output": "o"}, 403, "'../state.toml' lies under none of job_folders"),
        ({"input": "/etc/passwd", "output": "o"}, 403, "lies under none of job_folders"),
        ({"input": "leads-out.jsonl", "output": "o"}, 403, "lies under none of job_folders"),
        ({"output": "../o"}, 403, "'../o' lies under none of job_folders"),
        ({"output": "way-out/o"}, 403, "lies under none of job_folders"),
        ({"output": "."}, 403, "lies under none of job_folders"),
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
def test_what_cannot_be_meant_is_refused_at_the_door(
    service: Service, folder: Path, body: dict[str, Any], status: int, words: str
) -> None:
    files = folder / "files"
    (files / "in.jsonl").write_bytes(rows(3))
    (files / "sub").mkdir(exist_ok=True)
    for link, target in (("leads-out.jsonl", folder / "state.toml"), ("way-out", folder)):
        if not (files / link).is_symlink():
            (files / link).symlink_to(target)
    before = service.http.get("/v1/models/vec/jobs").json()
    response = asked(service, **body)
    assert response.status_code == status and words in response.json()["error"], response.text
    assert service.http.get("/v1/models/vec/jobs").json() == before
    assert not (folder / "o").exists() and not (files / "o").exists()


def test_a_job_that_fails_says_why_in_the_names_it_was_given(service: Service, folder: Path) -> None:
    files = folder / "files"
    (files / "in.jsonl").write_bytes(b"?\n" * 9 + rows(3))
    shown = ended(service, begun(service, output="bad"))
    assert shown["state"] == "failed" and (shown["rows"], shown["errors"]) == (12, 9)
    assert "9 of 12 rows cannot be answered, more than max_bad_ratio (0.5) bears: line 1: it is not" in shown["error"]
    (files / "packed.jsonl.gz").write_bytes(b"no gzip")
    shown = ended(service, begun(service, input="packed.jsonl.gz", output="bad-2"))
    assert shown["error"].startswith("packed.jsonl.gz cannot be read") and str(folder) not in shown["error"]
    (files / "full").mkdir(exist_ok=True)
    (files / "full" / "thesis.tex").write_text("years of work")
    assert "it holds thesis.tex" in ended(service, begun(service, output="full", max_bad_ratio=1))["error"]
    again = ended(service, begun(service, output="bad", max_bad_ratio=1))
    assert (again["state"], again["results"], again["errors"]) == ("done", 3, 9)


def test_a_job_that_is_cancelled_ends_and_leaves_nothing(service: Service, folder: Path) -> None:
    (folder / "files" / "long.jsonl").write_bytes(rows(LONG))
    job = begun(service, input="long.jsonl", output="long")
    waiting = begun(service, input="long.jsonl", output="long-2")
    response = asked(service, input="long.jsonl", output="long")
    assert response.status_code == 409 and "writes to 'long' already" in response.json()["error"]
    assert on_its_way(service, job)["rows"] == LONG and look(service, waiting)["state"] == "waiting"
    assert len(labels(service)) == 1
    for each in (waiting, job):
        shown = service.http.post(f"/v1/models/vec/jobs/{each['id']}:cancel").json()
        assert shown["state"] == look(service, each)["state"] == "cancelled"
    assert not list((folder / "files" / "long").iterdir()) and labels(service) == []
    again = service.http.post(f"/v1/models/vec/jobs/{job['id']}:cancel")
    assert again.status_code == 409 and "is cancelled" in again.json()["error"]
    assert service.http.post(f"/v1/models/vec/jobs/{'0' * 32}:cancel").status_code == 404
    assert service.http.get("/v1/models/vec/jobs/..%2F..%2Fsecret").status_code == 400


def test_people_are_answered_beside_a_job_as_if_it_were_not_there(service: Service, folder: Path) -> None:
    (folder / "files" / "long.jsonl").write_bytes(rows(LONG))

    def asked_ms(count: int) -> list[float]:
        took = []
        for n in range(count):
            started = time.perf_counter()
            answered = service.http.post("/v1/models/vec:predict", json={"instances": [[n % 5, 1, 0, 0]]})
            took.append(1000 * (time.perf_counter() - started))
            assert answered.status_code == 200, answered.text
        return sorted(took)

    quiet = asked_ms(200)
    job = begun(service, input="long.jsonl", output="starving")
    before = on_its_way(service, job)["done"]
    beside = asked_ms(200)
    after = look(service, job)
    assert after["state"] == "running" and after["done"] > before  # neither starves
    assert beside[197] < 10 * quiet[197] + 100, f"p99 {quiet[197]:.1f} ms alone, {beside[197]:.1f} ms beside a job"
    assert service.http.post(f"/v1/models/vec/jobs/{job['id']}:cancel").status_code == 200


def folders_of(path: Path) -> str:
    return f'job_folders = ["{path}"]\n{MODELS}'


def test_a_job_survives_kills_and_restarts_of_the_service(start: Start, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(rows(LONG))
    service = taught(start(folders_of(tmp_path)))
    job = begun(service, output="answers")
    waiting = begun(service, output="answers-2", input="small.jsonl") if small(tmp_path) else {}
    for number in (signal.SIGKILL, signal.SIGINT):
        on_its_way(service, job)
        until((tmp_path / "answers" / ".progress.json").exists, what="that something of it is on disk")
        done = json.loads((tmp_path / "answers" / ".progress.json").read_text())["counts"]["done"]
        service.http.close()
        service.process.send_signal(number)
        service.process.wait()
        service = start(folders_of(tmp_path))
        assert until(lambda: look(service, job)["done"], DONE_S, "its going on") >= done  # noqa: B023 (asked at once)
    shown = ended(service, job)
    assert (shown["state"], shown["results"]) == ("done", LONG)
    assert ended(service, waiting)["state"] == "done"
    where = ("--state", str(tmp_path / "state"), "--config", str(tmp_path / "state.toml"), "--model", "vec")
    whole = run_online("predict", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "whole"), *where)
    assert whole.returncode == 0, whole.stderr
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).glob("prediction.*")}
        for name in ("answers", "whole")
    ]
    assert files[0] == files[1] and len(files[0]) == 5


def small(folder: Path) -> Path:
    (folder / "small.jsonl").write_bytes(rows(5))
    return folder


def test_without_job_folders_the_door_says_how_to_open_it_and_who_has_no_key_is_turned_away(
    start: Start, tmp_path: Path
) -> None:
    service = start(MODELS, admin_key="correct horse")
    body = {"input": "in.jsonl", "output": "o"}
    for method, path in (("POST", ":batchPredict"), ("GET", "/jobs"), ("GET", "/jobs/1"), ("POST", "/jobs/1:cancel")):
        assert service.http.request(method, f"/v1/models/vec{path}", json=body).status_code == 401
    service.http.headers["X-Admin-Key"] = "correct horse"
    response = asked(service, **body)
    assert response.status_code == 403
    assert "jobs are off here: set job_folders to the folders" in response.json()["error"]
    assert service.http.get("/v1/models/vec/jobs").json() == {"jobs": []}


def test_no_more_than_so_many_wait(service: Service, folder: Path) -> None:
    (folder / "files" / "long.jsonl").write_bytes(rows(LONG))
    begun_jobs = [begun(service, input="long.jsonl", output=f"queue/{n}") for n in range(32)]
    response = asked(service, input="long.jsonl", output="queue/one-more")
    assert response.status_code == 429 and "32 jobs wait already" in response.json()["error"]
    assert response.headers["Retry-After"]
    for job in reversed(begun_jobs):
        assert service.http.post(f"/v1/models/vec/jobs/{job['id']}:cancel").status_code in (200, 409)  # or done by now


def test_a_job_of_a_model_that_is_gone_fails_and_says_so(start: Start, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(rows(LONG))
    service = taught(start(folders_of(tmp_path)))
    job = begun(service, output="answers")
    on_its_way(service, job)
    service.stop(signal.SIGKILL)
    remaining = MODELS.replace('"vec"', '"renamed"')
    service = start(f'job_folders = ["{tmp_path}"]\n{remaining}')
    kept = tmp_path / "state" / "jobs" / f"{job['id']}.json"
    told = until(lambda: (it := json.loads(kept.read_text()))["state"] == "failed" and it, DONE_S, "its failing")
    assert told["error"] == "there is no model 'vec' any more"


def test_of_two_services_on_one_state_one_does_the_jobs(start: Start, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(rows(LONG))
    first = taught(start(folders_of(tmp_path)))
    second = start(folders_of(tmp_path), flags=("--no-learner",))
    job = begun(first, output="answers")
    on_its_way(first, job)
    assert look(second, job)["state"] == "running"
    response = asked(second, output="answers-2")
    assert response.status_code == 503 and "another service on the same state does its jobs" in response.json()["error"]
    assert first.http.post(f"/v1/models/vec/jobs/{job['id']}:cancel").json()["state"] == "cancelled"
