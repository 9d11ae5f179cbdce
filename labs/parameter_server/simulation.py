"""Central parameters on a virtual clock: servers and workers as events, so that an injected minute costs nothing.

    heap of (instant, order, what happens)
      worker asks -> first server: a micro-batch and its shard -> the others: their shards -> computes
              ^                                                                                 |
              +------------------------------- asks again <-------------------------------------+
                                                          gradient --link--> each server: push

A worker goes on while its gradients travel. The servers are those of `server`, and delays depend on a seed alone, so a
simulation gives the same parameters, bit for bit, each time. Only the clock is virtual: gradients are computed.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from labs.parameter_server.coordination import Push
from labs.parameter_server.delays import Delays
from labs.parameter_server.gradients import GradientTask
from labs.parameter_server.policies import Policy
from labs.parameter_server.server import ParameterServer, Pulled, Tally, cut


@dataclass(frozen=True, slots=True)
class Cluster:
    """bytes_per_s: of each server's link, which carries one message after the other."""

    workers: int = 32
    servers: int = 1
    delays: Delays = field(default_factory=Delays)
    bytes_per_s: float = math.inf


@dataclass(slots=True)
class Fetch:
    """What a worker has of the parameters for a micro-batch."""

    number: int
    parts: dict[int, Pulled] = field(default_factory=dict)


class Simulation:
    """One run of a policy. budget: micro-batches to compute.

    watch: is called with the simulation after every `watch_every` pushes at the first server; True ends the run.
    """

    def __init__(
        self,
        task: GradientTask,
        policy: Policy,
        cluster: Cluster,
        rate: float,
        budget: int,
        watch: Callable[["Simulation"], bool] = lambda _: False,
        watch_every: int = 32,
    ) -> None:
        self.task, self.cluster, self.numbers = task, cluster, policy.numbers
        self.watch, self.watch_every = watch, watch_every
        shards = cut(task.first(), cluster.servers)
        self.servers = [
            ParameterServer(shard, rate, policy, cluster.workers, None if place else budget)
            for place, shard in enumerate(shards)
        ]
        self.now_s, self.sent_bytes, self._is_ended = 0.0, 0, False
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._event_count = 0
        self._waiting: list[list[int]] = [[] for _ in shards]  # workers, by server
        self._fetches: dict[int, Fetch] = {}  # by worker
        self._free_at = [0.0] * len(shards)  # when each server's link is free

    def join_parameters(self) -> Tensor:
        """The present parameters [P] of all servers."""
        return torch.cat([server.parameters_P for server in self.servers])

    @property
    def tally(self) -> Tally:
        """What the first server has done."""
        return self.servers[0].tally

    def run(self) -> Tensor:
        """Let everything happen; return the parameters."""
        for worker in range(self.cluster.workers):
            self._at(0.0, partial(self._ask, worker, 0))
        while not self._is_ended and (self._events or self._flush()):
            self.now_s, _, happen = heapq.heappop(self._events)
            happen()
        return self.join_parameters()

    def _at(self, instant_s: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (instant_s, self._event_count, happen))
        self._event_count += 1

    def _flush(self) -> bool:
        """Complete the rounds that nobody is left to complete. Whether anything follows."""
        for place, server in enumerate(self.servers):
            server.flush()
            self._ask_again(place)
        return bool(self._events)

    # a worker

    def _ask(self, worker: int, place: int) -> None:
        """Ask a server for its shard. The first one is asked before the others, as it hands out the micro-batches."""
        server = self.servers[place]
        if server.is_finished:
            return
        pulled = server.pull(worker)
        if pulled is None:
            self._waiting[place].append(worker)
            return
        self._at(self._send(place, pulled.parameters_P), partial(self._receive, worker, place, pulled))
        if place == 0:
            self._fetches[worker] = Fetch(pulled.number)
            for other in range(1, len(self.servers)):
                self._ask(worker, other)

    def _receive(self, worker: int, place: int, pulled: Pulled) -> None:
        fetch = self._fetches[worker]
        fetch.parts[place] = pulled
        if len(fetch.parts) == len(self.servers):
            seconds = self.cluster.delays.draw_compute(fetch.number)
            self._at(self.now_s + seconds, partial(self._compute, worker, self._fetches.pop(worker)))

    def _compute(self, worker: int, fetch: Fetch) -> None:
        """End a micro-batch: send the gradient to the servers, and ask for the next one."""
        places = range(len(self.servers))
        parts = [as_received(fetch.parts[place].parameters_P, self.numbers) for place in places]
        gradient_P = self.task.gradient(torch.cat(parts), fetch.number)
        for place, part in enumerate(cut(gradient_P, len(self.servers))):
            push = Push(worker, fetch.number, fetch.parts[place].version, as_received(part, self.numbers))
            travel_s = self.cluster.delays.draw_link(fetch.number, place)
            if travel_s:
                self._at(self.now_s + travel_s, partial(self._arrive, place, push))
            else:
                self._arrive(place, push)
        self._at(self.now_s, partial(self._ask, worker, 0))

    # a server

    def _send(self, place: int, part: Tensor) -> float:
        """Carry a part over the link of a server, after what it carries already; return when it is there."""
        size = part.numel() * self.numbers.itemsize
        self.sent_bytes += size
        self._free_at[place] = max(self.now_s, self._free_at[place]) + size / self.cluster.bytes_per_s
        return self._free_at[place]

    def _arrive(self, place: int, push: Push) -> None:
        self._at(self._send(place, push.gradient_P), partial(self._push, place, push))

    def _push(self, place: int, push: Push) -> None:
        server = self.servers[place]
        server.push(push)
        self._ask_again(place)
        if place == 0 and server.tally.pushes % self.watch_every == 0:
            self._is_ended = self.watch(self)

    def _ask_again(self, place: int) -> None:
        waiting, self._waiting[place] = self._waiting[place], []
        for worker in waiting:
            self._ask(worker, place)


def as_received(part: Tensor, numbers: torch.dtype) -> Tensor:
    """float32 numbers as they are after they travelled in other ones; the same tensor for float32."""
    return part.to(numbers).float()


def simulate_arrivals(delays: Delays, workers: int, count: int) -> list[tuple[float, int]]:
    """When each of `count` shares arrives whose workers wait for nothing: (seconds, number), in that order."""
    free = [(0.0, worker) for worker in range(workers)]
    arrivals = []
    for number in range(count):
        free_at, worker = heapq.heappop(free)
        done_at = free_at + delays.draw_compute(number)
        heapq.heappush(free, (done_at, worker))
        arrivals.append((done_at + delays.draw_link(number, 0), number))
    return sorted(arrivals)
