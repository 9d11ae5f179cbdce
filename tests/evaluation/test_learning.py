"""CLINC150, class by class, on the frozen encoder: what the exact heads promise on real questions."""

from itertools import chain
from pathlib import Path

import pytest

from benchmarks.clinc150 import examples_of, shuffled, split, tasks_of
from benchmarks.learning import SLDA, judged, learned, percent


def test_class_by_class_is_as_good_as_all_at_once(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_SHARED_DATA", str(shared_data))
    examples = examples_of(split("train"))
    incremental = learned(SLDA, list(chain.from_iterable(tasks_of(examples))), batch=64)
    joint = learned(SLDA, shuffled(examples), batch=1_000)
    assert incremental.fingerprint() == joint.fingerprint(), "nothing is forgotten"
    assert percent(judged(incremental, split("test")).right_N) >= 92.5
