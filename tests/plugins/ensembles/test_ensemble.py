"""Several models that answer together: how they are combined, where they lie, and that they compute at the same time."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from online.models import Answer, Example, create, recipe
from online.models.contract import build_candidates
from online.models.kinds import ADMITTED
from online.models.own_kinds import admit
from online.plugins.ensembles.ensemble import Ensemble, average, place_members, vote
from tests.models.nearest_mean import NearestMean
from tests.models.synthetic import KNOWN, labels_only, tables, vectors

KNN, SLDA, TOWER = {"kind": "knn"}, {"kind": "classifier", "scale": 4.0}, {"kind": "tower", "hidden": [16]}


def answer(**chances: float) -> Answer:
    labels = sorted(chances, key=lambda label: -chances[label])
    return Answer(labels[0], build_candidates(labels, [chances[label] for label in labels]), chances[labels[0]])


def chances_of(given: Answer) -> dict[str, float]:
    return {label: score for label, score, _ in given.candidates}


def test_the_average_is_that_of_the_chances() -> None:
    given = average([answer(a=0.6, b=0.4), answer(b=0.9, c=0.1)])
    assert given.choice == "b"
    assert chances_of(given) == pytest.approx({"a": 0.3, "b": 0.65, "c": 0.05})


def test_in_a_vote_each_member_counts_once() -> None:
    given = vote([answer(a=0.51, b=0.49), answer(a=0.51, b=0.49), answer(b=1.0)])
    assert given.choice == "a"
    assert chances_of(given) == pytest.approx({"a": 2 / 3, "b": 1 / 3})


def test_among_equal_votes_the_mean_chance_decides_and_then_the_name() -> None:
    assert vote([answer(a=0.6, b=0.4), answer(b=0.9, a=0.1)]).choice == "b"
    assert vote([answer(b=1.0), answer(a=1.0)]).choice == "a"


def test_a_member_without_an_answer_takes_no_part() -> None:
    silent = Answer(None, ())
    for combine in (average, vote):
        assert combine([silent, answer(a=0.7, b=0.3)]).choice == "a"
        assert combine([silent, silent]) == silent
    assert chances_of(average([silent, answer(a=0.7, b=0.3)]))["a"] == pytest.approx(0.7)


def test_members_are_spread_over_the_devices_in_turns() -> None:
    tables = [KNN, KNN, {**KNN, "device": "cuda:7"}, KNN, {**KNN, "device": "auto"}]
    assert place_members(tables, ["cuda:0", "cuda:1"]) == ["cuda:0", "cuda:1", "cuda:7", "cuda:0", "cuda:1"]
    assert place_members(tables, ["cuda:1"]) == ["cuda:1", "cuda:1", "cuda:7", "cuda:1", "cuda:1"]


def test_an_ensemble_on_the_cpu_has_every_member_there() -> None:
    assert place_members([KNN, {**KNN, "device": "cuda:7"}], ["cpu"]) == ["cpu", "cpu"]


def ensemble(members: Sequence[dict[str, Any]], device: str = "cpu") -> Ensemble:
    return Ensemble({"input": "vector", "size": 6, "members": list(members)}, device)


def test_where_the_members_lie_changes_neither_what_is_learned_nor_the_answers() -> None:
    examples, later = vectors(200, 0, KNOWN), vectors(40, 1, KNOWN)
    one, spread = ensemble([SLDA, KNN, TOWER]), ensemble([SLDA, KNN, {**TOWER, "device": "cpu:1"}], "cpu:0,cpu:1")
    assert spread.places == ["cpu:0", "cpu:1", "cpu:1"]
    for model in (one, spread):
        model.learn(examples)
    inputs = [example.features for example in later if example.features]
    assert one.fingerprint() == spread.fingerprint()
    assert one.predict(inputs) == spread.predict(inputs)
    one.restore(spread.state())
    assert one.predict(inputs) == spread.predict(inputs)


def test_a_member_named_by_its_device_does_not_make_another_recipe() -> None:
    options = {"input": "vector", "size": 6}
    here = recipe("ensemble", {**options, "members": [SLDA, KNN]})
    assert here == recipe("ensemble", {**options, "members": [{**SLDA, "device": "cuda:1"}, KNN]})
    assert here != recipe("ensemble", {**options, "members": [KNN, SLDA]})


class Meeting(NearestMean):  # type: ignore[misc]
    """A model whose answer waits until another one answers, too."""

    barrier = threading.Barrier(2, timeout=30)

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        self.barrier.wait()
        answers: list[Answer] = super().predict(inputs)
        return answers


def test_members_on_two_devices_compute_at_the_same_time() -> None:
    path = f"{__name__}:Meeting"
    admit(path)
    try:
        model = create("ensemble", {"input": "table", "members": [{"kind": path}, {"kind": path}]}, "cpu:0,cpu:1")
        examples = labels_only(tables(20, 0, KNOWN))
        model.learn(examples)
        assert model.predict([examples[0].features])[0].choice is not None
    finally:
        ADMITTED.pop(path)


def test_an_example_that_a_member_cannot_learn_is_learned_by_the_others() -> None:
    options = {
        "input": "table",
        "members": [{"kind": "majority"}, {"kind": "river", "estimator": "naive_bayes.GaussianNB"}],
    }
    model = create("ensemble", {**options, "key": "5e" * 32})
    examples = labels_only(tables(20, 0, KNOWN))
    model.learn(examples)
    model.learn([structs.replace(examples[0], offset=900, kind="reward", reward=0.0)])
    assert model.facts() == {"members": 2, "devices": 1, "missed": 1}


def test_an_ensemble_that_missed_something_or_cannot_subtract_says_so() -> None:
    model = ensemble([SLDA, TOWER])
    examples = vectors(20, 0, KNOWN)
    model.learn(examples)
    assert not model.subtracts
    with pytest.raises(NotImplementedError, match="replay the log"):
        model.unlearn(examples[:1])


@pytest.mark.parametrize(
    "member", [{}, {"kind": "regressor"}, {"kind": "best_of"}, {"kind": "ensemble"}, "knn", {"kind": "ranker"}]
)
def test_a_member_must_be_a_table_with_a_kind_that_learns_classes(member: Any) -> None:
    with pytest.raises(ValueError, match="member 1 needs the 'kind' of a model that learns classes"):
        ensemble([KNN, member])


def test_without_members_there_is_a_set_that_suits_the_input() -> None:
    model = Ensemble({"input": "text"})
    features = np.ones(384, np.int8).tobytes()
    model.learn([Example(1, "label", features, "a")])
    assert model.predict([features])[0].choice == "a"
