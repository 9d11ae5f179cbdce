"""The learner's turns: how many events fit into one, whatever an event costs."""

from online.models.devices.turns import LearningQuantum, high_priority, low_priority


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def take_turn(quantum: LearningQuantum, clock: Clock, event_ms: float) -> int:
    """Learn events that cost so much; how many the turn took."""
    count = quantum.find_count(256)
    with quantum.turn(count, "cpu"):
        clock.now += count * event_ms / 1000
    return count


def test_without_a_limit_a_turn_is_a_whole_batch() -> None:
    clock = Clock()
    assert take_turn(LearningQuantum(None, clock), clock, 10) == 256


def test_a_turn_takes_as_many_events_as_fit_into_the_limit() -> None:
    clock = Clock()
    quantum = LearningQuantum(5.0, clock)
    assert [take_turn(quantum, clock, 0.5) for _ in range(3)] == [1, 10, 10]
    assert [take_turn(quantum, clock, 0.01) for _ in range(20)][-1] == 256


def test_events_that_become_slow_shorten_the_very_next_turn() -> None:
    clock = Clock()
    quantum = LearningQuantum(5.0, clock)
    for _ in range(3):
        take_turn(quantum, clock, 0.1)
    take_turn(quantum, clock, 2.5)
    assert take_turn(quantum, clock, 2.5) == 2


def test_an_event_that_takes_longer_than_the_limit_is_still_learned() -> None:
    clock = Clock()
    quantum = LearningQuantum(5.0, clock)
    assert [take_turn(quantum, clock, 50) for _ in range(2)] == [1, 1]


def test_priorities_change_nothing_on_the_cpu() -> None:
    with low_priority("cpu"), high_priority("cpu:1"):
        assert take_turn(LearningQuantum(None), Clock(), 1) == 256
