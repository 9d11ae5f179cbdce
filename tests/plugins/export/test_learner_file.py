"""A learner's file continues a classifier exactly, and what it cannot continue is refused with the reason."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from online.models import Example, create
from online.models.classifier import Classifier
from online.models.exchange.sums_file import read_sums, write_sums
from online.plugins.export.learner_file import LearnerFacts, find_obstacle, read_learner_file, write_learner_file

OPTIONS = {"input": "vector", "size": 3, "scale": 4.0}
FACTS = LearnerFacts("points", "7", 120)


def make_examples(count: int, first: int = 0) -> list[Example]:
    values = np.random.default_rng(first).normal(size=(count, 3))
    values[np.arange(count), np.arange(count) % 3] += 3
    return [
        Example(first + place, "reward", row.tobytes(), f"class {place % 3}", reward=float(place % 7 > 0))
        for place, row in enumerate(values)
    ]


def learned(count: int = 60, **options: Any) -> Classifier:
    model = Classifier({**OPTIONS, **options})
    model.learn(make_examples(count))
    return model


def change_meta(data: bytes, **changes: Any) -> bytes:
    file = read_sums(data)
    meta = {name: value for name, value in {**file.meta, **changes}.items() if value is not None}
    return write_sums(file.statistics, meta)


@pytest.mark.parametrize("head", ["slda", "ridge"])
def test_a_model_that_was_read_learns_on_as_if_it_had_learned_everything(head: str) -> None:
    model = read_learner_file(write_learner_file(learned(head=head), FACTS))
    assert model.fingerprint() == learned(head=head).fingerprint()
    more = make_examples(40, 60)
    model.learn(more)
    direct = learned(head=head)
    direct.learn(more)
    assert model.fingerprint() == direct.fingerprint()
    model.unlearn(more)
    assert model.fingerprint() == learned(head=head).fingerprint()


@pytest.mark.parametrize("head", ["slda", "ridge"])
def test_a_model_that_was_read_answers_as_before(head: str) -> None:
    model = learned(200, head=head)
    inputs = [example.features for example in make_examples(20, 500)]
    expected = model.predict(inputs)
    for answer, before in zip(
        read_learner_file(write_learner_file(model, FACTS)).predict(inputs), expected, strict=True
    ):
        assert {c.id: c.score for c in answer.candidates} == pytest.approx(
            {c.id: c.score for c in before.candidates}, abs=1e-5
        )


def test_a_file_of_texts_is_continued() -> None:
    model = Classifier({})
    rows = np.random.default_rng(0).integers(-127, 128, (9, model.inputs.width)).astype(np.int8)
    model.learn([Example(n, "label", row.tobytes(), "ab"[n % 2]) for n, row in enumerate(rows)])
    assert read_learner_file(write_learner_file(model, FACTS)).fingerprint() == model.fingerprint()


def test_a_model_of_sums_alone_has_a_file() -> None:
    model = Classifier(OPTIONS)
    model.learn([Example(1, "sums", learned().write_contribution(), "")])
    model.state()  # as it is published
    assert find_obstacle(model) == ""
    assert read_learner_file(write_learner_file(model, FACTS)).fingerprint() == learned().fingerprint()


def test_the_metadata_says_what_the_file_is_of() -> None:
    meta = read_sums(write_learner_file(learned(), FACTS)).meta
    assert (meta["kind"], meta["model"], meta["version"], meta["learned_until"]) == ("classifier", "points", "7", 120)
    assert meta["options"]["scale"] == 4.0
    assert meta["reads"].startswith("vector-")


def test_an_unnamed_model_without_examples_is_a_file() -> None:
    model = read_learner_file(write_learner_file(Classifier(OPTIONS), LearnerFacts()))
    assert model.predict([np.zeros(3).tobytes()])[0].choice is None


def test_the_decision_is_kept_until_the_model_has_grown_by_half() -> None:
    model = learned(400)
    read = read_learner_file(write_learner_file(model, FACTS))
    assert read.head.decided.temperature == model.head.decided.temperature
    assert read.head.decides_at == pytest.approx(model.head.count / 2, abs=1)
    until = read.head.decides_at
    read.learn([example for example in make_examples(240, 500) if example.reward])
    assert read.head.decided.at_count >= until and np.isfinite(read.head.decided.loss)


def test_a_quarter_of_what_was_learned_since_decides_and_nothing_of_the_sums() -> None:
    read = read_learner_file(write_learner_file(learned(400), FACTS))
    assert (read.head.count, read.head.held_out_count) == (0, 0)
    more = [example for example in make_examples(100, 500) if example.reward]
    read.learn(more)
    restored = Classifier(OPTIONS)
    restored.restore(read.state())
    assert restored.head.count == len(more) and restored.head.held_out_count == len(more) // 4


def test_a_loss_of_no_examples_is_a_number_in_the_file() -> None:
    model = learned(200)
    object.__setattr__(model.head.decided, "loss", float("nan"))
    assert read_sums(write_learner_file(model, FACTS)).meta["decided"]["loss"] == 0.0


def test_a_created_model_is_unwrapped_unless_it_has_retired_classes() -> None:
    model = create("classifier", OPTIONS)
    model.learn(make_examples(9))
    assert find_obstacle(model) == ""
    model.learn([Example(99, "retire", b"", "class 1")])
    with pytest.raises(ValueError, match="retired"):
        write_learner_file(model, FACTS)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"head": "rp_ridge"}, "rp_ridge"),
        ({"head": "best"}, "best"),
        ({"input": "table"}, "tables"),
        ({"outside": "none"}, "outside"),
        ({"window": 5}, "window"),
        ({"drift_window": 5}, "drift_window"),
        ({"max_age": 5}, "max_age"),
        ({"scale": 0.0}, "scales"),
    ],
)
def test_what_cannot_be_continued_is_refused_with_the_reason(options: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        write_learner_file(Classifier({**OPTIONS, **options}), FACTS)


def test_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="classifier"):
        write_learner_file(create("majority", {}), FACTS)


def test_a_comparison_of_recent_examples_is_refused() -> None:
    model = learned(200)
    model.drifted(None, 150)
    with pytest.raises(ValueError, match="drift"):
        write_learner_file(model, FACTS)


def test_a_model_that_only_predicts_is_refused() -> None:
    model = Classifier(OPTIONS)
    model.restore(learned().state(serving_only=True))
    with pytest.raises(ValueError, match="not loaded"):
        write_learner_file(model, FACTS)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "ranker"}, "classifier"),
        ({"warm": True}, "scales are fixed"),
        ({"options": [1]}, "options"),
        ({"options": {**OPTIONS, "head": "best"}}, "head"),
        ({"options": {**OPTIONS, "input": "table"}}, "texts or vectors"),
        ({"options": {**OPTIONS, "outside": "none"}}, "outside"),
        ({"options": {**OPTIONS, "unknown": 1}}, "unknown"),
        ({"options": {**OPTIONS, "size": 4}}, "4 numbers"),
        ({"columns": None}, "3 numbers"),
        ({"columns": [["0", True, 2, 0], ["2", True, 2, 0], ["1", True, 2, 0]]}, "column 1"),
        ({"columns": [["0", True, 2000, 0]] * 3}, "column 0"),
        ({"columns": [["0", True, 2, 0.5]] * 3}, "column 0"),
        ({"columns": [["0", False, 2, 0]] * 3}, "column 0"),
        ({"columns": [[str(place), True, 3, 0] for place in range(3)]}, "learned from"),
        ({"octave": "high"}, "octave"),
        ({"options": {**OPTIONS, "size": 10**12}}, f"{10**12} numbers"),
        ({"options": {**OPTIONS, "size": "3"}}, "3 numbers"),
        ({"options": {**OPTIONS, "input": ["text"]}}, "texts or vectors"),
        ({"options": {**OPTIONS, "head": "ridge"}}, "decided"),
        ({"decided": {}}, "decided"),
        ({"decided": {"head": "slda", "temperature": 0.0}}, "decided"),
        ({"reads": "vector-of-others"}, "vector-of-others"),
        ({"fingerprint": "ab"}, "fingerprint"),
    ],
)
def test_a_file_that_is_damaged_is_refused_with_the_reason(changes: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_learner_file(change_meta(write_learner_file(learned(), FACTS), **changes))


@pytest.mark.parametrize("name", ["", " ", "a\0"])
def test_a_class_with_a_name_that_feedback_cannot_have_is_refused(name: str) -> None:
    data = write_learner_file(learned(), FACTS)
    nameless = read_sums(data).statistics.copy()
    nameless.classes = [name, "b", "c"]
    with pytest.raises(ValueError, match="cannot have the name"):
        read_learner_file(write_sums(nameless, read_sums(data).meta))


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), "4"])
def test_a_temperature_that_is_not_positive_is_refused(temperature: Any) -> None:
    data = write_learner_file(learned(), FACTS)
    decided = {**read_sums(data).meta["decided"], "temperature": temperature}
    with pytest.raises(ValueError, match="temperature"):
        read_learner_file(change_meta(data, decided=decided))


def test_sums_of_another_width_are_refused() -> None:
    data = write_learner_file(learned(), FACTS)
    wider = read_sums(data).statistics.copy()
    wider.widen(20)
    with pytest.raises(ValueError, match="20 features"):
        read_learner_file(write_sums(wider, read_sums(data).meta))


def test_the_metadata_is_json_that_a_browser_reads() -> None:
    data = write_learner_file(learned(200), FACTS)
    length = int.from_bytes(data[:8], "little")
    text = json.loads(data[8 : 8 + length])["__metadata__"]["sums"]
    assert "NaN" not in text
    assert "Infinity" not in text
