"""The state of a cluster, as `online status` and GET /v1/cluster read it from the store."""

import json
from functools import partial
from pathlib import Path

from sqlalchemy import update
from typer.testing import CliRunner

from online.cli.app import app
from online.plugins.cluster.schemas import ClusterAnswer
from online.plugins.cluster.status import find_role, read_status
from online.snapshots import Snapshots
from online.store import Store
from online.store.leases import take_lease
from online.store.replicas import REPLICAS, report_replica
from tests.conftest import config
from tests.plugins.cluster.reports import DIVERGED, report
from tests.support import Service


def read(store: Store) -> ClusterAnswer:
    return read_status(store, ["m"], find_no_snapshots)


def find_no_snapshots(model: str) -> Snapshots:
    raise AssertionError("a store that is shared says what answers")


def test_each_replica_is_shown_with_its_lag_its_hash_and_whether_it_is_the_published_one(store: Store) -> None:
    report(store, "first")
    report(store, "second", "b" * 64, diverged=DIVERGED)
    answer = read(store)
    [model], [first, second] = answer.models, answer.replicas
    assert (model.head, model.version, model.learned_until, model.published_by) == (5, "1", 3, "first")
    assert [(each.models[0].lag, each.models[0].agrees, each.models[0].role) for each in (first, second)] == [
        (2, True, "learns"),
        (2, False, "diverged"),
    ]
    assert second.models[0].diverged is not None and second.models[0].diverged.ours == "b" * 64
    assert first.is_present and (first.release, first.free_disk_bytes, first.clock_difference_s) == (
        "1",
        5_000_000_000,
        0.5,
    )


def test_a_replica_that_was_not_seen_for_five_seconds_is_absent(store: Store) -> None:
    report(store, "first")
    earlier = update(REPLICAS).values(seen_at=REPLICAS.c.seen_at - 90)
    store.submit(lambda connection: connection.execute(earlier)).result()
    [first] = read(store).replicas
    assert not first.is_present and first.seen_s >= 90


def test_a_report_of_an_earlier_release_is_shown_without_models(store: Store) -> None:
    old = {"models": {"m": [1, 3]}}
    store.submit(partial(report_replica, id="old", url="", report=old)).result()
    [found] = read(store).replicas
    assert found.models == [] and found.release == ""


def test_a_learner_stands_by_while_another_replica_holds_the_lease(store: Store) -> None:
    report(store, "first")
    report(store, "second")
    store.submit(partial(take_lease, model="m", holder="second", duration_s=60.0)).result()
    assert [each.models[0].role for each in read(store).replicas] == ["stands by", "learns"]
    assert find_role("restarting", False, False) == "does not learn"


def test_the_command_needs_only_the_store(store: Store, postgres_url: str, tmp_path: Path) -> None:
    report(store, "first")
    result = CliRunner().invoke(app, ["status", "--store", postgres_url, "--state", str(tmp_path / "none")])
    assert result.exit_code == 0, result.output
    assert "1 of 1 replicas present" in result.output and "version 1" in result.output
    assert not (tmp_path / "none").exists(), "a look changes nothing"
    shown = CliRunner().invoke(app, ["status", "--store", postgres_url, "--json"])
    assert ClusterAnswer.model_validate_json(shown.output).replicas[0].id == "first"


def test_a_service_on_sqlite_is_one_line_and_lists_no_replicas(tmp_path: Path) -> None:
    text = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 2, scale = 4.0 }\n'
    service = Service(tmp_path / "state", config(tmp_path, text))
    with service.client("vec") as client:
        client.wait_until_learned(client.feedback([{"input": [0, 1], "label": "a"}])[0]["offset"], 60)
    answer = service.http.get("/v1/cluster").json()
    service.stop()
    assert (answer["is_shared"], answer["replicas"]) == (False, [])
    assert [(each["model"], each["head"], each["learned_until"]) for each in answer["models"]] == [("vec", 1, 1)]
    flags = ["--state", str(tmp_path / "state"), "--config", str(tmp_path / "state.toml")]
    result = CliRunner().invoke(app, ["status", *flags])
    assert result.exit_code == 0 and result.output.count("\n") == 1, result.output
    assert "a single service on sqlite" in result.output and "learned until 1 of 1" in result.output
    assert json.loads(CliRunner().invoke(app, ["status", *flags, "--json"]).output) == answer
