"""Replicas of `online serve` on one Postgres and one Redis, each with its own state folder, as processes of this machine.

    with LocalCluster(folder, store="postgresql+psycopg://...", stream="redis://...", replicas=2) as cluster:
        one, other = cluster.replicas
        cluster.cut(one, other)          # in network namespaces
        one.store_link.freeze()          # the way from one replica to Postgres
        other.kill()
        cluster.heal()
        other.start().wait_ready()

With root, each replica has a network namespace, which is a host of its own to the others. Without, all listen on 127.0.0.1 with
different ports, and what needs namespaces raises NetworkError.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx
from sqlalchemy import URL, make_url

from online.settings import Settings
from tests.cluster.fault_proxy import FaultProxy, LoopThread
from tests.cluster.network import Host, Network, NetworkError

T = TypeVar("T")

START_S, STOP_S, LOOK_S = 120.0, 30.0, 0.05
PORT = 8000  # of each replica that has a host of its own
LOOPBACK = "127.0.0.1"
STORE_PORT, STREAM_PORT = 5432, 6379  # where a URL names none
SECRET = "the same random text on every replica of a local cluster"
DEFAULT_CONFIG = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 4, scale = 4.0 }
"""


class ReplicaEnded(RuntimeError):
    """A replica has ended by itself; the message has the last lines of its log."""


class Replica:
    """One `online serve` with its own state folder. Faults on its way to the store and to the stream are its links'.

    package: the folder with the package `online` of another release; None for this one.
    """

    def __init__(
        self, number: int, folder: Path, config: Path, address: tuple[str, int], variables: Mapping[str, str]
    ) -> None:
        """address: host and port to listen on. variables: settings, as ONLINE_*."""
        self.number, self.folder, self.config, self.variables = number, folder, config, variables
        self.listen_host, self.port = address
        self.url = f"http://{self.listen_host}:{self.port}"
        self.state, self.log_file = folder / "state", folder / "log"
        self.host: Host | None = None
        self.package: Path | None = None
        self.store_link: FaultProxy
        self.stream_link: FaultProxy | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._paused = set[int]()

    @property
    def is_running(self) -> bool:
        """Whether its main process exists, stopped or not."""
        return self.process is not None and self.process.poll() is None

    @property
    def output(self) -> str:
        """What it has logged since the cluster began, over all its starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def start(self) -> "Replica":
        """Start it, also again after `kill` or `stop`. It has the address and the state folder that it had."""
        assert not self.is_running, f"replica {self.number} runs already"
        command = [sys.executable, "-m", "online", "serve", "--config", str(self.config), "--state", str(self.state)]
        command += ["--host", self.listen_host, "--port", str(self.port)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ONLINE_")}
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = self.log_file.open("ab")
        self.process = subprocess.Popen(
            self.host.command(*command) if self.host is not None else command,
            env=environment | dict(self.variables) | release_variables(self.package),
            cwd=self.package,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        return self

    def wait_ready(self, timeout_s: float = START_S) -> "Replica":
        """Return once /readyz answers 200. Raises ReplicaEnded and TimeoutError."""
        with httpx.Client(trust_env=False, timeout=2) as client:
            wait_for(lambda: self._is_ready(client), timeout_s, f"readiness of replica {self.number} ({self.log_file})")
        return self

    def _is_ready(self, client: httpx.Client) -> bool:
        if not self.is_running:
            raise ReplicaEnded(f"replica {self.number} has ended:\n{self.output[-3000:]}")
        with suppress(httpx.HTTPError):
            return client.get(f"{self.url}/readyz").status_code == 200
        return False

    def processes(self) -> list[int]:
        """Return the ids of its process and of all that descend from it, such as the learner."""
        if self.process is None:
            return []
        children: dict[int, list[int]] = {}
        for pid, parent in list_processes():
            children.setdefault(parent, []).append(pid)
        found = [self.process.pid]
        for pid in found:
            found += children.get(pid, [])
        return found

    def signal_all(self, number: int) -> set[int]:
        """Send a signal to all its processes, also to those that they start meanwhile; return their ids."""
        signalled = set[int]()
        while new := [pid for pid in self.processes() if pid not in signalled]:
            for pid in new:
                signalled.add(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        return signalled

    def kill(self) -> None:
        """End all its processes with SIGKILL, as the loss of a machine does. Its state folder stays."""
        pids = self.signal_all(signal.SIGSTOP) | self._paused  # none of them starts another one meanwhile
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._finish()

    def pause(self) -> None:
        """Stop all its processes (SIGSTOP): connections stay open, and nothing is answered."""
        self._paused |= self.signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        for pid in self._paused:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._paused.clear()

    def stop(self, timeout_s: float = STOP_S) -> int:
        """End it with SIGTERM, which lets requests finish; return its exit status. It is killed after `timeout_s`."""
        assert self.process is not None, f"replica {self.number} was not started"
        self.resume()
        self.process.terminate()
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._finish()
        return status

    def restart(self) -> "Replica":
        """Stop it cleanly and start it again; return once it is ready."""
        self.stop()
        return self.start().wait_ready()

    def _finish(self) -> None:
        assert self.process is not None and self._log is not None
        self.process.wait(STOP_S)
        self._paused.clear()
        self._log.close()


class LocalCluster:
    """Replicas on one store and one stream. As a context it starts all, waits until they are ready, and ends all."""

    def __init__(
        self,
        folder: Path,
        store: str,
        stream: str | None = None,
        replicas: int = 2,
        config: str = DEFAULT_CONFIG,
        namespaces: bool | None = None,
        **settings: str | float | bool,
    ) -> None:
        """folder: for state folders and logs. store, stream: URLs of a Postgres and a Redis that this machine reaches.

        config: TOML. settings: of every replica, as they stand in ONLINE_*. namespaces: whether replicas are hosts of their
        own; None: where that is possible. Raises NetworkError where it is not.
        """
        self.folder, self.settings = folder, settings
        self._thread = LoopThread()
        self.network: Network | None = None
        self.reason = "namespaces were not wanted"  # why there is no network
        try:
            self.network = Network() if namespaces is not False else None
        except NetworkError as error:
            self.reason = str(error)
            if namespaces:
                self._thread.close()
                raise
        folder.mkdir(parents=True, exist_ok=True)
        self._config = folder / "online.toml"
        self._config.write_text(config)
        self._store, self._stream = make_url(store), stream
        self.replicas = [self._create_replica(number) for number in range(1, replicas + 1)]

    def __enter__(self) -> "LocalCluster":
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> "LocalCluster":
        """Start every replica, all at once, and return when all are ready."""
        for replica in self.replicas:
            replica.start()
        for replica in self.replicas:
            replica.wait_ready()
        return self

    def add_replica(self, package: Path | None = None) -> Replica:
        """Start one more replica, perhaps of another release; return it when it is ready."""
        replica = self._create_replica(len(self.replicas) + 1)
        replica.package = package
        self.replicas.append(replica)
        return replica.start().wait_ready()

    def close(self) -> None:
        """End every replica at once (SIGTERM, then SIGKILL), and remove the network."""
        running = [replica for replica in self.replicas if replica.is_running]
        self.heal()
        threads = [threading.Thread(target=self._end, args=(replica,)) for replica in running]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for link in self.links():
            link.close()
        self._thread.close()
        if self.network is not None:
            self.network.close()

    @staticmethod
    def _end(replica: Replica) -> None:
        with suppress(subprocess.TimeoutExpired):  # it was killed
            replica.stop()

    # faults

    def cut(self, one: Replica, other: Replica) -> None:
        """Let two replicas not reach each other; both reach all else. Raises NetworkError without namespaces."""
        network, hosts = self._need_network("cut"), [one.host, other.host]
        network.cut(*[host for host in hosts if host is not None])

    def isolate(self, replica: Replica) -> None:
        """Let a replica reach nothing and nobody reach it: its packets vanish, and no connection is closed."""
        network = self._need_network("isolate")
        if replica.host is not None:
            network.disconnect(replica.host)

    def heal(self) -> None:
        """End every fault of the network and of the links, and let paused replicas go on."""
        for replica in self.replicas:
            replica.resume()
        for link in self.links():
            link.heal()
        if self.network is not None:
            hosts = [*self.network.hosts.values()]
            for number, host in enumerate(hosts):
                self.network.connect(host)
                for other in hosts[:number]:
                    self.network.join(host, other)

    def links(self) -> Iterator[FaultProxy]:
        """Yield the links of all replicas to the store and to the stream."""
        for replica in self.replicas:
            yield replica.store_link
            if replica.stream_link is not None:
                yield replica.stream_link

    def _need_network(self, what: str) -> Network:
        if self.network is None:
            raise NetworkError(f"`{what}` needs a network namespace for each replica, and there is none: {self.reason}")
        return self.network

    # replicas

    def _create_replica(self, number: int) -> Replica:
        host = self.network.add_host(number) if self.network is not None else None
        inner = self.network.address if self.network is not None else LOOPBACK
        address = (host.address, PORT) if host is not None else (LOOPBACK, find_free_port())
        store_link = FaultProxy(self._thread, target_of(self._store), inner)
        stream_link, stream = None, self._stream
        if stream is not None:
            parts = urlsplit(stream)
            target = (parts.hostname or LOOPBACK, parts.port or STREAM_PORT)
            stream_link = FaultProxy(self._thread, target, inner)
            login = parts.netloc.rpartition("@")[0]
            place = f"{inner}:{stream_link.port}"
            stream = urlunsplit(parts._replace(netloc=f"{login}@{place}" if login else place))
        settings = {
            "store": self._store.set(host=inner, port=store_link.port).render_as_string(hide_password=False),
            "stream": stream,
            "open": True,
            "secret": SECRET,
            "replica_url": f"http://{address[0]}:{address[1]}",
            **self.settings,
        }
        known = {name: value for name, value in settings.items() if value is not None and name in Settings.model_fields}
        variables = {f"ONLINE_{name.upper()}": describe_value(value) for name, value in known.items()}
        replica = Replica(number, self.folder / f"replica-{number}", self._config, address, variables)
        replica.host, replica.store_link, replica.stream_link = host, store_link, stream_link
        return replica


def target_of(store: URL) -> tuple[str, int]:
    """Return the host and the port of the server that a store's URL names."""
    return store.host or LOOPBACK, store.port or STORE_PORT


def release_variables(package: Path | None) -> dict[str, str]:
    """Return the variables with which Python finds the release in a folder; None: the one that it finds by itself."""
    return {} if package is None else {"PYTHONPATH": str(package)}


def describe_value(value: str | float | bool | None) -> str:
    """Return a value of a setting as a variable of the environment has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def find_free_port() -> int:
    """Return a port of 127.0.0.1 that is free now."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def list_processes() -> Iterator[tuple[int, int]]:
    """Yield each process of this machine, and its parent, but those that have ended and whose parent has not seen it."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it has just ended
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                yield int(folder.name), int(parent)


def wait_for(condition: Callable[[], T | None], timeout_s: float, what: str) -> T:
    """Call `condition` until its value is true, and return that value. Raises TimeoutError that says what did not happen."""
    end, pause = time.monotonic() + timeout_s, threading.Event()
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {timeout_s:g} s")
        pause.wait(LOOK_S)
    return value
