"""What each policy does to a gradient, by numbers computed by hand."""

import math

import pytest
import torch
from torch import Tensor

from labs.parameter_server.coordination import Bounded, OneFirst, Push, Synchronous
from labs.parameter_server.policies import (
    Arrival,
    DelayCompensation,
    DropStale,
    Policy,
    RateByStaleness,
    Remedy,
    Scale,
    WarmUp,
)
from labs.parameter_server.server import ParameterServer

pytestmark = pytest.mark.long

GRADIENT, BASE, NOW = torch.tensor([2.0, -4.0]), torch.tensor([1.0, 1.0]), torch.tensor([1.5, 0.0])


def correct(remedy: Remedy, staleness: int = 0, version: int = 0) -> list[float] | None:
    corrected = remedy.correct(Arrival(GRADIENT, version, staleness, BASE, NOW))
    return None if corrected is None else corrected.tolist()


def push(server: ParameterServer, worker: int, version: int, gradient: float, number: int = 0) -> None:
    server.push(Push(worker, number, version, torch.tensor([gradient])))


def create_server(policy: Policy, workers: int = 3) -> ParameterServer:
    return ParameterServer(torch.tensor([10.0]), 0.5, policy, workers)


def value(server: ParameterServer) -> float:
    return float(server.parameters_P[0])


def test_the_rate_is_divided_by_one_and_the_staleness() -> None:
    assert correct(RateByStaleness(), staleness=0) == [2.0, -4.0]
    assert correct(RateByStaleness(), staleness=3) == [0.5, -1.0]


def test_what_is_staler_than_the_bound_is_dropped() -> None:
    assert correct(DropStale(2), staleness=2) == [2.0, -4.0]
    assert correct(DropStale(2), staleness=3) is None


def test_the_rate_rises_linearly_to_its_value() -> None:
    assert correct(WarmUp(4), version=0) == [0.5, -1.0]
    assert correct(WarmUp(4), version=3) == [2.0, -4.0]
    assert correct(WarmUp(4), version=99) == [2.0, -4.0]


def test_a_constant_factor_scales() -> None:
    assert correct(Scale(0.25)) == [0.5, -1.0]


def test_delay_compensation_adds_the_square_times_the_way_the_parameters_went() -> None:
    """g = (2, -4), now - base = (0.5, -1). The first mean square is g * g / 2, so k = 3 / sqrt(g * g / 2)."""
    corrected = DelayCompensation(3.0, decay=0.5, floor=0.0).correct(Arrival(GRADIENT, 0, 1, BASE, NOW))
    expected = [2 + 3 / math.sqrt(2) * 4 * 0.5, -4 + 3 / math.sqrt(8) * 16 * -1]
    assert corrected is not None
    assert corrected.tolist() == pytest.approx(expected)


def test_delay_compensation_changes_nothing_where_the_parameters_stand() -> None:
    assert torch.equal(expect(DelayCompensation(2.0).correct(Arrival(GRADIENT, 5, 0, NOW, NOW))), GRADIENT)


def expect(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor


def test_an_update_is_the_mean_of_all_but_the_spare_gradients() -> None:
    server = create_server(Policy(lambda workers: Synchronous(workers, spare=1)))
    for worker in range(3):
        server.pull(worker)
    push(server, 0, 0, 2.0)
    assert value(server) == 10
    push(server, 2, 0, 4.0)
    assert value(server) == 10 - 0.5 * (2 + 4) / 2


def test_a_gradient_that_comes_after_its_update_is_dropped() -> None:
    server = create_server(Policy(lambda workers: Synchronous(workers, spare=2)))
    push(server, 0, 0, 2.0)
    push(server, 1, 0, 100.0)
    assert (value(server), server.tally.pushes, server.tally.used) == (9.0, 2, 1)


def test_a_synchronous_worker_computes_once_on_each_version() -> None:
    server = create_server(Policy(Synchronous), workers=2)
    assert server.pull(0) is not None
    assert server.pull(0) is None
    server.pull(1)
    push(server, 0, 0, 1.0)
    push(server, 1, 0, 1.0)
    assert server.pull(0) is not None


def test_a_round_that_nobody_can_complete_is_flushed() -> None:
    server = create_server(Policy(Synchronous))
    push(server, 0, 0, 4.0)
    server.flush()
    assert value(server) == 8


def test_an_asynchronous_gradient_is_an_update_by_itself_and_knows_its_staleness() -> None:
    server = create_server(Policy())
    push(server, 0, 0, 2.0)
    push(server, 1, 0, 4.0)
    push(server, 2, 1, 6.0)
    assert value(server) == 10 - 0.5 * (2 + 4 + 6)
    assert server.tally.staleness == [0, 1, 1]


def test_remedies_apply_one_after_the_other() -> None:
    server = create_server(Policy(remedies=(lambda: Scale(0.5), lambda: Scale(0.5))))
    push(server, 0, 0, 8.0)
    assert value(server) == 9


def test_a_bounded_worker_waits_for_the_slowest() -> None:
    server = create_server(Policy(lambda workers: Bounded(workers, bound=1)), workers=2)
    server.pull(1)
    for version in range(2):
        assert server.pull(0) is not None
        push(server, 0, version, 1.0)
    assert server.pull(0) is None, "it would be two ahead of worker 1, which has sent nothing"
    push(server, 1, 0, 1.0)
    assert server.pull(0) is not None


def test_a_gradient_that_is_overtaken_holds_its_worker_back() -> None:
    server = create_server(Policy(lambda workers: Bounded(workers, bound=1)), workers=1)
    server.pull(0)
    server.pull(0)
    assert server.pull(0) is None
    push(server, 0, 0, 1.0)
    assert server.pull(0) is not None
    push(server, 0, 1, 1.0)
    assert server.pull(0) is None, "the second gradient on version 0 is on its way still"


def test_a_worker_that_left_is_not_waited_for() -> None:
    server = create_server(Policy(lambda workers: Bounded(workers, bound=0)), workers=2)
    server.pull(0)
    push(server, 0, 0, 1.0)
    assert server.pull(0) is None
    server.leave(1)
    assert server.pull(0) is not None


def test_one_worker_makes_the_first_updates_alone() -> None:
    first = OneFirst(3, updates=2)
    assert [first.may_pull(worker, 1) for worker in range(3)] == [True, False, False]
    assert all(first.may_pull(worker, 2) for worker in range(3))


def test_a_server_keeps_the_parameters_of_gradients_on_their_way_only() -> None:
    server = create_server(Policy(remedies=(lambda: DelayCompensation(1.0),)))
    for worker in range(3):
        server.pull(worker)
        push(server, worker, server.version, 1.0)
        server.pull(worker)
    assert server._bases is not None
    assert len(server._bases) == 3
    server.leave(0)
    push(server, 1, 2, 1.0)
    push(server, 2, 3, 1.0)
    assert len(server._bases) == 0


@pytest.mark.parametrize("spare", [-1, 3])
def test_at_least_one_worker_must_count(spare: int) -> None:
    with pytest.raises(ValueError, match="at least one must count"):
        Synchronous(3, spare)
