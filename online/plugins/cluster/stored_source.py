"""Versions in a folder or bucket (`snapshot_url`), from which a replica starts where no other one runs.

<snapshot_url>/<instance>/<model>/versions/12/manifest.json        written last: without it there is no version
                                 /versions/12/manifest.signature   of a replica
                                 /versions/12/signature            of a model whose state is signed
                                 /files/<sha256>.safetensors       one file for all versions that have it

One replica at a time writes. Files that no manifest names are kept for a while, because an upload may be about to name them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from online.errors import NotFound, OnlineError, SetupError, Unavailable
from online.plugins.cluster.kept_versions import NEWEST, SignedManifest, VersionSummary, read_manifest
from online.plugins.cluster.peer_signatures import check_manifest, sign_manifest
from online.plugins.cluster.transfers import CHUNK_BYTES, MAX_MANIFEST_BYTES, WrongContent, hash_file, receive_file
from online.snapshots import Snapshots
from online.snapshots.folder import MANIFEST, SIGNATURE
from online.snapshots.manifest import Manifest, SnapshotFile
from online.state.signing_keys import SigningKeys

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from fsspec.spec import AbstractBufferedFile

SENT_SIGNATURE = "manifest.signature"
UPLOAD_GRACE = timedelta(hours=1)


class StoredSource:
    """The versions that replicas have uploaded. For threads: each call waits for the file system."""

    def __init__(
        self, url: str, instance: str, keys: SigningKeys, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """url: `snapshot_url`. instance: of the store, so that several services share a bucket. Raises SetupError."""
        self.files, root = open_file_system(url)
        self.root, self.keys, self.clock = f"{root.rstrip('/')}/{instance}", keys, clock
        self.name = f"the copies at {url.rstrip('/')}"

    # reading

    def list_versions(self, model: str) -> list[VersionSummary]:
        """Return the newest versions, newest first, without damaged ones; none before the first upload. Raises Unavailable."""
        found = []
        for version in sorted(self._list_numbers(model), reverse=True)[:NEWEST]:
            try:
                manifest = self._parse(model, version)
            except (NotFound, WrongContent):  # pruned meanwhile, or not yet complete
                continue
            found.append(VersionSummary(version, manifest.learned_until, manifest.durable, manifest.state_sha256))
        return found

    def load_manifest(self, model: str, version: int) -> SignedManifest:
        """Return the manifest of a version, whose signature is valid. Raises NotFound, Unavailable or WrongContent."""
        data = self._load(self._version(model, version, MANIFEST))
        signature, seal = (self._load_text(self._version(model, version, name)) for name in (SENT_SIGNATURE, SIGNATURE))
        if not check_manifest(self.keys, model, version, data, signature):
            raise WrongContent(
                f"{self.name} have a manifest of {model} version {version} without a valid signature: it was uploaded with other "
                "signing keys, or changed there"
            )
        return SignedManifest(data, signature, seal)

    def fetch_file(self, model: str, file: SnapshotFile, target: Path) -> None:
        """Write a file with this sha256 to `target`; see `receive_file`. Raises NotFound, Unavailable or WrongContent."""
        receive_file(self.name, file, target, partial(self._open_file, self._file(model, file.sha256)))

    def fetch_encoder(self, sha256: str, target: Path) -> None:
        """Write the tuned encoder with this sha256 to `target`. Raises NotFound, Unavailable or WrongContent."""
        path = self._encoder(sha256)
        size = self._find_size(path)
        if size is None:
            raise NotFound(f"{self.name} have no tuned encoder {sha256}")
        receive_file(self.name, SnapshotFile(sha256, size, serving=True), target, partial(self._open_file, path))

    @contextmanager
    def _open_file(self, path: str, start: int) -> Iterator[tuple[int, Iterable[bytes]]]:
        with self._named_errors(path):
            opened = self.files.open(path, "rb")
        with opened as file:
            yield start, self._read(path, file, start)

    def _read(self, path: str, file: "AbstractBufferedFile", start: int) -> Iterator[bytes]:
        with self._named_errors(path):
            file.seek(start)
        while True:
            with self._named_errors(path):
                chunk: bytes = file.read(CHUNK_BYTES)
            if not chunk:
                return
            yield chunk

    # writing

    def upload(self, snapshots: Snapshots, version: int) -> None:
        """Upload a version: the files that are not there yet, then the manifest. Again after an interruption, it continues.

        Raises NotFound, CorruptSnapshot or Unavailable.
        """
        folder = snapshots.folder
        manifest = folder.sealed_manifest(version)
        data, seal = read_manifest(folder, version)
        for name, file in manifest.files.items():
            self._upload_file(folder.path / str(version) / f"{name}.safetensors", folder.model, file)
        if seal:
            self._write(self._version(folder.model, version, SIGNATURE), seal.encode())
        signature = sign_manifest(self.keys, folder.model, version, data)
        self._write(self._version(folder.model, version, SENT_SIGNATURE), signature.encode())
        self._write(self._version(folder.model, version, MANIFEST), data)

    def _upload_file(self, local: Path, model: str, file: SnapshotFile) -> None:
        """Upload a file, unless it is there. One of another length is what an interrupted upload has left."""
        path = self._file(model, file.sha256)
        if self._find_size(path) == file.bytes:
            return
        try:
            found = hash_file(local)
        except FileNotFoundError:
            raise NotFound(f"the file {local.name} of {model} version {local.parent.name} is no longer there") from None
        if found != file.sha256:
            raise WrongContent(
                f"the file {local.name} of {model} version {local.parent.name} does not match its sha256 and is not uploaded"
            )
        with self._named_errors(path):
            self.files.put_file(str(local), path)

    def upload_encoder(self, sha256: str, local: Path) -> None:
        """Upload a tuned encoder, unless it is there. Raises WrongContent for a damaged one, and Unavailable."""
        path = self._encoder(sha256)
        if self._find_size(path) == local.stat().st_size:
            return
        if hash_file(local) != sha256:
            raise WrongContent(f"the tuned encoder {local} does not match its sha256 and is not uploaded")
        with self._named_errors(path):
            self.files.put_file(str(local), path)

    def prune(self, model: str, keep_versions: Collection[int]) -> list[int]:
        """Delete older versions than the newest of `keep_versions` that are not among them, and files that no version names any more.

        Return the numbers of the versions. Raises Unavailable; then the files stay.
        """
        newest = max(keep_versions, default=0)
        removed = [each for each in sorted(self._list_numbers(model)) if each < newest and each not in keep_versions]
        for version in removed:
            self._remove(self._version(model, version, MANIFEST))  # first: from now on it is no version
            self._remove(f"{self.root}/{model}/versions/{version}")
        named = {sha256 for version in self._list_numbers(model) for sha256 in self._list_named(model, version)}
        for name in self._list(f"{self.root}/{model}/files"):
            sha256 = name.removesuffix(".safetensors")
            if name != sha256 and sha256 not in named and self._is_old(self._file(model, sha256)):
                self._remove(self._file(model, sha256))
        return removed

    def _list_named(self, model: str, version: int) -> list[str]:
        """Return the sha256 of each file of a version; none if its manifest is not uploaded yet."""
        try:
            return [file.sha256 for file in self._parse(model, version).files.values()]
        except NotFound:
            return []

    def _is_old(self, path: str) -> bool:
        with self._named_errors(path):
            modified: datetime = self.files.modified(path)
        return self.clock() - modified > UPLOAD_GRACE

    # names, and one operation each

    def _version(self, model: str, version: int, name: str) -> str:
        return f"{self.root}/{model}/versions/{version}/{name}"

    def _file(self, model: str, sha256: str) -> str:
        return f"{self.root}/{model}/files/{sha256}.safetensors"

    def _encoder(self, sha256: str) -> str:
        return f"{self.root}/.encoders/{sha256}.safetensors"  # no model has a name that begins with a dot

    def _list_numbers(self, model: str) -> list[int]:
        """Return the versions that have a manifest, or had one."""
        return [int(name) for name in self._list(f"{self.root}/{model}/versions") if name.isdecimal()]

    def _parse(self, model: str, version: int) -> Manifest:
        data = self.load_manifest(model, version).data
        try:
            return Manifest.parse(data)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise WrongContent(f"{self.name} have a damaged manifest of {model} version {version}") from None

    def _list(self, path: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""
        try:
            with self._named_errors(path):
                return [each.rstrip("/").rpartition("/")[2] for each in self.files.ls(path, detail=False)]
        except NotFound:
            return []

    def _find_size(self, path: str) -> int | None:
        try:
            with self._named_errors(path):
                return int(self.files.info(path)["size"])
        except NotFound:
            return None

    def _load(self, path: str) -> bytes:
        with self._named_errors(path):
            data: bytes = self.files.cat_file(path, start=0, end=MAX_MANIFEST_BYTES)
            return data

    def _load_text(self, path: str) -> str:
        """Return a signature; "" where there is none."""
        try:
            return self._load(path).decode(errors="replace")
        except NotFound:
            return ""

    def _write(self, path: str, data: bytes) -> None:
        with self._named_errors(path):
            self.files.pipe_file(path, data)

    def _remove(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it. One that is gone already is no error."""
        try:
            with self._named_errors(path):
                self.files.rm(path, recursive=True)
        except NotFound:
            return

    @contextmanager
    def _named_errors(self, path: str) -> Iterator[None]:
        """Turn the errors of a file system into ours."""
        try:
            yield
        except OnlineError:
            raise
        except FileNotFoundError:
            raise NotFound(f"{self.name} have no {path.removeprefix(self.root)[1:]}") from None
        except Exception as error:  # each protocol has errors of its own, of libraries that may not be installed
            raise Unavailable(f"{self.name} do not answer: {type(error).__name__}: {str(error)[:300]}") from error


def open_file_system(url: str) -> "tuple[AbstractFileSystem, str]":
    """Return the file system of a URL, and the path in it. Raises SetupError."""
    try:
        import fsspec
    except ImportError:
        raise SetupError("snapshot_url needs fsspec: pip install 'online[cluster]'") from None
    is_local = url.startswith(("file://", "local://"))
    options = {"auto_mkdir": True} if is_local else {"use_listings_cache": False}  # others write to the same bucket
    try:
        files, path = fsspec.url_to_fs(url, **options)
    except ImportError as error:
        raise SetupError(f"snapshot_url = {url!r} needs another library: {error}") from None
    except ValueError as error:
        raise SetupError(f"snapshot_url = {url!r} is not a URL of fsspec: {error}; write s3://bucket/prefix") from None
    return files, str(path)
