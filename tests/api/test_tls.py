"""TLS by settings: HTTPS and gRPC with one certificate, several workers included, and clear refusals of a bad one."""

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2

from tests.api.http.test_connections import own_address
from tests.conftest import Start, config
from tests.support import Service, run_online, skip_or_fail, until

VECTOR = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 2, scale = 4.0 }\n'
INPUT = {"instances": [[1.0, 0.0]]}


def create_certificate(folder: Path, name: str, host: str = "localhost") -> tuple[Path, Path]:
    """Write a self-signed certificate of a host, and of this machine; return its path and that of its key."""
    if shutil.which("openssl") is None:
        skip_or_fail("openssl is not installed")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    names = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host},IP:127.0.0.1"]
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*new, "-days", "2", *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return create_certificate(tmp_path_factory.mktemp("certificate"), "service")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, pair: tuple[Path, Path]) -> Iterator[Service]:
    """Two workers with a certificate, and gRPC."""
    folder = tmp_path_factory.mktemp("tls")
    settings = {"tls_certificate": str(pair[0]), "tls_key": str(pair[1])}
    running = Service(folder / "state", config(folder, VECTOR, workers=2, grpc_port=0, **settings))
    yield running
    running.stop()


@pytest.fixture
def client(service: Service, pair: tuple[Path, Path]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, verify=ssl.create_default_context(cafile=str(pair[0]))) as client:
        yield client


def test_every_worker_answers_over_tls_and_browsers_are_told_to_stay_there(
    service: Service, pair: tuple[Path, Path]
) -> None:
    assert service.url.startswith("https://127.0.0.1:")
    for _ in range(20):  # each on a connection of its own, which either worker may accept
        with httpx.Client(base_url=service.url, verify=ssl.create_default_context(cafile=str(pair[0]))) as client:
            answer = client.post("/v1/models/vec:predict", json={**INPUT, "feedback_urls": True})
            page = client.get("/")
        assert answer.json()["feedback_urls"][0].startswith(f"{service.url}/v1/models/vec/feedback?")
        assert answer.headers["strict-transport-security"] == "max-age=31536000" and page.status_code == 200


def test_a_request_without_tls_is_not_answered(service: Service) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(service.url.replace("https", "http") + "/healthz")


def test_a_header_without_an_end_is_refused_and_its_connection_closed(
    service: Service, pair: tuple[Path, Path]
) -> None:
    """The client neither reads on nor agrees to the end of the connection, for which TLS would wait for half a minute."""
    tls = ssl.create_default_context(cafile=str(pair[0]))
    address = ("127.0.0.1", httpx.URL(service.url).port or 0)
    with socket.create_connection(address, 30) as plain:
        secure = tls.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
        secure.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 40_000)
        began = time.monotonic()
        assert secure.recv(65_536).startswith(b"HTTP/1.1 431 ")
        until(lambda: not connections_from(secure.getsockname()[1]), 10, "the end of the connection")
        assert time.monotonic() - began < 10


def connections_from(port: int) -> list[str]:
    """The established connections of a port of ours, by the table of the kernel (proc(5))."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[2] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"]


def test_unfinished_handshakes_are_bounded_in_number_and_in_time(start: Start, pair: tuple[Path, Path]) -> None:
    """A client that opens connections, and sends nothing or only the beginning of a handshake, keeps no other one out."""
    settings = {"tls_certificate": str(pair[0]), "tls_key": str(pair[1])}
    limits = {"max_connections_per_address": 4, "request_read_timeout_s": 3}
    service = start(VECTOR, flags=("--host", "0.0.0.0"), **settings, **limits, open=True)
    port, host = httpx.URL(service.url).port or 0, own_address()
    with ExitStack() as stack:
        began = time.monotonic()
        waiting = [stack.enter_context(socket.create_connection((host, port), 30)) for _ in range(4)]
        for each in waiting[::2]:
            each.sendall(b"\x16\x03\x01\x02\x00\x01")
        with socket.create_connection((host, port), 30) as refused:
            assert refused.recv(1) == b"" and time.monotonic() - began < 2
        context = ssl.create_default_context(cafile=str(pair[0]))
        assert httpx.get(f"https://127.0.0.1:{port}/healthz", verify=context).status_code == 200, "another address"
        assert [each.recv(1_024) for each in waiting] == [b""] * 4 and 2 < time.monotonic() - began < 15
    context.check_hostname = False

    def is_answered() -> bool:
        try:
            return httpx.get(f"https://{host}:{port}/healthz", verify=context).status_code == 200
        except httpx.ConnectError:  # the server counts a connection until a moment after it has closed it
            return False

    until(is_answered, what="an answer to the same address")


def test_tls_1_1_is_refused(service: Service) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.url}/healthz", verify=context)


def grpc_address(service: Service) -> str:
    port = service.output.partition("grpc listening address=127.0.0.1:")[2].split()[0]
    return f"127.0.0.1:{port}"


def check_health(channel: grpc.Channel) -> health_pb2.HealthCheckResponse:
    check = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    answer: health_pb2.HealthCheckResponse = check(health_pb2.HealthCheckRequest(), timeout=30)
    return answer


def test_grpc_uses_the_same_certificate(service: Service, pair: tuple[Path, Path]) -> None:
    credentials = grpc.ssl_channel_credentials(pair[0].read_bytes())
    with grpc.secure_channel(grpc_address(service), credentials) as channel:
        answer = check_health(channel)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_grpc_without_tls_is_not_answered(service: Service) -> None:
    with grpc.insecure_channel(grpc_address(service)) as channel, pytest.raises(grpc.RpcError) as refused:
        check_health(channel)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


def start_with(tmp_path: Path, **paths: Path) -> subprocess.CompletedProcess[str]:
    flags = [each for name, path in paths.items() for each in ("--set", f"{name}={path}")]
    return run_online("serve", "--state", str(tmp_path / "state"), "--port", "0", *flags)


def test_a_certificate_without_its_key_is_refused(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    refused = start_with(tmp_path, tls_certificate=pair[0])
    assert refused.returncode == 2 and "tls_certificate and tls_key are set together, or not at all" in refused.stderr


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [("absent", "No such file or directory"), ("other key", "key values mismatch"), ("no PEM", "cannot be used")],
)
def test_a_certificate_that_cannot_be_used_is_refused_with_a_remedy(
    tmp_path: Path, pair: tuple[Path, Path], wrong: str, reason: str
) -> None:
    key = tmp_path / "other.key"
    if wrong == "other key":
        _, key = create_certificate(tmp_path, "other")
    elif wrong == "no PEM":
        key.write_text("no key")
    refused = start_with(tmp_path, tls_certificate=pair[0], tls_key=key)
    assert refused.returncode == 2 and reason in refused.stderr
    assert "both are PEM files" in refused.stderr and "Traceback" not in refused.stderr
