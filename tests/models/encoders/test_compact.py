"""The compact encoder: a quarter of the bytes, and nearly the same vectors."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from online.io.cache import cache_folder
from online.models.encoders import minilm
from online.models.encoders.compact import compact_file, quantise

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
