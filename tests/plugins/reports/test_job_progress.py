"""The progress of a job: one percentage that never goes back, and a time left that is steady."""

import pytest

from online.plugins.reports.job_progress import JobProgress, TimeLeft


def test_the_time_left_of_even_work_is_exact() -> None:
    left = TimeLeft()
    for second in range(1, 41):
        left.see(second / 100, second)
        if second > 5:
            assert left.left(second) == pytest.approx(100 - second)
    assert left.left(45) == pytest.approx(55)  # it counts down while nothing is reported


def test_the_time_left_moves_little_in_a_burst_and_follows_a_change_that_lasts() -> None:
    left = TimeLeft()
    for second in range(1, 31):
        left.see(second / 100, second)
    left.see(0.35, 30.5)  # five times as fast, for half a second
    assert 45 < (left.left(30.5) or 0) <= 65
    for second in range(31, 151):
        left.see(0.35 + (second - 30) / 400, second)  # a quarter of the speed, from then on
    assert left.left(150) == pytest.approx((1 - 0.65) * 400, rel=0.05)


def test_the_time_left_is_unknown_at_first_and_begins_again_with_another_step() -> None:
    left = TimeLeft()
    assert left.left(0) is None
    left.see(0.1, 0)
    left.see(0.2, 0.5)
    assert left.left(0.5) is None  # too early to tell
    left.see(0.5, 2)
    assert left.left(2) is not None
    left.see(0.0, 3)
    assert left.left(3) is None


def test_one_percentage_covers_all_steps_and_never_goes_back() -> None:
    moments = iter(range(100))
    progress = JobProgress(clock=lambda: float(next(moments)))
    assert progress.describe().percent == 0 and progress.describe(2).ahead == 2
    seen = []
    for what in ("starting", "writing the log", "replaying it", "writing the page"):
        for percent in (0, 50, 100):
            progress.receive({"what": what, "percent": percent, "done": 20 * percent, "total": 2_000})
            seen.append(progress.describe())
    percents = [each.percent for each in seen]
    assert percents == sorted(percents) and percents[0] == 0 and percents[-1] == 100
    replayed = seen[7]
    assert (replayed.what, replayed.done, replayed.total, replayed.percent) == ("replaying it", 1_000, 2_000, 52)
    assert replayed.left_s is not None and replayed.per_second is not None
    assert seen[0].done is None and seen[-1].left_s is None
    progress.receive({"models": ["knn"]})  # a message about something else
    assert progress.describe().percent == 100
