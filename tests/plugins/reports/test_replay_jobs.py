"""Uploaded logs: stored, replayed in a separate process, and never trusted."""

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from online.models import create
from tests.conftest import Start, config
from tests.io.bombs import MB, gzip_bomb, zstd_bomb
from tests.support import Service, run_online, until

DONE_S = 120.0
MAX_BYTES = 100_000
MODELS = """
[[models]]
name = "numbers"
kind = "classifier"
options = { input = "vector", size = 2, scale = 10.0 }
"""
SLOW = {"model": "river:estimator=arf", "label": "side", "name": "slow.csv"}  # takes minutes


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("replays")
    running = Service(folder / "state", config(folder, MODELS, max_log_bytes=MAX_BYTES, replays_kept=2))
    yield running
    running.stop()


def table(rows: int, columns: int = 2) -> bytes:
    """A CSV of numbers whose label is the sign of their sum."""
    draw, lines = random.Random(5), [",".join([*(f"x{n}" for n in range(columns)), "side"])]
    for _ in range(rows):
        row = [draw.uniform(-1, 1) for _ in range(columns)]
        lines.append(",".join([*(f"{value:.3f}" for value in row), "right" if sum(row) > 0 else "left"]))
    return "\n".join(lines).encode()


def send(service: Service, log: bytes, **query: Any) -> dict[str, Any]:
    response = service.http.post("/v1/replays", content=log, params={"name": "log.jsonl", **query})
    assert response.status_code == 202, response.text
    sent: dict[str, Any] = response.json()
    assert response.headers["Location"] == f"/v1/replays/{sent['id']}"
    return sent


def read_replay(service: Service, id: str) -> dict[str, Any]:
    shown: dict[str, Any] = service.http.get(f"/v1/replays/{id}").json()
    return shown


def wait_until_ended(service: Service, sent: dict[str, Any]) -> dict[str, Any]:
    def final_state() -> dict[str, Any] | None:
        shown = read_replay(service, sent["id"])
        return shown if shown["state"] in ("done", "failed") else None

    replay: dict[str, Any] = until(final_state, DONE_S, "the replay")
    return replay


def failure(service: Service, log: bytes, **query: Any) -> str:
    shown = wait_until_ended(service, send(service, log, **query))
    assert shown["state"] == "failed", shown
    return str(shown["error"])


def processes(state: Path) -> list[int]:
    """List the process groups that replay a log of this service."""
    groups = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            group = os.getpgid(int(folder.name))
        except (OSError, ValueError):
            continue
        if b"log\0replay" in command and str(state).encode() in command:
            groups.append(group)
    return groups


def wait_until_running(service: Service, sent: dict[str, Any]) -> None:
    until(lambda: read_replay(service, sent["id"])["progress"]["what"] == "replaying it", DONE_S, "its start")


@pytest.mark.long
def test_an_exported_log_replays_to_the_answers_that_were_served(service: Service, tmp_path: Path) -> None:
    with service.client("numbers") as client:
        for number in range(12):
            answer = client.predict([[number % 3, 1]])
            receipt = client.label(answer["prediction_ids"][0], f"n{number % 3}")
    service.wait_learned("numbers", receipt["offset"])
    settings = service.state.parent / f"{service.state.name}.toml"
    log = tmp_path / "own.jsonl.zst"
    flags = ("--state", str(service.state), "--config", str(settings), "--output", str(log))
    assert run_online("log", "export", *flags).returncode == 0

    shown = wait_until_ended(service, send(service, log.read_bytes(), name="own.jsonl.zst"))
    assert (shown["state"], shown["models"], shown["name"]) == ("done", ["classifier"], "own.jsonl.zst")
    page = service.http.get(f"/v1/replays/{shown['id']}/report")
    assert "gave 12 of 12 answers as they were served" in page.text and "<h1>own.jsonl.zst</h1>" in page.text
    assert page.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    files = sorted(path.name for path in (service.state / "replays" / shown["id"]).iterdir())
    assert files == ["asked.json", "ended.json", "report.de.html", "report.html"]  # the log itself is deleted


@pytest.mark.long
def test_a_table_is_replayed_on_the_suitable_kinds_or_on_the_requested_ones(service: Service) -> None:
    waiting = send(service, table(120), name="sides.csv", label="side")
    assert waiting["state"] in ("waiting", "running") and waiting["progress"]["percent"] == 0
    page = service.http.get(f"/v1/replays/{waiting['id']}/report")
    assert page.status_code == 202 and "The replay of sides.csv is in progress" in page.text
    assert wait_until_ended(service, waiting)["models"] == ["classifier", "logistic", "knn"]
    page = service.http.get(f"/v1/replays/{waiting['id']}/report")
    assert page.status_code == 200 and "120 examples" in page.text and '<th scope="row">logistic' in page.text
    assert page.headers["Content-Disposition"] == 'inline; filename="replay-of-sides-csv.html"'
    finding = read_replay(service, waiting["id"])["finding"]
    assert "is right in" in finding["sentence"] and "of 120 answers" in finding["sentence"]
    german = service.http.get(f"/v1/replays/{waiting['id']}/report", params={"language": "de"})
    assert german.headers["Content-Language"] == "de" and "<title>Auswertung von sides.csv</title>" in german.text
    (listed,) = [
        each
        for each in service.http.get("/v1/replays", headers={"Accept-Language": "de"}).json()["replays"]
        if each["id"] == waiting["id"]
    ]
    assert listed["finding"]["language"] == "de" and "von 120 Antworten richtig" in listed["finding"]["sentence"]

    chosen = ["knn:neighbours=3", "logistic"]
    assert (
        wait_until_ended(service, send(service, table(60), name="sides.csv", label="side", model=chosen))["models"]
        == chosen
    )


@pytest.mark.long
def test_columns_of_an_uploaded_table_can_be_left_out(service: Service) -> None:
    query = {"name": "sides.csv", "label": "side", "model": "majority"}
    shown = wait_until_ended(service, send(service, table(60, 3), **query, drop=["x0", "x2"]))
    assert "without the columns x0, x2" in service.http.get(f"/v1/replays/{shown['id']}/report").text
    assert "did you mean 'x1'" in failure(service, table(3), **query, feature="x_1")


@pytest.mark.long
def test_an_invalid_log_is_reported_with_its_line_and_its_uploaded_name(service: Service) -> None:
    lines = [json.dumps({"input": [n, 1], "label": "a"}) for n in range(5)]
    lines[2] = '{"input": [1, 2]}'
    bad = "\n".join(lines).encode()
    assert failure(service, bad, name="mine.jsonl") == 'mine.jsonl, line 3: expected {"input": ..., "label": ...}'
    tolerated = wait_until_ended(service, send(service, bad, name="mine.jsonl", max_bad_ratio=0.5, model="knn"))
    assert tolerated["state"] == "done"
    assert "mine.csv has no column 'y'; it has x0, x1, side" in failure(service, table(3), name="mine.csv", label="y")
    assert "mine.jsonl.gz cannot be read" in failure(service, b"no gzip at all", name="mine.jsonl.gz")
    assert "line 1 is not JSON" in failure(service, b"?\n", name="mine.jsonl")


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("log", "query", "cause"),
    [
        (b'{"input": [1, 2], "label": "a"}\n{"input": [1, 2]}\n', {}, {"line": 2, "problem": "no_example", "count": 1}),
        (b"not a log\n", {}, {"line": 1, "problem": "not_json", "count": 1}),
        (b"x,side\n1,a\n2,b,3\n4,a\n", {"name": "a.csv", "label": "side"}, {"line": 3, "problem": "too_many_cells", "count": 1}),
        (table(9), {"name": "a.csv", "label": "class"}, {"column": "class", "columns": "x0, x1, side"}),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", {}, {}),
        (b"x,side\n", {"name": "a.csv", "label": "side"}, {}),
        (b"no gzip", {"name": "a.csv.gz", "label": "side"}, {}),
    ],
    ids=["line", "json", "cells", "column", "picture", "rows", "compression"],
)  # fmt: skip
def test_a_log_that_cannot_be_read_has_a_cause_for_programs(
    service: Service, log: bytes, query: dict[str, str], cause: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    codes = {"column": "log_column_missing", "picture": "log_unreadable", "rows": "log_without_rows"}
    codes |= {"compression": "log_unreadable"}
    shown = wait_until_ended(service, send(service, log, **query))
    code = codes.get(request.node.callspec.id, "log_lines_invalid")
    assert shown["state"] == "failed" and shown["error"] and shown["cause"] == {"code": code, "figures": cause}


def test_an_upload_that_is_refused_has_a_cause_for_programs(service: Service) -> None:
    def refuse(log: bytes, name: str) -> Any:
        return service.http.post("/v1/replays", content=log, params={"name": name}).json()["cause"]

    assert refuse(b"", "log.jsonl") == {"code": "log_empty", "figures": {}}
    assert refuse(b"x" * (MAX_BYTES + 1), "log.jsonl") == {"code": "log_too_large", "figures": {"limit": MAX_BYTES}}
    assert refuse(table(3), "a.csv") == {"code": "log_label_missing", "figures": {}}


def test_an_invalid_upload_is_refused_and_leaves_no_file(service: Service) -> None:
    def refusal(status: int, log: Any, **query: Any) -> str:
        response = service.http.post("/v1/replays", content=log, params={"name": "a.jsonl", **query})
        assert response.status_code == status, response.text
        return str(response.json()["error"])

    assert "unknown model kind 'oracle'" in refusal(400, b"{}", model="oracle")
    assert "name the column of its label with the parameter `label`" in refusal(400, b"a,b", name="a.csv.gz")
    assert "the log is empty" in refusal(400, b"")
    assert f"at most {MAX_BYTES:,} are taken (max_log_bytes)" in refusal(413, b"x" * (MAX_BYTES + 1))
    assert "max_log_bytes" in refusal(413, iter([b"x" * MAX_BYTES, b"x"]))  # a body without a Content-Length
    assert not list((service.state / "replays").glob(".*"))
    for id in ("0" * 32, "secret"):
        assert service.http.get(f"/v1/replays/{id}").status_code == 404
        assert service.http.delete(f"/v1/replays/{id}").status_code == 404


def test_the_name_of_an_uploaded_log_is_not_used_as_a_path(service: Service) -> None:
    before = {path for path in service.state.parent.rglob("*") if "replays" not in path.parts}
    shown = wait_until_ended(
        service, send(service, table(30), name="../../../evil.csv", label="side", model="logistic")
    )
    assert shown["state"] == "done" and shown["name"] == "../../../evil.csv"
    folder = service.state / "replays" / shown["id"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "asked.json",
        "ended.json",
        "report.de.html",
        "report.html",
    ]
    new = {path for path in service.state.parent.rglob("*") if "replays" not in path.parts} - before
    assert not [path for path in new if "evil" in path.name]


def test_code_named_by_an_uploaded_log_or_its_request_is_not_run(service: Service, tmp_path: Path) -> None:
    row = json.dumps({"input": [1.0, 2.0], "label": "a"}).encode()
    assert "'network' of an uploaded tower must be mlp or cnn" in failure(service, row, model="tower:network=os:abort")
    header = {
        "format": "online-log/3",
        "model": "m",
        "kind": "tower",
        "options": {"input": "vector", "size": 2, "network": "os:abort"},
        "drift": "watch",
        "feature_epoch": "",
    }
    assert "'network' of an uploaded tower must be mlp or cnn" in failure(service, json.dumps(header).encode())


@pytest.mark.long
def test_an_estimator_or_a_class_named_by_an_upload_is_not_run(start: Start, tmp_path: Path) -> None:
    """Not even by a service whose operator configured a class of their own."""
    own = "tests.models.nearest_mean:NearestMean"
    service = start(f'[[models]]\nname = "mine"\nkind = "{own}"\n')
    trap = tmp_path / "sprung"
    mkdir = {"estimator": "os:mkdir", "params": {"path": str(trap)}}
    with pytest.raises(ValueError, match="is not a classifier of river"):
        create("river", mkdir)
    trap.rmdir()  # the trap works: here the operator named it
    row = json.dumps({"input": {"x": 1.0}, "label": "a"}).encode()
    for kind in ("river", "river_regressor", "sklearn", "sklearn_regressor"):
        params = json.dumps(mkdir["params"])
        sent = failure(service, row, model=f"{kind}:estimator=os:mkdir,params={params}")
        assert "option 'estimator' must be one of" in sent
        header = {"format": "online-log/3", "model": "m", "drift": "watch", "feature_epoch": ""}
        for options in (mkdir, {"challenger": {"kind": kind, "options": mkdir}}):
            line = json.dumps({**header, "kind": kind, "options": options}).encode()
            assert "option 'estimator' must be one of" in failure(service, line)
    line = json.dumps({**header, "kind": own, "options": {}}).encode()
    assert "names no model that is known here" in failure(service, line)
    for model in (own, "os:mkdir", f"best_of:contenders={json.dumps({'a': {'kind': own}})}"):
        response = service.http.post("/v1/replays", content=row, params={"name": "a.jsonl", "model": model})
        if response.status_code == 202:
            assert "the kind of a model must be one of" in wait_until_ended(service, response.json())["error"]
        else:
            assert response.status_code == 400 and "unknown model kind" in response.text
    assert not trap.exists()
    with service.client("mine") as client:
        for number in range(12):
            answer = client.predict([{"x": number % 3}])
            receipt = client.label(answer["prediction_ids"][0], f"n{number % 3}")
        service.wait_learned("mine", receipt["offset"])
        assert client.predict([{"x": 2.0}])["predictions"][0]["label"] == "n2"


@pytest.mark.long
def test_only_the_newest_replays_are_kept(service: Service) -> None:
    sent = [send(service, table(30), name="a.csv", label="side", model="knn")["id"] for _ in range(3)]
    until(lambda: read_replay(service, sent[-1])["state"] == "done", DONE_S, "the last one")

    def are_dropped() -> bool:
        return [each["id"] for each in service.http.get("/v1/replays").json()["replays"]] == sent[:0:-1]

    until(are_dropped, what="that older ones are dropped")
    assert service.http.get(f"/v1/replays/{sent[0]}").status_code == 404


@pytest.mark.long
def test_a_deleted_replay_ends_immediately_and_the_next_one_starts(start: Start) -> None:
    service = start(MODELS)
    first = send(service, table(20_000, 12), **{**SLOW, "model": ["river:estimator=arf", "knn"]})
    wait_until_running(service, first)
    second = send(service, table(30), name="b.csv", label="side", model="knn")
    assert read_replay(service, second["id"])["state"] == "waiting"
    assert read_replay(service, second["id"])["progress"]["ahead"] == 1

    def timed_progress() -> dict[str, Any] | None:
        progress: dict[str, Any] = read_replay(service, first["id"])["progress"]
        return progress if progress["left_s"] is not None else None

    progress = until(timed_progress, DONE_S, "the time left")
    assert 0 < progress["done"] < progress["total"] and progress["per_second"] > 0 and progress["percent"] >= 8
    assert processes(service.state)
    group = processes(service.state)[0]
    assert service.http.delete(f"/v1/replays/{first['id']}").json() == {"id": first["id"]}
    with pytest.raises(ProcessLookupError):  # including all processes that it started
        until(lambda: os.killpg(group, 0), what="the end of all its processes")
    assert wait_until_ended(service, second)["state"] == "done"
    assert [path.name for path in (service.state / "replays").iterdir()] == [second["id"]]


@pytest.mark.long
def test_a_replay_that_takes_too_long_is_ended_although_its_process_stands_still(start: Start) -> None:
    service = start(MODELS, max_job_hours=8 / 3600)
    sent = send(service, table(20_000, 12), **SLOW)
    group = until(lambda: processes(service.state), what="its process")[0]
    os.kill(group, signal.SIGSTOP)
    shown = wait_until_ended(service, sent)
    assert shown["state"] == "failed" and "it took longer than" in shown["error"]
    assert "max_job_hours" in shown["error"]
    with pytest.raises(ProcessLookupError):
        until(lambda: os.killpg(group, 0), what="the end of all its processes")


@pytest.mark.long
def test_a_replay_of_a_killed_service_is_reported_as_failed(start: Start) -> None:
    service = start(MODELS)
    sent = send(service, table(20_000, 12), **SLOW)
    wait_until_running(service, sent)
    assert processes(service.state)
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()
    until(lambda: not processes(service.state), what="the end of the replay processes")
    restarted = start(MODELS)
    shown = read_replay(restarted, sent["id"])
    assert shown["state"] == "failed" and "the service stopped before it was done" in shown["error"]
    assert (
        wait_until_ended(restarted, send(restarted, table(30), name="a.csv", label="side", model="knn"))["state"]
        == "done"
    )
    assert restarted.http.delete(f"/v1/replays/{sent['id']}").status_code == 200


@pytest.mark.few(1)
@pytest.mark.parametrize(("make", "suffix"), [(gzip_bomb, ".gz"), (zstd_bomb, ".zst")])
def test_an_upload_that_unpacks_to_much_is_refused(
    service: Service, tmp_path: Path, make: Callable[[Path, bytes, int], Path], suffix: str
) -> None:
    log = make(tmp_path / "log", b'{"input": [1, 2], "label": "a"}\n', 32 * MB).read_bytes()
    error = failure(service, log, name=f"log.jsonl{suffix}")
    assert f"log.jsonl{suffix} unpacks to" in error and "max_unpacked_ratio" in error


@pytest.mark.long
def test_an_upload_of_one_endless_line_is_refused(service: Service, tmp_path: Path) -> None:
    log = zstd_bomb(tmp_path / "log", b"x", 200 * MB).read_bytes()
    assert "max_line_bytes" in failure(service, log, name="log.jsonl.zst")


def look(service: Service, log: bytes, **query: Any) -> dict[str, Any]:
    answer: dict[str, Any] = service.http.post("/v1/replays:columns", content=log, params=query).json()
    return answer


PLANTS = "\n".join(
    ["plant,seen,height,note,label", *(f"p{n:03},2026-04-{n % 28 + 1:02},{n % 7},,{'ab'[n % 2]}" for n in range(40))]
).encode()


def test_the_columns_of_a_table_are_shown_before_its_replay_and_nothing_is_kept(service: Service) -> None:
    found = look(service, PLANTS, name="plants.csv", label="label")
    assert found["rows"] == 40
    assert {each["name"]: (each["kind"], each["treatment"]) for each in found["columns"]} == {
        "plant": ("identifier", "left_out"),
        "seen": ("date", "parsed"),
        "height": ("number", "read"),
    }
    assert not [*(service.state / "replays").glob(".*")]


def test_a_column_that_looks_like_an_identifier_is_read_where_the_user_names_it(service: Service) -> None:
    found = look(service, PLANTS, name="plants.csv", label="label", feature=["plant", "height"])
    assert [(each["name"], each["treatment"]) for each in found["columns"]] == [("plant", "read"), ("height", "read")]


def test_a_table_whose_columns_cannot_be_recognised_is_refused_in_one_sentence(service: Service) -> None:
    refused = look(service, PLANTS, name="plants.csv", label="weight")
    assert "plants.csv" in refused["error"] and refused["cause"]["code"] == "log_column_missing"
    assert look(service, b"", name="plants.csv", label="label")["cause"]["code"] == "log_empty"
    too_large = look(service, b"a" * (MAX_BYTES + 1), name="a.csv", label="a")
    assert too_large["cause"]["code"] == "log_too_large"
