"""Sums of devices in a learner: learned exactly once, judged as a whole, subtracted, replayed, also after a kill."""

import os
import signal
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from online.learning.gate import GoldenQuestion
from online.learning.training_state import TrainingState
from online.models import Example, create
from online.models.classifier import Classifier
from online.models.exchange.sums_file import read_sums, write_sums
from online.models.statistics.exact import ExactStatistics
from online.schemas.events import Event
from online.store.refusals import load_refusals
from tests.learning.conftest import CreateScene
from tests.learning.scene import VECTOR, Scene, retraction, sums_event, vector_event, vector_events


def swapped_events(count: int) -> list[Event]:
    """Events whose labels are all wrong."""
    events = vector_events(count, start=5_000)
    return [Event(e.id, "label", e.features, "ab"[e.label == "a"]) for e in events]


def central_fingerprint(events: Sequence[Event]) -> str:
    model = create("classifier", VECTOR)
    model.learn([Example(n, "label", event.features, event.label) for n, event in enumerate(events, 1)])
    return model.fingerprint()


def test_a_learner_that_merges_sums_has_the_hash_of_one_that_saw_the_events(scene: Scene) -> None:
    events = vector_events(60)
    scene.learn(*events[:20], sums_event("device 1", events[20:40]), sums_event("device 2", events[40:]))
    assert scene.fingerprint() == central_fingerprint(events)
    assert scene.live_until() == 22
    live = scene.snapshots.folder.live()
    assert live is not None and scene.snapshots.folder.manifest(live.version).state_sha256 == scene.fingerprint()


def test_sums_that_arrive_twice_are_learned_once(scene: Scene) -> None:
    events = vector_events(30)
    sums = sums_event("device", events[20:])
    scene.learn(*events[:20], sums, sums)
    assert scene.stream.head() == 21
    assert scene.fingerprint() == central_fingerprint(events)


def test_retracted_sums_leave_the_state_of_never_having_seen_them(scene: Scene) -> None:
    events = vector_events(40)
    scene.learn(*events[:10], sums_event("device", events[20:]), *events[10:20])
    scene.learn(retraction(scene.stream, 11))
    assert scene.fingerprint() == central_fingerprint(events[:20])


def test_a_learner_that_starts_again_goes_on_from_the_snapshot_with_the_sums(scene: Scene) -> None:
    events = vector_events(60)
    scene.learn(*events[:20], sums_event("device", events[20:40]))
    scene.learner = scene.start_learner()
    assert scene.learner.training.learned_until == 21
    scene.learn(*events[40:])
    assert scene.fingerprint() == central_fingerprint(events)
    scene.learn(retraction(scene.stream, 21))
    assert scene.fingerprint() == central_fingerprint([*events[:20], *events[40:]])


def test_a_learner_killed_in_the_middle_of_merging_learns_the_sums_once(scene: Scene, tmp_path: Path) -> None:
    events = vector_events(60)
    scene.learn(*events[:20])
    for event in (sums_event("device 1", events[20:40]), sums_event("device 2", events[40:])):
        scene.stream.append(event)
    for merges in (0, 1):
        if (child := os.fork()) == 0:
            kill_in_merge(tmp_path, merges)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    scene.learner = scene.start_learner()
    scene.learn()
    assert scene.fingerprint() == central_fingerprint(events)


def kill_in_merge(folder: Path, merges: int) -> None:
    """Let a learner kill its process after it has added further sums than `merges`, and before it publishes that."""
    merge, done = ExactStatistics.merge, count(1)

    def merge_and_die(self: ExactStatistics, other: ExactStatistics, times: int = 1) -> None:
        merge(self, other, times)
        if next(done) > merges:
            os.kill(os.getpid(), signal.SIGKILL)

    ExactStatistics.merge = merge_and_die  # type: ignore[method-assign]
    try:
        scene = Scene(folder)
        scene.learner = scene.start_learner(batch=1)
        scene.learn()
    finally:
        os._exit(1)


def test_a_replay_of_the_log_gives_the_same_hash_however_it_is_cut(scene: Scene) -> None:
    events = vector_events(60)
    scene.learn(
        *events[:20], sums_event("device", events[20:40]), *events[40:], sums_event("other", swapped_events(30))
    )
    scene.learn(retraction(scene.stream, 21))
    entries = scene.stream.read(0, 1_000)
    for cut in (1, 7, 21, len(entries)):
        training = TrainingState(scene.kind, scene.options, "cpu", history=lambda until: ())
        for start in range(0, len(entries), cut):
            training.apply(entries[start : start + cut])
        assert training.model.fingerprint() == scene.fingerprint()


def test_whether_sums_are_refused_does_not_depend_on_where_a_batch_ends(scene: Scene) -> None:
    """Only the few answers before the sums judge them; those after them would refuse them."""
    events = vector_events(240)
    log = [*events[:40], sums_event("poisoned", swapped_events(2_000)), *events[40:]]
    entries = [event.at(offset) for offset, event in enumerate(log, 1)]
    outcomes = set()
    for cut in (1, 7, 41, len(entries)):
        training = TrainingState(scene.kind, scene.options, "cpu", history=lambda until: ())
        for start in range(0, len(entries), cut):
            training.apply(entries[start : start + cut])
        outcomes.add((training.model.fingerprint(), *training.refused))
    assert len(outcomes) == 1


# judged as a whole


def test_sums_with_which_the_model_would_answer_worse_are_refused_as_a_whole(scene: Scene) -> None:
    events = vector_events(400)
    scene.learn(*events)
    held_out = len(scene.learner.training.held_out)
    before = scene.fingerprint()
    scene.learn(sums_event("poisoned", swapped_events(2_000)))
    assert scene.fingerprint() == before
    assert scene.live_until() == 401, "learning goes on, without them"
    [reason] = refusals(scene).values()
    assert "with these sums the model would answer worse" in reason
    assert f"of {held_out} held-out answers" in reason
    scene.learner = scene.start_learner()
    scene.learn(*vector_events(10, start=400), retraction(scene.stream, 401))
    assert scene.fingerprint() == central_fingerprint(vector_events(410)), "what was not learned is not subtracted"


@pytest.mark.parametrize("holder", [1, 3])
def test_what_the_contributor_has_said_does_not_judge_the_sums(scene: Scene, holder: int) -> None:
    """Of each holder eight answers are held out. Those of two others refuse the sums, those of one are too few."""
    answers = [replace(event, holder=(2, holder)[n < 400]) for n, event in enumerate(vector_events(800))]
    sums = replace(sums_event("poisoned", swapped_events(2_000)), holder=1)
    training = TrainingState(scene.kind, scene.options, "cpu", history=lambda until: ())
    training.apply([event.at(offset) for offset, event in enumerate([*answers, sums], 1)])
    assert len(training.held_out) == 16
    assert (801 in training.refused) == (holder == 3)


def test_sums_are_refused_that_change_the_answer_to_a_golden_question(create_scene: CreateScene) -> None:
    scene = create_scene()
    question = vector_event("golden", "a", 9_999)
    scene.learner = scene.start_learner(golden_questions=[GoldenQuestion(question.features, "a", "the question")])
    scene.learn(*vector_events(20))
    before = scene.fingerprint()
    scene.learn(sums_event("poisoned", swapped_events(2_000)))
    assert scene.fingerprint() == before
    assert "golden question 'the question'" in refusals(scene)[21]


def test_sums_of_other_features_are_refused_and_learning_goes_on(scene: Scene) -> None:
    events = vector_events(20)
    other = Classifier({**VECTOR, "scale": 1.0})
    other.learn([Example(1, "label", events[0].features, "a")])
    scene.learn(*events[:10], Event("other", "sums", other.write_contribution()), *events[10:])
    assert "sums are of other features" in refusals(scene)[11]
    assert scene.fingerprint() == central_fingerprint(events)


@pytest.mark.parametrize("data", [b"", b"garbage", bytes(1_000)])
def test_what_is_no_file_of_sums_is_refused_and_learning_goes_on(scene: Scene, data: bytes) -> None:
    events = vector_events(20)
    scene.learn(*events[:10], Event("bad", "sums", data), *events[10:])
    assert "safetensors" in refusals(scene)[11]
    assert scene.fingerprint() == central_fingerprint(events)


def test_sums_of_a_class_that_cannot_be_written_are_refused_and_learning_goes_on(scene: Scene) -> None:
    events = vector_events(20)
    sums = read_sums(sums_event("device", events).features)
    sums.statistics.classes[0] = "\ud800"
    scene.learn(*events[:10], Event("bad", "sums", write_sums(sums.statistics, sums.meta)), *events[10:])
    assert "a class cannot have the name '\\ud800'" in refusals(scene)[11]
    assert scene.fingerprint() == central_fingerprint(events)


def test_sums_are_no_answer_to_be_judged(scene: Scene) -> None:
    events = vector_events(80)
    scene.learn(*events[:40], sums_event("device", events[40:]))
    counts = scene.learner.counts
    assert (counts.events, counts.rated) == (41, 40)
    assert all(item.offset <= 40 for item in scene.learner.training.held_out)


def refusals(scene: Scene) -> dict[int, str]:
    recipe, store = scene.learner.recipe, scene.workspace.store
    found: dict[int, str] = store.read(lambda connection: load_refusals(connection, "m", recipe))
    return found


def test_a_model_of_sums_alone_is_published_and_answers(scene: Scene) -> None:
    events = vector_events(200)
    scene.learn(sums_event("device", events[:100]))
    choices = scene.learner.training.model.predict([event.features for event in events[100:]])
    right = [answer.choice == event.label for answer, event in zip(choices, events[100:], strict=True)]
    assert scene.live_until() == 1 and np.mean(right) > 0.9
