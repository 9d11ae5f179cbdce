"""Tuning the encoder: the same network as the one that serves, moved by what was taught, and by nothing else."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from online.models import minilm
from online.models.adapter import Lesson, Lower, Tuning, Weights, contrast, generator, tensors_of, tune
from online.models.encoder import TEXT_SCALE, TEXT_WIDTH, TextEncoder, quantised

BOOKS, ROOMS = "books", "rooms"
LESSONS = [
    Lesson("How do I renew a book?", BOOKS),
    Lesson("Can I keep this novel for two more weeks?", BOOKS),
    Lesson("My loan is due tomorrow", BOOKS),
    Lesson("How do I book a room?", ROOMS),
    Lesson("Is there a quiet place for our group?", ROOMS),
    Lesson("We need a table for six people", ROOMS),
]
QUICK = Tuning(layers=1, rank=4, epochs=8, pairs=3)


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return tensors_of(minilm.read_weights(minilm.package_folder()))


def lower_of(weights: Weights, texts: list[str], layers: int = 1) -> Lower:
    tokenizer = minilm.tokenizer()
    return Lower(weights, layers, [tokenizer.encode(text).ids for text in texts])


def tuned(weights: Weights, lessons: list[Lesson], tuning: Tuning) -> dict[str, Tensor]:
    lower = lower_of(weights, [lesson.text for lesson in lessons], tuning.layers)
    return {**weights, **tensors_of(tune(weights, lower, lessons, tuning))}


def test_the_network_gives_what_the_serving_graph_gives(weights: Weights, tmp_path: Path) -> None:
    texts = ["hi", "When do you open?", "How do I renew a book that somebody else has reserved?", "wifi " * 300]
    served = np.frombuffer(b"".join(TextEncoder(tmp_path).encode(texts)), np.int8).reshape(-1, TEXT_WIDTH)
    session = TextEncoder(tmp_path)._session
    for layers in (1, 2):
        lower = lower_of(weights, [" ".join(text.split()) for text in texts], layers)
        vectors = lower.vectors(weights).numpy()
        for text, vector in zip(texts, vectors, strict=True):
            ids = np.array([minilm.tokenizer().encode(" ".join(text.split())).ids], np.int64)
            assert np.abs(session.run(None, {"ids": ids})[0][0] - vector).max() < 1e-4
        assert np.abs(served.astype(int) - quantised(vectors)).max() <= 1
        together = lower.upper(weights, range(len(texts))).numpy()
        assert np.abs(together - vectors).max() < 1e-4  # padding changes nothing


def test_texts_of_one_label_come_nearer_and_those_of_another_go_further(weights: Weights) -> None:
    lower = lower_of(weights, [lesson.text for lesson in LESSONS])

    def gap(of: Weights) -> float:
        cosines = lower.vectors(of) @ lower.vectors(of).T
        return float(cosines[:3, :3].mean() - cosines[:3, 3:].mean())

    assert gap(tuned(weights, LESSONS, QUICK)) > gap(weights) + 0.05


@pytest.mark.parametrize("rank", [0, 4])
def test_equal_lessons_give_equal_bytes_and_only_the_last_layers_change(weights: Weights, rank: int) -> None:
    tuning = Tuning(layers=1, rank=rank, epochs=2, pairs=3, rate=1e-4)
    lower = lower_of(weights, [lesson.text for lesson in LESSONS])
    once, again = (tune(weights, lower, LESSONS, tuning) for _ in range(2))
    assert {name: tensor.tobytes() for name, tensor in once.items()} == {n: t.tobytes() for n, t in again.items()}
    assert once and all(name.startswith(f"encoder.layer.{minilm.LAYERS - 1}.") for name in once)
    assert any((tensor != weights[name].numpy()).any() for name, tensor in once.items())


def test_a_text_that_was_punished_for_a_label_moves_away_from_it(weights: Weights) -> None:
    punished = Lesson("How do I book a flight?", None, frozenset({ROOMS}))
    lessons = [*LESSONS, punished]
    lower = lower_of(weights, [lesson.text for lesson in lessons])

    def nearness(of: Weights) -> float:
        vectors = lower.vectors(of)
        return float((vectors[-1] @ vectors[3:6].T).mean())

    assert nearness(tuned(weights, lessons, QUICK)) < nearness(weights) - 0.05


def test_distillation_keeps_texts_where_they_were(weights: Weights) -> None:
    kept = [*LESSONS, Lesson("What is the capital of France?"), Lesson("Tell me a joke")]
    lower = lower_of(weights, [lesson.text for lesson in kept])
    before = lower.vectors(weights)

    def moved(distil: float) -> float:
        tuning = Tuning(layers=1, rank=4, epochs=12, pairs=4, rate=5e-3, distil=distil)
        return float((1 - (lower.vectors(tuned(weights, kept, tuning)) * before).sum(1))[6:].mean())

    assert moved(20.0) < 0.5 * moved(0.0)


def test_the_loss_is_the_formula_it_names() -> None:
    lessons = [Lesson("a", BOOKS), Lesson("b", BOOKS), Lesson("c", ROOMS), Lesson("d", None, frozenset({ROOMS}))]
    units = torch.nn.functional.normalize(torch.from_numpy(generator(0, 0).standard_normal((4, 5), np.float32)), dim=1)
    s = (units @ units.T / 0.1).double().numpy()
    e = np.exp(s)
    near = [-np.log(e[i, j] / (e[i, j] + e[i, 2])) for i, j in ((0, 1), (1, 0))]
    alone = [np.log1p(e[2, :2].sum() / np.exp(3.0)), np.log1p(e[3, 2] / np.exp(3.0))]
    assert float(contrast(units, lessons, 0.1)) == pytest.approx(sum(near + alone) / 4, rel=1e-4)


def test_what_is_tuned_is_served_from_a_file_named_by_its_hash(weights: Weights, tmp_path: Path) -> None:
    texts = [lesson.text for lesson in LESSONS]
    lower = lower_of(weights, texts)
    change = tune(weights, lower, LESSONS, QUICK)
    path = minilm.write_tuned(tmp_path / "encoders", change)
    encoder = TextEncoder(tmp_path / "cache", tuned=path)
    assert path.stem[:16] in encoder.epoch != TextEncoder.epoch
    served = np.frombuffer(b"".join(encoder.encode(texts)), np.int8).reshape(-1, TEXT_WIDTH).astype(int)
    expected = quantised(lower.vectors({**weights, **tensors_of(change)}).numpy())
    assert np.abs(served - expected).max() <= 1
    assert np.abs(served - TEXT_SCALE * lower.vectors(weights).numpy()).max() > 5


def test_a_tuned_file_that_is_not_what_its_name_says_is_refused(weights: Weights, tmp_path: Path) -> None:
    name = f"encoder.layer.{minilm.LAYERS - 1}.output.dense.bias"
    path = minilm.write_tuned(tmp_path, {name: weights[name].numpy()})
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ValueError, match="does not match the sha256"):
        TextEncoder(tmp_path / "cache", tuned=path)
    for tensors, words in (
        ({"encoder.layer.9.bias": weights[name].numpy()}, "no tensor of this network"),
        ({name: np.full_like(weights[name].numpy(), np.nan)}, "not finite"),
    ):
        with pytest.raises(ValueError, match=words):
            TextEncoder(tmp_path / "cache", tuned=minilm.write_tuned(tmp_path, tensors))
