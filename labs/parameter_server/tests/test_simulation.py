"""Servers and workers on a virtual clock."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from labs.parameter_server.coordination import Bounded
from labs.parameter_server.delays import Delays
from labs.parameter_server.gradients import GradientTask
from labs.parameter_server.policies import POLICIES, DropStale, Policy
from labs.parameter_server.simulation import Cluster, Simulation, simulate_arrivals
from labs.parameter_server.tests.scene import create_task

pytestmark = pytest.mark.long

RATE, BUDGET = 0.1, 48
LATE = Delays(link_s=15.0, straggle_s=30.0, straggle_share=0.2)


def simulate(policy: Policy, cluster: Cluster, budget: int = BUDGET) -> Simulation:
    run = Simulation(create_task(), policy, cluster, RATE, budget)
    run.run()
    return run


def learn_by_autograd(task: GradientTask, together: int) -> Tensor:
    """The parameters of one process with torch's own optimiser, `together` micro-batches at a time."""
    flat_LP = task.first()[None].clone().requires_grad_()
    optimiser = torch.optim.SGD([flat_LP], lr=RATE)
    for start in range(0, BUDGET, together):
        place_B = task.places(range(start, start + together))
        logits_BC = task.layout.logits(task.layout.views(flat_LP), task.x_ND[place_B])[0]
        loss = torch.nn.functional.cross_entropy(logits_BC, task.class_N[place_B])
        (flat_LP.grad,) = torch.autograd.grad(loss, flat_LP)
        optimiser.step()
    return flat_LP[0].detach()


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("delays", [Delays(), LATE], ids=["at once", "late"])
def test_synchronous_workers_learn_what_a_single_process_learns(delays: Delays, servers: int) -> None:
    run = simulate(POLICIES["synchronous"], Cluster(8, servers, delays))
    assert (run.join_parameters() - learn_by_autograd(create_task(), 8)).abs().max() < 1e-6


def test_one_asynchronous_worker_is_a_single_process() -> None:
    run = simulate(POLICIES["asynchronous"], Cluster(1))
    assert (run.join_parameters() - learn_by_autograd(create_task(), 1)).abs().max() < 1e-6
    assert set(run.tally.staleness) == {0}


@pytest.mark.parametrize("name", POLICIES)
def test_a_simulation_gives_the_same_parameters_and_times_each_time(name: str) -> None:
    first, second = (simulate(POLICIES[name], Cluster(8, 2, LATE)) for _ in range(2))
    assert torch.equal(first.join_parameters(), second.join_parameters())
    assert first.now_s == second.now_s


def test_another_seed_of_the_delays_gives_other_parameters() -> None:
    first, second = (simulate(Policy(), Cluster(8, 1, replace(LATE, seed=seed))) for seed in (0, 1))
    assert not torch.equal(first.join_parameters(), second.join_parameters())


@pytest.mark.parametrize("name", POLICIES)
def test_shards_hold_the_parameters_of_one_server(name: str) -> None:
    whole, shards = (simulate(POLICIES[name], Cluster(8, servers, LATE)) for servers in (1, 5))
    assert torch.equal(whole.join_parameters(), shards.join_parameters())


def test_parts_that_travel_apart_make_shards_of_different_versions() -> None:
    together, apart = (
        simulate(Policy(), Cluster(8, 4, replace(LATE, per_server=per_server))) for per_server in (False, True)
    )
    assert not torch.equal(together.join_parameters(), apart.join_parameters())


def test_a_later_link_makes_gradients_staler() -> None:
    at_once, late = (simulate(Policy(), Cluster(8, 1, Delays(link_s=link_s))) for link_s in (0.0, 15.0))
    assert sum(at_once.tally.staleness) < sum(late.tally.staleness)


def test_nothing_staler_than_the_bound_is_applied() -> None:
    policy = Policy(remedies=(partial(DropStale, 8),))
    run = simulate(policy, Cluster(8, 1, LATE))
    fresh = sum(staleness <= 8 for staleness in run.tally.staleness)
    assert run.tally.used == fresh < run.tally.pushes == BUDGET


def test_bounded_workers_bound_the_staleness_whatever_the_delay() -> None:
    """While a gradient travels, another worker adds at most 2 * bound + 1, and its own worker 2 * bound."""
    workers, bound = 8, 1
    cluster = Cluster(workers, 1, Delays(link_s=60.0))
    free, bounded = (
        simulate(policy, cluster, budget=160) for policy in (Policy(), Policy(partial(Bounded, bound=bound)))
    )
    most = (2 * bound + 1) * (workers - 1) + 2 * bound
    assert max(bounded.tally.staleness) <= most < max(free.tally.staleness)
    assert bounded.now_s > free.now_s, "what waiting costs"


def test_spare_workers_save_the_time_of_stragglers() -> None:
    cluster = Cluster(8, 1, Delays(straggle_s=60.0, straggle_share=0.1))
    all_count, spare = (simulate(POLICIES[name], cluster) for name in ("synchronous", "4 spare"))
    assert spare.now_s < all_count.now_s
    assert spare.tally.used < all_count.tally.used == BUDGET


def test_links_carry_one_message_after_the_other() -> None:
    """Sixteen messages of all parameters for each update of eight workers, halved by 16 bits and by two servers."""
    size = 4 * create_task().first().numel()
    slow = Cluster(8, 1, Delays(compute_s=0.0), bytes_per_s=size)
    assert simulate(POLICIES["synchronous"], slow).now_s == pytest.approx(BUDGET * 2)
    assert simulate(POLICIES["synchronous, bfloat16"], slow).now_s == pytest.approx(BUDGET)
    assert simulate(POLICIES["synchronous"], replace(slow, servers=2)).now_s == pytest.approx(BUDGET, rel=0.02)


def test_sixteen_bits_halve_what_is_sent_and_stay_close() -> None:
    whole, half = (simulate(POLICIES[name], Cluster(8)) for name in ("synchronous", "synchronous, bfloat16"))
    assert whole.sent_bytes == 2 * half.sent_bytes
    distance = (whole.join_parameters() - half.join_parameters()).abs().max()
    assert 0 < distance < 0.05


def test_a_run_ends_when_its_watcher_says_so() -> None:
    run = Simulation(
        create_task(), Policy(), Cluster(4), RATE, BUDGET, lambda run: run.tally.pushes >= 16, watch_every=8
    )
    run.run()
    assert run.tally.pushes == 16


def test_delays_do_not_depend_on_the_order_in_which_they_are_drawn() -> None:
    delays = replace(LATE, seed=7)
    forward = [(delays.draw_compute(number), delays.draw_link(number, 0)) for number in range(20)]
    assert forward[::-1] == [(delays.draw_compute(n), delays.draw_link(n, 0)) for n in reversed(range(20))]


def test_mean_delays_are_those_asked_for() -> None:
    delays = Delays(compute_s=4.0, link_s=15.0, straggle_s=32.0, straggle_share=0.25)
    assert sum(delays.draw_link(number, 0) for number in range(2_000)) / 2_000 == pytest.approx(15, rel=0.1)
    assert sum(delays.draw_compute(number) for number in range(2_000)) / 2_000 == pytest.approx(12, rel=0.1)


def test_shares_arrive_in_another_order_than_they_were_handed_out() -> None:
    arrivals = simulate_arrivals(Delays(link_s=60.0), workers=8, count=40)
    numbers = [number for _, number in arrivals]
    assert sorted(numbers) == list(range(40)) != numbers
    assert all(math.isfinite(instant) for instant, _ in arrivals)


def test_each_pass_learns_every_row_once_in_another_order() -> None:
    task = create_task()
    first, second = (task.places(range(start, start + task.per_pass)).tolist() for start in (0, task.per_pass))
    assert sorted(first) == sorted(second) == list(range(96))
    assert first != second


def test_rows_that_do_not_fill_a_micro_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="3 rows do not fill one micro-batch of 4"):
        GradientTask(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), hidden=4, rows=4, seed=0)
