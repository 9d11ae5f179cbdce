"""Retention in a running service: old rows and files are deleted beside it, and nothing that was learned is lost."""

import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.conftest import Start
from tests.support import Service, until, wait_for_rows

MODELS = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
LONG_AGO = (datetime.now(UTC) - timedelta(days=400)).isoformat()


def predict(service: Service, rows: list[list[float]], **more: Any) -> list[str]:
    answer = service.http.post("/v1/models/vec:predict", json={"instances": rows, **more})
    assert answer.status_code == 200, answer.text
    ids: list[str] = answer.json()["prediction_ids"]
    return ids


def give(service: Service, **item: Any) -> Any:
    return service.http.post("/v1/models/vec:feedback", json={"feedback": [item]})


def metric(service: Service, name: str) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def make_old(state: Path) -> None:
    with closing(sqlite3.connect(state / "online.db")) as store, store:
        store.execute("UPDATE prediction SET created_at = ?", [LONG_AGO])
        store.execute("UPDATE conversation SET updated_at = ?", [LONG_AGO])
    report = state / "reports" / "vec" / "1.html"
    report.parent.mkdir(parents=True)
    report.write_text("old")
    os.utime(report, (0, 0))
    damaged = state / "journal" / "old.damaged"
    damaged.write_text("old")
    os.utime(damaged, (0, 0))
    replay = state / "replays" / ("a" * 32)
    replay.mkdir(parents=True)
    asked = {"name": "log.jsonl", "file": "log-1.jsonl", "size_bytes": 1, "created_at": LONG_AGO, "models": []}
    more = {"label": "", "format": "", "max_bad_ratio": 0.0}
    (replay / "asked.json").write_text(json.dumps({**asked, **more}))


def test_old_rows_and_files_are_deleted_and_what_was_learned_stays(start: Start) -> None:
    service = start(MODELS)
    unrated = predict(service, [[0.5, 1.0]] * 1_000)
    rated = predict(service, [[0.5, 1.0]])[0]
    predict(service, [[0.1, 0.2]], conversation="c", user="ada")
    first = give(service, prediction_id=rated, label="a").json()["receipts"][0]
    service.wait_learned("vec", first["offset"])
    service.stop()
    make_old(service.state)

    service = start(MODELS, retention_days=30)
    until(lambda: metric(service, "online_pruned_total") >= 1_004, what="the deletion")
    young = predict(service, [[0.5, 1.0]])[0]
    with closing(sqlite3.connect(service.state / "online.db")) as store:
        wait_for_rows(store, 2)
        assert sorted(store.execute("SELECT id FROM prediction").fetchall()) == sorted([(rated,), (young,)])
    assert not (service.state / "reports" / "vec" / "1.html").exists()
    assert not (service.state / "journal" / "old.damaged").exists()
    assert service.http.get("/v1/replays").json()["replays"] == []
    listed = service.http.get("/v1/models/vec/conversations", headers={"X-User": "ada"}).json()
    assert listed["conversations"] == []

    late = give(service, prediction_id=unrated[0], label="a")
    assert late.status_code == 404 and "is deleted after 30 days (retention_days)" in late.json()["error"]
    assert give(service, prediction_id=rated, label="b").status_code == 202
    retracted = service.http.delete(f"/v1/models/vec/feedback/{first['id']}")
    assert retracted.status_code == 202, retracted.text


def test_the_oldest_predictions_are_deleted_beyond_a_number_of_bytes(start: Start) -> None:
    service = start(MODELS)
    old = predict(service, [[0.5, 1.0]] * 1_000)
    new = predict(service, [[0.5, 1.0]] * 100)
    service.stop()
    with closing(sqlite3.connect(service.state / "online.db")) as store:
        sizes = "SELECT 200 + avg(length(input) + length(features) + length(candidates)) FROM prediction"
        [row_bytes] = store.execute(sizes).fetchone()
    service = start(MODELS, retention_bytes=int(300 * row_bytes))
    until(lambda: 0 < metric(service, "online_stored_predictions ") <= 300, what="the deletion")
    with closing(sqlite3.connect(service.state / "online.db")) as store:
        left = [id for (id,) in store.execute("SELECT id FROM prediction ORDER BY id")]
    assert left == sorted([*old, *new])[-len(left) :] and 290 <= len(left) <= 300
    assert metric(service, "online_stored_predictions ") == len(left)
