"""A relabelled world: older examples of the window are read in other classes, or left out."""

from dataclasses import replace

from online.plugins.neighbours.knn import Knn
from online.plugins.neighbours.views import ALL, ExampleView
from tests.models.relabelled import CHANGED_AT, MOVED, VECTOR, count_right, learn_and_tell, relabelled

AFTER = CHANGED_AT + 80


def test_a_view_reads_older_examples_in_other_classes_or_not_at_all() -> None:
    assert [ExampleView(5, {"a": "b"}).read(at, label) for at, label in ((4, "a"), (5, "a"), (4, "c"))] == [
        "b",
        "a",
        "c",
    ]
    assert (ExampleView(5).read(4, "a"), ExampleView(5).read(5, "a"), ALL.read(0, "a")) == (None, "a", "a")


def test_neighbours_from_before_a_change_vote_for_the_new_classes() -> None:
    model, watched = Knn(VECTOR), Knn(VECTOR)
    learn_and_tell(model, relabelled(AFTER))
    watched.learn(relabelled(AFTER))
    assert model.choice.view.translation == MOVED
    assert (
        count_right(model, relabelled(AFTER + 100)[AFTER:])
        >= 98
        > 50
        > count_right(watched, relabelled(AFTER + 100)[AFTER:])
    )
    assert model.fingerprint() == watched.fingerprint(), "the window stays as it is"


def test_the_view_is_the_same_in_any_batches_and_after_a_restart() -> None:
    examples = relabelled(AFTER + 40)
    one, many, resumed = Knn(VECTOR), Knn(VECTOR), Knn(VECTOR)
    learn_and_tell(one, examples)
    learn_and_tell(many, examples, batch=64)
    resumed.restore(learn_and_tell(Knn(VECTOR), examples[: CHANGED_AT + 20], batch=7).state())
    resumed.learn(examples[CHANGED_AT + 20 :])
    assert one.choice.memory() == many.choice.memory() == resumed.choice.memory() != {}
    asked = [e.features for e in relabelled(50, seed=1)]
    assert one.predict(asked) == many.predict(asked) == resumed.predict(asked)


def test_a_window_that_moves_while_older_examples_are_read_otherwise_answers_like_a_restored_one() -> None:
    model, restored = Knn({**VECTOR, "window": 300}), Knn({**VECTOR, "window": 300})
    examples = relabelled(AFTER + 200)
    learn_and_tell(model, examples[:AFTER])
    asked = [e.features for e in relabelled(50, seed=1)]
    for example in examples[AFTER:]:
        model.predict([example.features])  # the cached arrays must follow, too
        model.learn([example])
    restored.restore(model.state())
    assert model.choice.view != ALL and model.predict(asked) == restored.predict(asked)


def test_a_model_whose_examples_are_all_left_out_has_no_answer() -> None:
    model = Knn(VECTOR)
    examples = relabelled(CHANGED_AT + 8)
    learn_and_tell(model, examples)
    model.choice.view = replace(model.choice.view, translation=None)
    model.unlearn(examples[CHANGED_AT - 1 :])
    model._index = None
    assert model.predict([examples[0].features])[0].choice is None


def test_a_false_alarm_changes_no_answer_and_leaves_no_trace_in_the_end() -> None:
    model, still = Knn(VECTOR), relabelled(CHANGED_AT - 1)
    model.learn(still[:100])
    model.drifted(None, 95)
    model.learn(still[100:])
    assert model.choice.memory() == {}
