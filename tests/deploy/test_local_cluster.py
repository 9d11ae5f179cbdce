"""The cluster of the tests: replicas on one Postgres and one Redis, kills, stops, cut networks and faulty links."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.cluster.fault_proxy import FaultProxy, LoopThread
from tests.cluster.local_cluster import LocalCluster, Replica, list_processes
from tests.cluster.network import Network, NetworkError
from tests.conftest import create_database
from tests.support import until

ROOT = Path(__file__).parents[2]
QUIET_S = 0.3  # in which nothing arrives


@pytest.fixture(scope="module")
def store_url() -> Iterator[str]:
    yield from create_database()


@pytest.fixture(scope="module")
def cluster(store_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), store_url, redis_url) as running:
        yield running


def readiness(replica: Replica) -> int:
    return httpx.get(f"{replica.url}/readyz", timeout=10, trust_env=False).status_code


# replicas


def test_two_replicas_on_one_postgres_are_ready(cluster: LocalCluster) -> None:
    assert [readiness(replica) for replica in cluster.replicas] == [200, 200]
    one, other = cluster.replicas
    assert one.url != other.url and one.state != other.state
    assert one.store_link.open_connections and other.store_link.open_connections


def test_a_replica_that_is_paused_answers_nothing_until_it_goes_on(cluster: LocalCluster) -> None:
    one, other = cluster.replicas
    one.pause()
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{one.url}/healthz", timeout=QUIET_S, trust_env=False)
    assert readiness(other) == 200
    one.resume()
    assert readiness(one) == 200


def test_a_replica_predicts_while_its_link_to_postgres_is_cut_and_is_well_after_it(cluster: LocalCluster) -> None:
    one = cluster.replicas[0]
    one.store_link.refuse()
    body = {"instances": [[1, 2, 3, 4]]}
    answer = httpx.post(f"{one.url}/v1/models/vec:predict", json=body, timeout=30, trust_env=False)
    assert answer.status_code == 200
    cluster.heal()
    until(lambda: one.store_link.open_connections, what="a new connection to Postgres")
    assert readiness(one) == 200


def test_a_replica_that_is_killed_leaves_no_process_and_starts_again_under_its_url(cluster: LocalCluster) -> None:
    one, other = cluster.replicas
    pids = one.processes()
    assert len(pids) >= 3  # with the learner and the store process
    one.kill()
    until(lambda: not {pid for pid, _ in list_processes()} & set(pids), what="the end of its processes")
    assert readiness(other) == 200
    with pytest.raises(httpx.ConnectError):
        readiness(one)
    one.start().wait_ready()
    assert readiness(one) == 200


def test_the_script_prints_the_urls_of_its_replicas_and_stops_all(postgres_url: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "deploy" / "local-cluster"), "--store", postgres_url, "--replicas", "1"]
    command += ["--folder", str(tmp_path), "--loopback"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.match(r"replica 1: (\S+)", line)
    assert found, line
    assert httpx.get(f"{found[1]}/readyz", trust_env=False).status_code == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0 and process.stdout.read().endswith("stopped\n")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{found[1]}/readyz", trust_env=False)


def test_what_needs_namespaces_says_so_where_there_are_none(store_url: str, tmp_path: Path) -> None:
    with closing(LocalCluster(tmp_path, store_url, namespaces=False)) as plain:
        assert {replica.listen_host for replica in plain.replicas} == {"127.0.0.1"}
        with pytest.raises(NetworkError, match="needs a network namespace for each replica"):
            plain.cut(*plain.replicas)


# the network


def needs_namespaces() -> Network:
    try:
        return Network()
    except NetworkError as error:
        pytest.skip(
            str(error)
        )  # also in CI: a container without the right to make namespaces is a machine that we serve


CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()"


def reaches(network: Network, source: int, address: str, port: int) -> bool:
    """Whether a program of one host can open a connection to another one."""
    command = network.hosts[source].command(sys.executable, "-c", CONNECT, address, str(port))
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


LISTEN = (
    "import socket, sys; s = socket.create_server((sys.argv[1], 8000)); print('open', flush=True); sys.stdin.read()"
)


def test_hosts_are_cut_from_each_other_or_from_all_and_joined_again() -> None:
    with closing(needs_namespaces()) as network, socket.create_server((network.address, 0)) as root:
        port = root.getsockname()[1]
        one, other = network.add_host(1), network.add_host(2)
        command = other.command(sys.executable, "-c", LISTEN, other.address)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listener:
            assert listener.stdout is not None and listener.stdout.readline() == b"open\n"
            assert reaches(network, 1, other.address, 8000)
            network.cut(one, other)
            assert not reaches(network, 1, other.address, 8000) and reaches(network, 1, network.address, port)
            network.join(one, other)
            assert reaches(network, 1, other.address, 8000)
            network.disconnect(one)
            assert not reaches(network, 1, other.address, 8000) and not reaches(network, 1, network.address, port)
            network.connect(one)
            until(lambda: reaches(network, 1, other.address, 8000), what="the way to the other host")
            assert listener.stdin is not None
            listener.stdin.close()


def test_the_network_of_a_process_that_was_killed_is_removed_by_the_next_one() -> None:
    needs_namespaces().close()
    code = "import os, signal; from tests.cluster.network import Network; n = Network(); n.add_host(1); os.kill(os.getpid(), 9)"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    process.wait()
    leftover = f"onl{process.pid}"
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert leftover in listed
    needs_namespaces().close()
    for words in (["ip", "netns", "list"], ["ip", "-o", "link"]):
        assert leftover not in subprocess.run(words, capture_output=True, text=True, check=True).stdout


# faults of a link


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    with closing(LoopThread()) as running:
        yield running


@pytest.fixture
def link(thread: LoopThread) -> Iterator[FaultProxy]:
    """A proxy in front of a server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1_000):
            writer.write(data)
        writer.close()

    server = thread.run(asyncio.start_server(echo, "127.0.0.1", 0))
    with closing(FaultProxy(thread, server.sockets[0].getsockname())) as proxy:
        yield proxy
    thread.loop.call_soon_threadsafe(server.close)


def connect(link: FaultProxy) -> socket.socket:
    return socket.create_connection((link.host, link.port), 10)


def echoed(client: socket.socket, text: bytes = b"ping") -> bytes:
    client.sendall(text)
    return client.recv(1_000)


def test_a_frozen_link_keeps_its_connections_and_delivers_later(link: FaultProxy) -> None:
    with connect(link) as client:
        assert echoed(client) == b"ping"
        link.freeze()
        client.settimeout(QUIET_S)
        with pytest.raises(TimeoutError):
            echoed(client, b"late")
        with connect(link) as new:
            new.settimeout(QUIET_S)
            with pytest.raises(TimeoutError):
                echoed(new)
        client.settimeout(10)
        link.heal()
        assert client.recv(1_000) == b"late" and echoed(client) == b"ping"


def test_a_link_that_is_reset_breaks_what_is_open_and_takes_new_connections(link: FaultProxy) -> None:
    with connect(link) as client:
        assert echoed(client) == b"ping"
        link.reset()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with connect(link) as client:
        assert echoed(client) == b"ping"


def test_a_link_that_refuses_takes_nobody_until_it_is_healed_under_the_same_port(link: FaultProxy) -> None:
    link.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(link)
    port = link.port
    link.heal()
    with connect(link) as client:
        assert echoed(client) == b"ping" and link.port == port


def test_a_delayed_link_delivers_everything_in_order_and_later(link: FaultProxy) -> None:
    link.delay(0.05)
    timed_out = threading.Event()
    with connect(link) as client:
        timer = threading.Timer(0.09, timed_out.set)  # twice the delay, less a clock's step
        timer.start()
        sent = bytes(range(200)) * 50
        client.sendall(sent)
        received = client.recv(1_000)
        assert timed_out.is_set()
        while len(received) < len(sent):
            received += client.recv(10_000)
        assert received == sent
    timer.join()
