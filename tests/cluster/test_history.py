"""The checker of histories finds each fault that it is there for, and nothing in a sound history."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cluster.history import (
    LearnedState,
    LogEntry,
    Operation,
    Outage,
    check_history,
    check_learned,
    check_states,
    find_failures,
    find_percentile,
)

History = list[Operation]
Log = list[LogEntry]


def record(seed: int, count: int = 60) -> tuple[History, Log]:
    """A sound history of three clients, with duplicates and repeated requests, and its log."""
    draw, history, log = random.Random(seed), History(), Log()
    now = 0.0
    while len(log) < count:
        client, replica = draw.randrange(3), draw.randrange(3)
        now += draw.random()
        if log and draw.random() < 0.05:
            offset, id = draw.choice(log)  # a duplicate
        else:
            offset, id = len(log) + 1, f"e{len(log) + 1}"
            if draw.random() < 0.1:  # the connection broke, and the client asks again
                history.append(Operation(client, replica, "feedback", now, now + 0.1, "unknown", ids=(id,)))
                now += 0.2
            log.append((offset, id))
        history.append(Operation(client, replica, "feedback", now, now + 0.1, "acknowledged", 202, (id,), (offset,)))
        now += 0.2
        read = Operation(client, replica, "predict", now, now + 0.1, "acknowledged", 200)
        history.append(replace(read, min_offset=offset, learned_until=len(log), version=len(log)))
        now += 0.1
    return history, log


Fault = Callable[[random.Random, History, Log], None]


def acknowledge_before_commit(draw: random.Random, history: History, log: Log) -> None:
    """The process was killed between the acknowledgement and the commit: later events have the offset."""
    lost = draw.randrange(len(log) - 1)
    log[lost:] = [(offset - 1, id) for offset, id in log[lost + 1 :]]


def lose_the_last(draw: random.Random, history: History, log: Log) -> None:
    log.pop()


def store_twice(draw: random.Random, history: History, log: Log) -> None:
    log.append((len(log) + 1, draw.choice(log)[1]))


def answer_too_early(draw: random.Random, history: History, log: Log) -> None:
    place = draw.choice([n for n, each in enumerate(history) if each.action == "predict"])
    minimum = history[place].min_offset
    assert minimum is not None
    history[place] = replace(history[place], learned_until=minimum - 1)


def answer_with_an_old_version(draw: random.Random, history: History, log: Log) -> None:
    place = [n for n, each in enumerate(history) if each.action == "predict"][-1]
    history[place] = replace(history[place], version=1)


def reorder(draw: random.Random, history: History, log: Log) -> None:
    """Two acknowledged writes of one client change places, in the log and in its receipts."""
    own = [n for n, each in enumerate(history) if each.client == 0 and each.offsets and each.action == "feedback"]
    first, second = own[0], own[-1]
    one, other = history[first], history[second]
    history[first], history[second] = replace(one, offsets=other.offsets), replace(other, offsets=one.offsets)
    places = {one.ids[0]: other.offsets[0], other.ids[0]: one.offsets[0]}
    log[:] = sorted((places.get(id, offset), id) for offset, id in log)


FAULTS: dict[Fault, str] = {
    acknowledge_before_commit: "is lost",
    lose_the_last: "is lost",
    store_twice: "is in the log 2 times",
    answer_too_early: "was the minimum",
    answer_with_an_old_version: "answered with version 1 after version",
    reorder: "was given offset",
}


@pytest.mark.parametrize("seed", range(5))
def test_a_sound_history_has_no_violation(seed: int) -> None:
    history, log = record(seed)
    assert check_history(history, log) == []
    assert [*check_learned(log, log)] == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_found(fault: Fault, seed: int) -> None:
    history, log = record(seed)
    fault(random.Random(seed), history, log)
    assert any(FAULTS[fault] in each for each in check_history(history, log))


@pytest.mark.parametrize("seed", range(5))
def test_a_reader_that_skips_a_late_commit_or_reads_one_twice_is_found(seed: int) -> None:
    _, log = record(seed)
    draw = random.Random(seed)
    late = draw.randrange(len(log) - 1)
    skipped = [*log[:late], *log[late + 1 :]]
    assert any("passed over" in each for each in check_learned(skipped, log))
    assert any("after" in each for each in check_learned([*skipped, log[late]], log))
    assert any("learned" in each and "2 times" in each for each in check_learned([*log, log[late]], log))


def test_an_older_version_is_sound_where_an_event_rolled_back_to_it() -> None:
    history, log = record(1)
    answer_with_an_old_version(random.Random(0), history, log)
    assert check_history(history, log, roll_backs={1}) == []


def test_answers_that_overlap_may_have_any_version() -> None:
    one = Operation(1, 1, "predict", 0.0, 1.0, "acknowledged", version=2)
    assert check_history([one, replace(one, started_at=0.9, ended_at=2.0, version=1)], []) == []


def test_a_state_is_compared_with_that_of_an_uninterrupted_process_at_the_same_offset() -> None:
    states = [LearnedState(1, 3, 10, "a" * 64), LearnedState(2, 3, 9, "a" * 64)]
    found = [*check_states(states, lambda offset: ("a" if offset == 10 else "b") * 64)]
    assert len(found) == 1 and "replica 2" in found[0] and "offset 9" in found[0]


def test_only_outages_explain_failures() -> None:
    broken = Operation(1, 2, "feedback", 5.0, 6.0, "unknown")
    refused = replace(broken, outcome="refused", status=503)
    killed, cut = Outage(2, "killed", 4.0, 5.5), Outage(2, "cut off", 4.0, 5.5)
    assert find_failures([broken, refused], [killed]) == [refused]
    assert find_failures([broken, refused], [cut]) == []
    assert find_failures([broken], [replace(killed, replica=1)]) == [broken]
    assert find_failures([broken], [replace(killed, ended_at=4.5)]) == [broken]
    assert find_failures([replace(broken, status=500)], [killed, cut]) != []


def test_percentiles_are_values_that_occur() -> None:
    assert find_percentile(range(100), 0.99) == 99 and find_percentile([3.0], 0.5) == 3.0
