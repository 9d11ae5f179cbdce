"""The compact encoder: a quarter of the bytes, and nearly the same vectors."""

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from online.io.cache import cache_folder
from online.models.encoders import minilm
from online.models.encoders.compact import compact_epoch, compact_file, quantise, remove_older

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


def test_the_newest_two_tuned_encoders_and_the_untuned_one_are_kept(tmp_path: Path) -> None:
    names = [f"{compact_epoch(tuned * 8)}.onnx" for tuned in ("", "a", "b", "c")]
    for place, name in enumerate([*names, "minilm-other.onnx"]):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (place, place))
    remove_older(tmp_path, tmp_path / names[3])
    assert {path.name for path in tmp_path.iterdir()} == {names[0], names[2], names[3], "minilm-other.onnx"}
