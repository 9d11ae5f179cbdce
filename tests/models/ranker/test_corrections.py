"""How far a correction reaches: paraphrases of the question, or the question alone."""

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models import Answer, Example
from online.models.contract import Scope
from online.models.ranker.ranker import Ranker
from tests.models.synthetic import TOPICS, as_features, ranker_log, reply, text, unit

TOPIC = 20  # of the questions about dogs
CATS = 21  # a topic that nobody corrects


def question(variant: int, spread: float = 0.6) -> bytes:
    """A question about dogs; two of them have a cosine of about 1 / (1 + spread^2) = .74."""
    return text(TOPIC, variant, spread)


def near(question: bytes, share: float) -> bytes:
    """Other words for the same question, at a cosine of about 1 / sqrt(1 + share^2)."""
    vector = np.frombuffer(question, np.int8).astype(np.float64)
    return as_features(vector / np.linalg.norm(vector) + share * unit(999))


class Scene:
    """A ranker with an old rule about dogs, a new one that nobody has given yet, and a rule about cats."""

    def __init__(self, updates: bool = False) -> None:
        self.ranker = Ranker({})
        self.ranker.answers_by_updates = updates
        self.offset = 0
        for topic, name in ((TOPIC, "old"), (CATS, "cats")):
            self.learn(Example(0, "reply", text(topic), name, f"The rule: {name}."))
            for variant in range(1, 4):
                self.learn(Example(0, "label", text(topic, variant, 0.6), name))

    def learn(self, example: Example) -> Example:
        self.offset += 1
        placed = Example(
            self.offset,
            example.kind,
            example.features,
            example.label,
            example.text,
            example.reward,
            example.scope,
            example.superseded,
        )
        self.ranker.learn([placed])
        return placed

    def correct(self, features: bytes, scope: Scope, label: str = "new", superseded: str = "old") -> list[Example]:
        """Teach a new reply as the service does: the reply's event, then the correction's."""
        known = any(each.id == label for each in self.ranker.replies)
        events = [] if known else [Example(0, "reply", text(TOPIC, 50, 0.8), label, f"The rule: {label}.", scope=scope)]
        superseded = superseded if scope == "reply" else ""
        events.append(Example(0, "correction", features, label, scope=scope, superseded=superseded))
        return [self.learn(event) for event in events]

    def answer(self, features: bytes) -> Answer:
        return self.ranker.predict([features])[0]

    def choices(self, variants: range) -> list[str | None]:
        return [self.answer(question(variant)).choice for variant in variants]


PARAPHRASES = range(100, 120)


def test_a_correction_of_scope_reply_reaches_paraphrases_that_got_the_old_reply() -> None:
    scene = Scene()
    assert scene.choices(PARAPHRASES) == ["old"] * 20
    scene.correct(question(99), "reply")
    assert scene.choices(PARAPHRASES) == ["new"] * 20
    assert scene.answer(question(1)).choice == "old", "an example question of the old reply is still its own"
    assert scene.answer(text(CATS, 60, 0.6)).choice == "cats"


def test_a_correction_without_a_scope_does_not_supersede_the_old_reply() -> None:
    scene = Scene()
    scene.correct(question(99), "")
    assert "old" in scene.choices(PARAPHRASES)


def test_later_praise_of_the_old_reply_keeps_the_questions_around_it() -> None:
    scene = Scene()
    scene.correct(question(99), "reply")
    scene.learn(Example(0, "reward", question(100), "old"))
    assert scene.answer(near(question(100), 0.2)).choice == "old"
    assert scene.answer(question(110)).choice == "new"


def test_a_correction_to_a_reply_that_is_known_elsewhere_takes_no_questions_over() -> None:
    scene = Scene()
    scene.correct(question(99), "reply", label="cats")
    assert scene.answer(question(99)).choice == "cats"
    assert scene.choices(PARAPHRASES).count("cats") < 10


def test_a_superseded_reply_that_is_given_again_by_a_later_correction_is_back() -> None:
    scene = Scene()
    scene.correct(question(99), "reply")
    scene.correct(question(99), "reply", label="old", superseded="new")
    assert scene.answer(near(question(99), 0.3)).choice == "old"


def test_the_old_reply_is_given_while_the_new_one_is_retired() -> None:
    scene = Scene()
    scene.correct(question(99), "reply")
    scene.learn(Example(0, "retire", b"", "new"))
    assert scene.choices(PARAPHRASES) == ["old"] * 20


def test_a_correction_still_reaches_paraphrases_when_the_old_reply_is_retired() -> None:
    scene = Scene()
    scene.learn(Example(0, "reply", text(TOPIC, 70, 1.0), "kin", "The rule: kin."))
    for variant in range(71, 75):
        scene.learn(Example(0, "label", text(TOPIC, variant, 1.0), "kin"))
    scene.correct(question(99), "reply")
    assert scene.choices(PARAPHRASES) == ["new"] * 20
    scene.learn(Example(0, "retire", b"", "old"))
    assert scene.choices(PARAPHRASES) == ["new"] * 20, "and not the reply whose questions are next in likeness"
    assert scene.answer(text(CATS, 60, 0.6)).choice == "cats"


def test_a_correction_of_scope_question_changes_near_duplicates_only() -> None:
    scene = Scene()
    before = scene.choices(PARAPHRASES)
    scene.correct(question(99), "question")
    assert scene.answer(question(99)).choice == "new"
    assert scene.answer(near(question(99), 0.25)).choice == "new"
    assert scene.answer(near(question(99), 0.5)).choice == "old"
    assert scene.choices(PARAPHRASES) == before
    listed = [candidate.id for variant in PARAPHRASES for candidate in scene.answer(question(variant)).candidates]
    assert "new" not in listed


def test_a_thumb_up_does_not_spread_a_reply_that_was_taught_for_one_question() -> None:
    scene = Scene()
    scene.correct(question(99), "question")
    for _ in range(5):
        scene.learn(Example(0, "reward", question(99), "new"))
    assert scene.choices(PARAPHRASES) == ["old"] * 20


def test_a_verdict_on_the_question_itself_outweighs_one_on_a_near_duplicate() -> None:
    scene = Scene()
    scene.learn(Example(0, "correction", near(question(99), 0.25), "cats"))
    scene.correct(question(99), "question")
    assert scene.answer(near(question(99), 0.25)).choice == "cats"
    assert scene.answer(question(99)).choice == "new"


def test_a_reply_taught_for_one_question_is_a_reply_as_any_other_once_it_is_given_elsewhere() -> None:
    scene = Scene()
    scene.correct(question(99), "question")
    scene.learn(Example(0, "label", question(98), "new"))
    assert "new" in [candidate.id for candidate in scene.answer(question(110)).candidates]


@pytest.mark.parametrize("scope", ["", "reply", "question"])
def test_unlearning_a_correction_restores_the_state_and_the_answers(scope: Scope) -> None:
    scene = Scene()
    fingerprint, before = scene.ranker.fingerprint(), scene.choices(PARAPHRASES)
    taught = scene.correct(question(99), scope)
    assert scene.ranker.fingerprint() != fingerprint
    scene.ranker.unlearn(taught)
    assert scene.ranker.fingerprint() == fingerprint
    assert scene.choices(PARAPHRASES) == before


def test_the_scope_is_part_of_the_state() -> None:
    def learn(scope: Scope) -> str:
        scene = Scene()
        scene.learn(Example(0, "correction", question(99), "cats", scope=scope))
        return scene.ranker.fingerprint()

    assert len({learn(""), learn("reply"), learn("question")}) == 3


def scoped_log(count: int = 160, seed: int = 4) -> list[Example]:
    """The log of the contract suite, in which corrections have all scopes, and replies that they brought."""
    rng = np.random.default_rng(seed)
    log = ranker_log(count, seed)
    scopes: list[Scope] = ["", "reply", "question"]
    for at, example in enumerate(log):
        if example.kind == "correction":
            scope = scopes[int(rng.integers(3))]
            superseded = TOPICS[int(rng.integers(4))] if scope == "reply" else ""
            superseded = "" if superseded == example.label else superseded
            log[at] = Example(
                example.offset, "correction", example.features, example.label, scope=scope, superseded=superseded
            )
    brought = reply(60, count + 1, "brought")
    log.append(Example(brought.offset, "reply", brought.features, "brought", brought.text, scope="question"))
    log.append(Example(count + 2, "correction", text(2, 3_000), "brought", scope="question"))
    log.append(Example(count + 3, "correction", text(1, 3_000), "nut", scope="reply", superseded="never seen"))
    return log


def questions() -> list[bytes]:
    return [text(topic, variant) for topic in range(4) for variant in (1, 30, 500, 600)]


def test_scoped_corrections_are_learned_the_same_in_any_order_and_batch() -> None:
    log = scoped_log()
    replies = [example for example in log if example.kind == "reply"]
    rest = [example for example in log if example.kind != "reply"]
    one_by_one, at_once, shuffled = Ranker({}), Ranker({}), Ranker({})
    for example in log:
        one_by_one.learn([example])
    at_once.learn(log)
    shuffled.learn(replies)
    shuffled.learn([rest[at] for at in np.random.default_rng(1).permutation(len(rest))])
    assert one_by_one.fingerprint() == at_once.fingerprint() == shuffled.fingerprint()
    assert one_by_one.predict(questions()) == at_once.predict(questions())


def test_each_scoped_correction_can_be_unlearned() -> None:
    log = scoped_log(80)
    for gone in [example for example in log if example.scope and example.kind == "correction"]:
        with_it, without = Ranker({}), Ranker({})
        with_it.learn(log)
        with_it.unlearn([gone])
        without.learn([example for example in log if example != gone])
        assert with_it.fingerprint() == without.fingerprint()


def test_a_correction_outlives_the_reply_that_it_superseded() -> None:
    log = scoped_log(80)
    old = next(example for example in log if example.kind == "reply" and example.label == "other")
    rest = [example for example in log if example.label != "other"]
    correction = Example(900, "correction", text(3, 4_000), "nut", scope="reply", superseded="other")
    with_it, without = Ranker({}), Ranker({})
    with_it.learn([old, *(example for example in rest if example != old), correction])
    with_it.unlearn([old])
    without.learn([*rest, correction])
    assert with_it.fingerprint() == without.fingerprint()
    assert with_it.predict(questions())[0].choice == without.predict(questions())[0].choice


@pytest.mark.parametrize("serving_only", [False, True])
def test_scopes_survive_a_snapshot(serving_only: bool) -> None:
    learned, restored = Ranker({}), Ranker({})
    learned.learn(scoped_log())
    restored.restore(learned.state(serving_only))
    assert restored.predict(questions()) == learned.predict(questions())
    if not serving_only:
        assert restored.fingerprint() == learned.fingerprint()


def test_the_learner_answers_as_the_servers_do() -> None:
    servers, learner = Ranker({}), Ranker({})
    learner.answers_by_updates = True
    for example in scoped_log():
        servers.learn([example])
        learner.learn([example])
        learner.predict(questions()[:1])
    assert [each.choice for each in learner.predict(questions())] == [
        each.choice for each in servers.predict(questions())
    ]


def test_a_state_without_scopes_has_the_tensors_that_it_had_before() -> None:
    ranker = Ranker({})
    ranker.learn(ranker_log(60))
    names: set[str] = {name for part in ranker.state().values() for name in part.tensors}
    assert not names & {"scope", "superseded", "first_offset", "local"}


def test_an_explanation_says_what_a_correction_moved() -> None:
    scene = Scene()
    scene.correct(question(99), "reply")
    grounds = {each.reply: each for each in scene.ranker.explain(question(100), "new", 5).breakdowns}
    assert grounds["new"].moved > 0 > grounds["old"].moved
    assert grounds["new"].moved == pytest.approx(-grounds["old"].moved)


def test_probes_of_scoped_corrections_hold() -> None:
    ranker = Ranker({})
    for example in scoped_log():
        ranker.learn([example])
        for features, expected in ranker.probes():
            assert ranker.predict([features])[0].choice == expected


# a thumb down leads to nothing worse


def unlike_all() -> NDArray[np.float64]:
    return unit(20) + 0.6 * unit(2_000)


def test_the_next_candidate_is_not_given_if_nothing_like_the_question_is_known_to_belong_to_it() -> None:
    scene = Scene()
    answer = scene.answer(as_features(unlike_all()))
    assert answer.choice == "old"
    left = answer.without({"old"})
    assert (left.choice, left.abstained) == (None, True)
    assert [candidate.id for candidate in left.candidates] == ["cats"], "a person may still choose it"


def test_the_next_candidate_is_given_if_it_would_be_a_good_first_answer() -> None:
    scene = Scene()
    scene.learn(Example(0, "reply", text(TOPIC, 70, 0.5), "also", "Another rule about dogs."))
    scene.learn(Example(0, "label", question(70), "also"))
    answer = scene.answer(question(71))
    assert answer.choice is not None
    rest = answer.without({answer.choice})
    assert rest.choice is not None and rest.choice in ("old", "also")


def test_the_next_candidate_is_not_given_if_rated_neighbours_speak_against_it() -> None:
    scene = Scene()
    scene.learn(Example(0, "reply", text(TOPIC, 70, 0.5), "also", "Another rule about dogs."))
    scene.learn(Example(0, "label", question(70), "also"))
    answer = scene.answer(question(71))
    assert answer.choice is not None
    second = answer.without({answer.choice}).choice
    assert second is not None
    for _ in range(4):
        scene.learn(Example(0, "reward", near(question(71), 0.7), second, reward=0.0))
    again = scene.answer(question(71))
    assert again.choice == answer.choice
    assert again.without({answer.choice}).choice is None


def test_the_next_candidate_must_reach_the_least_chance() -> None:
    scene = Scene()
    answer = scene.answer(question(71))
    strict = Ranker({"min_chance": 0.9, "abstain_below": -1.0, "abstain_margin": 0.0})
    strict.learn([Example(n, "reply", text(topic), f"r{topic}", "x") for n, topic in enumerate((TOPIC, CATS), 1)])
    first = strict.predict([question(71)])[0]
    assert first.choice is not None and answer.choice is not None
    assert first.without({first.choice}).choice is None
    strict.learn([Example(3, "reward", question(71), first.choice, reward=0.0)])
    assert strict.predict([question(71)])[0].choice is None, "the only reply left is hardly right"
