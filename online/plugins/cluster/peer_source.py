"""Versions of another replica, over HTTP.

GET /v1/peers/models/<model>/versions/12/manifest   Authorization: Replica ...  --> signed bytes
GET /v1/peers/models/<model>/files/<sha256>         Range: bytes=4096-          --> what is missing of a file
GET /v1/peers/encoders/<sha256>                     likewise                    --> a tuned text encoder
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from online.errors import NotFound, Unavailable
from online.plugins.cluster.kept_versions import SignedManifest, VersionSummary
from online.plugins.cluster.peer_signatures import SEAL_HEADER, SIGNATURE_HEADER, check_manifest, sign_request
from online.plugins.cluster.transfers import MAX_MANIFEST_BYTES, WrongContent, receive_file
from online.snapshots.manifest import SnapshotFile
from online.state.signing_keys import SigningKeys

TIMEOUT = httpx.Timeout(10.0, read=30.0)
MIN_BYTES_PER_S, GRACE_S = 100_000, 60.0  # a slower replica is given up; what it has sent is kept
ERROR_BYTES = 2_000


class PeerSource:
    """The versions of one replica. For threads: each call waits for the replica."""

    def __init__(
        self, url: str, keys: SigningKeys, client: httpx.Client, clock: Callable[[], float] = time.time
    ) -> None:
        """url: the replica's `replica_url`. client: it follows no redirects. clock: seconds since 1970."""
        self.url, self.keys, self.client, self.clock = url.rstrip("/"), keys, client, clock
        self.name = f"the replica {self.url}"

    def list_versions(self, model: str) -> list[VersionSummary]:
        """Return the newest versions and the newest durable ones, newest first. Raises NotFound or Unavailable."""
        data, _ = self._load(f"/v1/peers/models/{model}/versions")
        try:
            return [
                VersionSummary(
                    int(each["version"]), int(each["learned_until"]), bool(each["durable"]), str(each["state_sha256"])
                )
                for each in json.loads(data)["versions"]
            ]
        except (ValueError, TypeError, KeyError) as error:
            raise WrongContent(f"{self.name} answers with something else than a list of versions: {error!r}") from None

    def load_manifest(self, model: str, version: int) -> SignedManifest:
        """Return the manifest of a version, whose signature is valid. Raises NotFound, Unavailable or WrongContent."""
        data, headers = self._load(f"/v1/peers/models/{model}/versions/{version}/manifest")
        signed = SignedManifest(data, headers.get(SIGNATURE_HEADER, ""), headers.get(SEAL_HEADER, ""))
        if not check_manifest(self.keys, model, version, data, signed.signature):
            raise WrongContent(
                f"{self.name} sent a manifest of {model} version {version} without a valid signature; give all replicas the same "
                "signing keys"
            )
        return signed

    def fetch_file(self, model: str, file: SnapshotFile, target: Path) -> None:
        """Write a file with this sha256 to `target`; see `receive_file`. Raises NotFound, Unavailable or WrongContent."""
        path = f"/v1/peers/models/{model}/files/{file.sha256}"
        receive_file(self.name, file, target, partial(self._open_file, path, file))

    def fetch_encoder(self, sha256: str, target: Path) -> None:
        """Write the tuned encoder with this sha256 to `target`. Raises NotFound, Unavailable or WrongContent."""
        path = f"/v1/peers/encoders/{sha256}"
        with self._request(path, {"Range": "bytes=0-0"}) as response:
            total = response.headers.get("content-range", "").rpartition("/")[2]
        if not total.isdecimal():
            raise WrongContent(f"{self.name} does not say how long the file {sha256} is")
        file = SnapshotFile(sha256, int(total), serving=True)
        receive_file(self.name, file, target, partial(self._open_file, path, file))

    @contextmanager
    def _open_file(self, path: str, file: SnapshotFile, start: int) -> Iterator[tuple[int, Iterable[bytes]]]:
        """Open a file at a byte; a replica that does not know ranges sends it from the first one on."""
        given_up_at = time.monotonic() + GRACE_S + file.bytes / MIN_BYTES_PER_S
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._request(path, headers) as response:
            is_rest = response.status_code == httpx.codes.PARTIAL_CONTENT
            if is_rest and not response.headers.get("content-range", "").startswith(f"bytes {start}-"):
                raise WrongContent(
                    f"{self.name} sent another range of the file {file.sha256} than from byte {start} on"
                )
            yield start if is_rest else 0, self._read(response, given_up_at)

    def _read(self, response: httpx.Response, given_up_at: float) -> Iterator[bytes]:
        for chunk in response.iter_bytes():  # as they arrive, so that nothing is lost where the connection is cut
            yield chunk
            if time.monotonic() > given_up_at:
                raise Unavailable(f"{self.name} sends less than {MIN_BYTES_PER_S} bytes in a second; try again")

    def _load(self, path: str) -> tuple[bytes, Mapping[str, str]]:
        """Return the body and the headers of an answer that fits into memory."""
        with self._request(path, {}) as response:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_MANIFEST_BYTES:
                    raise WrongContent(f"{self.name} answers {path} with more than {MAX_MANIFEST_BYTES} bytes")
            return bytes(body), response.headers

    @contextmanager
    def _request(self, path: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Send a signed request, and yield its answer if it succeeds. Raises NotFound or Unavailable."""
        signed = {"Authorization": sign_request(self.keys, "GET", path, self.clock()), "Accept-Encoding": "identity"}
        try:
            with self.client.stream(
                "GET", self.url + path, headers={**signed, **headers}, timeout=TIMEOUT, follow_redirects=False
            ) as response:
                if not response.is_success:
                    raise self._refuse(response, path)
                yield response
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{self.name} does not answer {path}: {error or type(error).__name__}") from error

    def _refuse(self, response: httpx.Response, path: str) -> NotFound | Unavailable:
        """Return the error of an answer that is none, with the words of the replica."""
        said = next(response.iter_bytes(ERROR_BYTES), b"")
        try:
            text = str(json.loads(said)["error"])
        except (ValueError, TypeError, KeyError):
            text = said.decode(errors="replace")
        kind = NotFound if response.status_code == httpx.codes.NOT_FOUND else Unavailable
        return kind(f"{self.name} answers {path} with status {response.status_code}: {text[:500]}")
