"""What a repertoire learns from being taught, from thumbs, and from what is retired."""

import numpy as np
import pytest

from online.models import Answer, BadExample, Example, Kind
from online.models.exemplars import intraclass_correlation, standing
from online.models.ranker import Ranker
from tests.models.synthetic import TOPICS, as_features, ranker_log, replies, reply, text, unit


class Scene:
    """A ranker that knows a reply per topic and a few questions about each, and what happens to it next."""

    def __init__(self, **options: float | str) -> None:
        self.ranker = Ranker(options)
        self.offset = 0
        for example in replies():
            self.tell("reply", example.features, example.label, text=example.text)
        for topic, label in enumerate(TOPICS):
            for variant in range(1, 5):
                self.tell("label", text(topic, variant), label)

    def tell(self, kind: Kind, features: bytes, label: str, reward: float = 1.0, text: str = "") -> Example:
        self.offset += 1
        example = Example(self.offset, kind, features, label, text, reward)
        self.ranker.learn([example])
        return example

    def ask(self, question: bytes) -> Answer:
        return self.ranker.predict([question])[0]


@pytest.fixture
def scene() -> Scene:
    return Scene()


MANGO = text(0, 77)  # a question about TOPICS[0] that was not learned


def test_a_question_gets_the_reply_of_its_neighbours(scene: Scene) -> None:
    answer = scene.ask(MANGO)
    assert answer.choice == "mango"
    assert answer.candidates[0].text == "All about mango."


def test_a_reply_is_found_by_its_own_text_alone() -> None:
    scene = Scene()
    scene.tell("reply", text(7), "new", text="Seven.")
    assert scene.ask(text(7, 1)).choice == "new"


def test_a_taught_question_gets_the_taught_reply_at_once(scene: Scene) -> None:
    scene.tell("correction", MANGO, "olive")
    assert scene.ask(MANGO).choice == "olive"


def test_teaching_one_question_leaves_the_others_alone(scene: Scene) -> None:
    scene.tell("correction", MANGO, "olive")
    assert [scene.ask(text(0, variant)).choice for variant in range(1, 5)] == ["mango"] * 4


def test_the_newest_teaching_wins(scene: Scene) -> None:
    for label in ("olive", "nut", "olive", "melon"):
        scene.tell("correction", MANGO, label)
        assert scene.ask(MANGO).choice == label


def test_the_newest_teaching_wins_in_whatever_order_it_is_learned() -> None:
    scene, other = Scene(), Scene()
    taught = [Example(100 + n, "correction", MANGO, label) for n, label in enumerate(("olive", "nut", "melon"))]
    scene.ranker.learn(taught)
    other.ranker.learn(taught[::-1])
    assert scene.ask(MANGO).choice == other.ask(MANGO).choice == "melon"


def test_one_thumb_down_forbids_the_reply_for_that_very_question(scene: Scene) -> None:
    scene.tell("reward", MANGO, "mango", reward=0.0)
    answer = scene.ask(MANGO)
    assert "mango" not in [answer.choice, *(candidate.id for candidate in answer.candidates)]


def test_a_thumb_down_withholds_the_reply_from_almost_the_same_question(scene: Scene) -> None:
    asked, almost = as_features(unit(0) + 0.5 * unit(20)), as_features(unit(0) + 0.5 * unit(20) + 0.3 * unit(21))
    assert scene.ask(almost).choice == "mango"
    scene.tell("reward", asked, "mango", reward=0.0)
    assert scene.ask(almost).choice != "mango"
    for _ in range(2):
        scene.tell("reward", asked, "mango")
    assert scene.ask(almost).choice == "mango"


def test_a_forbidden_reply_may_still_be_given_to_others(scene: Scene) -> None:
    scene.tell("reward", MANGO, "mango", reward=0.0)
    assert scene.ask(text(0, 1)).choice == "mango"


@pytest.mark.parametrize("kind", ["reward", "correction", "label"])
def test_whoever_contradicts_a_thumb_down_lifts_it(scene: Scene, kind: Kind) -> None:
    scene.tell("reward", MANGO, "mango", reward=0.0)
    scene.tell(kind, MANGO, "mango")
    assert scene.ask(MANGO).choice == "mango"


def test_a_thumb_down_on_what_was_taught_takes_the_teaching_back(scene: Scene) -> None:
    scene.tell("correction", MANGO, "olive")
    scene.tell("reward", MANGO, "olive", reward=0.0)
    assert scene.ask(MANGO).choice != "olive"


def test_a_thumb_up_for_another_reply_does_not_undo_a_teaching(scene: Scene) -> None:
    scene.tell("correction", MANGO, "olive")
    scene.tell("reward", MANGO, "mango")
    assert scene.ask(MANGO).choice == "olive"


def test_when_every_reply_is_forbidden_it_abstains(scene: Scene) -> None:
    for label in (*TOPICS, "other"):
        scene.tell("reward", MANGO, label, reward=0.0)
    answer = scene.ask(MANGO)
    assert (answer.choice, answer.abstained) == (None, True)


def test_a_question_far_from_everything_is_not_answered(scene: Scene) -> None:
    answer = scene.ask(text(50))
    assert (answer.choice, answer.abstained) == (None, True)
    assert answer.candidates


def test_a_far_question_is_answered_once_it_was_taught(scene: Scene) -> None:
    scene.tell("correction", text(50), "nut")
    assert scene.ask(text(50)).choice == "nut"
    assert scene.ask(text(50, 1)).choice == "nut"


def test_a_retired_reply_is_never_given(scene: Scene) -> None:
    scene.tell("correction", MANGO, "mango")
    scene.tell("retire", b"", "mango")
    answers = [scene.ask(question) for question in (MANGO, text(0), text(0, 1))]
    assert all("mango" not in [candidate.id for candidate in answer.candidates] for answer in answers)


def test_a_retired_reply_comes_back_as_it_was_when_it_is_restored(scene: Scene) -> None:
    before = scene.ask(MANGO)
    scene.tell("retire", b"", "mango")
    scene.tell("restore", b"", "mango")
    assert scene.ask(MANGO) == before


def test_what_is_taught_about_a_retired_reply_waits_for_its_return(scene: Scene) -> None:
    scene.tell("retire", b"", "olive")
    scene.tell("correction", MANGO, "olive")
    assert scene.ask(MANGO).choice == "mango"
    scene.tell("restore", b"", "olive")
    assert scene.ask(MANGO).choice == "olive"


def test_a_new_reply_is_used_for_the_neighbours_of_what_it_was_taught_for(scene: Scene) -> None:
    scene.tell("reply", text(60), "r9", text="Ask at the desk.")
    for variant in (101, 102, 103):
        scene.tell("correction", text(8, variant), "r9")
    assert [scene.ask(text(8, variant)).choice for variant in range(1, 6)] == ["r9"] * 5


def test_a_new_wording_replaces_the_old_one_and_can_be_taken_back(scene: Scene) -> None:
    before = scene.ask(MANGO)
    again = scene.tell("reply", text(0), "mango", text="Mangoes, in short.")
    assert scene.ask(MANGO).candidates[0].text == "Mangoes, in short."
    scene.ranker.unlearn([again])
    assert scene.ask(MANGO) == before


def test_a_reply_that_was_taken_back_cannot_be_learned_about(scene: Scene) -> None:
    scene.ranker.unlearn([scene.tell("reply", text(60), "r9", text="Ask at the desk.")])
    with pytest.raises(BadExample, match="there is no reply 'r9'"):
        scene.tell("label", MANGO, "r9")


def test_taking_back_a_retirement_brings_the_reply_back(scene: Scene) -> None:
    retirement = scene.tell("retire", b"", "mango")
    scene.ranker.unlearn([retirement])
    assert scene.ask(MANGO).choice == "mango"


def test_neighbours_that_agree_outvote_one_liar(scene: Scene) -> None:
    for variant in range(10, 15):
        scene.tell("reward", text(0, variant), "mango")
    scene.tell("reward", text(0, 20), "mango", reward=0.0)
    assert scene.ask(MANGO).choice == "mango"


def test_a_reply_that_is_liked_wherever_it_is_given_is_preferred_elsewhere() -> None:
    """Two replies for everything: thumbs about some topics decide which of them is given for the others."""
    scene = Scene()
    for style in ("kind", "rude"):
        scene.tell("reply", text(5), style, text=style)
        for variant in range(1, 5):
            scene.tell("label", text(5, variant), style)
    before, other = (candidate.id for candidate in scene.ask(text(5, 77)).candidates[:2])
    assert {before, other} == {"kind", "rude"}
    for variant in range(1, 9):  # elsewhere, so that no neighbour of the question was judged
        scene.tell("reward", text(6, variant), other)
        scene.tell("reward", text(6, variant), before, reward=0.0)
    assert scene.ask(text(5, 77)).candidates[0].id == other


def test_a_reply_that_nobody_judged_has_no_standing() -> None:
    standing_R = standing(np.array([0, 0, 1, 1], np.int32), np.array([1, 1, -1, -1], np.float32), 3)
    assert standing_R.tolist() == [pytest.approx(2 / 3), pytest.approx(-2 / 3), 0]


def test_where_thumbs_do_not_tell_replies_apart_no_reply_has_a_standing() -> None:
    """Each reply is liked every other time: it is the question that decides."""
    standing_R = standing(np.arange(40, dtype=np.int32) % 4, np.where(np.arange(40) % 8 < 4, 1, -1), 4)
    assert not standing_R.any()


def test_the_correlation_within_replies_is_that_of_the_analysis_of_variance() -> None:
    """Four groups of five thumbs; the estimate (MSB - MSW) / (MSB + 4 MSW) with the mean squares worked out by hand."""
    ups_R, weight_R = np.array([5.0, 4, 1, 0]), np.full(4, 5.0)
    between, within = 5 * (0.5**2 + 0.3**2) * 2 / 3, 5 * 2 * 0.8 * 0.2 / 16
    expected = (between - within) / (between + 4 * within)
    assert intraclass_correlation(ups_R, weight_R) == pytest.approx(expected)


def test_the_probes_name_the_reply_that_was_taught_last(scene: Scene) -> None:
    scene.tell("correction", MANGO, "olive")
    scene.tell("correction", text(1, 50), "nut")
    scene.tell("correction", MANGO, "melon")
    assert dict(scene.ranker.probes()) == {MANGO: "melon", text(1, 50): "nut"}


@pytest.mark.parametrize("kind", ["reward", "retire"])
def test_a_teaching_that_no_longer_holds_is_no_probe(scene: Scene, kind: Kind) -> None:
    scene.tell("correction", MANGO, "olive")
    scene.tell(kind, MANGO if kind == "reward" else b"", "olive", reward=0.0)
    assert dict(scene.ranker.probes()).get(MANGO) != "olive"
    assert_probes_hold(scene)


def test_two_questions_that_are_nearly_one_do_not_contradict_each_other_in_the_probes(scene: Scene) -> None:
    first, second = as_features(unit(5)), as_features(unit(5) + 0.02 * unit(6))
    assert first != second
    scene.tell("correction", first, "olive")
    scene.tell("correction", second, "melon")
    assert_probes_hold(scene)


def test_whatever_happened_the_probes_hold() -> None:
    scene = Scene()
    rng = np.random.default_rng(3)
    questions = [text(topic, variant) for topic in range(4) for variant in (1, 2, 30)]
    for _ in range(120):
        kind: Kind = rng.choice(np.array(["correction", "reward", "retire", "restore"]), p=[0.4, 0.4, 0.1, 0.1]).item()
        asked = b"" if kind in ("retire", "restore") else questions[int(rng.integers(len(questions)))]
        scene.tell(kind, asked, TOPICS[int(rng.integers(4))], reward=float(rng.integers(2)))
        assert_probes_hold(scene)


def assert_probes_hold(scene: Scene) -> None:
    probes = scene.ranker.probes()
    assert len(probes) <= 32
    for question, must in probes:
        assert must is not None
        assert scene.ask(question).choice == must


# exploring


def test_without_a_key_a_policy_that_explores_gives_the_best_answer_it_knows(scene: Scene) -> None:
    explorer = Scene(policy="epsilon", epsilon=1.0)
    questions = [text(topic, 200) for topic in range(len(TOPICS))]
    assert explorer.ranker.predict(questions) == scene.ranker.predict(questions)
    assert explorer.ranker.predict(questions, [None] * len(questions)) == scene.ranker.predict(questions)


@pytest.mark.parametrize("policy", ["epsilon", "squarecb", "lin_ts"])
def test_with_a_key_it_gives_any_candidate_and_says_how_probable_that_was(policy: str) -> None:
    explorer = Scene(policy=policy, epsilon=1.0, gamma=1.0, abstain_margin=0.0)
    answers = explorer.ranker.predict([MANGO] * 200, range(200))
    assert len({answer.choice for answer in answers}) > 2
    for answer in answers:
        assert answer.choice in [candidate.id for candidate in answer.candidates]
        assert 0 < answer.propensity < 1


def test_a_key_draws_the_same_in_whatever_batch_it_comes() -> None:
    explorer = Scene(policy="lin_ts", epsilon=0.5)
    questions = [text(topic, 200) for topic in range(len(TOPICS))]
    alone = [explorer.ranker.predict([each], [key])[0] for key, each in enumerate(questions)]
    assert [each.choice for each in explorer.ranker.predict(questions, range(len(questions)))] == [
        each.choice for each in alone
    ]


def test_a_question_that_was_settled_is_not_experimented_with() -> None:
    explorer = Scene(policy="epsilon", epsilon=1.0)
    explorer.tell("correction", MANGO, "olive")
    answers = explorer.ranker.predict([MANGO] * 20, range(20))
    assert {(answer.choice, answer.propensity) for answer in answers} == {("olive", 1.0)}


def test_a_reply_that_was_forbidden_is_not_tried_again() -> None:
    explorer = Scene(policy="epsilon", epsilon=1.0, abstain_margin=0.0)
    explorer.tell("reward", MANGO, "mango", reward=0.0)
    answers = explorer.ranker.predict([MANGO] * 50, range(50))
    assert "mango" not in {answer.choice for answer in answers}


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown policy 'oracle'"):
        Ranker({"policy": "oracle"})


def test_a_reply_that_nobody_confirmed_gets_its_turn_where_the_known_ones_are_vetoed() -> None:
    """Its text is unlike the questions it is for, so that alone it would never come first."""
    scene = Scene(abstain_below=-1.0, abstain_margin=0.0)
    scene.tell("reply", as_features(0.3 * unit(40) + unit(9)), "new", text="New.")
    asked = [text(40, variant) for variant in range(60)]
    for question in asked[:40]:
        answer = scene.ask(question)
        assert answer.choice is not None
        scene.tell("reward", question, answer.choice, reward=float(answer.choice == "new"))
    assert [scene.ask(question).choice for question in asked[40:]] == ["new"] * 20


# room


def test_no_more_exemplars_are_kept_than_there_is_room_for_and_the_newest_stay() -> None:
    scene = Scene(max_exemplars=40)
    for variant in range(100, 200):
        scene.tell("reward", text(variant % 4, variant), TOPICS[variant % 4])
    kept = [exemplar.offset for exemplar in scene.ranker.exemplars.all()]
    assert kept == list(range(scene.offset - 39, scene.offset + 1))


def test_what_was_taught_outlives_thumbs() -> None:
    scene = Scene(max_exemplars=40)
    scene.tell("correction", text(50), "nut")
    for variant in range(100, 200):
        scene.tell("reward", text(variant % 4, variant), TOPICS[variant % 4])
    assert scene.ask(text(50)).choice == "nut"


def test_once_an_exemplar_was_given_up_only_a_replay_can_unlearn() -> None:
    scene = Scene(max_exemplars=17)
    assert scene.ranker.subtracts
    scene.tell("reward", text(0, 200), "mango")
    scene.tell("reward", text(0, 201), "mango")
    assert not scene.ranker.subtracts


def test_no_more_replies_are_taken_than_there_is_room_for() -> None:
    scene = Scene(max_replies=6)
    scene.tell("reply", text(60), "sixth", text="Six.")
    with pytest.raises(BadExample, match=r"more than 6 replies \(option max_replies\)"):
        scene.tell("reply", text(61), "seventh", text="Seven.")


def test_a_chunk_of_exemplars_that_is_full_keeps_its_revision() -> None:
    ranker = Ranker({})
    ranker.learn(ranker_log(600))
    before = ranker.state()
    ranker.learn([reply(60 + n, 601 + n, f"r{n}") for n in range(3)])
    ranker.learn([Example(610, "label", text(0, 999), "mango")])
    after = ranker.state()
    assert after["exemplars-0"].revision == before["exemplars-0"].revision
    assert after["exemplars-2"].revision != before["exemplars-2"].revision


@pytest.mark.parametrize("options", [{"candidates": 0}, {"max_replies": -1}, {"abstain_margin": float("nan")}])
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        Ranker(options)
