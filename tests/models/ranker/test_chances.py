"""The score of a candidate is the chance that it is right; below `min_chance`, no reply is given."""

import numpy as np
import pytest

from online.models.ranker.likeness import Likeness, estimate_chances, find_closeness, find_rivals
from tests.models.ranker.test_ranker import MANGO, Scene
from tests.models.synthetic import as_features, text, unit


def best(lead: float = 10.0, familiarity: float = 0.6, closeness: float = 0.6, rival: float = 0.5) -> float:
    likeness = Likeness(*(np.array([cosine]) for cosine in (familiarity, closeness, rival)))
    return float(estimate_chances(np.array([50.0]), lead, likeness)[0])


def test_a_chance_grows_with_each_likeness_and_with_the_lead_and_falls_with_a_rival() -> None:
    assert 0.0 < best(familiarity=0.4) < best() < best(familiarity=0.7) < 1.0
    assert best(closeness=0.5) < best() < best(closeness=0.7)
    assert best(lead=0.0) < best() < best(lead=60.0) < best(lead=float("inf"))
    assert best(rival=0.6) < best() < best(rival=0.4)


def test_no_candidate_has_a_greater_chance_than_one_before_it() -> None:
    cosines_K = np.array([0.3, 0.9, 0.4])
    chances_K = estimate_chances(np.array([50.0, 49.0, 10.0]), 1.0, Likeness(cosines_K, cosines_K, cosines_K / 2))
    assert (np.diff(chances_K) <= 0).all() and ((chances_K > 0) & (chances_K < 1)).all()


def test_a_score_does_not_depend_on_how_many_candidates_are_listed() -> None:
    scores = [Scene(candidates=count).predict(MANGO).candidates[0].score for count in (1, 2, 5)]
    assert scores[0] == scores[1] == scores[2]


def test_a_reply_needs_the_chance_that_is_asked_for() -> None:
    question = text(0, 77)
    chance = Scene().predict(question).score
    assert Scene(min_chance=chance - 0.001).predict(question).choice == "mango"
    withheld = Scene(min_chance=chance + 0.001).predict(question)
    assert withheld.abstained and withheld.choice is None
    assert withheld.candidates[0].id == "mango" and withheld.score == pytest.approx(chance)


def test_a_corrected_question_is_answered_whatever_chance_is_asked_for() -> None:
    scene = Scene(min_chance=1.0)
    scene.learn("correction", MANGO, "olive")
    answer = scene.predict(MANGO)
    assert answer.choice == "olive" and answer.score > 0.9


def test_thumbs_raise_and_lower_the_chance_of_a_reply() -> None:
    scene = Scene()
    before = scene.predict(MANGO).candidates[0].score
    scene.learn("reward", text(0, 78), "mango", reward=1.0)
    assert scene.predict(MANGO).candidates[0].score >= before


def test_one_similar_question_among_others_is_weaker_evidence_than_several() -> None:
    """Two replies with four questions each; one of the second's is as near to the question as the first's are."""

    def learn_reply(scene: Scene, label: str, features: list[bytes]) -> None:
        scene.learn("reply", as_features(unit(130)), label, text=label)
        for each in features:
            scene.learn("label", each, label)

    asked = unit(100)
    similar = [as_features(asked + 1.3 * unit(110 + n)) for n in range(4)]
    scattered = [similar[0], *(as_features(unit(120 + n)) for n in range(3))]
    chances = list[float]()
    for features in (similar, scattered):
        scene = Scene(abstain_below=-1.0, abstain_margin=0.0, min_chance=0.0)
        learn_reply(scene, "new", features)
        answer = scene.predict(as_features(asked))
        assert answer.choice == "new"
        chances.append(answer.score)
    assert chances[0] > 0.9 and chances[1] < 0.7


def test_what_is_almost_a_known_question_is_close_wherever_the_others_are() -> None:
    centres_RD = np.frombuffer(text(0), np.int8)[None]
    elsewhere_D, reply_1 = unit(5).astype(np.float32), np.array([0])
    closeness = [
        float(find_closeness(elsewhere_D, reply_1, np.array([familiarity]), centres_RD, ())[0])
        for familiarity in (0.5, 0.95, 1.0)
    ]
    assert abs(closeness[0]) < 0.3 and closeness[1:] == pytest.approx([0.85, 1.0])


def test_the_rival_of_the_most_familiar_reply_is_the_next_one() -> None:
    rival_K = find_rivals(np.array([0.5, 0.9, 0.7]), np.array([1, 0, 2]))
    assert rival_K.tolist() == [0.7, 0.9, 0.9]
