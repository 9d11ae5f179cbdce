"""Exports of logs that went back in time replay to the live state: after a restored backup, and after a stale fail-over.

learned 20 --backup--> learned 50, which answers --restore--> log 20 --feedback on those answers--> export --replay-->
"""

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Start
from tests.e2e.test_log_identity import give
from tests.e2e.test_survival import VECTOR, WAIT_MS, items
from tests.support import PostgresBackup, Service, erase, replay_json, run_online, until, wait_for_rows


def copy_database(state: Path, to: Path) -> None:
    with closing(sqlite3.connect(state / "online.db")) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


def bring_back(backup: Path, state: Path) -> None:
    for path in state.glob("online.db*"):
        path.unlink()
    shutil.copy(backup, state / "online.db")


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def ask(service: Service, count: int) -> list[str]:
    answer = service.client("vec").predict([[n % 5, 1, 2, 3] for n in range(count)])
    return list(answer["prediction_ids"])


def rate(service: Service, ids: list[str], **fields: Any) -> int:
    """Say what is right about predictions; return the last offset."""
    return give(service, [{"prediction_id": id, "label": f"class {n % 3}", **fields} for n, id in enumerate(ids)])


def lose(service: Service) -> list[str]:
    """Let a service answer from what is about to be lost, and kill it before its answers are copied from the journal."""
    with service.stopped_copier():
        ids = ask(service, 30)
        service.process.kill()
        os.kill(int(service.copier_pid() or 0), signal.SIGKILL)  # otherwise it copies them when it goes on
        service.process.wait()
    return ids


def learn_all(service: Service, offset: int) -> str:
    """Return the hash of the live version once it has learned all."""
    service.client("vec").predict([[0, 0, 0, 0]], min_offset=offset, timeout_ms=WAIT_MS)
    live = until(
        lambda: next((v for v in service.versions("vec") if v["live"] and v["learned_until"] == offset), None),
        what="the live version",
    )
    return str(live["state_sha256"])


def check_export(folder: Path, expected_state: str, rated: int | None) -> list[dict[str, Any]]:
    """Export and replay the log: every event behind its prediction, nothing dropped, the live state. Returns the lines.

    rated: how many events are about predictions; None: unknown.
    """
    log = folder / "log.jsonl"
    state = ("--state", str(folder / "state"), "--config", str(folder / "state.toml"))
    exported = run_online("log", "export", "--model", "vec", "--output", str(log), *state)
    assert exported.returncode == 0, exported.stderr
    header, *lines = [json.loads(line) for line in log.read_text().splitlines()]
    places = {line["prediction"]["id"]: place for place, line in enumerate(lines) if "prediction" in line}
    events = [(place, line["event"]) for place, line in enumerate(lines) if "event" in line]
    assert all(places[event["prediction_id"]] < place for place, event in events if "prediction_id" in event)
    assert rated is None or sum("prediction_id" in event for _, event in events) == rated
    report = replay_json(str(log), "--model", "classifier")
    assert report["state_sha256"] == expected_state
    assert report["events"] == header["event_count"] and report["warnings"] == []
    assert report["events_without_prediction"] == 0
    return lines


def test_the_log_after_an_older_backup_was_restored_replays_to_the_live_state(start: Start, tmp_path: Path) -> None:
    feedback, backup = items(100), tmp_path / "backup.db"
    service = start(VECTOR)
    service.wait_learned("vec", give(service, feedback[:20]))
    kept = ask(service, 10)
    with closing(sqlite3.connect(service.state / "online.db")) as store:
        wait_for_rows(store, len(kept))
    copy_database(service.state, backup)
    service.wait_learned("vec", give(service, feedback[20:60]))
    lost = lose(service)
    bring_back(backup, service.state)
    service = start(VECTOR)
    rate(service, kept + lost[:15])
    give(service, feedback[60:])
    state = learn_all(service, rate(service, lost[15:]))
    assert service.stop() == 0
    lines = check_export(tmp_path, state, len(kept + lost))
    versions = {line["prediction"]["id"]: line["prediction"]["learned_until"] for line in lines if "prediction" in line}
    assert versions[lost[0]] > versions[kept[0]], "what the version had learned is said as it was"


@pytest.mark.long
def test_two_restores_with_an_erasure_between_leave_a_log_that_replays(start: Start, tmp_path: Path) -> None:
    feedback, backup = items(100), tmp_path / "backup.db"
    service = start(VECTOR)
    service.wait_learned("vec", give(service, feedback[:20]))
    copy_database(service.state, backup)
    lost = list[str]()
    for turn in range(2):
        service.wait_learned("vec", give(service, feedback[20 : 60 - 10 * turn]))
        lost += lose(service)
        bring_back(backup, service.state)
        service = start(VECTOR)
        rate(service, lost[-30:-20])
        give(service, [{**item, "id": f"{turn} {item['id']}", "user": "somebody"} for item in feedback[60:70]])
        erase(service.client("vec"), "somebody")
        copy_database(service.state, backup)
    state = learn_all(service, rate(service, lost[-20:]))
    assert service.stop() == 0
    check_export(tmp_path, state, 40)


@pytest.mark.long
@pytest.mark.parametrize("with_redis", [False, True], ids=["store", "redis"])
def test_the_log_after_a_stale_failover_replays_to_the_live_state(
    request: pytest.FixtureRequest, start: Start, postgres_url: str, tmp_path: Path, with_redis: bool
) -> None:
    stream = {"stream": request.getfixturevalue("redis_url")} if with_redis else {}
    feedback = items(100)
    service = start(VECTOR, store=postgres_url, **stream)
    with PostgresBackup(postgres_url) as backup:
        service.wait_learned("vec", give(service, feedback[:20]))
        backup.keep()
        service.wait_learned("vec", give(service, feedback[20:60]))
        with stopped(until(service.learner_pid)):  # the lost version answers until the learner notices
            backup.bring_back()
            lost = ask(service, 20)
            rate(service, lost[:10])
        give(service, feedback[60:])
        state = learn_all(service, rate(service, lost[10:]))
        assert service.stop() == 0
        check_export(tmp_path, state, len(lost))


def roll_back(service: Service, offset: int) -> None:
    """Let the newest version answer that had learned at most up to an offset; learning goes on."""
    older = max((each for each in service.versions("vec") if each["learned_until"] <= offset), key=learned_until)
    response = service.http.post("/v1/models/vec:rollback", json={"version": older["version"], "freeze": False})
    assert response.status_code == 200, response.text


def learned_until(version: dict[str, Any]) -> int:
    return int(version["learned_until"])


def copy_folder(state: Path, to: Path) -> None:
    """Copy the state folder of a stopped service, without its database and its named pipes."""
    shutil.copytree(state, to, symlinks=True, ignore=shutil.ignore_patterns("online.db*", "bells"))


def bring_folder_back(backup: Path, state: Path) -> None:
    """Replace all of a state folder but its database."""
    for path in state.iterdir():
        if path.name.startswith("online.db"):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(backup, state, symlinks=True, dirs_exist_ok=True)


@pytest.mark.long
def test_an_older_database_under_a_state_folder_with_roll_backs_replays_to_the_live_state(
    start: Start, tmp_path: Path
) -> None:
    feedback, backup = items(100), tmp_path / "backup.db"
    service = start(VECTOR)
    service.wait_learned("vec", give(service, feedback[:20]))
    service.wait_learned("vec", give(service, feedback[20:30]))
    roll_back(service, 20)
    service.wait_learned("vec", give(service, feedback[30:40]))
    copy_database(service.state, backup)
    service.wait_learned("vec", give(service, feedback[40:60]))
    roll_back(service, 40)
    lost = lose(service)
    bring_back(backup, service.state)
    service = start(VECTOR)
    give(service, feedback[60:80])
    offset = rate(service, lost)
    learn_all(service, offset)
    roll_back(service, offset - 10)
    state = learn_all(service, give(service, feedback[80:]))
    assert service.stop() == 0
    check_export(tmp_path, state, len(lost))


@pytest.mark.long
def test_a_newer_database_under_an_older_state_folder_replays_to_the_live_state(start: Start, tmp_path: Path) -> None:
    feedback, backup = items(100), tmp_path / "backup"
    service = start(VECTOR)
    service.wait_learned("vec", give(service, feedback[:20]))
    kept = ask(service, 10)
    assert service.stop() == 0
    copy_folder(service.state, backup)
    service = start(VECTOR)
    service.wait_learned("vec", give(service, feedback[20:60]))
    roll_back(service, 20)
    service.wait_learned("vec", rate(service, kept))
    lose(service)
    bring_folder_back(backup, service.state)
    service = start(VECTOR)
    offset = give(service, feedback[60:80])
    learn_all(service, offset)
    roll_back(service, offset - 5)
    state = learn_all(service, give(service, feedback[80:]))
    assert service.stop() == 0
    check_export(tmp_path, state, len(kept))
