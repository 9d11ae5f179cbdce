"""A fall of the newest ratings is found soon, and a stream that stands still raises nothing."""

import random
from collections.abc import Callable

import pytest

from online.scoring.falls import Fall, find_decline, find_fall, find_lead, find_recovery
from online.scoring.recent_outcomes import BLOCK, KEPT, MAX_BLOCKS, AnswerOutcome, OutcomeSpan, RecentOutcomes
from tests.support import first_of

COLLAPSE = Fall(900, OutcomeSpan(500, 0.94), OutcomeSpan(100, 0.03))
RATES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.94, 0.98)


def draw_outcomes(seed: int, count: int, rate: Callable[[int], float], numbers: bool = False) -> list[AnswerOutcome]:
    """Ratings at the offsets 1, 2, ... of which `rate` of the offset are right; naive guessers are a little worse."""
    draw = random.Random(seed)

    def score(right: float) -> float:
        is_right = draw.random() < right
        return draw.uniform(0, 1) + 5 * (not is_right) if numbers else float(is_right)

    def outcome(offset: int) -> AnswerOutcome:
        right = rate(offset)
        return AnswerOutcome(offset, offset - 1, score(right), score(0.9 * right), score(0.9 * right))

    return [outcome(offset) for offset in range(1, count + 1)]


def collect(outcomes: list[AnswerOutcome], numbers: bool = False) -> RecentOutcomes:
    recent = RecentOutcomes(numbers)
    for outcome in outcomes:
        recent.add(outcome)
    return recent


@pytest.mark.few(1)
@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.long
def test_99_streams_that_stand_still_raise_nothing(numbers: bool) -> None:
    alarms = []
    for seed in range(99):
        recent = RecentOutcomes(numbers)
        for outcome in draw_outcomes(seed, 2_000, lambda _, seed=seed: RATES[seed % len(RATES)], numbers):  # type: ignore[misc]
            recent.add(outcome)
            if outcome.offset % 250 == 0 and (find_fall(recent) or find_lead(recent)):
                alarms.append((seed, outcome.offset))
    assert alarms == []


@pytest.mark.parametrize("seed", first_of(range(8)))
def test_a_collapse_is_found_within_30_ratings_with_its_start(seed: int) -> None:
    outcomes = draw_outcomes(seed, 1_000, lambda offset: 0.94 if offset <= 900 else 0.03)
    assert find_fall(collect(outcomes[:900])) is None
    assert find_fall(collect(outcomes[:930])) is not None
    fall = find_fall(collect(outcomes))
    assert fall is not None
    assert abs(fall.since - 900) <= 10
    assert fall.before.mean == pytest.approx(0.94, abs=0.04)
    assert fall.after.count == 100 and fall.after.mean == pytest.approx(0.03, abs=0.06)


def test_a_collapse_of_numbers_is_found_with_the_mean_errors() -> None:
    fall = find_fall(collect(draw_outcomes(1, 600, lambda offset: 0.95 if offset <= 500 else 0.2, numbers=True), True))
    assert (
        fall is None
    )  # the naive guessers became worse as well: the world changed, and the model follows it as they do
    draw = random.Random(1)
    outcomes = [AnswerOutcome(n, n - 1, draw.random() * (1 if n <= 500 else 9), 2.0, 2.0) for n in range(1, 601)]
    fall = find_fall(collect(outcomes, True))
    assert fall is not None and abs(fall.since - 500) <= 10
    assert fall.before.mean == pytest.approx(0.5, abs=0.1) and fall.after.mean == pytest.approx(4.5, abs=1)


def test_a_slow_decline_is_found_in_a_longer_window() -> None:
    recent = collect(draw_outcomes(3, 6_000, lambda offset: 0.95 if offset <= 5_000 else 0.84))
    fall = find_fall(recent)
    assert fall is not None and fall.after == recent.newest()  # the page shows these, so the verdict says them
    assert fall.since == pytest.approx(5_000, abs=150)


def test_a_model_that_has_recovered_raises_nothing() -> None:
    recent = collect(draw_outcomes(4, 1_300, lambda offset: 0.1 if 900 < offset <= 1_000 else 0.94))
    assert find_fall(recent) is None


def test_a_naive_guesser_that_is_ahead_is_named() -> None:
    draw = random.Random(5)
    outcomes = [AnswerOutcome(n, n, float(draw.random() < 0.4), float(draw.random() < 0.7), 0.0) for n in range(300)]
    lead = find_lead(collect(outcomes))
    assert lead is not None and lead.guesser == "no_change"
    assert lead.other > lead.model + 0.2
    assert find_lead(collect([each._replace(last=None) for each in outcomes])) is None


def test_after_a_roll_back_only_what_older_versions_answered_is_judged() -> None:
    recent = collect(draw_outcomes(6, 1_000, lambda offset: 0.94 if offset <= 900 else 0.03))
    assert find_fall(recent) is not None
    assert find_fall(recent.answered_by(900)) is None
    assert recent.answered_by(0).newest() is None or len(recent.answered_by(0)) == 1


def test_after_a_roll_back_the_answers_since_are_counted_alone() -> None:
    recent = collect([AnswerOutcome(offset, 800, float(offset != 960)) for offset in range(1, 981)])
    assert recent.since(950) == OutcomeSpan(30, 29 / 30, 980)
    assert recent.since(980) is None


def test_the_memory_is_bounded_and_survives_a_restart() -> None:
    recent = collect(draw_outcomes(7, 15_000, lambda _: 0.9))
    assert len(recent.ring) < KEPT + BLOCK and len(recent.blocks) == MAX_BLOCKS
    again = RecentOutcomes.from_json(False, recent.to_json())
    assert (again.ring, again.blocks) == (recent.ring, recent.blocks)
    assert sum(stretch.count for stretch in again.trend()) >= KEPT
    assert again.newest() == recent.newest()


def test_what_is_suspect_begins_after_the_last_rating_before_exactly_among_the_newest() -> None:
    recent = collect(draw_outcomes(8, 5_000, lambda _: 0.9))
    assert recent.suspect_from(4_900) == 4_900
    assert recent.suspect_from(1_234) in range(1_101, 1_235)
    assert recent.suspect_from(1) == 1


@pytest.mark.parametrize("seed", first_of([0, 1]))
def test_a_decline_too_small_for_a_fall_is_found_against_what_was_right_before(seed: int) -> None:
    recent = collect(draw_outcomes(seed, 700, lambda offset: 0.95 if offset <= 600 else 0.81))
    decline = find_decline(recent)
    assert find_fall(recent) is None
    assert decline is not None and decline.after == recent.newest()
    assert decline.before.count in (100, 200, 500) and decline.before.mean - decline.after.mean >= 0.05


@pytest.mark.parametrize("numbers", [False, True])
def test_few_looks_at_a_stream_that_stands_still_find_a_decline(numbers: bool) -> None:
    looks = []
    for seed in range(24):
        recent = RecentOutcomes(numbers)
        for outcome in draw_outcomes(seed, 1_200, lambda _, seed=seed: RATES[seed % len(RATES)], numbers):  # type: ignore[misc]
            recent.add(outcome)
            if outcome.offset >= 200 and outcome.offset % 50 == 0:
                looks.append(find_decline(recent) is not None)
    assert sum(looks) / len(looks) <= 0.03


def test_a_model_with_too_few_answers_or_a_better_accuracy_does_not_decline() -> None:
    assert find_decline(RecentOutcomes(False)) is None
    assert find_decline(collect(draw_outcomes(1, 190, lambda offset: 1.0 if offset <= 90 else 0.5))) is None
    assert find_decline(collect(draw_outcomes(1, 700, lambda offset: 0.8 if offset <= 600 else 0.95))) is None


@pytest.mark.parametrize("count", [30, 50, 181, 1_099, 2_345])
def test_the_trend_covers_every_remembered_answer_from_the_first(count: int) -> None:
    recent = collect(draw_outcomes(2, count, lambda _: 0.9))
    sizes = [stretch.count for stretch in recent.trend()]
    assert sum(sizes) == len(recent.ring)
    assert sizes[1:] == [50] * (len(sizes) - 1) and sizes[0] < 100
    assert recent.trend()[-1].offset == count


def test_a_naive_guesser_says_on_how_many_of_the_newest_questions_it_rests() -> None:
    recent = collect([AnswerOutcome(n, n, 1.0, 0.5 if n % 4 == 0 else None, None) for n in range(1, 201)])
    assert {name: (each.count, each.mean) for name, each in recent.newest_guesses().items()} == {"no_change": (25, 0.5)}


def collect_rolled_back(since: int, rate: float, numbers: bool = False) -> RecentOutcomes:
    """900 good answers and 70 bad ones, a roll back, and `since` answers of a rate. Each version knows all before its answer."""
    outcomes = draw_outcomes(
        4, 970 + since, lambda n: 0.94 if n <= 900 else 0.03 if n <= 970 else rate, numbers=numbers
    )
    return collect([each._replace(last=2.0, usual=2.0) if numbers else each for each in outcomes], numbers)


@pytest.mark.parametrize("numbers", [False, True])
def test_answers_since_a_roll_back_have_recovered_once_they_are_many_and_as_good_as_before(numbers: bool) -> None:
    def find(since: int, rate: float) -> OutcomeSpan | None:
        recent = collect_rolled_back(since, rate, numbers)
        fall = find_fall(recent)
        assert fall is not None
        return find_recovery(recent, recent.after_roll_back(900, 969), fall)

    assert find(29, 0.94) is None
    found = find(30, 0.94)
    assert found is not None and found.count == 30
    assert find(30, 0.6) is None and find(60, 0.5) is None


def test_a_hundred_answers_since_a_roll_back_are_judged_as_any() -> None:
    recent = collect_rolled_back(130, 0.94)
    assert find_fall(recent) is None
    assert find_recovery(recent, recent.after_roll_back(900, 969), COLLAPSE) is None


@pytest.mark.parametrize("numbers", [False, True])
def test_a_model_recovers_until_the_last_hundred_are_all_since_the_roll_back(numbers: bool) -> None:
    def find(since: int, rate: float = 0.94) -> OutcomeSpan | None:
        recent = collect_rolled_back(since, rate, numbers)
        return find_recovery(recent, recent.after_roll_back(900, 969), None)

    found = find(80)
    assert found is not None and found.count == 80
    assert find(29) is None and find(100) is None  # too few; all of the last 100
    assert find(80, 0.05) is None  # no better than before the roll back


def test_a_model_that_was_as_good_before_a_roll_back_does_not_recover() -> None:
    recent = collect([AnswerOutcome(n, n - 1, float(n % 20 != 0)) for n in range(1, 1_051)])
    assert find_recovery(recent, recent.after_roll_back(900, 969), None) is None


def test_answers_that_become_worse_again_after_a_roll_back_have_not_recovered() -> None:
    since = RecentOutcomes(False)
    for offset in range(971, 1_066):
        since.add(AnswerOutcome(offset, offset - 1, float(offset <= 1_055)))
    assert find_recovery(since, since, COLLAPSE) is None  # the last 10 of 95 were wrong


def test_late_feedback_for_a_version_that_was_rolled_back_says_nothing_about_the_roll_back() -> None:
    known = ((960, 900), (971, 899), (972, 900), (973, 901), (974, 970), (975, 974))
    recent = collect([AnswerOutcome(offset, known_until, 1.0) for offset, known_until in known])
    assert [each.offset for each in recent.after_roll_back(900, 970).ring] == [971, 972, 975]
