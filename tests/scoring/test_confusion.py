"""The confusion matrix: its numbers equal a recount, and its size is bounded."""

import json
import random
from pathlib import Path

import pytest

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.model_setup import ModelSetup
from online.evaluation.sources.opening import open_source
from online.models import Example, create
from online.scoring.confusion import MAX_CLASSES, MAX_PAIRS, ConfusedPair, build_confusion
from online.scoring.score import MAX_PAIRS as MAX_NUMBERS
from online.scoring.score import NumberPairs
from tests.evaluation.replaying import run_replay, write_blobs


def test_the_matrix_of_a_replay_equals_a_recount_of_its_answers(tmp_path: Path) -> None:
    log = write_blobs(tmp_path, 150)
    found = run_replay(log, CandidateSpec("knn", every=1)).report().details.confusion
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    setup = ModelSetup(open_source(str(log)), CandidateSpec("knn"))
    encoder = setup.create_encoder()
    assert encoder is not None
    model, counts = create("knn", setup.options), dict[tuple[str, str | None], int]()
    for number, row in enumerate(rows):
        data, label = encoder.encode([row["input"]])[0], str(row["label"])
        pair = label, model.predict([data])[0].choice
        counts[pair] = counts.get(pair, 0) + 1
        model.learn([Example(number + 1, "label", data, label)])
    assert found is not None and found.class_count == 3
    names = [*found.classes, "(others)", None]
    recount = [[counts.get((label, answer), 0) for answer in names] for label in found.classes]
    assert found.rows[:3] == recount and sum(map(sum, found.rows)) == 150


def test_only_the_most_frequent_classes_have_rows_and_nothing_is_lost() -> None:
    rng = random.Random(0)
    counts: dict[tuple[str, str | None], int]
    counts = {(str(truth), str(rng.randrange(50))): rng.randrange(1, 9) for truth in range(50) for _ in range(3)}
    counts["7", None] = 100
    found = build_confusion(counts)
    assert found is not None and len(found.classes) == MAX_CLASSES and found.class_count == 50
    assert found.classes[0] == "7" and found.rows[0][-1] == 100
    assert sum(map(sum, found.rows)) == sum(counts.values())
    assert {len(row) for row in found.rows} == {MAX_CLASSES + 2} and len(found.pairs) == MAX_PAIRS
    assert found.pairs[0] == ConfusedPair("7", None, 100, sum(n for (truth, _), n in counts.items() if truth == "7"))


def test_pairs_are_the_confusions_by_their_number() -> None:
    found = build_confusion({("a", "a"): 9, ("a", "b"): 2, ("b", "a"): 5, ("b", "b"): 1})
    assert found is not None
    assert [(each.right, each.answered, each.count, each.of) for each in found.pairs] == [
        ("b", "a", 5, 6),
        ("a", "b", 2, 11),
    ]
    assert build_confusion({}) is None


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_kept_numbers_are_evenly_spaced_whatever_the_chunks(size: int) -> None:
    kept, pairs = NumberPairs(), [(float(n), -float(n)) for n in range(10_000)]
    for start in range(0, len(pairs), size):
        kept.add_all(pairs[start : start + size])
    assert kept.count == 10_000 and len(kept.pairs) < MAX_NUMBERS
    assert kept.pairs == pairs[:: kept.every] and kept.every == 8
