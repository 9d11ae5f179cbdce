"""The export of a log is atomic, and can be replayed whatever happened to its predictions."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, delete, insert

from online.errors import SetupError
from online.evaluation.sources.log_export import LogExport
from online.models import Example, create
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.store.events import append_events
from online.store.feedback import FEEDBACK, NEW
from online.store.predictions import PREDICTIONS, add_predictions
from tests.evaluation.replaying import run_replay

MODEL = ModelSettings(name="m", kind="classifier", options={"input": "table"})
VECTOR = ModelSettings(name="v", kind="classifier", options={"input": "vector", "size": 2})


@pytest.fixture
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace(Settings(state=tmp_path / "state", models=[VECTOR]))
    yield opened
    opened.store.close()


def rate(connection: Connection, count: int, **learned_until: int) -> None:
    """Store predictions p1, p2, ... and a label on each. learned_until: of a prediction, if it is not the offset before."""
    for n in range(1, count + 1):
        values = np.array([n % 2, n % 3], np.float64)
        row: dict[str, Any] = {
            "id": f"p{n}",
            "model": "v",
            "version": 1,
            "learned_until": learned_until.get(f"p{n}", n - 1),
            "user": None,
            "input": json.dumps(values.tolist()),
            "features": b"",
            "choice": "a",
            "propensity": 1.0,
            "candidates": "[]",
            "created_at": "2026-11-27T10:00:00+00:00",
        }
        add_predictions(connection, [row])
        [offset] = append_events(connection, "v", [Event(f"e{n}", "label", values.tobytes(), "ab"[n % 2], choice="a")])
        given = {"model": "v", "id": f"e{n}", "offset": offset, "content": "{}", "prediction_id": f"p{n}"}
        connection.execute(insert(FEEDBACK).values({**NEW, **given, "created_at": row["created_at"]}))


def export(workspace: Workspace, to: Path) -> list[dict[str, Any]]:
    LogExport(workspace, VECTOR).write(to, lambda done, of: None)
    return [json.loads(line) for line in to.read_text().splitlines()[1:]]


def expected_state(count: int) -> str:
    model = create("classifier", VECTOR.options)
    numbers = range(1, count + 1)
    features = (np.array([n % 2, n % 3], np.float64).tobytes() for n in numbers)
    model.learn([Example(n, "label", data, "ab"[n % 2]) for n, data in zip(numbers, features, strict=True)])
    return model.fingerprint()


def test_a_prediction_by_a_version_of_a_lost_log_stands_before_the_feedback_on_it(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.store.submit(lambda connection: rate(connection, 9, p3=7, p5=400, p9=2)).result()
    lines = export(workspace, tmp_path / "log.jsonl")
    order = [line["prediction"]["id"] if "prediction" in line else line["event"]["offset"] for line in lines]
    assert order == ["p1", 1, "p2", 2, "p3", "p9", 3, "p4", 4, "p5", 5, "p6", 6, "p7", 7, "p8", 8, 9]
    assert (
        next(line["prediction"] for line in lines if line.get("prediction", {}).get("id") == "p5")["learned_until"]
        == 400
    )
    report = run_replay(tmp_path / "log.jsonl").report()
    assert (report.state_sha256, report.events_without_prediction) == (expected_state(9), 0)


def test_an_event_whose_prediction_is_not_in_the_store_any_more_has_its_own_features(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.store.submit(lambda connection: rate(connection, 9)).result()
    workspace.store.submit(lambda connection: connection.execute(delete(PREDICTIONS).where(PREDICTIONS.c.id == "p4")))
    lines = export(workspace, tmp_path / "log.jsonl")
    [own] = [line["event"] for line in lines if line.get("event", {}).get("offset") == 4]
    assert "prediction_id" not in own and own["features"]
    report = run_replay(tmp_path / "log.jsonl").report()
    assert (report.state_sha256, report.events_without_prediction) == (expected_state(9), 0)


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.jsonl.zst"])
def test_an_export_to_a_full_disk_leaves_the_existing_log_unchanged(tmp_path: Path, name: str) -> None:
    workspace = Workspace(Settings(state=tmp_path / "state", models=[MODEL]))
    export, output = LogExport(workspace, MODEL), tmp_path / "out" / name
    output.parent.mkdir()
    output.write_text("the old log")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))  # no file grows beyond 8 bytes
    try:
        with pytest.raises(SetupError, match="cannot be written to"):
            export.write(output, lambda done, of: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert output.read_text() == "the old log"
    assert [path.name for path in output.parent.iterdir()] == [name]
    export.write(output, lambda done, of: None)
    assert output.read_bytes() != b"the old log" and len(list(output.parent.iterdir())) == 1
    workspace.store.close()
