"""Copies of versions in a folder and in a bucket of S3."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from online.errors import NotFound, SetupError, Unavailable
from online.plugins.cluster.copies import FETCHED, copy_version
from online.plugins.cluster.stored_source import UPLOAD_GRACE, StoredSource
from online.plugins.cluster.transfers import WrongContent
from online.snapshots import Snapshots
from online.state.signing_keys import SigningKeys
from online.state.workspace import create_seal
from tests.plugins.cluster.replicas import accept, other_snapshots, publish, read_files
from tests.support import skip_or_fail

KEY = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 service on this machine."""
    try:
        import flask_cors  # noqa: F401
        import s3fs  # noqa: F401
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        skip_or_fail(f"no S3 service: {error}")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place for copies, in each of two file systems."""
    if request.param == "file":
        yield (tmp_path / "copies").as_uri()
        return
    address = request.getfixturevalue("endpoint")
    import s3fs

    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**KEY, "AWS_ENDPOINT_URL": address}.items():
            patch.setenv(name, value)
        bucket = f"test-{tmp_path.name.replace('_', '-').lower()[-40:].strip('-')}"
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir(bucket)
        yield f"s3://{bucket}/copies"


class Clock:
    """A clock that is moved."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(tmp_path: Path) -> SigningKeys:
    return SigningKeys(tmp_path)


@pytest.fixture
def stored(url: str, keys: SigningKeys, clock: Clock) -> StoredSource:
    return StoredSource(url, "instance", keys, clock)


@pytest.fixture
def own(tmp_path: Path) -> Snapshots:
    """The snapshots of the replica that uploads."""
    return other_snapshots(tmp_path / "own")


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    """The snapshots of a replica that has none yet."""
    return other_snapshots(tmp_path)


def list_files(stored: StoredSource) -> set[str]:
    """The names of the files that are stored."""
    return {path.rpartition("/")[2] for path in stored.files.find(f"{stored.root}/vec/files")}


def test_an_uploaded_version_is_copied_byte_for_byte(
    stored: StoredSource, own: Snapshots, snapshots: Snapshots
) -> None:
    publish(own, 1)
    stored.upload(own, 1)
    assert copy_version(stored, snapshots, 1, accept) == own.folder.manifest(1)
    assert read_files(snapshots, 1) == read_files(own, 1)
    assert next(snapshots.folder.durable("r")).manifest.version == 1


def test_the_layout_is_the_documented_one(stored: StoredSource, own: Snapshots) -> None:
    manifest = publish(own, 1)
    stored.upload(own, 1)
    assert sorted(path.removeprefix(stored.root) for path in stored.files.find(stored.root)) == sorted(
        [f"/vec/files/{file.sha256}.safetensors" for file in manifest.files.values()]
        + ["/vec/versions/1/manifest.json", "/vec/versions/1/manifest.signature"]
    )


def test_a_part_that_is_there_is_not_uploaded_again(stored: StoredSource, own: Snapshots) -> None:
    first = publish(own, 1)
    stored.upload(own, 1)
    path = stored._file("vec", first.files["statistics"].sha256)
    before = stored.files.modified(path)
    publish(own, 2)
    stored.upload(own, 2)
    assert stored.files.modified(path) == before and len(list_files(stored)) == 3


def test_an_interrupted_upload_is_continued(stored: StoredSource, own: Snapshots, snapshots: Snapshots) -> None:
    manifest = publish(own, 1)
    path = stored._file("vec", manifest.files["statistics"].sha256)
    stored.files.pipe_file(path, b"half of it")
    assert stored.list_versions("vec") == []
    stored.upload(own, 1)
    copy_version(stored, snapshots, 1, accept)
    assert read_files(snapshots, 1) == read_files(own, 1)


def test_a_copy_goes_on_where_it_ended(stored: StoredSource, own: Snapshots, snapshots: Snapshots) -> None:
    file = publish(own, 1).files["statistics"]
    stored.upload(own, 1)
    path, data = stored._file("vec", file.sha256), read_files(own, 1)["statistics.safetensors"]
    stored.files.pipe_file(path, data[:100_000])
    with pytest.raises(Unavailable, match=rf"the copies at .* sent 100000 of the {len(data)} bytes"):
        copy_version(stored, snapshots, 1, accept)
    part = snapshots.folder.path / FETCHED / f"{file.sha256}.part"
    assert part.read_bytes() == data[:100_000] and snapshots.folder.versions() == []
    stored.files.pipe_file(path, b"x" * 100_000 + data[100_000:])  # so a copy from the start would be refused
    copy_version(stored, snapshots, 1, accept)
    assert read_files(snapshots, 1) == read_files(own, 1)


def test_the_newest_versions_are_listed_without_damaged_ones(stored: StoredSource, own: Snapshots) -> None:
    assert stored.list_versions("vec") == []
    for version in (1, 2, 10):
        publish(own, version)
        stored.upload(own, version)
    stored.files.pipe_file(f"{stored.root}/vec/versions/2/manifest.json", b"{}")
    listed = stored.list_versions("vec")
    assert [(each.version, each.learned_until, each.durable) for each in listed] == [(10, 100, True), (1, 10, True)]


def test_what_was_changed_in_the_bucket_is_refused(stored: StoredSource, own: Snapshots, snapshots: Snapshots) -> None:
    file = publish(own, 1).files["weights"]
    stored.upload(own, 1)
    stored.files.pipe_file(stored._file("vec", file.sha256), b"x" * file.bytes)
    with pytest.raises(WrongContent, match=r"the copies at .* sent other bytes than the file"):
        copy_version(stored, snapshots, 1, accept)
    path = f"{stored.root}/vec/versions/1/manifest.json"
    stored.files.pipe_file(path, stored.files.cat_file(path).replace(b'"learned_until": 10', b'"learned_until": 99'))
    with pytest.raises(WrongContent, match="without a valid signature: it was uploaded with other signing keys"):
        copy_version(stored, snapshots, 1, accept)
    assert snapshots.folder.versions() == []


def test_a_damaged_file_is_not_uploaded(stored: StoredSource, own: Snapshots) -> None:
    publish(own, 1)
    (own.folder.path / "1" / "weights.safetensors").write_bytes(b"damaged")
    with pytest.raises(WrongContent, match="does not match its sha256 and is not uploaded"):
        stored.upload(own, 1)
    assert stored.list_versions("vec") == []


def test_a_version_of_a_signed_state_is_stored_with_its_seal(
    stored: StoredSource, keys: SigningKeys, tmp_path: Path
) -> None:
    signed = [other_snapshots(tmp_path / name, seal=create_seal(keys)) for name in ("a", "b")]
    publish(signed[0], 1)
    stored.upload(signed[0], 1)
    copy_version(stored, signed[1], 1, accept)
    assert signed[1].folder.load(1, serving_only=False).manifest.version == 1
    stored.files.rm_file(f"{stored.root}/vec/versions/1/signature")
    with pytest.raises(WrongContent, match="without a valid signature of its state"):
        copy_version(stored, other_snapshots(tmp_path / "c", seal=create_seal(keys)), 1, accept)


def test_pruning_keeps_the_files_that_kept_versions_name(
    stored: StoredSource, own: Snapshots, snapshots: Snapshots, clock: Clock
) -> None:
    for version in (1, 2, 3):
        publish(own, version)
        stored.upload(own, version)
    clock.ahead = UPLOAD_GRACE + timedelta(minutes=1)
    assert stored.prune("vec", [1, 3]) == [2]
    assert [each.version for each in stored.list_versions("vec")] == [3, 1] and len(list_files(stored)) == 3
    for version in (1, 3):
        copy_version(stored, snapshots, version, accept)
    assert stored.prune("vec", [2]) == [1]  # a newer one stays, which another replica may have uploaded
    with pytest.raises(NotFound, match=r"the copies at .* have no vec/versions/2/manifest.json"):
        stored.load_manifest("vec", 2)


def test_pruning_keeps_the_files_of_an_upload_that_goes_on(stored: StoredSource, own: Snapshots, clock: Clock) -> None:
    publish(own, 1)
    stored.upload(own, 1)
    stored.files.pipe_file(stored._file("vec", "0" * 64), b"of a version that has no manifest yet")
    stored.prune("vec", [1])
    assert f"{'0' * 64}.safetensors" in list_files(stored)
    clock.ahead = UPLOAD_GRACE + timedelta(minutes=1)
    stored.prune("vec", [1])
    assert f"{'0' * 64}.safetensors" not in list_files(stored) and len(list_files(stored)) == 2


def test_services_that_share_a_bucket_do_not_see_each_other(
    stored: StoredSource, url: str, own: Snapshots, keys: SigningKeys
) -> None:
    publish(own, 1)
    stored.upload(own, 1)
    assert StoredSource(url, "another", keys).list_versions("vec") == []


def test_a_place_that_does_not_answer_is_named(tmp_path: Path, keys: SigningKeys, own: Snapshots) -> None:
    (tmp_path / "file").write_text("")
    stored = StoredSource((tmp_path / "file").as_uri(), "instance", keys)
    publish(own, 1)
    with pytest.raises(Unavailable, match=r"the copies at file:///.* do not answer: "):
        stored.upload(own, 1)


def test_a_bucket_that_is_not_there_is_unavailable(endpoint: str, keys: SigningKeys, own: Snapshots) -> None:
    publish(own, 1)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**KEY, "AWS_ENDPOINT_URL": endpoint}.items():
            patch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        with pytest.raises((Unavailable, NotFound), match="the copies at s3://missing"):
            StoredSource("s3://missing/copies", "instance", keys).upload(own, 1)


def test_a_protocol_that_nobody_knows_is_refused_at_the_start(keys: SigningKeys) -> None:
    with pytest.raises(SetupError, match=r"snapshot_url = 'carrier://pigeon' is not a URL of fsspec.*write s3://"):
        StoredSource("carrier://pigeon", "instance", keys)
