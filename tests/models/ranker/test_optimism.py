"""The optimistic policy: what it tries, when it does not, its propensities, and how well replies count as known."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from online.models import Example, ExampleKind
from online.models.ranker.exemplars import Exemplar
from online.models.ranker.exploration import NEWEST, SupportCounter, count_confirmed
from online.models.ranker.ranker import Ranker
from tests.models.synthetic import TOPICS, as_features, replies, text, unit

HERB = 30  # a topic whose reply has a text that says nothing about it
ANSWERS = {"abstain_below": -1.0, "abstain_margin": 0.0, "min_chance": 0.0}
ANYTHING = {"explore_below": 1.0, "explore_floor": 0.0}  # any reply is plausible, as the texts are orthogonal


class Scene:
    """A ranker whose replies are known by their texts; the text of `code` says nothing about its topic, HERB.

    The texts of these topics are orthogonal, so that chances are close to 0 or 1: optimism is larger than by default.
    """

    def __init__(self, **options: float | str) -> None:
        self.ranker = Ranker({**ANSWERS, "optimism": 3.0, **options})
        self.offset = 0
        for example in replies():
            self.learn("reply", example.features, example.label, text=example.text)
        self.learn("reply", as_features(unit(99)), "code", text="reply 17")

    def learn(self, kind: ExampleKind, features: bytes, label: str, reward: float = 1.0, text: str = "") -> None:
        self.offset += 1
        self.ranker.learn([Example(self.offset, kind, features, label, text, reward)])

    def ask_and_rate(self, questions: Sequence[bytes]) -> int:
        """Rate the answers to questions that `code` is right for, and return how many were right."""
        right = 0
        for key, question in enumerate(questions):
            answer = self.ranker.predict([question], [key])[0]
            assert answer.choice is not None
            right += answer.choice == "code"
            self.learn("reward", question, answer.choice, reward=float(answer.choice == "code"))
        return right


def herbs(count: int) -> list[bytes]:
    return [text(HERB, variant) for variant in range(count)]


def test_a_reply_whose_text_says_nothing_is_found_where_greedy_never_finds_it() -> None:
    """The questions resemble the texts of the other replies."""
    resembled = 0.5 * np.sum([unit(topic) for topic in range(len(TOPICS))], axis=0)
    questions = [as_features(0.6 * unit(HERB) + resembled + 0.6 * unit(5_000 + variant)) for variant in range(40)]
    assert Scene(policy="greedy").ask_and_rate(questions) == 0
    assert Scene(optimism=1.5).ask_and_rate(questions) >= 20


def test_without_a_key_the_best_reply_is_given() -> None:
    scene = Scene()
    scene.ask_and_rate(herbs(3))
    questions = [text(HERB, variant) for variant in range(100, 120)]
    best = [max(answer.candidates, key=lambda each: each.score).id for answer in scene.ranker.predict(questions)]
    assert [answer.choice for answer in scene.ranker.predict(questions)] == best


def test_the_tried_reply_is_listed_with_its_share_as_the_propensity() -> None:
    """Half of the answers explore: 0.95 of these try one reply, and 0.05 are drawn from all five candidates."""
    scene = Scene(explore_share=0.5, epsilon=0.05)
    scene.ask_and_rate(herbs(3))
    answers = scene.ranker.predict([text(HERB, 50)] * 2_000, range(2_000))
    best = scene.ranker.predict([text(HERB, 50)])[0].choice
    shares = {answer.choice: answer.propensity for answer in answers}
    drawn = Counter(answer.choice for answer in answers)
    assert shares[best] == pytest.approx(0.5 + 0.5 * 0.05 / 5)
    assert sorted(shares.values())[-2:] == pytest.approx([0.5 * 0.95 + 0.5 * 0.05 / 5, 0.505])
    assert sum(shares.values()) == pytest.approx(1.0)
    assert all(drawn[reply] / 2_000 == pytest.approx(share, abs=0.03) for reply, share in shares.items())
    assert {frozenset(candidate.id for candidate in answer.candidates) for answer in answers} == {frozenset(shares)}


@pytest.mark.parametrize(("share", "least", "most"), [(0.0, 0, 0), (0.25, 80, 120), (1.0, 390, 400)])
def test_other_replies_are_tried_in_a_set_share_of_the_answers_at_most(share: float, least: int, most: int) -> None:
    scene = Scene(explore_share=share, optimism=100.0)
    scene.ask_and_rate(herbs(3))
    best = scene.ranker.predict([text(HERB, 50)])[0].choice
    answers = scene.ranker.predict([text(HERB, 50)] * 400, range(400))
    assert least <= sum(answer.choice != best for answer in answers) <= most


def test_nothing_is_tried_for_a_corrected_question_or_one_that_is_almost_the_same() -> None:
    scene = Scene(optimism=1e3, explore_share=1.0, **ANYTHING)
    scene.learn("reward", text(0, 1), "mango", reward=0.0)
    question = np.frombuffer(text(0, 77), np.int8).astype(np.float64)
    near = as_features(question / np.linalg.norm(question) + 0.3 * unit(123))
    assert scene.ranker.predict([near], [1])[0].choice != scene.ranker.predict([near])[0].choice
    scene.learn("correction", text(0, 77), "olive")
    best = scene.ranker.predict([near])[0].choice
    assert {answer.choice for answer in scene.ranker.predict([text(0, 77)] * 20, range(20))} == {"olive"}
    assert {answer.choice for answer in scene.ranker.predict([near] * 20, range(20))} == {best}


def test_nothing_is_tried_where_a_thumb_up_near_the_question_speaks_for_the_best_reply() -> None:
    scene = Scene(optimism=1e3, explore_share=1.0, **ANYTHING)
    near, less_near = text(0, 2, spread=0.4), text(0, 2, spread=0.7)
    scene.learn("reward", text(0, 1, spread=0.4), "mango")
    assert scene.ranker.predict([near], [1])[0].choice == "mango"
    assert scene.ranker.predict([less_near], [1])[0].choice != "mango"


def test_a_rejected_or_retired_reply_is_never_tried() -> None:
    scene = Scene(optimism=1e3, explore_share=1.0)
    tried = set[str | None]()
    for _ in range(len(TOPICS) + 2):
        answer = scene.ranker.predict([text(HERB, 1)], [7])[0]
        assert answer.choice is not None and answer.choice not in tried
        tried.add(answer.choice)
        scene.learn("reward", text(HERB, 1), answer.choice, reward=0.0)
    assert scene.ranker.predict([text(HERB, 1)], [7])[0].choice is None
    scene.learn("retire", b"", "code")
    assert "code" not in {scene.ranker.predict([text(HERB, 9)], [key])[0].choice for key in range(20)}


def test_a_snapshot_gives_the_same_tries() -> None:
    scene = Scene()
    scene.ask_and_rate(herbs(6))
    served = Ranker({**ANSWERS, "optimism": 3.0})
    served.restore(scene.ranker.state(serving_only=True))
    questions = [text(topic, variant) for topic in (0, 1, HERB) for variant in range(200, 210)]
    keys = range(len(questions))
    assert served.predict(questions, keys) == scene.ranker.predict(questions, keys)
    assert any(answer.propensity < 1 for answer in served.predict(questions, keys))


def test_unlearning_restores_the_tries() -> None:
    scene, other = Scene(), Scene()
    scene.ask_and_rate(herbs(6))
    other.ask_and_rate(herbs(6))
    extra = Example(scene.offset + 1, "reward", text(HERB, 300), "mango", reward=1.0)
    scene.ranker.learn([extra])
    scene.ranker.unlearn([extra])
    assert scene.ranker.fingerprint() == other.ranker.fingerprint()
    for name in ("confirmed", "rejected_ratio"):
        left, right = (each.ranker.state()["weights"].tensors[name] for each in (scene, other))
        np.testing.assert_array_equal(left, right)


# how well a reply is known


def thumb(offset: int, features: bytes, up: bool = True, is_thumb: bool = True) -> Exemplar:
    return Exemplar(offset, 0, 127 if up else -127, taught=not is_thumb, thumb=is_thumb, features=features)


def test_thumbs_up_that_lie_together_count_more_than_scattered_ones() -> None:
    together = count_confirmed([thumb(place, text(HERB, place)) for place in range(4)])
    scattered = count_confirmed([thumb(place, as_features(unit(200 + place))) for place in range(4)])
    assert together == pytest.approx(4.0)
    assert scattered == pytest.approx(4 * 0.3)


def test_a_thumb_up_among_thumbs_down_does_not_count() -> None:
    down = [thumb(place, text(HERB, place), up=False) for place in range(3)]
    assert count_confirmed([*down, thumb(3, text(HERB, 3))]) == 0.0


def test_a_correction_counts_in_full() -> None:
    assert count_confirmed([thumb(0, text(HERB), is_thumb=False)]) == 1.0
    assert count_confirmed([]) == 0.0


def test_the_counter_gives_what_counting_again_gives() -> None:
    counter, again = SupportCounter(), SupportCounter()
    ratings = [thumb(offset, text(HERB, offset), up=offset % 3 > 0) for offset in range(NEWEST + 20)]
    for rating in ratings:
        counter.add(rating)
        counter.count(1)
    for rating in ratings[::2]:
        counter.add(rating, times=-1)
    for rating in ratings[1::2]:
        again.add(rating)
    assert counter.count(1).rejected_ratio == again.count(1).rejected_ratio
    np.testing.assert_array_equal(counter.count(1).confirmed_R, again.count(1).confirmed_R)


def test_without_thumbs_everything_may_be_wrong() -> None:
    support = SupportCounter().count(3)
    assert support.rejected_ratio == 1.0
    np.testing.assert_array_equal(support.confirmed_R, np.zeros(3))
