"""What may go live: sound candidates, that lose neither a canary nor held-out answers against what is live."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from online.candidates import refused_candidates
from online.learning.gate import Canary, Comparison, Gate, canaries_of, chance_of, worse
from online.learning.held_out import MOST, HeldOut
from online.learning.process import canaries
from online.models import Example, create
from online.schemas import Entry, Event
from online.settings import CanarySettings, ModelSettings
from tests.learning.test_learner import VECTOR, Scene, events, retraction, text_features, vector_event


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.workspace.store.close()


def taught_ranker() -> Any:
    ranker = create("ranker", {})
    ranker.learn([Example(n, "reply", text_features(n), f"r{n}", f"reply {n}") for n in (1, 2)])
    ranker.learn([Example(3, "correction", text_features(30), "r1")])
    return ranker


def test_the_gate_lets_a_sound_candidate_pass() -> None:
    ranker = taught_ranker()
    assert Gate("ranker", {}).refusal(ranker.state(serving_only=True), ranker.probes()) is None


def test_the_gate_refuses_numbers_that_are_not_finite() -> None:
    ranker = taught_ranker()
    state = ranker.state(serving_only=True)
    state["weights"].tensors["bias"][0] = np.nan
    assert Gate("ranker", {}).refusal(state, []) == "weights.bias holds numbers that are not finite"


def test_the_gate_refuses_what_cannot_predict() -> None:
    ranker = taught_ranker()
    state = dict(ranker.state(serving_only=True))
    del state["weights"]
    assert "cannot predict" in str(Gate("ranker", {}).refusal(state, ranker.probes()))


def test_the_gate_refuses_a_candidate_that_breaks_a_taught_pair() -> None:
    ranker = taught_ranker()
    state = ranker.state(serving_only=True)
    state["exemplars-0"].tensors["reply"][:] = 1
    assert Gate("ranker", {}).refusal(state, ranker.probes()) == "a question that was taught 'r1' would get 'r2'"


# held out


def observed(*happened: Event) -> HeldOut:
    held_out = HeldOut()
    for offset, event in enumerate(happened, 1):
        held_out.observe(Entry(offset, event))
    return held_out


def test_what_is_held_out_is_chosen_by_its_id_and_balanced_over_the_labels() -> None:
    told = [vector_event(f"e{n}", "rare" if n % 50 == 0 else "common", n) for n in range(4_000)]
    held_out = observed(*told)
    labels = [item.label for item in held_out]
    rare = sum(event.label == "rare" for event in told)
    assert len(held_out) == MOST
    assert rare / 8 / 3 < labels.count("rare") <= rare
    offsets = {item.offset for item in held_out}
    assert offsets == {item.offset for item in observed(*told)}
    assert min(item.offset for item in held_out if item.label == "common") > 3_000  # the newest of them


def test_every_label_keeps_one_where_there_are_very_many() -> None:
    held_out = observed(*(vector_event(f"e{n}", f"label {n % 100}", n) for n in range(8_000)))
    assert len(held_out) == MOST
    assert len({item.label for item in held_out}) == 100


def test_what_was_said_of_the_same_input_before_no_longer_counts() -> None:
    ids = [f"e{n}" for n in range(200)]
    held_out = observed(*(Event(id, "label", b"same", "ab"[n % 2]) for n, id in enumerate(ids)))
    assert len(held_out) == 1


def test_a_thumb_down_for_the_same_answer_ends_it_too() -> None:
    said = [Event(f"e{n}", "reward", f"q{n}".encode(), "a") for n in range(200)]
    denied = [Event(f"d{n}", "reward", f"q{n}".encode(), "a", reward=0.0) for n in range(200)]
    assert len(observed(*said)) > 10
    assert len(observed(*said, *denied)) == 0


def test_what_says_nothing_of_what_is_right_is_not_held_out() -> None:
    ids = [f"e{n}" for n in range(200)]
    assert len(observed(*(Event(id, "reward", id.encode(), "a", reward=0.0) for id in ids))) == 0
    assert len(observed(*(Event(id, "reply", b"", "a", text="hello") for id in ids))) == 0


def test_what_is_retired_or_taken_back_leaves_what_is_held_out(scene: Scene) -> None:
    scene.learn(*events(100))
    held_out = scene.learner.pupil.held_out
    offset = next(iter(held_out)).offset
    scene.learn(retraction(scene.stream, offset))
    assert offset not in {item.offset for item in held_out}
    scene.learn(Event("gone", "retire", b"", "a"))
    assert {item.label for item in held_out} == {"b"}


def test_what_was_held_out_is_there_after_a_restart(scene: Scene) -> None:
    scene.learn(*events(200))
    before = set(scene.learner.pupil.held_out)
    assert before and set(scene.started().pupil.held_out) == before


# not worse than what is live


def lies(count: int) -> list[Event]:
    """Each side under the other one's name. None of them is held out."""
    told = (vector_event(f"p{n}", "ab"[n % 2], n) for n in range(1_000, 1_000 + 2 * count))
    turned = (Event(event.id, "label", event.features, {"a": "b", "b": "a"}[event.label]) for event in told)
    return [event for event in turned if len(observed(event)) == 0][:count]


def test_a_candidate_that_is_worse_is_not_published_and_the_refusal_can_be_read(scene: Scene) -> None:
    scene.learn(*events(400))
    good = scene.snapshots.live()
    scene.learner.batch = 1_000
    scene.learn(*lies(900))
    assert scene.snapshots.live() == good
    rows = scene.workspace.store.read(lambda connection: refused_candidates(connection, "m", 10))
    assert [(row.since, row.until, row.times) for row in rows] == [(1_300, 1_300, 1)]
    assert "held-out answers it has" in rows[0].reason


def test_learning_goes_on_and_what_is_as_good_again_is_published(scene: Scene) -> None:
    scene.learn(*events(400))
    scene.learner.batch = 1_000
    scene.learn(*lies(900))
    assert scene.live_until() == 400
    for offset in range(401, 1_301):
        scene.stream.append(retraction(scene.stream, offset))
    scene.learn()
    scene.learner.published_at = -1e9  # as if the rest were over
    scene.learn(*events(1, start=400))
    assert scene.live_until() == 2_201
    rows = scene.workspace.store.read(lambda connection: refused_candidates(connection, "m", 10))
    assert len(rows) == 1


def test_the_gate_compares_with_what_is_live_after_a_roll_back_too(scene: Scene) -> None:
    scene.learn(*events(400))
    live = scene.snapshots.live()
    assert live is not None
    scene.learner.batch = 1_000
    again = scene.started()  # as after a restart: nothing is known of what is live
    again.batch = 1_000
    scene.learner = again
    scene.learn(*lies(900))
    assert scene.snapshots.live() == live


def test_a_version_of_another_recipe_is_nothing_to_compare_with(scene: Scene) -> None:
    scene.learn(*events(400))
    other = Comparison("classifier", {**VECTOR, "scale": 5.0}, scene.snapshots)
    assert other.refusal(create("classifier", VECTOR), scene.learner.pupil.held_out) is None


@pytest.mark.parametrize(
    ("lost", "won", "refused"), [(9, 0, False), (10, 0, True), (20, 12, False), (30, 6, True), (6, 30, False)]
)
def test_the_test_is_paired_and_one_sided(lost: int, won: int, refused: bool) -> None:
    both = 60
    live = dict(enumerate([True] * (both + lost) + [False] * won))
    candidate = dict(enumerate([True] * both + [False] * lost + [True] * won))
    assert (worse(live, candidate) is not None) == refused


def test_the_chance_of_heads() -> None:
    assert chance_of(0, 7) == 1.0
    assert chance_of(10, 10) == pytest.approx(1 / 1024)
    assert chance_of(2, 3) == pytest.approx(0.5)


# canaries


def canary(label: str, seed: int) -> Canary:
    return Canary(vector_event("canary", label, seed).features, label, f"[{seed}]")


def test_a_canary_that_would_be_lost_stops_a_candidate(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learner = scene.started(canaries=(canary("a", 1), canary("b", 2)), durable_every_s=1e9)
    scene.learn(*events(20))  # as long as nothing knew the answers, nothing was lost
    good = scene.snapshots.live()
    scene.learner.batch = 1_000
    scene.learn(*(vector_event(f"w{n}", "b" if n % 2 else "a", n) for n in range(40, 60)))
    assert scene.snapshots.live() != good
    good = scene.snapshots.live()
    swapped = [Event(f"s{n}", "label", canary("a", 1).features, "b") for n in range(400)]
    scene.learn(*swapped)
    assert scene.snapshots.live() == good
    rows = scene.workspace.store.read(lambda connection: refused_candidates(connection, "m", 10))
    assert rows[0].reason == "the canary '[1]' would no longer get 'a'"
    scene.workspace.store.close()


def test_canaries_are_encoded_as_the_model_reads(tmp_path: Path) -> None:
    told = (CanarySettings(input=[1, 2, 3], answer="a"),)
    spec = ModelSettings(name="m", kind="classifier", options=dict(VECTOR), canaries=told)
    scene = Scene(tmp_path)
    assert canaries(scene.workspace, spec, VECTOR) == [Canary(np.array([1.0, 2.0, 3.0]).tobytes(), "a", "[1, 2, 3]")]
    scene.workspace.store.close()


def test_a_canary_of_a_ranker_names_the_reply_or_says_it() -> None:
    ranker = taught_ranker()
    answer = ranker.predict([text_features(30)])[0]
    for said in ("r1", "reply 1"):
        assert Canary(b"", said, "").answered_by(answer)
    assert not Canary(b"", "r2", "").answered_by(answer)


def test_without_canaries_nothing_is_encoded() -> None:
    assert canaries_of([], lambda instances: pytest.fail("nothing to encode")) == []
