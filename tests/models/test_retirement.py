"""Retired classes. tests/contracts tests what holds for every kind."""

import pytest

from online.learning.gate import Gate
from online.models import Example, Options, choose, create
from tests.models.synthetic import TOPICS, text, texts

UNSURE: Options = {"input": "text", "abstain_below": 0.5}


def retire(*labels: str) -> list[Example]:
    return [Example(1_000 + place, "retire", b"", label) for place, label in enumerate(labels)]


def test_the_probability_of_a_retired_class_goes_to_the_others_in_proportion() -> None:
    model, questions = create("knn", {"input": "text"}), [text(0, 7), text(1, 8)]
    model.learn(texts(200))
    before = [{c.id: c.score for c in answer.candidates} for answer in model.predict(questions)]
    model.learn(retire(TOPICS[0]))
    for scores, answer in zip(before, model.predict(questions), strict=True):
        retired = scores.pop(TOPICS[0])
        assert {c.id: c.score for c in answer.candidates} == pytest.approx(
            {label: score / (1 - retired) for label, score in scores.items()}
        )


def test_a_model_that_may_abstain_does_not_guess_for_a_retired_class() -> None:
    guesses, abstains = create("classifier", {"input": "text"}), create("classifier", UNSURE)
    for model in (guesses, abstains):
        model.learn([*texts(400), *retire(TOPICS[0])])
    of_retired, of_other = [text(0, 9_999)], [text(1, 9_999)]
    assert guesses.predict(of_retired)[0].choice in TOPICS[1:]
    assert (abstains.predict(of_retired)[0].choice, abstains.predict(of_retired)[0].abstained) == (None, True)
    assert abstains.predict(of_other)[0].choice == TOPICS[1]


@pytest.mark.parametrize("abstain_below", [0.0, 0.9, 0.99])
def test_choices_alone_abstain_and_leave_out_retired_classes_as_answers_do(abstain_below: float) -> None:
    model = create("classifier", {"input": "text", "abstain_below": abstain_below})
    model.learn(texts(60))
    questions = [text(place % len(TOPICS), 900 + place) for place in range(40)] + [bytes(384)]
    for retired in ([], retire(TOPICS[0])):
        if retired:
            model.learn(retired)
        answers = model.predict(questions)
        assert choose(model, questions) == [answer.choice for answer in answers]
        assert any(answer.abstained for answer in answers) == (abstain_below > 0)


def test_a_model_whose_classes_are_all_retired_passes_the_gate() -> None:
    model = create("classifier", {"input": "text"})
    model.learn([*texts(60), *retire(*TOPICS)])
    assert Gate("classifier", {"input": "text"}).refusal(model.state(), model.probes()) is None


def test_the_state_has_no_retired_classes_before_a_retirement() -> None:
    model = create("classifier", {"input": "text"})
    model.learn(texts(60))
    assert "retired" not in model.state() and "retired_labels" not in model.facts()
    model.learn(retire(TOPICS[0], "unknown"))
    assert "retired" in model.state() and model.facts()["retired_labels"] == 2
