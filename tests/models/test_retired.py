"""Labels that are not given for now. What holds for every kind is in tests/contracts."""

import pytest

from online.learning.gate import Gate
from online.models import Example, Options, create
from tests.models.synthetic import TOPICS, text, texts

UNSURE: Options = {"input": "text", "abstain_below": 0.5}


def retire(*labels: str) -> list[Example]:
    return [Example(1_000 + place, "retire", b"", label) for place, label in enumerate(labels)]


def test_the_chance_of_a_retired_label_goes_to_the_others_in_proportion() -> None:
    model, asked = create("knn", {"input": "text"}), [text(0, 7), text(1, 8)]
    model.learn(texts(200))
    before = [{c.id: c.score for c in answer.candidates} for answer in model.predict(asked)]
    model.learn(retire(TOPICS[0]))
    for chances, answer in zip(before, model.predict(asked), strict=True):
        gone = chances.pop(TOPICS[0])
        assert {c.id: c.score for c in answer.candidates} == pytest.approx(
            {label: chance / (1 - gone) for label, chance in chances.items()}
        )


def test_a_question_that_is_the_retired_labels_gets_no_guess_from_a_model_that_may_abstain() -> None:
    guesses, abstains = create("classifier", {"input": "text"}), create("classifier", UNSURE)
    for model in (guesses, abstains):
        model.learn([*texts(400), *retire(TOPICS[0])])
    its_own, anothers = [text(0, 9_999)], [text(1, 9_999)]
    assert guesses.predict(its_own)[0].choice in TOPICS[1:]
    assert (abstains.predict(its_own)[0].choice, abstains.predict(its_own)[0].abstained) == (None, True)
    assert abstains.predict(anothers)[0].choice == TOPICS[1]


def test_a_model_whose_labels_are_all_retired_may_go_live() -> None:
    model = create("classifier", {"input": "text"})
    model.learn([*texts(60), *retire(*TOPICS)])
    assert Gate("classifier", {"input": "text"}).refusal(model.state(), model.probes()) is None


def test_what_was_never_retired_leaves_no_trace() -> None:
    model = create("classifier", {"input": "text"})
    model.learn(texts(60))
    assert "retired" not in model.state() and "retired_labels" not in model.facts()
    model.learn(retire(TOPICS[0], "never heard of"))
    assert "retired" in model.state() and model.facts()["retired_labels"] == 2
