"""Limits on connections: slow requests, unread answers, too many connections, and no file descriptors left."""

import http.client
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from online.api.http.connections import MAX_UNSENT_BYTES, Connections, raise_file_limit
from online.api.http.protocol import MAX_PIPELINED
from online.settings import Settings
from online.telemetry import Metrics
from tests.conftest import Start, config
from tests.plugins.grpc.test_grpc import port_of
from tests.support import Service, skip_or_fail, until

HALF = b"POST /v1/models/vec:predict HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
INPUT = {"instances": [[1.0, 0.0, 0.0, 0.0]]}
VECTORS = '[[models]]\nname = "vec"\nkind = "classifier"\n[models.options]\ninput = "vector"\nsize = 4\n'


@contextmanager
def serve(folder: Path, **settings: float) -> Iterator[Service]:
    service = Service(folder / "state", config(folder, VECTORS, **settings))
    yield service
    service.stop()


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serve(tmp_path_factory.mktemp("bounded"), sign_ins_per_minute=3) as service:
        yield service


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that waits half a second for a request, and for an answer to be read."""
    folder = tmp_path_factory.mktemp("impatient")
    with serve(folder, request_read_timeout_s=0.5, answer_read_timeout_s=0.5) as service:
        yield service


@contextmanager
def connect(service: Service, first: bytes = b"", host: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.create_connection((host, httpx.URL(service.url).port or 0), timeout=30) as connection:
        connection.sendall(first)
        yield connection


def read_to_end(connection: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    received = bytearray()
    try:
        while chunk := connection.recv(65_536):
            received += chunk
    except ConnectionResetError:
        pass
    return bytes(received)


def test_a_request_that_arrives_too_slowly_is_refused_and_others_are_answered(impatient: Service) -> None:
    with connect(impatient, HALF) as half, connect(impatient) as unused:
        assert impatient.http.post("/v1/models/vec:predict", json=INPUT).status_code == 200
        answer = read_to_end(half)
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b"request_read_timeout_s" in answer
        assert read_to_end(unused) == b"", "its client would take an answer for that of its first request"


def test_a_pipelined_request_that_arrives_too_slowly_is_refused(impatient: Service) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connect(impatient, whole + HALF) as connection:
        received = read_to_end(connection)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n") and b"HTTP/1.1 408 Request Timeout\r\n" in received


def test_grpc_connections_are_bounded_and_must_speak(start: Start) -> None:
    service = start(VECTORS, flags=("--grpc-port", "0"), max_connections=3, request_read_timeout_s=0.5)
    address = ("127.0.0.1", port_of(service))
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(5)]
        assert [read_to_end(connection) for connection in connections[3:]] == [b"", b""]
        for silent in connections[:3]:
            read_to_end(silent)  # returns once the server has closed it


def test_a_body_that_trickles_in_is_cut_off_without_an_error_in_the_log(impatient: Service) -> None:
    head = b"POST /v1/models/vec:predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
    with connect(impatient, head) as connection:
        connection.settimeout(0.2)
        received = None
        for _ in range(50):
            connection.sendall(b" ")
            try:
                received = connection.recv(65_536)
                break
            except TimeoutError:  # nothing was answered yet
                continue
        assert received is not None
        assert received.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert impatient.http.get("/healthz").status_code == 200
    assert "Traceback" not in impatient.output


def head_of_refused(length: int) -> bytes:
    """The headers of a request that is refused, whatever its body is."""
    return b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % length


def test_a_request_is_refused_once_its_small_body_has_arrived(impatient: Service) -> None:
    """A proxy that is still sending the body may cut off an answer that comes before."""
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connect(impatient, head_of_refused(2)) as alone, connect(impatient, whole + head_of_refused(2)) as second:
        assert read_to_end(alone).startswith(b"HTTP/1.1 408 Request Timeout\r\n"), "it was not answered before"
        assert b"\r\n\r\n{" in (received := read_to_end(second)) and received.count(b"HTTP/1.1 408") == 1


@pytest.mark.long
def test_requests_with_small_bodies_follow_each_other_on_a_connection(bounded: Service) -> None:
    with connect(bounded, head_of_refused(2)) as connection:
        for _ in range(2):
            connection.sendall(b"{}")
            response = http.client.HTTPResponse(connection)
            response.begin()
            assert response.status == 405 and b"Method Not Allowed" in response.read()
            connection.sendall(head_of_refused(2))


def test_a_request_with_a_large_body_is_refused_before_it_is_sent(bounded: Service) -> None:
    with connect(bounded, head_of_refused(1_000_000)) as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")


LINE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST_CHUNKS = b"POST /v1/models/vec:predict HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS: dict[str, tuple[bytes, bytes, int]] = {  # what begins a request, what follows again and again, and the answer
    "a path": (b"GET /", b"x" * 1_000, 414),
    "a query": (b"GET /healthz?", b"x=1&" * 250, 414),
    "the value of a header": (LINE + b"X-Long: ", b"x" * 1_000, 431),
    "the name of a header": (LINE, b"x" * 1_000, 431),
    "cookies": (LINE, b"Cookie: " + b"x" * 1_000 + b"\r\n", 431),
    "many small headers": (LINE, b"a:b\r\n" * 100, 431),
    "empty lines": (b"", b"\r\n" * 500, 431),
    "the extension of a chunk": (POST_CHUNKS + b"1;", b"x" * 1_000, 400),
    "chunks with extensions": (POST_CHUNKS, b"1;" + b"x" * 1_000 + b"\r\n{\r\n", 400),
    "chunks of a byte": (POST_CHUNKS, b"1\r\n{\r\n" * 200, 400),
    "a trailer": (POST_CHUNKS + b"0\r\nX-Long: ", b"x" * 1_000, 400),
    "many trailers": (POST_CHUNKS + b"0\r\n", b"a:b\r\n" * 200, 400),
    "zeros of a chunk's size": (POST_CHUNKS, b"0" * 1_000, 400),
}


@pytest.mark.parametrize("part", ENDLESS)
def test_a_part_of_a_request_without_an_end_is_refused(bounded: Service, part: str) -> None:
    begin, again, status = ENDLESS[part]
    with connect(bounded, begin) as connection:
        sent = send_until_refused(connection, again, 300_000)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 %d " % status), f"after {sent} bytes"
    assert "Traceback" not in bounded.output


def send_until_refused(connection: socket.socket, again: bytes, most: int) -> int:
    """Send bytes again and again until an answer comes, or so many are sent. Returns how many were sent."""
    sent = 0
    while sent < most and not select.select([connection], [], [], 0)[0]:
        connection.sendall(again)
        sent += len(again)
    return sent


def test_a_client_that_sends_on_after_its_refusal_is_cut_off(bounded: Service) -> None:
    with connect(bounded, LINE + b"X-Long: ") as connection, pytest.raises(ConnectionError):
        for _ in range(1_000):
            connection.sendall(b"x" * 65_536)


def test_long_headers_of_usual_size_are_read(bounded: Service) -> None:
    answer = bounded.http.get("/healthz", params={"q": "x" * 7_000}, headers={f"X-{n}": "x" * 1_000 for n in range(20)})
    assert answer.status_code == 200


def test_a_header_that_trickles_in_gets_no_time_for_its_bytes(impatient: Service) -> None:
    with connect(impatient, LINE + b"X-Long: " + b"x" * 30_000) as connection:  # which granted 3 s more
        began = time.monotonic()
        assert read_to_end(connection).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - began < 3


def test_a_trailer_is_no_header(bounded: Service) -> None:
    """A proxy removes headers that only it may set, but not always trailers of the same names."""
    body = b'{"instances": [[1, 0, 0, 0]]}'
    trailer = b"POST /v1/models/vec:predict HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    trailer += b"%x\r\n%b\r\n0\r\nX-API-Key: online_wrong\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n" % (len(body), body)
    with connect(bounded, trailer) as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_forwarded_addresses_from_this_machine_do_not_evade_the_limit_of_attempts_to_sign_in(bounded: Service) -> None:
    statuses = [
        bounded.http.post("/v1/session", json={"key": "wrong"}, headers={"X-Forwarded-For": f"192.0.2.{n}"}).status_code
        for n in range(4)
    ]
    assert statuses[-1] == 429 and 429 not in statuses[:-1]


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_an_upgrade_is_not_made_and_what_follows_it_is_no_request(bounded: Service, protocol: bytes) -> None:
    upgrade = LINE + b"Connection: Upgrade\r\nUpgrade: %b\r\n\r\n" % protocol
    with connect(bounded, upgrade + LINE + b"\r\n") as connection:
        connection.sendall(LINE + b"\r\n")
        received = read_to_end(connection)
    assert received.count(b"HTTP/1.1 ") == 1 and received.startswith(b"HTTP/1.1 200 ")
    assert "Unsupported upgrade" not in bounded.output


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_body_arrives_also_where_its_client_asks_for_http_2(bounded: Service, framing: str, in_parts: bool) -> None:
    """As Java's HttpClient does with every request to an address without TLS."""
    body = b'{"instances": [[1, 2, 0, 0]]}'
    sizes = b"Content-Length: %d" % len(body) if framing == "length" else b"Transfer-Encoding: chunked"
    sent = body if framing == "length" else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
    head = b"POST /v1/models/vec:predict HTTP/1.1\r\nHost: 127.0.0.1\r\n" + wish + sizes + b"\r\n\r\n"
    end = LINE + b"Connection: close\r\n\r\n"
    with connect(bounded, head if in_parts else head + sent + end) as connection:
        if in_parts:
            connection.sendall(sent[:9])
            connection.sendall(sent[9:] + end)
        received = read_to_end(connection)
    assert received.count(b"HTTP/1.1 200 OK") == 2 and b'"predictions"' in received


DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@contextmanager
def connect_without_reading(service: Service, requests: int) -> Iterator[socket.socket]:
    """A connection that requests 0.2 MB each time, with little room for what it does not read."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", httpx.URL(service.url).port))
        connection.settimeout(30)
        connection.sendall(DOCUMENT * requests)
        yield connection


def test_a_client_that_does_not_read_its_answers_is_cut_off(impatient: Service) -> None:
    with connect_without_reading(impatient, MAX_PIPELINED) as connection:
        until(lambda: open_connections(impatient) == 1, what="the end of the connection; ours is the other")
        assert not kernel_connections(impatient, FIN_WAIT_1), "the kernel goes on trying to send the rest"
        assert read_to_end(connection).count(b"HTTP/1.1 200") < MAX_PIPELINED
    assert impatient.http.get("/healthz").status_code == 200
    assert "Traceback" not in impatient.output, "the next answer was written to a closed connection"


def test_an_unread_answer_takes_little_of_the_kernels_memory(bounded: Service) -> None:
    with connect_without_reading(bounded, MAX_PIPELINED):
        until(lambda: largest_queue_bytes(bounded) > 0, what="an answer that is not read")
        assert bounded.http.get("/openapi.json").status_code == 200  # a moment later, it would be megabytes
        assert largest_queue_bytes(bounded) < 4 * MAX_UNSENT_BYTES


@pytest.mark.parametrize(("requests", "is_answered"), [(MAX_PIPELINED + 1, True), (MAX_PIPELINED + 2, False)])
def test_requests_that_wait_for_their_turn_are_bounded(bounded: Service, requests: int, is_answered: bool) -> None:
    """Each takes a hundred times the memory here that it takes to send."""
    last = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with connect(bounded, last.replace(b"close", b"keep-alive") * (requests - 1) + last) as connection:
        received = read_to_end(connection)
    assert (received.count(b"HTTP/1.1 200") == requests) == is_answered
    assert "Traceback" not in bounded.output


ESTABLISHED, FIN_WAIT_1 = "01", "04"


def kernel_connections(service: Service, state: str) -> list[list[str]]:
    """The rows of the service's connections in the table of the kernel (proc(5))."""
    port = f":{httpx.URL(service.url).port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [line for line in lines if line[1].endswith(port) and line[3] == state]


def open_connections(service: Service) -> int:
    """The number of established connections to the service, with ours."""
    service.http.get("/healthz")  # keeps ours open
    return len(kernel_connections(service, ESTABLISHED))


def largest_queue_bytes(service: Service) -> int:
    """The most bytes that wait in the kernel for one client of the service."""
    return max((int(row[4].partition(":")[0], 16) for row in kernel_connections(service, ESTABLISHED)), default=0)


def test_connections_and_requests_that_wait_are_bounded(start: Start) -> None:
    service = start(VECTORS, max_connections=8, max_waiting=2)
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(connect(service, HALF))
        with connect(service, HALF) as refused:
            assert read_to_end(refused).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    until(lambda: answers(service), what="an answer after they have closed")
    waiting = b"GET /v1/models/vec?min_offset=1000000&timeout_ms=60000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    def ask() -> int:
        return service.http.get("/v1/models/vec", params={"min_offset": 10**6, "timeout_ms": 1}).status_code

    with connect(service, waiting), connect(service, waiting):
        until(lambda: ask() == 429, what="two waiting requests")


def answers(service: Service) -> bool:
    try:
        return httpx.get(f"{service.url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_one_address_cannot_use_up_the_connections(start: Start) -> None:
    service = start(max_connections_per_address=4, open=True, flags=("--host", "0.0.0.0"))
    host = own_address()
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connect(service, HALF, host))
        with connect(service, HALF, host) as refused:
            assert read_to_end(refused).startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert answers(service), "from another address"


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            skip_or_fail("this machine has no address but its loopback one")
        address: str = probe.getsockname()[0]
        return address


def test_a_service_without_free_file_descriptors_survives_and_recovers(start: Start) -> None:
    """1,100 half-sent headers used up the files of the process, and a background task that failed ended it."""
    service = start()
    pid = service.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(list(Path(f"/proc/{pid}/fd").iterdir())) + 20, before[1]))
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(connect(service, HALF))
        until(lambda: "live version unavailable" in service.output, what="a background task that opens no file")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    until(lambda: answers(service), what="an answer after they have closed")
    answer = service.http.post("/v1/models/vec:predict", json=INPUT).json()
    feedback = {"prediction_id": answer["prediction_ids"][0], "label": "a"}
    receipt = service.http.post("/v1/models/vec:feedback", json={"feedback": [feedback]}).json()["receipts"][0]
    service.wait_learned("vec", receipt["offset"])


@pytest.mark.parametrize(("max_files", "most"), [(65_536, 10_000), (1_024, 768), (256, 128)])
def test_connections_leave_files_for_the_store_and_the_snapshots(max_files: int, most: int) -> None:
    assert Connections(Settings(), Metrics(), max_files).most == most


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        assert raise_file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(before[1], 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
