"""CLINC150, class by class, on the frozen encoder: what the exact head promises on real questions."""

from pathlib import Path

import pytest

from benchmarks.clinc150 import accuracy_percent, class_by_class, examples_of, learn, splits


def test_class_by_class_is_as_good_as_all_at_once(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_SHARED_DATA", str(shared_data))
    train, test = splits()
    examples = examples_of(train)
    incremental, _ = learn(class_by_class(examples), batch=64)
    joint, _ = learn(examples, batch=1_000)
    assert incremental.fingerprint() == joint.fingerprint(), "nothing is forgotten"
    assert accuracy_percent(incremental, test) >= 92.5
