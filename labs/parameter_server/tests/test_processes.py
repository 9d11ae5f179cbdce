"""The same servers in real processes, and behind real sockets."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import pytest
import torch

from labs.parameter_server.delays import Delays
from labs.parameter_server.policies import POLICIES, Policy
from labs.parameter_server.processes import (
    Host,
    Worker,
    pack_numbers,
    run_processes,
    unpack_numbers,
)
from labs.parameter_server.server import ParameterServer
from labs.parameter_server.simulation import Cluster, Simulation
from labs.parameter_server.tests.scene import create_task

pytestmark = pytest.mark.long

RATE, BUDGET = 0.1, 48
AT_ONCE = Delays(compute_s=0.0)


def simulate(policy: Policy, workers: int) -> torch.Tensor:
    return Simulation(create_task(), policy, Cluster(workers), RATE, BUDGET).run()


def test_synchronous_processes_learn_what_the_simulation_learns() -> None:
    """Sharded over two servers; the simulation in turn equals a single process."""
    run = run_processes(create_task, POLICIES["synchronous"], Cluster(2, 2, AT_ONCE), RATE, BUDGET)
    assert run.tally.used == BUDGET
    assert (run.parameters_P - simulate(POLICIES["synchronous"], 2)).abs().max() < 1e-6


@contextmanager
def hosting(policy: Policy, workers: int, path: Path) -> Iterator[tuple[ParameterServer, list[Connection]]]:
    """A host in a thread, and the workers' ends of its connections. It must end with the block."""
    server = ParameterServer(create_task().first(), RATE, policy, workers, BUDGET)
    with Listener(str(path), backlog=workers) as listener:
        links = [Client(str(path)) for _ in range(workers)]
        host = Host(server, [listener.accept() for _ in range(workers)], policy.numbers)
    thread = threading.Thread(target=host.serve)
    thread.start()
    yield server, links
    thread.join(20)
    assert not thread.is_alive()


def work(link: Connection, worker: int, numbers: torch.dtype, delays: Delays) -> None:
    with link:
        Worker([link], worker, create_task(), delays, numbers).work()


def work_all(links: list[Connection], policy: Policy, delays: Delays = AT_ONCE) -> None:
    threads = [
        threading.Thread(target=work, args=(link, worker, policy.numbers, delays)) for worker, link in enumerate(links)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_learns_behind_sockets(name: str, tmp_path: Path) -> None:
    policy, task = POLICIES[name], create_task()
    with hosting(policy, 6, tmp_path / "host") as (server, links):
        work_all(links, policy, Delays(compute_s=0.0, link_s=0.002))
    assert server.tally.pushes == BUDGET
    assert task.accuracy(server.parameters_P, task.x_ND, task.class_N) > 60


def test_a_worker_that_is_gone_stops_no_round(tmp_path: Path) -> None:
    """Synchronous updates wait for all workers; when one has left, those that are there complete them."""
    policy = POLICIES["synchronous"]
    with hosting(policy, 3, tmp_path / "host") as (server, links):
        links.pop().close()
        work_all(links, policy)
    assert server.tally.used == BUDGET
    assert (server.parameters_P - simulate(policy, 2)).abs().max() < 1e-6


def test_a_server_that_fails_is_reported() -> None:
    broken = POLICIES["4 spare"]  # needs more than four workers
    with pytest.raises(RuntimeError, match="a parameter server has failed"):
        run_processes(create_task, broken, Cluster(2, 1, AT_ONCE), RATE, BUDGET)


@pytest.mark.parametrize("numbers", [torch.float32, torch.bfloat16, torch.float16])
def test_numbers_travel_as_bytes(numbers: torch.dtype) -> None:
    row_P = torch.tensor([1.0, -0.5, 3.25])
    data = pack_numbers(row_P, numbers)
    assert len(data) == 3 * numbers.itemsize
    assert torch.equal(unpack_numbers(data, numbers), row_P)
