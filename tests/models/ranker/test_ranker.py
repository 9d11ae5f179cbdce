"""The ranker: corrections, rewards, retired replies, exploration and its limits."""

import numpy as np
import pytest

from online.models import Answer, BadExample, Example, ExampleKind
from online.models.ranker.exemplars import compute_thumbs, intraclass_correlation
from online.models.ranker.ranker import Ranker
from tests.models.synthetic import TOPICS, as_features, ranker_log, replies, reply, text, unit


class Scene:
    """A ranker that has learned a reply per topic and four questions about each."""

    def __init__(self, **options: float | str) -> None:
        self.ranker = Ranker(options)
        self.offset = 0
        for example in replies():
            self.learn("reply", example.features, example.label, text=example.text)
        for topic, label in enumerate(TOPICS):
            for variant in range(1, 5):
                self.learn("label", text(topic, variant), label)

    def learn(self, kind: ExampleKind, features: bytes, label: str, reward: float = 1.0, text: str = "") -> Example:
        self.offset += 1
        example = Example(self.offset, kind, features, label, text, reward)
        self.ranker.learn([example])
        return example

    def predict(self, question: bytes) -> Answer:
        return self.ranker.predict([question])[0]


@pytest.fixture
def scene() -> Scene:
    return Scene()


MANGO = text(0, 77)  # a question about TOPICS[0] that is not among the learned ones


def test_a_question_gets_the_reply_of_its_neighbours(scene: Scene) -> None:
    answer = scene.predict(MANGO)
    assert answer.choice == "mango"
    assert answer.candidates[0].text == "All about mango."


def test_a_reply_without_feedback_is_found_by_its_text() -> None:
    scene = Scene()
    scene.learn("reply", text(7), "new", text="Seven.")
    assert scene.predict(text(7, 1)).choice == "new"


def test_a_corrected_question_gets_the_right_reply_at_once(scene: Scene) -> None:
    scene.learn("correction", MANGO, "olive")
    assert scene.predict(MANGO).choice == "olive"


def test_correcting_one_question_changes_no_other_answer(scene: Scene) -> None:
    scene.learn("correction", MANGO, "olive")
    assert [scene.predict(text(0, variant)).choice for variant in range(1, 5)] == ["mango"] * 4


def test_the_newest_correction_wins(scene: Scene) -> None:
    for label in ("olive", "nut", "olive", "melon"):
        scene.learn("correction", MANGO, label)
        assert scene.predict(MANGO).choice == label


def test_the_newest_correction_wins_in_any_order_of_learning() -> None:
    scene, other = Scene(), Scene()
    corrections = [Example(100 + n, "correction", MANGO, label) for n, label in enumerate(("olive", "nut", "melon"))]
    scene.ranker.learn(corrections)
    other.ranker.learn(corrections[::-1])
    assert scene.predict(MANGO).choice == other.predict(MANGO).choice == "melon"


def test_one_thumb_down_excludes_the_reply_for_the_same_question(scene: Scene) -> None:
    scene.learn("reward", MANGO, "mango", reward=0.0)
    answer = scene.predict(MANGO)
    assert "mango" not in [answer.choice, *(candidate.id for candidate in answer.candidates)]


def test_a_thumb_down_excludes_the_reply_for_a_nearly_identical_question(scene: Scene) -> None:
    question, similar = as_features(unit(0) + 0.5 * unit(20)), as_features(unit(0) + 0.5 * unit(20) + 0.3 * unit(21))
    assert scene.predict(similar).choice == "mango"
    scene.learn("reward", question, "mango", reward=0.0)
    assert scene.predict(similar).choice != "mango"
    for _ in range(2):
        scene.learn("reward", question, "mango")
    assert scene.predict(similar).choice == "mango"


def test_an_excluded_reply_is_still_given_to_other_questions(scene: Scene) -> None:
    scene.learn("reward", MANGO, "mango", reward=0.0)
    assert scene.predict(text(0, 1)).choice == "mango"


@pytest.mark.parametrize("kind", ["reward", "correction", "label"])
def test_positive_feedback_revokes_an_earlier_thumb_down(scene: Scene, kind: ExampleKind) -> None:
    scene.learn("reward", MANGO, "mango", reward=0.0)
    scene.learn(kind, MANGO, "mango")
    assert scene.predict(MANGO).choice == "mango"


def test_a_thumb_down_on_a_corrected_reply_revokes_the_correction(scene: Scene) -> None:
    scene.learn("correction", MANGO, "olive")
    scene.learn("reward", MANGO, "olive", reward=0.0)
    assert scene.predict(MANGO).choice != "olive"


def test_a_thumb_up_for_another_reply_does_not_revoke_a_correction(scene: Scene) -> None:
    scene.learn("correction", MANGO, "olive")
    scene.learn("reward", MANGO, "mango")
    assert scene.predict(MANGO).choice == "olive"


def test_the_ranker_abstains_if_every_reply_is_excluded(scene: Scene) -> None:
    for label in (*TOPICS, "other"):
        scene.learn("reward", MANGO, label, reward=0.0)
    answer = scene.predict(MANGO)
    assert (answer.choice, answer.abstained) == (None, True)


def test_the_ranker_abstains_from_a_question_unlike_all_others(scene: Scene) -> None:
    answer = scene.predict(text(50))
    assert (answer.choice, answer.abstained) == (None, True)
    assert answer.candidates


def test_a_question_unlike_all_others_is_answered_after_a_correction(scene: Scene) -> None:
    scene.learn("correction", text(50), "nut")
    assert scene.predict(text(50)).choice == "nut"
    assert scene.predict(text(50, 1)).choice == "nut"


def test_a_retired_reply_is_not_a_candidate(scene: Scene) -> None:
    scene.learn("correction", MANGO, "mango")
    scene.learn("retire", b"", "mango")
    answers = [scene.predict(question) for question in (MANGO, text(0), text(0, 1))]
    assert all("mango" not in [candidate.id for candidate in answer.candidates] for answer in answers)


def test_restoring_a_retired_reply_restores_its_answers(scene: Scene) -> None:
    before = scene.predict(MANGO)
    scene.learn("retire", b"", "mango")
    scene.learn("restore", b"", "mango")
    assert scene.predict(MANGO) == before


def test_a_correction_to_a_retired_reply_takes_effect_when_it_is_restored(scene: Scene) -> None:
    scene.learn("retire", b"", "olive")
    scene.learn("correction", MANGO, "olive")
    assert scene.predict(MANGO).choice == "mango"
    scene.learn("restore", b"", "olive")
    assert scene.predict(MANGO).choice == "olive"


def test_a_new_reply_is_also_given_to_similar_questions(scene: Scene) -> None:
    scene.learn("reply", text(60), "r9", text="Ask at the desk.")
    for variant in (101, 102, 103):
        scene.learn("correction", text(8, variant), "r9")
    assert [scene.predict(text(8, variant)).choice for variant in range(1, 6)] == ["r9"] * 5


def test_a_new_text_of_a_reply_replaces_the_old_one_and_can_be_unlearned(scene: Scene) -> None:
    before = scene.predict(MANGO)
    new_text = scene.learn("reply", text(0), "mango", text="Mangoes, in short.")
    assert scene.predict(MANGO).candidates[0].text == "Mangoes, in short."
    scene.ranker.unlearn([new_text])
    assert scene.predict(MANGO) == before


def test_feedback_on_an_unlearned_reply_is_refused(scene: Scene) -> None:
    scene.ranker.unlearn([scene.learn("reply", text(60), "r9", text="Ask at the desk.")])
    with pytest.raises(BadExample, match="there is no reply 'r9'"):
        scene.learn("label", MANGO, "r9")


def test_unlearning_a_retirement_restores_the_reply(scene: Scene) -> None:
    retirement = scene.learn("retire", b"", "mango")
    scene.ranker.unlearn([retirement])
    assert scene.predict(MANGO).choice == "mango"


def test_many_thumbs_up_outweigh_one_thumb_down_nearby(scene: Scene) -> None:
    for variant in range(10, 15):
        scene.learn("reward", text(0, variant), "mango")
    scene.learn("reward", text(0, 20), "mango", reward=0.0)
    assert scene.predict(MANGO).choice == "mango"


def test_a_reply_with_good_ratings_is_preferred_for_other_questions() -> None:
    """Two replies fit equally well; rewards on one topic decide which of them is given on another."""
    scene = Scene()
    for style in ("kind", "rude"):
        scene.learn("reply", text(5), style, text=style)
        for variant in range(1, 5):
            scene.learn("label", text(5, variant), style)
    before, other = (candidate.id for candidate in scene.predict(text(5, 77)).candidates[:2])
    assert {before, other} == {"kind", "rude"}
    for variant in range(1, 9):  # on another topic, so that no neighbour of the question is rated
        scene.learn("reward", text(6, variant), other)
        scene.learn("reward", text(6, variant), before, reward=0.0)
    assert scene.predict(text(5, 77)).candidates[0].id == other


def test_a_reply_without_ratings_has_no_standing() -> None:
    thumbs_R = compute_thumbs(np.array([0, 0, 1, 1], np.int32), np.array([1, 1, -1, -1], np.float32), 3)
    assert thumbs_R.tolist() == [pytest.approx(2 / 3), pytest.approx(-2 / 3), 0]


def test_no_reply_has_a_standing_if_ratings_do_not_depend_on_the_reply() -> None:
    """Half of the ratings of each reply are positive."""
    thumbs_R = compute_thumbs(np.arange(40, dtype=np.int32) % 4, np.where(np.arange(40) % 8 < 4, 1, -1), 4)
    assert not thumbs_R.any()


def test_the_intraclass_correlation_is_that_of_the_analysis_of_variance() -> None:
    """Four groups of five ratings; the estimate is (MSB - MSW) / (MSB + 4 MSW), with the mean squares worked out by hand."""
    ups_R, weight_R = np.array([5.0, 4, 1, 0]), np.full(4, 5.0)
    between, within = 5 * (0.5**2 + 0.3**2) * 2 / 3, 5 * 2 * 0.8 * 0.2 / 16
    expected = (between - within) / (between + 4 * within)
    assert intraclass_correlation(ups_R, weight_R) == pytest.approx(expected)


def test_a_probe_expects_the_reply_of_the_newest_correction(scene: Scene) -> None:
    scene.learn("correction", MANGO, "olive")
    scene.learn("correction", text(1, 50), "nut")
    scene.learn("correction", MANGO, "melon")
    assert dict(scene.ranker.probes()) == {MANGO: "melon", text(1, 50): "nut"}


@pytest.mark.parametrize("kind", ["reward", "retire"])
def test_a_revoked_correction_is_not_a_probe(scene: Scene, kind: ExampleKind) -> None:
    scene.learn("correction", MANGO, "olive")
    scene.learn(kind, MANGO if kind == "reward" else b"", "olive", reward=0.0)
    assert dict(scene.ranker.probes()).get(MANGO) != "olive"
    assert_probes_hold(scene)


def test_probes_of_nearly_identical_questions_do_not_contradict_each_other(scene: Scene) -> None:
    first, second = as_features(unit(5)), as_features(unit(5) + 0.02 * unit(6))
    assert first != second
    scene.learn("correction", first, "olive")
    scene.learn("correction", second, "melon")
    assert_probes_hold(scene)


def test_probes_hold_after_any_sequence_of_events() -> None:
    scene = Scene()
    rng = np.random.default_rng(3)
    questions = [text(topic, variant) for topic in range(4) for variant in (1, 2, 30)]
    for _ in range(120):
        kind: ExampleKind = rng.choice(
            np.array(["correction", "reward", "retire", "restore"]), p=[0.4, 0.4, 0.1, 0.1]
        ).item()
        question = b"" if kind in ("retire", "restore") else questions[int(rng.integers(len(questions)))]
        scene.learn(kind, question, TOPICS[int(rng.integers(4))], reward=float(rng.integers(2)))
        assert_probes_hold(scene)


def assert_probes_hold(scene: Scene) -> None:
    probes = scene.ranker.probes()
    assert len(probes) <= 32
    for question, expected in probes:
        assert expected is not None
        assert scene.predict(question).choice == expected


# exploration


def test_a_policy_does_not_explore_without_a_key(scene: Scene) -> None:
    explorer = Scene(policy="epsilon", epsilon=1.0)
    questions = [text(topic, 200) for topic in range(len(TOPICS))]
    assert explorer.ranker.predict(questions) == scene.ranker.predict(questions)
    assert explorer.ranker.predict(questions, [None] * len(questions)) == scene.ranker.predict(questions)


@pytest.mark.parametrize("policy", ["epsilon", "squarecb", "lin_ts"])
def test_a_policy_with_a_key_explores_and_reports_the_propensity(policy: str) -> None:
    explorer = Scene(policy=policy, epsilon=1.0, gamma=1.0, abstain_margin=0.0, min_chance=0.0, explore_floor=0.2)
    answers = explorer.ranker.predict([as_features(unit(0) + unit(1) + unit(2))] * 200, range(200))
    assert len({answer.choice for answer in answers}) > 2
    for answer in answers:
        assert answer.choice in [candidate.id for candidate in answer.candidates]
        assert 0 < answer.propensity < 1


def test_a_choice_does_not_depend_on_the_other_questions_of_its_batch() -> None:
    explorer = Scene(policy="lin_ts", epsilon=0.5)
    questions = [text(topic, 200) for topic in range(len(TOPICS))]
    alone = [explorer.ranker.predict([question], [key])[0] for key, question in enumerate(questions)]
    together = explorer.ranker.predict(questions, range(len(questions)))
    assert [answer.choice for answer in together] == [answer.choice for answer in alone]


def test_a_policy_does_not_explore_on_a_corrected_question() -> None:
    explorer = Scene(policy="epsilon", epsilon=1.0)
    explorer.learn("correction", MANGO, "olive")
    answers = explorer.ranker.predict([MANGO] * 20, range(20))
    assert {(answer.choice, answer.propensity) for answer in answers} == {("olive", 1.0)}


def test_a_policy_does_not_explore_an_excluded_reply() -> None:
    explorer = Scene(policy="epsilon", epsilon=1.0, abstain_margin=0.0)
    explorer.learn("reward", MANGO, "mango", reward=0.0)
    answers = explorer.ranker.predict([MANGO] * 50, range(50))
    assert "mango" not in {answer.choice for answer in answers}


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(
        ValueError, match="option 'policy' must be one of optimistic, greedy, epsilon, squarecb, lin_ts, not 'oracle'"
    ):
        Ranker({"policy": "oracle"})


def test_an_unrated_reply_is_given_if_the_others_are_excluded() -> None:
    """The text of the new reply is unlike the questions, so its similarity alone does not rank it first."""
    scene = Scene(abstain_below=-1.0, abstain_margin=0.0, min_chance=0.0)
    scene.learn("reply", as_features(0.3 * unit(40) + unit(9)), "new", text="New.")
    questions = [text(40, variant) for variant in range(60)]
    for question in questions[:40]:
        answer = scene.predict(question)
        assert answer.choice is not None
        scene.learn("reward", question, answer.choice, reward=float(answer.choice == "new"))
    assert [scene.predict(question).choice for question in questions[40:]] == ["new"] * 20


# limits


def test_only_the_newest_exemplars_are_kept_up_to_the_limit() -> None:
    scene = Scene(max_exemplars=40)
    for variant in range(100, 200):
        scene.learn("reward", text(variant % 4, variant), TOPICS[variant % 4])
    kept = [exemplar.offset for exemplar in scene.ranker.exemplars.all()]
    assert kept == list(range(scene.offset - 39, scene.offset + 1))


def test_corrections_are_kept_longer_than_rewards() -> None:
    scene = Scene(max_exemplars=40)
    scene.learn("correction", text(50), "nut")
    for variant in range(100, 200):
        scene.learn("reward", text(variant % 4, variant), TOPICS[variant % 4])
    assert scene.predict(text(50)).choice == "nut"


def test_a_ranker_that_dropped_an_exemplar_cannot_subtract() -> None:
    scene = Scene(max_exemplars=17)
    assert scene.ranker.subtracts
    scene.learn("reward", text(0, 200), "mango")
    scene.learn("reward", text(0, 201), "mango")
    assert not scene.ranker.subtracts


def test_a_reply_beyond_the_limit_is_refused() -> None:
    scene = Scene(max_replies=6)
    scene.learn("reply", text(60), "sixth", text="Six.")
    with pytest.raises(BadExample, match=r"more than 6 replies \(option max_replies\)"):
        scene.learn("reply", text(61), "seventh", text="Seven.")


def test_a_full_chunk_of_exemplars_keeps_its_revision() -> None:
    ranker = Ranker({})
    ranker.learn(ranker_log(600))
    before = ranker.state()
    ranker.learn([reply(60 + n, 601 + n, f"r{n}") for n in range(3)])
    ranker.learn([Example(610, "label", text(0, 999), "mango")])
    after = ranker.state()
    assert after["exemplars-0"].revision == before["exemplars-0"].revision
    assert after["exemplars-2"].revision != before["exemplars-2"].revision


@pytest.mark.parametrize("options", [{"candidates": 0}, {"max_replies": -1}, {"abstain_margin": float("nan")}])
def test_an_option_out_of_range_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        Ranker(options)
