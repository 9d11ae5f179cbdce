"""What a policy may try in place of the best reply: plausible replies, where the best one is neither good nor withheld."""

import json
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from online.io.cache import cache_folder
from online.models import Answer, Example, ExampleKind
from online.models.contract import State
from online.models.encoders.text import TextEncoder
from online.models.ranker.policies import POLICIES
from online.models.ranker.ranker import Ranker
from tests.models.ranker.test_ranker import Scene
from tests.models.synthetic import TOPICS, as_features, text, unit

REPERTOIRE = Path(__file__).parents[3] / "data" / "repertoire.jsonl"
EXPLORING = [name for name in POLICIES if name != "greedy"]
EAGER: dict[str, float | str] = {"epsilon": 1.0, "gamma": 1.0, "optimism": 100.0, "explore_share": 1.0}
GUESSES: dict[str, float | str] = {
    "abstain_below": -1.0,
    "abstain_margin": 0.0,
    "min_chance": 0.1,
    "explore_floor": 0.3,
}
QUESTION, TAUGHT = "Can I charge my electric car?", "Two chargers stand behind the library."
SOMETHING_ELSE = (
    "Can I bring my parrot?",
    "Can I sleep here?",
    "May I eat my lunch in the reading room?",
    "Do you have a lift?",
    "Where can I leave my pram?",
    "Is smoking allowed on the terrace?",
    "What does a lost book cost?",
    "Can my dog come in?",
    "Do you sell stamps?",
    "Is there a bus that stops nearby?",
    "Could you recommend a thriller?",
    "Who won the election?",
    "How do I bake bread?",
    "What is the weather like tomorrow?",
    "Do you have a job for me?",
    "Can I donate old magazines?",
    "How long may I use a computer?",
    "Is there a quiet corner for my phone call?",
    "When was the building opened?",
    "My card does not work any more",
)


@cache
def encode(*texts: str) -> list[bytes]:
    return TextEncoder(cache_folder(), language="en").encode(texts)


@cache
def learn_library() -> State:
    """The state of a ranker with the shipped repertoire in which one reply was just taught."""
    ranker, lines = Ranker({}), REPERTOIRE.read_text().splitlines()
    replies = [json.loads(line) for line in lines]
    ranker.learn(learned(1, "reply", {reply["id"]: [reply["text"]] for reply in replies}))
    ranker.learn(learned(1_001, "label", {reply["id"]: reply["examples"] for reply in replies}))
    ranker.learn(learned(9_001, "reply", {"chargers": [TAUGHT]}))
    ranker.learn(learned(9_002, "correction", {"chargers": [QUESTION]}))
    return ranker.state()


def learned(offset: int, kind: ExampleKind, texts: dict[str, list[str]]) -> list[Example]:
    rows = [(reply, text) for reply, own in texts.items() for text in own]
    features = encode(*(text for _, text in rows))
    return [
        Example(offset + place, kind, data, reply, text)
        for place, ((reply, text), data) in enumerate(zip(rows, features, strict=True))
    ]


def library(**options: float | str) -> Ranker:
    ranker = Ranker(options)
    ranker.restore(learn_library())
    return ranker


@pytest.mark.few(1)
@pytest.mark.parametrize("policy", EXPLORING)
def test_a_reply_that_was_just_taught_is_not_tried_on_people_who_asked_something_else(policy: str) -> None:
    ranker = library(policy=policy, **EAGER)
    for question in encode(*SOMETHING_ELSE):
        best, answers = ranker.predict([question])[0], ranker.predict([question] * 8, range(8))
        assert best.choice != "chargers"
        assert "chargers" not in {answer.choice for answer in answers}
        assert all(answer.score >= 0.5 * 0.6 for answer in answers if answer.choice is not None)


@pytest.mark.parametrize("policy", EXPLORING)
def test_it_is_not_tried_where_guesses_are_given_either(policy: str) -> None:
    ranker = library(**EAGER | GUESSES | {"policy": policy, "min_chance": 0.0})
    for question in encode(*SOMETHING_ELSE[:2]):
        assert "chargers" not in {answer.choice for answer in ranker.predict([question] * 8, range(8))}


def test_a_reply_that_was_just_taught_answers_its_question_in_other_words() -> None:
    ranker = library()
    questions = encode(*[QUESTION, "Is there a charger for my car?"])
    assert [answer.choice for answer in ranker.predict(questions, range(2))] == ["chargers"] * 2


def test_a_reply_without_any_question_is_not_tried_on_people_who_asked_something_else() -> None:
    ranker = library(**EAGER)
    ranker.learn(learned(9_003, "reply", {"pump": ["A bicycle pump lies at the desk."]}))
    questions = [each for each in encode(*SOMETHING_ELSE) for _ in range(8)]
    assert "chargers" not in {answer.choice for answer in ranker.predict(questions, range(len(questions)))}


# a scene in which several replies are plausible


def between(*topics: int, seed: int = 502) -> bytes:
    """A question about several topics alike, which their replies may all be right for."""
    together: NDArray[np.float64] = np.sum([unit(topic) for topic in topics], axis=0)
    return as_features(together / np.linalg.norm(together) + 0.3 * unit(seed))


def answers_to(question: bytes, count: int, **options: float | str) -> list[Answer]:
    return Scene(**{**GUESSES, **options}).ranker.predict([question] * count, range(count))


DRAWS = 1_500


@cache
def draws(policy: str) -> list[Answer]:
    options: dict[str, float | str] = {
        "policy": policy,
        "epsilon": 0.3,
        "gamma": 5.0,
        "optimism": 100.0,
        "explore_share": 0.5,
    }
    scene = Scene(**GUESSES | options)
    scene.learn("label", text(2, 5), "nut")  # the best reply is known better than the others, so optimism tries those
    return scene.ranker.predict([between(0, 1, 2)] * DRAWS, range(DRAWS))


@pytest.mark.few(2)
@pytest.mark.parametrize("policy", EXPLORING)
def test_only_plausible_replies_are_listed_with_a_draw_and_each_is_drawn_as_often_as_its_propensity_says(
    policy: str,
) -> None:
    answers = draws(policy)
    drawn, shares = Counter(answer.choice for answer in answers), {each.choice: each.propensity for each in answers}
    assert set(drawn) == {candidate.id for candidate in answers[0].candidates} == {"mango", "melon", "nut"}
    assert len({answer.candidates for answer in answers}) == 1
    if policy != "lin_ts":  # whose propensities are counted in the draws of each answer
        assert sum(shares.values()) == pytest.approx(1.0)
        assert {reply: count / DRAWS for reply, count in drawn.items()} == pytest.approx(shares, abs=0.04)


@pytest.mark.parametrize("policy", EXPLORING)
def test_draws_weighted_by_their_propensities_count_each_plausible_reply_once(policy: str) -> None:
    """So that what another policy among these replies would have earned can be estimated without a bias."""
    weights = dict.fromkeys(TOPICS[:3], 0.0)
    for answer in draws(policy):
        weights[str(answer.choice)] += 1 / answer.propensity / DRAWS
    assert list(weights.values()) == pytest.approx([1.0] * 3, abs=0.25)


@pytest.mark.parametrize("policy", EXPLORING)
def test_nothing_is_tried_where_the_best_reply_is_withheld(policy: str) -> None:
    question = between(0, 1, 2)
    options = EAGER | {"policy": policy, "min_chance": 0.99}
    assert {answer.choice for answer in answers_to(question, 50, **options)} == {None}
    assert {answer.propensity for answer in answers_to(question, 50, **options)} == {1.0}


@pytest.mark.parametrize("policy", EXPLORING)
def test_nothing_is_tried_where_the_best_reply_is_good_already(policy: str) -> None:
    question = between(0, 1)
    chance = Scene(**GUESSES).predict(question).score
    options = EAGER | {"policy": policy}
    assert {each.propensity for each in answers_to(question, 50, **options, explore_below=chance - 0.01)} == {1.0}
    assert any(each.is_tried for each in answers_to(question, 50, **options, explore_below=chance + 0.3))


@pytest.mark.parametrize("policy", EXPLORING)
def test_nothing_is_tried_where_a_thumb_up_near_the_question_speaks_for_the_best_reply(policy: str) -> None:
    scene, question = Scene(**GUESSES, **EAGER, policy=policy), between(0, 1)
    best = scene.predict(question).choice
    assert best is not None
    assert any(answer.is_tried for answer in scene.ranker.predict([question] * 50, range(50)))
    scene.learn("reward", between(0, 1, seed=503), best)
    assert {answer.choice for answer in scene.ranker.predict([question] * 50, range(50))} == {best}


def test_a_reply_that_was_rejected_near_the_question_is_not_tried() -> None:
    scene, question = Scene(**GUESSES, policy="epsilon", epsilon=1.0), between(0, 1, 2)
    scene.learn("reward", between(0, 1, 2, seed=503), "melon", reward=0.0)
    tried = {answer.choice for answer in scene.ranker.predict([question] * 100, range(100))}
    assert "melon" not in tried and len(tried) == 2


def test_a_reply_about_which_nothing_is_known_is_tried_only_where_guesses_are_given() -> None:
    """Otherwise its text has to be like the question."""
    tried = list[bool]()
    for least in (0.0, 0.2):
        scene = Scene(**GUESSES | EAGER | {"min_chance": least})
        scene.learn("reply", as_features(unit(99)), "code", text="reply 17")
        chance = scene.predict(between(0, 1, 2)).score
        assert 0.2 <= chance < 0.5
        answers = scene.ranker.predict([between(0, 1, 2)] * 50, range(50))
        tried.append("code" in {answer.choice for answer in answers})
    assert tried == [True, False]


def test_a_reply_that_is_known_for_other_questions_is_not_tried_as_a_guess() -> None:
    scene = Scene(**GUESSES | EAGER | {"min_chance": 0.0})
    scene.learn("reply", as_features(unit(99)), "code", text="reply 17")
    scene.learn("correction", text(30), "code")
    answers = scene.ranker.predict([between(0, 1, 2)] * 50, range(50))
    assert "code" not in {answer.choice for answer in answers}


def test_a_single_listed_candidate_leaves_nothing_to_try() -> None:
    assert {each.propensity for each in answers_to(between(0, 1, 2), 50, **EAGER, candidates=1)} == {1.0}


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_learned_does_not_depend_on_what_is_tried(policy: str) -> None:
    plain, explorer = Scene(policy="greedy"), Scene(policy=policy, **EAGER)
    before = explorer.ranker.fingerprint()
    explorer.ranker.predict([between(0, 1, 2)] * 50, range(50))
    assert explorer.ranker.fingerprint() == before == plain.ranker.fingerprint()


@pytest.mark.parametrize("policy", EXPLORING)
def test_a_snapshot_draws_the_same(policy: str) -> None:
    options = GUESSES | EAGER | {"policy": policy}
    scene, served = Scene(**options), Ranker(options)
    scene.learn("reply", as_features(unit(99)), "code", text="reply 17")
    served.restore(scene.ranker.state(serving_only=True))
    questions = [between(*topics) for topics in ((0, 1), (0, 1, 2), (1, 3))] * 20
    assert served.predict(questions, range(60)) == scene.ranker.predict(questions, range(60))
