"""Central parameters in real processes: the servers of `server` behind sockets, and workers that connect to them.

    worker --PULL--> Host --version, number, parameters--> worker --PUSH version, number, gradient--> Host, held while
                                                                                              it "travels" --> server

Messages are a fixed header and plain numbers, over connections of `multiprocessing.connection`, which ask for a key.
A worker that is gone takes nothing with it but the gradients it had not sent.
"""

import heapq
import json
import multiprocessing
import secrets
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path

import torch
from torch import Tensor

from labs.parameter_server.coordination import Push
from labs.parameter_server.delays import Delays
from labs.parameter_server.gradients import GradientTask
from labs.parameter_server.policies import Policy
from labs.parameter_server.server import ParameterServer, Pulled, Tally, cut
from labs.parameter_server.simulation import Cluster
from online.models.lazy_torch import use_one_thread

REQUEST = struct.Struct("<qqqd")  # worker, number (PULL for a pull), version, seconds to travel; then a gradient
ANSWER = struct.Struct("<qq")  # version (FINISHED: no more micro-batches), number; then parameters
PULL = FINISHED = -1

CreateTask = Callable[[], GradientTask]  # in each worker; multiprocessing must be able to pickle it


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """What servers and workers did. tally: of the first server. elapsed_s: while workers were connected."""

    parameters_P: Tensor
    tally: Tally
    elapsed_s: float


def run_processes(
    create_task: CreateTask, policy: Policy, cluster: Cluster, rate: float, budget: int, limit_s: float = 300.0
) -> ProcessRun:
    """Start the servers and workers of a cluster, and return what they have learned.

    Raises RuntimeError if a server fails or the run takes longer than `limit_s`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    key, shards = secrets.token_bytes(), cut(create_task().first(), cluster.servers)
    processes: list[multiprocessing.process.BaseProcess] = []
    with tempfile.TemporaryDirectory(prefix="online-central-") as folder:
        addresses = [str(Path(folder) / f"server-{place}") for place in range(cluster.servers)]
        results: list[Connection] = []
        try:
            for place, (address, shard) in enumerate(zip(addresses, shards, strict=True)):
                mine, its = context.Pipe(duplex=False)
                limit = None if place else budget
                arguments = (address, key, shard.numpy().tobytes(), rate, policy, cluster.workers, limit, its)
                processes.append(context.Process(target=run_server, args=arguments, daemon=True))
                processes[-1].start()
                its.close()
                results.append(mine)
            until = time.monotonic() + limit_s
            for result in results:  # it listens
                receive(result, until)
            for worker in range(cluster.workers):
                work = (addresses, key, worker, create_task, cluster.delays, policy.numbers)
                processes.append(context.Process(target=run_worker, args=work, daemon=True))
                processes[-1].start()
            found = [(json.loads(receive(result, until)), receive(result, until)) for result in results]
        finally:
            for process in processes:
                process.join(1.0)
                process.kill()
                process.join()
    header = found[0][0]
    rows = [unpack_numbers(data, torch.float32) for _, data in found]
    return ProcessRun(torch.cat(rows), Tally(**header["tally"]), header["elapsed_s"])


def receive(result: Connection, until: float) -> bytes:
    """The next message of a server. Raises RuntimeError if it does not come in time, or the server is gone."""
    try:
        if result.poll(max(0.0, until - time.monotonic())):
            return result.recv_bytes()
    except EOFError:
        raise RuntimeError("a parameter server has failed; its error is above") from None
    raise RuntimeError("the parameter servers have not finished in time")


def run_server(
    address: str,
    key: bytes,
    parameters: bytes,
    rate: float,
    policy: Policy,
    workers: int,
    budget: int | None,
    result: Connection,
) -> None:
    """The life of a server process: listen, serve its workers until they are gone, and report."""
    use_one_thread()
    server = ParameterServer(unpack_numbers(parameters, torch.float32), rate, policy, workers, budget)
    with Listener(address, backlog=workers, authkey=key) as listener:
        result.send_bytes(b"listening")
        connections = [listener.accept() for _ in range(workers)]
    started = time.monotonic()
    Host(server, connections, policy.numbers).serve()
    report = {"tally": asdict(server.tally), "elapsed_s": time.monotonic() - started}
    result.send_bytes(json.dumps(report).encode())
    result.send_bytes(pack_numbers(server.parameters_P, torch.float32))


class Host:
    """A server and the connections of its workers, in one thread."""

    def __init__(self, server: ParameterServer, connections: Sequence[Connection], numbers: torch.dtype) -> None:
        self.server, self.numbers = server, numbers
        self._worker_of: dict[Connection, int | None] = dict.fromkeys(connections)  # None: it has not asked yet
        self._waiting: list[Connection] = []
        self._held: list[tuple[float, int, Push]] = []  # gradients that travel: when they arrive, their order
        self._held_count = 0

    def serve(self) -> None:
        """Answer until every worker is gone and every gradient has arrived."""
        while self._worker_of or self._held:
            left = self._held[0][0] - time.monotonic() if self._held else None
            if self._worker_of:
                for ready in wait(list(self._worker_of), left if left is None else max(0.0, left)):
                    assert isinstance(ready, Connection)
                    self._take(ready)
            elif left is not None:
                threading.Event().wait(max(0.0, left))
            self._deliver()
            self._answer_waiting()
            if not self._held and len(self._waiting) == len(self._worker_of):  # nobody is left to complete a round
                self.server.flush()
                self._answer_waiting()

    def _take(self, connection: Connection) -> None:
        try:
            message = connection.recv_bytes()
        except (EOFError, OSError):
            self._let_go(connection)
            return
        worker, number, version, travel_s = REQUEST.unpack_from(message)
        self._worker_of[connection] = worker
        if number == PULL:
            self._waiting.append(connection)
        else:
            gradient_P = unpack_numbers(message[REQUEST.size :], self.numbers)
            arrives_at = time.monotonic() + travel_s
            heapq.heappush(self._held, (arrives_at, self._held_count, Push(worker, number, version, gradient_P)))
            self._held_count += 1

    def _deliver(self) -> None:
        while self._held and self._held[0][0] <= time.monotonic():
            self.server.push(heapq.heappop(self._held)[2])

    def _answer_waiting(self) -> None:
        """Answer the workers that wait, in the order of their asking, as far as they need not wait on."""
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            worker = self._worker_of[connection]
            assert worker is not None
            pulled = None if self.server.is_finished else self.server.pull(worker)
            if pulled is None and not self.server.is_finished:
                self._waiting.append(connection)
            else:
                self._answer(connection, pulled)

    def _answer(self, connection: Connection, pulled: Pulled | None) -> None:
        header = (FINISHED, 0) if pulled is None else (pulled.version, pulled.number)
        body = b"" if pulled is None else pack_numbers(pulled.parameters_P, self.numbers)
        with suppress(OSError):  # it has gone, which the next read finds
            connection.send_bytes(ANSWER.pack(*header) + body)

    def _let_go(self, connection: Connection) -> None:
        worker = self._worker_of.pop(connection)
        self._waiting = [each for each in self._waiting if each is not connection]
        connection.close()
        if worker is not None and not self.server.is_finished:
            self.server.leave(worker)


def run_worker(
    addresses: Sequence[str], key: bytes, worker: int, create_task: CreateTask, delays: Delays, numbers: torch.dtype
) -> None:
    """The life of a worker process: compute gradients until there are no more micro-batches."""
    use_one_thread()
    links = [Client(address, authkey=key) for address in addresses]
    try:
        Worker(links, worker, create_task(), delays, numbers).work()
    finally:
        for link in links:
            link.close()


class Worker:
    """Pulls parameters from every server, computes one gradient, and pushes it. links: to the servers, in order."""

    def __init__(
        self, links: Sequence[Connection], worker: int, task: GradientTask, delays: Delays, numbers: torch.dtype
    ) -> None:
        self.links, self.worker, self.task, self.delays, self.numbers = links, worker, task, delays, numbers

    def work(self) -> None:
        while (first := self._pull(self.links[:1])[0]) is not None:
            started = time.monotonic()
            parts = [first, *(part for part in self._pull(self.links[1:]) if part is not None)]
            gradient_P = self.task.gradient(torch.cat([part.parameters_P for part in parts]), first.number)
            left_s = self.delays.draw_compute(first.number) - (time.monotonic() - started)
            threading.Event().wait(max(0.0, left_s))  # the injected time of a computation
            self._push(first.number, [part.version for part in parts], gradient_P)

    def _pull(self, links: Sequence[Connection]) -> list[Pulled | None]:
        """The shards of servers, in their order; None of one that is finished. Whichever answers first is read first."""
        for link in links:
            link.send_bytes(REQUEST.pack(self.worker, PULL, 0, 0.0))
        answers: dict[int, Pulled | None] = {}
        while missing := [link for place, link in enumerate(links) if place not in answers]:
            for ready in wait(missing):
                assert isinstance(ready, Connection)
                answers[links.index(ready)] = self._read(ready.recv_bytes())
        return [answers[place] for place in range(len(links))]

    def _read(self, message: bytes) -> Pulled | None:
        version, number = ANSWER.unpack_from(message)
        if version == FINISHED:
            return None
        return Pulled(version, number, unpack_numbers(message[ANSWER.size :], self.numbers))

    def _push(self, number: int, versions: Sequence[int], gradient_P: Tensor) -> None:
        parts = zip(self.links, versions, cut(gradient_P, len(self.links)), strict=True)
        for place, (link, version, part) in enumerate(parts):
            travel_s = self.delays.draw_link(number, place)
            link.send_bytes(REQUEST.pack(self.worker, number, version, travel_s) + pack_numbers(part, self.numbers))


def pack_numbers(row_P: Tensor, numbers: torch.dtype) -> bytes:
    """A row as bytes, in numbers of this type."""
    return row_P.to(numbers).contiguous().view(torch.uint8).numpy().tobytes()


def unpack_numbers(data: bytes, numbers: torch.dtype) -> Tensor:
    """The inverse of `pack_numbers`, in float32."""
    return torch.frombuffer(bytearray(data), dtype=numbers).float()
