"""The share of a user's answers within an hour that may try another reply than the best one."""

import pytest

from online.models import Answer
from online.models.contract import build_candidates
from online.serving.predictor import MAX_USERS, WINDOW_S, ExplorationShares

BEST = Answer("a", build_candidates("ab", [0.7, 0.3]), 0.7, propensity=0.5)
TRIED = Answer("b", build_candidates("ab", [0.7, 0.3]), 0.3, propensity=0.5)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Scene:
    def __init__(self, share: float) -> None:
        self.clock = Clock()
        self.shares = ExplorationShares(share, self.clock)

    def ask(self, user: str | None = "ann", answer: Answer = TRIED) -> bool:
        """Ask one question, which gets this answer if it may be drawn; whether it may."""
        with self.shares.admit(user, 1) as admission:
            admission.count([answer if admission.allowed else Answer("a", BEST.candidates)])
            return bool(admission.allowed)


@pytest.mark.parametrize(("share", "most"), [(0.0, 0), (0.1, 3), (0.25, 8), (1.0, 30)])
def test_a_policy_that_always_tries_is_bounded_to_the_share_rounded_up(share: float, most: int) -> None:
    scene = Scene(share)
    assert sum(scene.ask() for _ in range(30)) == most


def test_at_no_moment_is_more_tried_than_the_share_of_the_answers_so_far_rounded_up() -> None:
    scene, tried = Scene(0.1), 0
    for answers in range(1, 45):
        tried += scene.ask()
        assert tried <= -(-answers // 10)


def test_an_answer_that_was_drawn_and_is_the_best_reply_does_not_count_as_tried() -> None:
    scene = Scene(0.1)
    assert all(scene.ask(answer=BEST) for _ in range(30))
    assert scene.ask()


def test_each_user_has_a_share_and_requests_without_a_user_have_one_together() -> None:
    scene = Scene(0.1)
    assert [scene.ask(user) for user in ("ann", "ben", None, "ann", None)] == [True, True, True, False, False]


def test_the_next_hour_begins_anew() -> None:
    scene = Scene(0.1)
    assert [scene.ask(), scene.ask()] == [True, False]
    scene.clock.now += WINDOW_S
    assert scene.ask()


def test_requests_that_are_answered_at_the_same_time_share_what_is_left() -> None:
    scene = Scene(0.1)
    with scene.shares.admit("ann", 4) as first, scene.shares.admit("ann", 4) as second:
        assert (first.allowed, second.allowed) == (1, 0)
        second.count([Answer("a", BEST.candidates)] * 4)
        first.count([BEST] * 4)
    assert scene.ask()


def test_of_a_request_with_many_instances_as_many_may_be_drawn_as_the_share_leaves() -> None:
    scene = Scene(0.1)
    with scene.shares.admit("ann", 25) as admission:
        assert admission.allowed == 3


def test_a_request_that_fails_leaves_no_trace() -> None:
    scene = Scene(0.1)
    with pytest.raises(RuntimeError), scene.shares.admit("ann", 1000):
        raise RuntimeError
    assert [scene.ask(), scene.ask()] == [True, False]


def test_the_number_of_counted_users_is_bounded() -> None:
    scene = Scene(0.0)
    scene.shares._users.update((str(n), scene.shares._find("ann")) for n in range(MAX_USERS))
    scene.ask("someone else")
    assert "someone else" not in scene.shares._users and len(scene.shares._users) <= MAX_USERS + 2
