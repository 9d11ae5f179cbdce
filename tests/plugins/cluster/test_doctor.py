"""`online doctor`: each thing that can be wrong is found, with what to do."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text, update
from typer.testing import CliRunner

from online.cli.app import app
from online.errors import SetupError
from online.plugins.cluster.doctor.findings import CheckFinding
from online.plugins.cluster.doctor.machine import check_disk, check_file_system, check_state, find_file_system
from online.plugins.cluster.doctor.replicas import check_replicas, judge_status
from online.plugins.cluster.doctor.services import check_clock, check_keys, check_store, check_stream, judge_redis
from online.plugins.cluster.status import read_status
from online.settings import Settings
from online.state.shared_keys import save_stored
from online.state.signing_keys import SigningKeys
from online.store import Store
from online.store.database.inspection import check_current
from online.store.database.meta import save_oldest_code
from online.store.replicas import REPLICAS
from tests.plugins.cluster.reports import DIVERGED, report

MOUNTS = """/dev/sda1 / ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
server:/export /srv/shared\\040disk nfs4 rw 0 0
"""
INFO = {"redis_version": "7.2.1", "role": "master", "used_memory": 10, "maxmemory": 0, "aof_enabled": 1}


def examine(store: Store) -> list[CheckFinding]:
    return [*check_replicas(read_status(store, ["m"], lambda model: None))]


def problems(findings: list[CheckFinding]) -> list[str]:
    return [each.text for each in findings if each.level == "problem"]


def warnings(findings: list[CheckFinding]) -> list[str]:
    return [each.text for each in findings if each.level == "warning"]


def test_replicas_that_agree_need_nothing(store: Store) -> None:
    report(store, "first")
    report(store, "second")
    found = examine(store)
    assert {each.level for each in found} == {"ok"}
    assert any("2 replicas agree with what was published: aaaaaaaaaaaa at offset 3" in each.text for each in found)


def test_a_replica_that_diverged_is_named_with_both_states_and_its_processor(store: Store) -> None:
    report(store, "first")
    report(store, "second", diverged=DIVERGED)
    [text] = problems(examine(store))
    assert "at offset 3" in text and "bbbbbbbbbbbb" in text and "aaaaaaaaaaaa" in text and "other" in text


def test_different_states_at_one_offset_are_found_even_where_nothing_was_published(store: Store) -> None:
    report(store, "first", version=7)
    report(store, "second", "b" * 64, version=7)
    [text] = problems(examine(store))
    assert text == "version 7 at offset 3 has different states: aaaaaaaaaaaa on first; bbbbbbbbbbbb on second"


def test_a_state_that_is_not_the_published_one_is_a_problem(store: Store) -> None:
    report(store, "first", "c" * 64)
    [text] = problems(examine(store))
    assert "version 1 of m has the state cccccccccccc there, which is not the one that was published" in text


def test_releases_keys_clocks_and_disks_that_differ_are_found(store: Store) -> None:
    report(store, "first")
    report(store, "second", release="2", signing_keys="other", clock_difference_s=-40.0, free_disk_bytes=5)
    found = examine(store)
    assert any("different signing keys" in text for text in problems(found))
    assert any("different releases: 1: first; 2: second" in text for text in warnings(found))
    assert any("40.0 s behind" in text for text in warnings(found))
    assert any("its disk has 0.00 GB left" in text for text in warnings(found))


def test_an_absent_replica_and_a_model_that_nobody_learns_are_found(store: Store) -> None:
    report(store, "first", learner="external")
    report(store, "second")
    store.submit(
        lambda connection: connection.execute(update(REPLICAS).where(REPLICAS.c.id == "second").values(seen_at=0.0))
    ).result()
    found = examine(store)
    assert any(each.subject == "replica second" and "absent for" in each.text for each in found)
    assert problems(found) == ["no replica learns it: feedback waits in the log"]


def test_the_answer_of_a_replica_is_judged_by_its_status() -> None:
    replica = fake_replica()
    levels = {status: judge_status(replica, status).level for status in (200, 404, 421, 503)}
    assert levels == {200: "ok", 404: "problem", 421: "problem", 503: "warning"}
    assert "allowed_hosts" in judge_status(replica, 421).remedy


def fake_replica() -> Any:
    from online.plugins.cluster.schemas import ReplicaState

    return ReplicaState(
        id="r", url="http://r:8000", is_present=True, seen_s=0, release="1", learner="running",
        free_disk_bytes=None, clock_difference_s=None, signing_keys="", models=[],
    )  # fmt: skip


def test_a_network_file_system_is_a_problem_and_memory_a_warning() -> None:
    assert find_file_system(Path("/srv/shared disk/state"), MOUNTS) == "nfs4"
    assert check_file_system(Path("/srv/shared disk/state"), True, MOUNTS).level == "problem"
    assert check_file_system(Path("/run/state"), False, MOUNTS).level == "warning"
    assert check_file_system(Path("/var/lib/online"), True, MOUNTS).level == "ok"


def test_a_folder_that_others_may_read_and_a_full_disk_are_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    found = [*check_state(Settings(state=tmp_path))]
    assert any("other users of this machine may read" in text for text in warnings(found))
    assert check_disk(tmp_path, 2**62).level == "problem"
    assert check_disk(tmp_path, 0).level == "ok"


def test_redis_that_evicts_is_full_or_only_reads_is_found() -> None:
    assert {each.level for each in judge_redis("r", INFO, "noeviction")} == {"ok"}
    assert [each.level for each in judge_redis("r", INFO, "allkeys-lru")].count("warning") == 1
    assert any("only reads" in each.text for each in judge_redis("r", {**INFO, "role": "slave"}, ""))
    assert any(
        "of its memory" in each.text for each in judge_redis("r", {**INFO, "used_memory": 95, "maxmemory": 100}, "")
    )
    assert [each.level for each in judge_redis("r", {**INFO, "redis_version": "4.0"}, "")] == ["problem"]


def test_redis_that_does_not_answer_is_a_problem_which_loses_nothing() -> None:
    [found] = check_stream(Settings(stream="redis://127.0.0.1:1"))
    assert found.level == "problem" and "nothing is lost" in found.remedy


def test_a_clock_may_differ_by_a_second() -> None:
    assert [check_clock("c", "of it", each).level for each in (0.9, -0.9, 1.1, -400.0)] == [
        "ok",
        "ok",
        "warning",
        "warning",
    ]


def test_a_store_without_the_newest_tables_is_said_and_not_migrated(store: Store, postgres_url: str) -> None:
    back = "UPDATE alembic_version SET version_num = '1'"
    store.submit(lambda connection: connection.execute(text(back))).result()
    found = [*check_store(Settings(store=postgres_url))]
    assert any("core 1 -> 2" in each for each in warnings(found))
    result = CliRunner().invoke(app, ["status", "--store", postgres_url])
    assert "not those of this version" in str(result.exception)
    revision = store.read(lambda connection: connection.scalar(text("SELECT version_num FROM alembic_version")))
    assert revision == "1", "nothing was changed"


def test_tables_that_a_newer_release_has_migrated_are_said_and_used(store: Store, postgres_url: str) -> None:
    def migrate_further(connection: Connection) -> None:
        connection.execute(text("UPDATE alembic_version SET version_num = '9'"))
        save_oldest_code(connection, "core", "9", "2")

    store.submit(migrate_further).result()
    found = [*check_store(Settings(store=postgres_url))]
    assert any(
        "a newer release has migrated its tables" in each and "core 9, and not 2" in each for each in warnings(found)
    )
    assert CliRunner().invoke(app, ["status", "--store", postgres_url]).exit_code == 0
    with pytest.raises(SetupError, match=r"not those of this version of online \(revisions: core 9\)"):
        check_current(postgres_url)  # as before a backup, which would leave out what only the newer release knows


def test_commits_that_do_not_wait_for_the_disk_are_a_problem(store: Store, postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    change = f"ALTER DATABASE {name} SET synchronous_commit = off"
    store.submit(lambda connection: connection.execute(text(change))).result()
    assert any("synchronous_commit = off" in each for each in problems([*check_store(Settings(store=postgres_url))]))


@pytest.mark.parametrize(
    ("secret", "level", "words"),
    [
        ("the right secret of them all", "ok", "shared through the store"),
        ("another secret of somebody", "problem", "is not the secret"),
        (None, "warning", "ONLINE_SECRET is not set here"),
    ],
)
def test_the_secret_of_these_settings_is_compared_with_that_of_the_store(
    store: Store, postgres_url: str, tmp_path: Path, secret: str | None, level: str, words: str
) -> None:
    table = SigningKeys(tmp_path).table
    store.submit(partial(save_stored, table=table, secret="the right secret of them all")).result()
    settings = Settings(store=postgres_url, state=tmp_path, secret=secret)
    [found] = check_keys(settings, 2)
    assert found.level == level and words in found.text


def test_the_exit_status_says_whether_there_is_a_problem(store: Store, postgres_url: str, tmp_path: Path) -> None:
    flags = ["--store", postgres_url, "--state", str(tmp_path / "none"), "--json"]
    report(store, "first", clock_difference_s=0.0)
    well = CliRunner().invoke(app, ["doctor", *flags])
    subjects = {each["subject"] for each in json.loads(well.output)["findings"]}
    assert {"settings", "store", "stream", "signing keys", "replicas", "model m", "replica first"} <= subjects
    assert well.exit_code == 0, "its URL does not answer, but this machine is no replica"
    report(store, "first", diverged=DIVERGED)
    assert CliRunner().invoke(app, ["doctor", *flags]).exit_code == 1


def test_invalid_settings_are_the_only_finding() -> None:
    result = CliRunner().invoke(app, ["doctor", "--set", "max_waiting=-3", "--json"])
    [found] = json.loads(result.output)["findings"]
    assert result.exit_code == 1 and found["subject"] == "settings" and "max_waiting" in found["text"]
