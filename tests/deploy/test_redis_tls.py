"""The stream over `rediss://`, on a real Redis server that speaks TLS only."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.errors import Unavailable
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from tests.api.test_tls import create_certificate

MODEL = ModelSettings(name="m", kind="classifier", options={"input": "table"})


@pytest.fixture
def redis_with_tls(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a Redis server, and the certificate to trust."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here: the other tests use a server elsewhere")
    certificate, key = create_certificate(tmp_path, "redis")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    tls = ["--tls-port", str(port), "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no"]
    command = ["redis-server", "--port", "0", *map(str, tls), "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    if not any("Ready to accept connections" in line for line in process.stdout):
        process.wait(30)
        pytest.skip("this redis-server was built without TLS")
    yield f"rediss://127.0.0.1:{port}/0", certificate
    process.terminate()
    process.wait(30)
    process.stdout.close()


def open_workspace(folder: Path, url: str) -> Workspace:
    return Workspace(Settings(state=folder / "state", stream=url, models=(MODEL,)))


def test_events_pass_through_a_redis_with_tls(redis_with_tls: tuple[str, Path], tmp_path: Path) -> None:
    url, certificate = redis_with_tls
    workspace = open_workspace(tmp_path, f"{url}?ssl_ca_certs={certificate}")
    stream = workspace.redis_stream("m", "")
    assert stream is not None
    offset = stream.append(Event("e1", "label", b"{}", "a"))
    assert [entry.id for entry in stream.read(0, 10)] == ["e1"] and offset == stream.head() == 1
    stream.close()
    workspace.store.close()


def test_a_redis_with_a_certificate_that_is_not_trusted_is_not_used(
    redis_with_tls: tuple[str, Path], tmp_path: Path
) -> None:
    workspace = open_workspace(tmp_path, redis_with_tls[0])
    stream = workspace.redis_stream("m", "")
    assert stream is not None
    with pytest.raises(Unavailable, match="certificate verify failed"):
        stream.head()
    stream.close()
    workspace.store.close()
