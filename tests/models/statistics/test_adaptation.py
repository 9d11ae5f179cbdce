"""A relabelled world: the sums of older examples are read in other classes."""

import numpy as np
import pytest
from safetensors.numpy import save

from online.models import Options
from online.models.classifier import Classifier
from online.models.statistics.adaptation import find_translation
from online.models.statistics.exact import ExactStatistics
from tests.models.relabelled import CHANGED_AT, MOVED, VECTOR, count_right, learn_and_tell, relabelled

AFTER = CHANGED_AT + 110
HEADS = ["rp_ridge", "best"]  # sums since the change soon answer as well as those of slda and ridge


def options(head: str = "rp_ridge") -> Options:
    return {**VECTOR, "scale": 16.0, "head": head, "random_features": 32}


def test_a_class_becomes_what_most_rows_say_and_stays_without_rows_or_on_a_tie() -> None:
    guesses, classes = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([1, 1, 0, 2, 2, 2, 0])
    assert find_translation(guesses, classes, 4).tolist() == [1, 2, 2, 3]


def test_translated_sums_move_to_the_other_classes_and_leave_the_gram_matrix() -> None:
    sums = ExactStatistics(2)
    places = [sums.add_class(label) for label in "abc"]
    rows = np.array([[1, 2], [3, 4], [5, 6]], np.int8)
    sums.add(rows, places)
    moved = sums.translated([1, 1, 0])
    assert moved.counts[0].tolist() == [1, 2, 0] and moved.sums[0].tolist() == [[5, 6], [4, 6], [0, 0]]
    assert (moved.gram == sums.gram).all() and sums.counts[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("head", HEADS)
def test_what_was_learned_before_counts_in_the_new_classes(head: str) -> None:
    model = Classifier(options(head))
    learn_and_tell(model, relabelled(AFTER))
    assert model.adaptation.translation == MOVED
    assert model.adaptation.recent is not None and model.adaptation.recent.count == model.head.count == AFTER
    assert count_right(model, relabelled(AFTER + 100)[AFTER:]) >= 94
    watched = Classifier(options(head))
    watched.learn(relabelled(AFTER))
    assert model.fingerprint() == watched.fingerprint(), "all sums stay as they are"


def test_a_translated_model_is_the_same_in_any_batches_and_after_a_restart() -> None:
    examples = relabelled(AFTER + 40)
    expected = learn_and_tell(Classifier(options()), examples).state()
    resumed = Classifier(options())
    resumed.restore(learn_and_tell(Classifier(options()), examples[:AFTER], batch=13).state())
    resumed.learn(examples[AFTER:])
    for state in (learn_and_tell(Classifier(options()), examples, batch=64).state(), resumed.state()):
        assert save(dict(state["adaptation"].tensors)) == save(dict(expected["adaptation"].tensors))


def test_an_older_example_is_subtracted_from_the_class_that_it_counts_in() -> None:
    examples = relabelled(AFTER)
    model = Classifier(options())
    learn_and_tell(model, examples)
    assert model.adaptation.recent is not None
    before, place = model.adaptation.recent.statistics.counts.copy(), model.statistics.add_class
    model.unlearn([examples[0]])
    lost = before - model.adaptation.recent.statistics.counts
    assert lost[0, place(MOVED[examples[0].label])] == lost.sum() == 1


def test_a_false_alarm_translates_nothing() -> None:
    still = relabelled(CHANGED_AT - 1)
    model = Classifier(options())
    model.learn(still[:200])
    model.drifted(None, 190)
    model.learn(still[200:])
    assert model.adaptation.recent is None and model.adaptation.translation is None
