"""A replica copies a version of another one, over real connections."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from online.errors import Conflict, CorruptSnapshot, NewerRelease, NotFound, Unavailable
from online.plugins.cluster.copies import FETCHED, copy_version
from online.plugins.cluster.kept_versions import NEWEST
from online.plugins.cluster.peer_signatures import MAX_SKEW_S, describe_request, sign_request
from online.plugins.cluster.peer_source import PeerSource
from online.plugins.cluster.transfers import WrongContent
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from online.state.signing_keys import SigningKeys
from online.state.workspace import create_seal
from tests.plugins.cluster.replicas import (
    LARGE,
    CuttingProxy,
    Replica,
    accept,
    other_snapshots,
    publish,
    read_files,
    run_replica,
)

Signing = Callable[[httpx.Request], httpx.Request]


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    """A replica with one version."""
    with run_replica(tmp_path / "replica") as replica:
        publish(replica.snapshots, 1)
        yield replica


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False) as client:
        yield client


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return other_snapshots(tmp_path)


def list_requests(client: httpx.Client) -> list[str]:
    """The paths that a client asks for from now on."""
    paths: list[str] = []
    client.event_hooks = {"request": [lambda request: paths.append(request.url.path)]}
    return paths


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()  # other versions keep their file
    path.write_bytes(data)


# copies


def test_a_version_is_copied_byte_for_byte_durably_and_not_live(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    manifest = copy_version(replica.source(client), snapshots, 1, accept)
    assert manifest == replica.snapshots.folder.manifest(1)
    assert read_files(snapshots, 1) == read_files(replica.snapshots, 1)
    assert snapshots.folder.is_on_disk(1) and snapshots.folder.live() is None
    loaded = next(snapshots.folder.durable("r"))
    np.testing.assert_array_equal(loaded.parts["weights"].tensors["w"], np.full(4, 1, np.float32))
    assert {path.name for path in snapshots.folder.path.iterdir()} == {"1", ".lock", ".copy.lock"}


def test_a_version_in_a_format_of_a_newer_release_is_not_copied(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    path = replica.snapshots.folder.path / "1" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))
    with pytest.raises(NewerRelease, match="the manifest of vec version 1 has 'format 2', which this version"):
        copy_version(replica.source(client), snapshots, 1, accept)
    assert snapshots.folder.versions() == []


def test_a_part_that_a_local_version_has_is_linked_and_not_fetched(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    copy_version(replica.source(client), snapshots, 1, accept)
    publish(replica.snapshots, 2)
    paths = list_requests(client)
    manifest = copy_version(replica.source(client), snapshots, 2, accept)
    assert paths == [
        f"/v1/peers/models/vec/{each}" for each in ("versions/2/manifest", f"files/{manifest.files['weights'].sha256}")
    ]
    inodes = {(snapshots.folder.path / str(version) / "statistics.safetensors").stat().st_ino for version in (1, 2)}
    assert len(inodes) == 1


def test_a_damaged_local_part_is_fetched_again(replica: Replica, client: httpx.Client, snapshots: Snapshots) -> None:
    copy_version(replica.source(client), snapshots, 1, accept)
    damage(snapshots.folder.path / "1" / "statistics.safetensors")
    publish(replica.snapshots, 2)
    copy_version(replica.source(client), snapshots, 2, accept)
    assert [loaded.manifest.version for loaded in snapshots.folder.durable("r")] == [2]


def test_a_copy_goes_on_where_the_connection_was_cut(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    size = LARGE * 8
    with CuttingProxy(int(replica.url.rpartition(":")[2])) as proxy:
        source, proxy.limit = replica.source(client, proxy.url), size // 2
        with pytest.raises(Unavailable, match=re.escape(f"the replica {proxy.url} does not answer")):
            copy_version(source, snapshots, 1, accept)
        cut_at, proxy.limit, proxy.forwarded = proxy.forwarded, 0, 0
        assert snapshots.folder.versions() == [] and list((snapshots.folder.path / FETCHED).glob("*.part"))
        copy_version(source, snapshots, 1, accept)
        assert size // 2 <= cut_at < size
        assert proxy.forwarded < size - cut_at + 300_000  # what buffers held when it was cut is sent again
    assert read_files(snapshots, 1) == read_files(replica.snapshots, 1)


def test_what_was_fetched_of_one_version_is_used_for_the_next_one(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    with CuttingProxy(int(replica.url.rpartition(":")[2])) as proxy:
        proxy.limit = LARGE * 4
        with pytest.raises(Unavailable):
            copy_version(replica.source(client, proxy.url), snapshots, 1, accept)
        publish(replica.snapshots, 2)
        proxy.limit = proxy.forwarded = 0
        copy_version(replica.source(client, proxy.url), snapshots, 2, accept)
        assert proxy.forwarded < LARGE * 6


def test_what_was_fetched_is_deleted_once_no_version_needs_it(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    with CuttingProxy(int(replica.url.rpartition(":")[2])) as proxy:
        proxy.limit = LARGE * 4
        with pytest.raises(Unavailable):
            copy_version(replica.source(client, proxy.url), snapshots, 1, accept)
    publish(replica.snapshots, 2, value=2)
    damage(replica.snapshots.folder.path / "2" / "statistics.safetensors")
    with pytest.raises(WrongContent):
        copy_version(replica.source(client), snapshots, 2, accept)
    weights = replica.snapshots.folder.manifest(2).files["weights"].sha256
    assert [path.stem for path in (snapshots.folder.path / FETCHED).iterdir()] == [weights]


def test_a_replica_that_does_not_know_ranges_sends_the_file_again(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    file = replica.snapshots.folder.manifest(1).files["statistics"]
    data = read_files(replica.snapshots, 1)["statistics.safetensors"]
    target = snapshots.folder.path / "file"
    (snapshots.folder.path / f"{file.sha256}.part").write_bytes(data[:1_000])
    client.event_hooks = {"request": [lambda request: request.headers.pop("range")]}
    replica.source(client).fetch_file("vec", file, target)
    assert target.read_bytes() == data


def test_what_a_killed_process_has_left_is_no_version_and_does_not_disturb(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    for name in (".1.copy.part", ".7.copy.part"):
        (snapshots.folder.path / name).mkdir()
        (snapshots.folder.path / name / "weights.safetensors").write_bytes(b"half")
    assert snapshots.folder.versions() == []
    copy_version(replica.source(client), snapshots, 1, accept)
    assert read_files(snapshots, 1) == read_files(replica.snapshots, 1)
    assert list(snapshots.folder.path.glob(".*.part")) == []


def test_an_erasure_deletes_what_was_fetched(replica: Replica, client: httpx.Client, snapshots: Snapshots) -> None:
    publish(snapshots, 5)
    file = replica.snapshots.folder.manifest(1).files["weights"]
    (snapshots.folder.path / FETCHED).mkdir()
    replica.source(client).fetch_file("vec", file, snapshots.folder.path / FETCHED / f"{file.sha256}.safetensors")
    snapshots.retention.remove_before(5)
    assert not (snapshots.folder.path / FETCHED).exists()


def test_a_version_that_is_here_is_left_alone(replica: Replica, client: httpx.Client, snapshots: Snapshots) -> None:
    copy_version(replica.source(client), snapshots, 1, accept)
    before = (snapshots.folder.path / "1").stat()
    paths = list_requests(client)
    copy_version(replica.source(client), snapshots, 1, accept)
    assert (snapshots.folder.path / "1").stat() == before and [path for path in paths if "/files/" in path] == []


def test_another_version_of_the_same_number_is_a_conflict_and_stays(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    publish(snapshots, 1, value=5)
    before = read_files(snapshots, 1)
    with pytest.raises(Conflict, match="vec has another version 1 than the one to copy"):
        copy_version(replica.source(client), snapshots, 1, accept)
    assert read_files(snapshots, 1) == before


@pytest.mark.parametrize("refused_call", [1, 2])
def test_a_version_that_is_not_the_wanted_one_is_not_kept(
    replica: Replica, client: httpx.Client, snapshots: Snapshots, refused_call: int
) -> None:
    calls: list[Manifest] = []

    def refuse(manifest: Manifest) -> None:
        calls.append(manifest)
        if len(calls) == refused_call:
            raise Conflict("the store names another state")

    with pytest.raises(Conflict, match="another state"):
        copy_version(replica.source(client), snapshots, 1, refuse)
    assert snapshots.folder.versions() == [] and list(snapshots.folder.path.glob(".*.copy.part")) == []


# trust


def test_a_file_with_other_bytes_is_refused_by_name_and_fetched_again_later(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    path = replica.snapshots.folder.path / "1" / "weights.safetensors"
    good = path.read_bytes()
    damage(path)
    with pytest.raises(WrongContent, match=re.escape(f"the replica {replica.url} sent other bytes than the file")):
        copy_version(replica.source(client), snapshots, 1, accept)
    assert snapshots.folder.versions() == []
    path.write_bytes(good)
    copy_version(replica.source(client), snapshots, 1, accept)
    assert read_files(snapshots, 1) == read_files(replica.snapshots, 1)


def test_a_longer_file_is_refused_before_it_is_read(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    with (replica.snapshots.folder.path / "1" / "weights.safetensors").open("ab") as file:
        file.write(b"more")
    with pytest.raises(WrongContent, match="sent more than the"):
        copy_version(replica.source(client), snapshots, 1, accept)


class TamperingTransport(httpx.HTTPTransport):
    """A connection on which somebody changes what the replica answers."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        body = response.read().replace(b'"learned_until": 10', b'"learned_until": 99')
        return httpx.Response(response.status_code, headers=response.headers, content=body)


def test_a_manifest_that_was_changed_on_its_way_is_refused(replica: Replica, snapshots: Snapshots) -> None:
    with httpx.Client(transport=TamperingTransport()) as client, pytest.raises(WrongContent, match="valid signature"):
        copy_version(replica.source(client), snapshots, 1, accept)


def test_a_manifest_that_names_a_file_elsewhere_is_refused(
    replica: Replica, client: httpx.Client, snapshots: Snapshots
) -> None:
    path = replica.snapshots.folder.path / "1" / "manifest.json"
    path.write_text(path.read_text().replace('"weights":', '"../../weights":'))
    with pytest.raises(WrongContent, match="names files that no version has"):
        copy_version(replica.source(client), snapshots, 1, accept)


def test_replicas_with_other_keys_do_not_trust_each_other(
    replica: Replica, client: httpx.Client, snapshots: Snapshots, tmp_path: Path
) -> None:
    source = PeerSource(replica.url, SigningKeys(tmp_path), client)
    with pytest.raises(Unavailable, match=r"status 401: the signature of the replica is not valid.*same signing keys"):
        copy_version(source, snapshots, 1, accept)


def test_a_version_of_a_signed_state_keeps_its_seal(replica: Replica, client: httpx.Client, tmp_path: Path) -> None:
    signed = other_snapshots(tmp_path, seal=create_seal(replica.keys))
    with pytest.raises(WrongContent, match="without a valid signature of its state"):
        copy_version(replica.source(client), signed, 1, accept)  # the other one was not signed
    folder = replica.snapshots.folder
    seal = create_seal(replica.keys).sign(folder.sealed_message(1, (folder.path / "1" / "manifest.json").read_bytes()))
    (folder.path / "1" / "signature").write_text(seal)
    copy_version(replica.source(client), signed, 1, accept)
    assert signed.folder.load(1, serving_only=False).manifest.version == 1
    (signed.folder.path / "1" / "signature").unlink()
    with pytest.raises(CorruptSnapshot):
        signed.folder.load(1)


# what is asked for is not there


def test_a_version_or_a_model_that_a_replica_lacks_is_not_found(
    replica: Replica, client: httpx.Client, snapshots: Snapshots, tmp_path: Path
) -> None:
    with pytest.raises(NotFound, match=re.escape(f"the replica {replica.url}") + ".*vec has no version 7"):
        copy_version(replica.source(client), snapshots, 7, accept)
    with pytest.raises(NotFound, match="status 404"):
        replica.source(client).list_versions("other")


def test_a_replica_that_is_switched_off_is_named(replica: Replica, client: httpx.Client, snapshots: Snapshots) -> None:
    with pytest.raises(Unavailable, match=re.escape("the replica http://127.0.0.1:1 does not answer")):
        copy_version(replica.source(client, "http://127.0.0.1:1"), snapshots, 1, accept)


def test_a_pruned_version_takes_its_files_with_it_but_for_those_that_others_have(
    replica: Replica, client: httpx.Client, snapshots: Snapshots, tmp_path: Path
) -> None:
    first, source = replica.snapshots.folder.manifest(1), replica.source(client)
    publish(replica.snapshots, 2)
    replica.snapshots.retention.remove_before(2)
    with pytest.raises(NotFound, match="no kept version of vec has a file with the sha256"):
        source.fetch_file("vec", first.files["weights"], tmp_path / "weights")
    source.fetch_file("vec", first.files["statistics"], tmp_path / "statistics")
    assert (tmp_path / "statistics").stat().st_size == first.files["statistics"].bytes


def test_the_newest_versions_and_the_newest_durable_ones_are_listed(replica: Replica, client: httpx.Client) -> None:
    for version in range(2, NEWEST + 4):
        publish(replica.snapshots, version, durable=False)
    listed = replica.source(client).list_versions("vec")
    assert [each.version for each in listed] == [*range(NEWEST + 3, 3, -1), 1]
    last = listed[-1]
    assert (last.learned_until, last.durable, last.state_sha256) == (10, True, "s1") and not listed[0].durable


# the routes


@pytest.fixture
def signed(replica: Replica) -> Signing:
    """The authorization of a replica."""

    def sign(request: httpx.Request) -> httpx.Request:
        request.headers["Authorization"] = sign_request(replica.keys, "GET", request.url.path, time.time())
        return request

    return sign


def test_a_copy_that_is_the_same_is_not_sent_again(replica: Replica, signed: Signing) -> None:
    file = replica.snapshots.folder.manifest(1).files["weights"]
    for path in ("versions/1/manifest", f"files/{file.sha256}"):
        url = f"{replica.url}/v1/peers/models/vec/{path}"
        tag = httpx.get(url, auth=signed).headers["etag"]
        again = httpx.get(url, auth=signed, headers={"If-None-Match": tag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert tag == f'"{file.sha256}"'


def test_ranges_of_a_file_are_sent(replica: Replica, signed: Signing) -> None:
    data = read_files(replica.snapshots, 1)["weights.safetensors"]
    url = f"{replica.url}/v1/peers/models/vec/files/{replica.snapshots.folder.manifest(1).files['weights'].sha256}"
    rest = httpx.get(url, auth=signed, headers={"Range": "bytes=10-"})
    assert (rest.status_code, rest.content) == (206, data[10:])
    assert rest.headers["content-range"] == f"bytes 10-{len(data) - 1}/{len(data)}"
    beyond = httpx.get(url, auth=signed, headers={"Range": f"bytes={len(data)}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(data)}")


PATH = "/v1/peers/models/vec/versions"


@pytest.mark.parametrize(
    ("authorization", "sentence"),
    [
        ("", "only replicas of this service may read this"),
        ("Bearer open sesame", "only replicas of this service may read this"),
        ("Replica", "only replicas of this service may read this"),
        ("Replica now.{signature}", "only replicas of this service may read this"),
        ("Replica {now}.{signature}0", "the signature of the replica is not valid"),
        ("Replica {now}.abcd.{hex}", "the signature of the replica is not valid"),
        ("Replica {later}.{signature}", "the signature of the replica is not valid"),
        ("{of_another_path}", "the signature of the replica is not valid"),
        ("{of_another_method}", "the signature of the replica is not valid"),
        ("{of_a_link}", "the signature of the replica is not valid"),
        ("{too_old}", "s behind the clock of this one"),
        ("{too_new}", "s ahead of the clock of this one"),
    ],
)
def test_each_bad_authorization_is_refused(replica: Replica, authorization: str, sentence: str) -> None:
    now, keys = int(time.time()), replica.keys
    good = sign_request(keys, "GET", PATH, now)
    signature = good.partition(".")[2]
    header = authorization.format(
        now=now,
        later=now + 1,
        signature=signature,
        hex=signature.partition(".")[2],
        of_another_path=sign_request(keys, "GET", PATH + "/1/manifest", now),
        of_another_method=sign_request(keys, "DELETE", PATH, now),
        of_a_link=f"Replica {now}.{keys.sign('links', describe_request('GET', PATH, str(now)))}",
        too_old=sign_request(keys, "GET", PATH, now - MAX_SKEW_S - 60),
        too_new=sign_request(keys, "GET", PATH, now + MAX_SKEW_S + 60),
    )
    refused = httpx.get(replica.url + PATH, headers={"Authorization": header} if header else {})
    assert (refused.status_code, sentence in refused.json()["error"]) == (401, True), refused.text
    assert httpx.get(replica.url + PATH, headers={"Authorization": good}).status_code == 200


def test_an_admin_key_does_not_open_the_routes_of_replicas(replica: Replica) -> None:
    for name in ("versions", "versions/1/manifest", f"files/{'0' * 64}"):
        refused = httpx.get(f"{replica.url}/v1/peers/models/vec/{name}", headers={"X-API-Key": "open sesame"})
        assert refused.status_code == 401, name


def test_the_routes_of_replicas_are_not_in_the_public_document(replica: Replica) -> None:
    assert [path for path in httpx.get(f"{replica.url}/openapi.json").json()["paths"] if "peers" in path] == []


@pytest.mark.parametrize(
    "name", ["files/..%2f..%2fkeys.json", f"files/{'A' * 64}", "versions/0/manifest", "versions/x/manifest"]
)
def test_other_names_than_those_of_versions_and_files_are_refused(replica: Replica, signed: Signing, name: str) -> None:
    assert httpx.get(f"{replica.url}/v1/peers/models/vec/{name}", auth=signed).status_code in (400, 404)
