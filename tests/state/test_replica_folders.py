"""A store on Postgres and the folders of two replicas that an earlier release wrote: this one opens, serves and goes on learning them.

`fixtures/replicas-RELEASE.tar.xz` holds the store as SQL and both folders, and `replicas-RELEASE.json` what the replicas
answered with; `fixtures/make_replicas.py` made both.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from tests.cluster.agreement import hash_at, read_log, wait_equal
from tests.cluster.local_cluster import LocalCluster
from tests.fixtures.make_replicas import REPLICAS, give, predict, read_version, send
from tests.fixtures.make_state import FOLDER
from tests.state.test_state_folder import assert_close

RELEASES = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("replicas-*.tar.xz"))


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def expected(release: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{release}.json").read_text())
    return found


@pytest.fixture
def cluster(release: str, postgres_url: str, tmp_path: Path) -> LocalCluster:
    """Two replicas that have not started, on the store and the folders."""
    with tarfile.open(FOLDER / f"{release}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    address = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        connection.execute((tmp_path / "store.sql").read_bytes())
    return LocalCluster(tmp_path, postgres_url, namespaces=False)


def test_this_release_has_replicas_of_its_own() -> None:
    assert REPLICAS in RELEASES


def test_two_replicas_answer_as_before_and_go_on_learning(
    cluster: LocalCluster, expected: dict[str, Any], postgres_url: str
) -> None:
    assert hash_at(read_log(postgres_url))(expected["learned_until"]) == expected["state_sha256"]
    with cluster:
        one, other = cluster.replicas
        states, _ = wait_equal([one, other], expected["learned_until"])
        assert {each.state_sha256 for each in states} == {expected["state_sha256"]}
        for replica in (one, other):
            assert_close(predict(replica), expected["predictions"])
        labelled = [
            each for each in send(one, "GET", "/v1/models/vec/versions")["versions"] if "stable" in each["labels"]
        ]
        assert len(labelled) == 1 and labelled[0]["version"] != read_version(one)
        states, _ = wait_equal([one, other], give(other, 36, 6))
    assert states[0].state_sha256 == hash_at(read_log(postgres_url))(states[0].learned_until)


def test_replicas_that_have_lost_their_folders_learn_the_same_again(
    cluster: LocalCluster, expected: dict[str, Any], tmp_path: Path
) -> None:
    for replica in cluster.replicas:
        replica.state.rename(tmp_path / f"lost {replica.number}")
    with cluster:
        states, _ = wait_equal(cluster.replicas, expected["learned_until"], 120)
    assert {each.state_sha256 for each in states} == {expected["state_sha256"]}
