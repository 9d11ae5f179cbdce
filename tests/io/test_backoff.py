"""The pause before something that failed is tried again."""

from online.io.backoff import Backoff


def test_pauses_double_until_the_longest_and_begin_again_after_a_healthy_time() -> None:
    backoff = Backoff(0.5, 3.0, healthy_s=10.0)
    assert [backoff.fail(lasted_s) for lasted_s in (0.0, 9.0, 1.0, 0.0, 0.0)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert [backoff.fail(lasted_s) for lasted_s in (11.0, 0.0)] == [0.5, 1.0]
