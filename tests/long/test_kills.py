"""Processes that are killed many times: the short variants are in tests/e2e/test_survival.py."""

from tests.conftest import Start
from tests.e2e.test_survival import kill_learners_while_learning


def test_a_learner_killed_twenty_times_reaches_the_same_state(start: Start) -> None:
    kill_learners_while_learning(start, events=5_000, kills=20)
