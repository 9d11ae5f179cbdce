"""The circuit breaker: it opens after failures in a row, admits a trial later, and closes when that succeeds."""

import pytest

from online.plugins.router.breaker import FAILURES, LONGEST_LIMIT_S, LONGEST_OPEN_S, OPEN_S, AdmittedRequest, Breaker


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(clock)


def fail_often(breaker: Breaker) -> None:
    for _ in range(FAILURES):
        breaker.fail()


def test_a_new_breaker_is_closed_and_admits_every_request(breaker: Breaker) -> None:
    assert str(breaker.state) == "closed"
    assert all(breaker.admits() for _ in range(100))


def test_it_opens_after_five_failures_in_a_row(breaker: Breaker) -> None:
    for _ in range(FAILURES - 1):
        breaker.fail()
    assert str(breaker.state) == "closed"
    breaker.fail()
    assert str(breaker.state) == "open"
    assert not breaker.admits()
    assert breaker.wait_s == OPEN_S


def test_a_success_ends_the_row_of_failures(breaker: Breaker) -> None:
    for _ in range(3):
        for _ in range(FAILURES - 1):
            breaker.fail()
        breaker.succeed()
    assert str(breaker.state) == "closed"


def test_after_a_while_exactly_one_trial_is_admitted(breaker: Breaker, clock: Clock) -> None:
    fail_often(breaker)
    clock.now += OPEN_S - 0.1
    assert not breaker.admits()
    clock.now += 0.1
    assert str(breaker.state) == "half-open"
    assert [breaker.admits() for _ in range(3)] == [True, False, False]


def test_a_trial_that_succeeds_closes_it(breaker: Breaker, clock: Clock) -> None:
    fail_often(breaker)
    clock.now += OPEN_S
    assert breaker.admits()
    breaker.succeed()
    assert str(breaker.state) == "closed"
    for _ in range(FAILURES - 1):
        breaker.fail()
    assert str(breaker.state) == "closed", "the row of failures begins at 0"


def test_each_trial_that_fails_doubles_the_time_up_to_a_limit(breaker: Breaker, clock: Clock) -> None:
    fail_often(breaker)
    waits = []
    for _ in range(6):
        waits.append(breaker.wait_s)
        clock.now += breaker.wait_s
        assert breaker.admits()
        breaker.fail()
    assert waits == [10.0, 20.0, 40.0, 80.0, LONGEST_OPEN_S, LONGEST_OPEN_S]
    clock.now += breaker.wait_s
    assert breaker.admits()
    breaker.succeed()
    fail_often(breaker)
    assert breaker.wait_s == OPEN_S, "a success resets it"


def test_a_trial_without_a_verdict_lets_another_one_through(breaker: Breaker, clock: Clock) -> None:
    fail_often(breaker)
    clock.now += OPEN_S
    assert breaker.admits()
    breaker.release()
    assert str(breaker.state) == "half-open"
    assert [breaker.admits(), breaker.admits()] == [True, False]


@pytest.mark.parametrize(("asked_s", "open_s"), [(3.0, 3.0), (59.0, 59.0), (3_600.0, LONGEST_LIMIT_S)])
def test_a_rate_limit_opens_it_at_once_for_as_long_as_it_says(
    breaker: Breaker, clock: Clock, asked_s: float, open_s: float
) -> None:
    breaker.fail(asked_s)
    assert breaker.wait_s == open_s
    clock.now += open_s
    assert str(breaker.state) == "half-open"


def test_a_rate_limit_of_no_time_is_an_ordinary_failure(breaker: Breaker) -> None:
    breaker.fail(0.0)
    assert str(breaker.state) == "closed"


def test_a_longer_limit_extends_an_open_period_and_a_shorter_one_does_not(breaker: Breaker) -> None:
    breaker.fail(20.0)
    breaker.fail(5.0)
    assert breaker.wait_s == 20.0
    breaker.fail(40.0)
    assert breaker.wait_s == 40.0


def test_while_it_is_open_outcomes_of_earlier_requests_change_nothing(breaker: Breaker) -> None:
    fail_often(breaker)
    breaker.succeed()
    breaker.fail()
    assert str(breaker.state) == "open"
    assert breaker.wait_s == OPEN_S


def test_outcomes_from_before_it_opened_do_not_decide_a_trial(breaker: Breaker, clock: Clock) -> None:
    early = [AdmittedRequest(breaker) for _ in range(3)]
    fail_often(breaker)
    clock.now += OPEN_S
    assert breaker.admits()
    trial = AdmittedRequest(breaker)
    early[0].fail()
    early[1].succeed()
    early[2].release()
    assert str(breaker.state) == "half-open"
    assert not breaker.admits(), "the trial is still running"
    trial.succeed()
    assert str(breaker.state) == "closed"


def test_an_admitted_request_is_reported_once(breaker: Breaker) -> None:
    for _ in range(FAILURES - 1):
        breaker.fail()
    admitted = AdmittedRequest(breaker)
    admitted.succeed()
    admitted.fail()
    for _ in range(FAILURES - 1):
        breaker.fail()
    assert str(breaker.state) == "closed"


def test_an_admitted_request_knows_whether_it_is_the_trial(breaker: Breaker, clock: Clock) -> None:
    assert breaker.admits()
    assert not AdmittedRequest(breaker).is_trial
    fail_often(breaker)
    clock.now += OPEN_S
    assert breaker.admits()
    assert AdmittedRequest(breaker).is_trial
