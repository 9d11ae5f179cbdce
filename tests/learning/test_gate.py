"""The gate: a proposed snapshot is published only if it is valid and loses no golden question or held-out answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from online.learning.gate import (
    Gate,
    GoldenQuestion,
    LiveComparison,
    compute_tail_probability,
    encode_golden_questions,
    explain_regression,
    has_no_answer,
)
from online.learning.golden_questions import load_golden_questions
from online.learning.held_out import MAX_COUNT, MAX_OF_HOLDER, HeldOutSet
from online.models import Answer, Candidate, Example, create
from online.schemas.events import Event
from online.settings import GoldenQuestionSettings, ModelSettings
from online.store.refusals import load_refusals, load_rejections
from tests.learning.scene import VECTOR, Scene, retraction, text_features, vector_event, vector_events
from tests.models.synthetic import row


def train_ranker() -> Any:
    ranker = create("ranker", {})
    ranker.learn([Example(n, "reply", text_features(n), f"r{n}", f"reply {n}") for n in (1, 2)])
    ranker.learn([Example(3, "correction", text_features(30), "r1")])
    return ranker


def test_the_gate_accepts_a_valid_snapshot() -> None:
    ranker = train_ranker()
    assert Gate("ranker", {}).refusal(ranker.state(serving_only=True), ranker.probes()) is None


def test_the_gate_refuses_numbers_that_are_not_finite() -> None:
    ranker = train_ranker()
    state = ranker.state(serving_only=True)
    state["weights"].tensors["bias"][0] = np.nan
    assert Gate("ranker", {}).refusal(state, []) == "weights.bias holds numbers that are not finite"


def test_the_gate_refuses_a_snapshot_that_cannot_predict() -> None:
    ranker = train_ranker()
    state = dict(ranker.state(serving_only=True))
    del state["weights"]
    assert "cannot predict" in str(Gate("ranker", {}).refusal(state, ranker.probes()))


def test_the_gate_refuses_a_snapshot_that_loses_a_correction() -> None:
    ranker = train_ranker()
    state = ranker.state(serving_only=True)
    state["exemplars-0"].tensors["reply"][:] = 1
    assert Gate("ranker", {}).refusal(state, ranker.probes()) == "a question that was taught 'r1' would get 'r2'"


def sparse_rows(count: int) -> list[Event]:
    """Rows of some of four features each, of which the classes x and y come first, and z later."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, float | str]] = [
        {name: rng.normal() for name in rng.permutation(list("abcd"))[: rng.integers(1, 4)].tolist()}
        for _ in range(count)
    ]
    labels = ["xyz"[rng.integers(0, 2 if n < count // 2 else 3)] for n in range(count)]
    return [Event(f"e{n}", "label", row(each), label) for n, (each, label) in enumerate(zip(rows, labels, strict=True))]


def test_a_model_that_cannot_answer_some_inputs_yet_is_published_and_no_event_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "river", {"estimator": "tests.models.own_estimators:scaled_one_vs_rest"})
    for event in sparse_rows(30):
        scene.learn(event)
    assert scene.live_until() == 30
    assert scene.workspace.store.read(lambda connection: load_refusals(connection, "m", scene.learner.recipe)) == {}


def test_the_gate_refuses_a_snapshot_that_answers_none_of_its_newest_inputs() -> None:
    options = {"estimator": "tests.models.own_estimators:NoNumber", "scale": False}
    model = create("river", options)
    model.learn([Example(n, "label", row({"width": float(n)}), "ab"[n % 2]) for n in range(10)])
    refusal = Gate("river", options).refusal(model.state(serving_only=True), model.probes())
    assert refusal == "it has no finite answer to any input that it has learned last"


def test_an_answer_that_is_withheld_is_an_answer() -> None:
    withheld = Answer(None, (Candidate("a", 0.4), Candidate("b", 0.4)), abstained=True)
    assert [has_no_answer(each) for each in (withheld, Answer(None, ()), Answer(None, (), abstained=True))] == [
        False,
        False,
        True,
    ]


# held out


def hold_out(*events: Event) -> HeldOutSet:
    held_out = HeldOutSet()
    for offset, event in enumerate(events, 1):
        held_out.observe(event.at(offset))
    return held_out


def test_held_out_events_are_chosen_by_id_and_balanced_over_the_classes() -> None:
    events = [vector_event(f"e{n}", "rare" if n % 50 == 0 else "common", n) for n in range(4_000)]
    held_out = hold_out(*events)
    labels = [held.label for held in held_out]
    rare = sum(event.label == "rare" for event in events)
    assert len(held_out) == MAX_COUNT
    assert rare / 8 / 3 < labels.count("rare") <= rare
    offsets = {held.offset for held in held_out}
    assert offsets == {held.offset for held in hold_out(*events)}
    assert min(held.offset for held in held_out if held.label == "common") > 3_000  # the newest of them


def test_one_caller_has_a_bounded_share_of_the_held_out_examples() -> None:
    busy = [structs.replace(event, holder=7) for event in vector_events(400)]
    others = [structs.replace(event, holder=holder) for holder, event in enumerate(vector_events(80, start=400), 100)]
    held_out = hold_out(*busy, *others)
    of_busy = [item.offset for item in hold_out(*busy) if item.holder == 7]
    assert of_busy == [item.offset for item in hold_out(*vector_events(400))][-MAX_OF_HOLDER:]  # the newest
    assert sum(item.holder == 7 for item in held_out) == MAX_OF_HOLDER
    restored = HeldOutSet()
    restored.restore(held_out.part())
    assert restored.items == held_out.items
    trusted = hold_out(*vector_events(400))
    assert len(trusted) > 2 * MAX_OF_HOLDER  # a trusted caller may be the only one there is


def test_every_class_keeps_one_example_even_if_there_are_many_classes() -> None:
    held_out = hold_out(*(vector_event(f"e{n}", f"label {n % 100}", n) for n in range(8_000)))
    assert len(held_out) == MAX_COUNT
    assert len({held.label for held in held_out}) == 100


def test_later_feedback_on_the_same_input_replaces_earlier_feedback() -> None:
    ids = [f"e{n}" for n in range(200)]
    held_out = hold_out(*(Event(id, "label", b"same", "ab"[n % 2]) for n, id in enumerate(ids)))
    assert len(held_out) == 1


def test_a_later_thumb_down_removes_the_example() -> None:
    liked = [Event(f"e{n}", "reward", f"q{n}".encode(), "a") for n in range(200)]
    disliked = [Event(f"d{n}", "reward", f"q{n}".encode(), "a", reward=0.0) for n in range(200)]
    assert len(hold_out(*liked)) > 10
    assert len(hold_out(*liked, *disliked)) == 0


def test_feedback_without_a_right_answer_is_not_held_out() -> None:
    ids = [f"e{n}" for n in range(200)]
    assert len(hold_out(*(Event(id, "reward", id.encode(), "a", reward=0.0) for id in ids))) == 0
    assert len(hold_out(*(Event(id, "reply", b"", "a", text="hello") for id in ids))) == 0


def test_retired_and_retracted_examples_leave_the_held_out_set(scene: Scene) -> None:
    scene.learn(*vector_events(100))
    held_out = scene.learner.training.held_out
    offset = next(iter(held_out)).offset
    scene.learn(retraction(scene.stream, offset))
    assert offset not in {held.offset for held in held_out}
    scene.learn(Event("gone", "retire", b"", "a"))
    assert {held.label for held in held_out} == {"b"}


def test_the_held_out_set_survives_a_restart(scene: Scene) -> None:
    scene.learn(*vector_events(200))
    before = set(scene.learner.training.held_out)
    assert before and set(scene.start_learner().training.held_out) == before


# the comparison with the live version


def mislabelled_events(count: int) -> list[Event]:
    """Events with the labels swapped, none of which is held out."""
    events = (vector_event(f"p{n}", "ab"[n % 2], n) for n in range(1_000, 1_000 + 2 * count))
    swapped = (Event(event.id, "label", event.features, {"a": "b", "b": "a"}[event.label]) for event in events)
    return [event for event in swapped if len(hold_out(event)) == 0][:count]


def test_a_worse_snapshot_is_not_published_and_the_refusal_is_recorded(scene: Scene) -> None:
    scene.learn(*vector_events(400))
    good = scene.snapshots.folder.live()
    scene.learner.setup = replace(scene.learner.setup, batch=1_000)
    scene.learn(*mislabelled_events(900))
    assert scene.snapshots.folder.live() == good
    rows = scene.workspace.store.read(lambda connection: load_rejections(connection, "m", 10))
    assert [(row.since, row.until, row.times) for row in rows] == [(1_300, 1_300, 1)]
    assert "held-out answers it has" in rows[0].reason


def test_a_durable_snapshot_that_was_refused_is_not_tried_at_every_step(scene: Scene) -> None:
    scene.learn(*vector_events(400))
    scene.learner = scene.start_learner(durable_every_s=3_600.0)
    scene.learner.setup = replace(scene.learner.setup, batch=1_000)
    scene.learn(*mislabelled_events(900))
    for _ in range(3):
        scene.learner.step()
    publisher = scene.learner.publisher
    publisher.published_at = publisher.clock() + 3_600  # as if the pause after a refusal were long
    scene.learn(*vector_events(1, start=400))
    rows = scene.workspace.store.read(lambda connection: load_rejections(connection, "m", 10))
    assert [(row.until, row.times) for row in rows] == [(1_300, 1)]


def test_learning_continues_and_a_recovered_snapshot_is_published(scene: Scene) -> None:
    scene.learn(*vector_events(400))
    scene.learner.setup = replace(scene.learner.setup, batch=1_000)
    scene.learn(*mislabelled_events(900))
    assert scene.live_until() == 400
    for offset in range(401, 1_301):
        scene.stream.append(retraction(scene.stream, offset))
    scene.learn()
    scene.learner.publisher.published_at = -1e9  # as if the pause between publications were over
    scene.learn(*vector_events(1, start=400))
    assert scene.live_until() == 2_201
    rows = scene.workspace.store.read(lambda connection: load_rejections(connection, "m", 10))
    assert len(rows) == 1


def test_after_a_rollback_the_gate_compares_with_the_live_version(scene: Scene) -> None:
    scene.learn(*vector_events(400))
    live = scene.snapshots.folder.live()
    assert live is not None
    scene.learner.setup = replace(scene.learner.setup, batch=1_000)
    restarted = scene.start_learner()  # a restarted learner has to load the live version
    restarted.setup = replace(restarted.setup, batch=1_000)
    scene.learner = restarted
    scene.learn(*mislabelled_events(900))
    assert scene.snapshots.folder.live() == live


def test_a_version_of_another_recipe_is_not_compared(scene: Scene) -> None:
    scene.learn(*vector_events(400))
    other = LiveComparison("classifier", {**VECTOR, "scale": 5.0}, scene.snapshots)
    assert other.refusal(create("classifier", VECTOR), scene.learner.training.held_out) is None


@pytest.mark.parametrize(
    ("lost", "won", "refused"), [(9, 0, False), (10, 0, True), (20, 12, False), (30, 6, True), (6, 30, False)]
)
def test_the_comparison_is_a_paired_one_sided_test(lost: int, won: int, refused: bool) -> None:
    both = 60
    live = dict(enumerate([True] * (both + lost) + [False] * won))
    candidate = dict(enumerate([True] * both + [False] * lost + [True] * won))
    assert (explain_regression(live, candidate) is not None) == refused


def test_the_tail_probability_is_that_of_coin_tosses() -> None:
    assert compute_tail_probability(0, 7) == 1.0
    assert compute_tail_probability(10, 10) == pytest.approx(1 / 1024)
    assert compute_tail_probability(2, 3) == pytest.approx(0.5)


# golden questions


def golden_question(label: str, seed: int) -> GoldenQuestion:
    return GoldenQuestion(vector_event("golden_question", label, seed).features, label, f"[{seed}]")


def test_a_snapshot_that_loses_a_golden_question_is_not_published(scene: Scene) -> None:
    scene.learner = scene.start_learner(
        golden_questions=(golden_question("a", 1), golden_question("b", 2)), durable_every_s=1e9
    )
    scene.learn(*vector_events(20))  # no version answered the questions before, so none is lost
    good = scene.snapshots.folder.live()
    scene.learner.setup = replace(scene.learner.setup, batch=1_000)
    scene.learn(*(vector_event(f"w{n}", "b" if n % 2 else "a", n) for n in range(40, 60)))
    assert scene.snapshots.folder.live() != good
    good = scene.snapshots.folder.live()
    swapped = [Event(f"s{n}", "label", golden_question("a", 1).features, "b") for n in range(400)]
    scene.learn(*swapped)
    assert scene.snapshots.folder.live() == good
    rows = scene.workspace.store.read(lambda connection: load_rejections(connection, "m", 10))
    assert rows[0].reason == "the golden question '[1]' would no longer get 'a'"


def test_golden_questions_are_encoded_for_the_model(scene: Scene) -> None:
    questions = (GoldenQuestionSettings(input=[1, 2, 3], answer="a"),)
    spec = ModelSettings(name="m", kind="classifier", options=dict(VECTOR), golden_questions=questions)
    assert load_golden_questions(scene.workspace, spec, VECTOR) == [
        GoldenQuestion(np.array([1.0, 2.0, 3.0]).tobytes(), "a", "[1, 2, 3]")
    ]


def test_a_golden_question_of_a_ranker_names_the_reply_by_id_or_text() -> None:
    ranker = train_ranker()
    answer = ranker.predict([text_features(30)])[0]
    for expected in ("r1", "reply 1"):
        assert GoldenQuestion(b"", expected, "").is_answered_by(answer)
    assert not GoldenQuestion(b"", "r2", "").is_answered_by(answer)


def test_without_golden_questions_nothing_is_encoded() -> None:
    assert encode_golden_questions([], lambda instances: pytest.fail("nothing to encode")) == []
