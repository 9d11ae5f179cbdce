"""The compact encoder: a quarter of the bytes, and nearly the same vectors."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from online.io.cache import cache_folder
from online.models.encoders import minilm
from online.plugins.export.compact import compact_epoch, compact_file, find_compact_file, quantise, remove_older

TEXTS = ("When do you open?", "I lost my card and need a new one", "¿Dónde está la estación?", "a " * 200, "👍")


def encode(path: Path) -> NDArray[np.float32]:
    session, tokenizer = onnxruntime.InferenceSession(str(path)), minilm.tokenizer()
    return np.stack([session.run(None, {"ids": np.array([tokenizer.encode(t).ids], np.int64)})[0][0] for t in TEXTS])


def test_the_compact_encoder_gives_nearly_the_same_vectors_in_a_quarter_of_the_bytes() -> None:
    whole, compact = minilm.onnx_file(cache_folder()), compact_file(cache_folder())
    assert compact.stat().st_size < 0.27 * whole.stat().st_size
    cosines = (encode(whole) * encode(compact)).sum(1)
    assert cosines.min() > 0.99


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_are_rounded_by_half_a_step_of_their_row_or_column_at_most(axis: int) -> None:
    matrix = np.random.default_rng(1).normal(size=(20, 30)).astype(np.float32)
    matrix[3], matrix[:, 4] = 0, 0
    quantised, scales = quantise(matrix, axis)
    assert (np.abs(quantised * scales - matrix) <= 0.501 * scales).all()


def write_empty(folder: Path, used_s_ago: Mapping[str, float]) -> None:
    now = time.time()
    for name, age in used_s_ago.items():
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (now - age, 0))


def test_the_two_tuned_encoders_that_were_used_last_and_the_untuned_one_are_kept(tmp_path: Path) -> None:
    names = [f"{compact_epoch(tuned * 8)}.onnx" for tuned in ("", "a", "b", "c")]
    write_empty(tmp_path, {names[0]: 9_000, names[1]: 2_000, names[2]: 3_000, names[3]: 0, "minilm-other.onnx": 9_000})
    remove_older(tmp_path, tmp_path / names[3])
    assert {path.name for path in tmp_path.iterdir()} == {names[0], names[1], names[3], "minilm-other.onnx"}


def test_an_encoder_that_was_found_just_now_is_not_deleted(tmp_path: Path) -> None:
    names = [f"{compact_epoch(tuned * 8)}.onnx" for tuned in "abc"]
    write_empty(tmp_path, {names[0]: 9_000, names[1]: 8_000, names[2]: 0})
    changed_at = (tmp_path / names[0]).stat().st_mtime_ns
    for name in (names[0], names[1]):
        assert find_compact_file(tmp_path, Path(name[7] * 8)) == tmp_path / name
    assert (tmp_path / names[0]).stat().st_mtime_ns == changed_at, "its sha256 is not computed again"
    remove_older(tmp_path, tmp_path / names[2])
    assert {path.name for path in tmp_path.iterdir()} == {*names}
