"""majority: the class that was right most often, counted exactly."""

from online.models import Example
from online.models.statistics.majority import Majority


def labelled(labels: str, start: int = 1, reward: float = 1.0) -> list[Example]:
    return [Example(n, "reward", b"{}", label, reward=reward) for n, label in enumerate(labels, start)]


def learned(*batches: list[Example]) -> Majority:
    model = Majority({"input": "table"})
    for batch in batches:
        model.learn(batch)
    return model


def test_the_most_frequent_class_is_answered_with_its_share() -> None:
    answer = learned(labelled("abbbbab")).predict([b"{}"])[0]
    assert answer.choice == "b"
    assert [(id, round(score, 2)) for id, score, _ in answer.candidates] == [("b", 0.71), ("a", 0.29)]


def test_equally_frequent_classes_are_ordered_by_their_names() -> None:
    assert learned(labelled("zab")).predict([b"{}"])[0].choice == "a"


def test_a_class_that_was_wrong_counts_for_less() -> None:
    assert learned(labelled("aab"), labelled("aa", 4, reward=0.0)).predict([b"{}"])[0].choice == "b"


def test_a_class_whose_examples_are_all_unlearned_is_unknown() -> None:
    model, examples = learned(labelled("ab")), labelled("ab")
    model.unlearn(examples[1:])
    assert [candidate.id for candidate in model.predict([b"{}"])[0].candidates] == ["a"]
    assert model.fingerprint() == learned(examples[:1]).fingerprint()
