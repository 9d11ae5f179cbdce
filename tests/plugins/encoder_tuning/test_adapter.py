"""Tuning the encoder: the network equals the serving graph, and only the lessons change it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from online.models.encoders import minilm
from online.models.encoders.text import TEXT_SCALE, TEXT_WIDTH, TextEncoder, quantise
from online.plugins.encoder_tuning.adapter import (
    FrozenLayers,
    TuningExample,
    TuningOptions,
    Weights,
    contrastive_loss,
    create_generator,
    to_tensors,
    tune_layers,
)

BOOKS, ROOMS = "books", "rooms"
LESSONS = [
    TuningExample("How do I renew a book?", BOOKS),
    TuningExample("Can I keep this novel for two more weeks?", BOOKS),
    TuningExample("My loan is due tomorrow", BOOKS),
    TuningExample("How do I book a room?", ROOMS),
    TuningExample("Is there a quiet place for our group?", ROOMS),
    TuningExample("We need a table for six people", ROOMS),
]
QUICK = TuningOptions(layers=1, rank=4, epochs=8, pairs=3)


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return to_tensors(minilm.read_weights(minilm.package_folder()))


def frozen_layers(weights: Weights, texts: list[str], layers: int = 1) -> FrozenLayers:
    tokenizer = minilm.tokenizer()
    return FrozenLayers(weights, layers, [tokenizer.encode(text).ids for text in texts])


def tune(weights: Weights, lessons: list[TuningExample], tuning: TuningOptions) -> dict[str, Tensor]:
    lower = frozen_layers(weights, [lesson.text for lesson in lessons], tuning.layers)
    return {**weights, **to_tensors(tune_layers(weights, lower, lessons, tuning))}


@pytest.mark.long
def test_the_network_gives_the_vectors_of_the_serving_graph(weights: Weights, tmp_path: Path) -> None:
    texts = ["hi", "When do you open?", "How do I renew a book that somebody else has reserved?", "wifi " * 300]
    served = np.frombuffer(b"".join(TextEncoder(tmp_path).encode(texts)), np.int8).reshape(-1, TEXT_WIDTH)
    session = TextEncoder(tmp_path)._session
    for layers in (1, 2):
        lower = frozen_layers(weights, [" ".join(text.split()) for text in texts], layers)
        vectors = lower.vectors(weights).numpy()
        for text, vector in zip(texts, vectors, strict=True):
            ids = np.array([minilm.tokenizer().encode(" ".join(text.split())).ids], np.int64)
            assert np.abs(session.run(None, {"ids": ids})[0][0] - vector).max() < 1e-4
        assert np.abs(served.astype(int) - quantise(vectors)).max() <= 1
        together = lower.upper(weights, range(len(texts))).numpy()
        assert np.abs(together - vectors).max() < 1e-4  # padding changes nothing


def test_tuning_brings_texts_of_one_class_nearer_and_others_further_apart(weights: Weights) -> None:
    lower = frozen_layers(weights, [lesson.text for lesson in LESSONS])

    def gap(parameters: Weights) -> float:
        cosines = lower.vectors(parameters) @ lower.vectors(parameters).T
        return float(cosines[:3, :3].mean() - cosines[:3, 3:].mean())

    assert gap(tune(weights, LESSONS, QUICK)) > gap(weights) + 0.05


@pytest.mark.parametrize("rank", [0, 4])
def test_equal_lessons_give_equal_bytes_and_change_only_the_last_layers(weights: Weights, rank: int) -> None:
    tuning = TuningOptions(layers=1, rank=rank, epochs=2, pairs=3, rate=1e-4)
    lower = frozen_layers(weights, [lesson.text for lesson in LESSONS])
    once, again = (tune_layers(weights, lower, LESSONS, tuning) for _ in range(2))
    assert {name: tensor.tobytes() for name, tensor in once.items()} == {n: t.tobytes() for n, t in again.items()}
    assert once and all(name.startswith(f"encoder.layer.{minilm.LAYERS - 1}.") for name in once)
    assert any((tensor != weights[name].numpy()).any() for name, tensor in once.items())


def test_a_text_with_a_reward_of_0_for_a_class_moves_away_from_it(weights: Weights) -> None:
    negative = TuningExample("How do I book a flight?", None, frozenset({ROOMS}))
    lessons = [*LESSONS, negative]
    lower = frozen_layers(weights, [lesson.text for lesson in lessons])

    def nearness(parameters: Weights) -> float:
        vectors = lower.vectors(parameters)
        return float((vectors[-1] @ vectors[3:6].T).mean())

    assert nearness(tune(weights, lessons, QUICK)) < nearness(weights) - 0.05


@pytest.mark.long
def test_distillation_keeps_other_texts_in_place(weights: Weights) -> None:
    lessons = [*LESSONS, TuningExample("What is the capital of France?"), TuningExample("Tell me a joke")]
    lower = frozen_layers(weights, [lesson.text for lesson in lessons])
    before = lower.vectors(weights)

    def distance(distil: float) -> float:
        tuning = TuningOptions(layers=1, rank=4, epochs=12, pairs=4, rate=5e-3, distil=distil)
        return float((1 - (lower.vectors(tune(weights, lessons, tuning)) * before).sum(1))[6:].mean())

    assert distance(20.0) < 0.5 * distance(0.0)


def test_the_loss_equals_its_formula() -> None:
    lessons = [
        TuningExample("a", BOOKS),
        TuningExample("b", BOOKS),
        TuningExample("c", ROOMS),
        TuningExample("d", None, frozenset({ROOMS})),
    ]
    units = torch.nn.functional.normalize(
        torch.from_numpy(create_generator(0, 0).standard_normal((4, 5), np.float32)), dim=1
    )
    s = (units @ units.T / 0.1).double().numpy()
    e = np.exp(s)
    with_positive = [-np.log(e[i, j] / (e[i, j] + e[i, 2])) for i, j in ((0, 1), (1, 0))]
    without_positive = [np.log1p(e[2, :2].sum() / np.exp(3.0)), np.log1p(e[3, 2] / np.exp(3.0))]
    assert float(contrastive_loss(units, lessons, 0.1)) == pytest.approx(
        sum(with_positive + without_positive) / 4, rel=1e-4
    )


@pytest.mark.long
def test_tuned_weights_are_served_from_a_file_named_by_its_hash(weights: Weights, tmp_path: Path) -> None:
    texts = [lesson.text for lesson in LESSONS]
    lower = frozen_layers(weights, texts)
    change = tune_layers(weights, lower, LESSONS, QUICK)
    path = minilm.write_tuned(tmp_path / "encoders", change)
    encoder = TextEncoder(tmp_path / "cache", tuned=path)
    assert path.stem[:16] in encoder.epoch != TextEncoder.epoch
    served = np.frombuffer(b"".join(encoder.encode(texts)), np.int8).reshape(-1, TEXT_WIDTH).astype(int)
    expected = quantise(lower.vectors({**weights, **to_tensors(change)}).numpy())
    assert np.abs(served - expected).max() <= 1
    assert np.abs(served - TEXT_SCALE * lower.vectors(weights).numpy()).max() > 5


def test_a_tuned_file_that_does_not_match_its_name_is_refused(weights: Weights, tmp_path: Path) -> None:
    name = f"encoder.layer.{minilm.LAYERS - 1}.output.dense.bias"
    path = minilm.write_tuned(tmp_path, {name: weights[name].numpy()})
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ValueError, match="does not match the sha256"):
        TextEncoder(tmp_path / "cache", tuned=path)
    for tensors, message in (
        ({"encoder.layer.9.bias": weights[name].numpy()}, "not a tensor of this network"),
        ({name: np.full_like(weights[name].numpy(), np.nan)}, "not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            TextEncoder(tmp_path / "cache", tuned=minilm.write_tuned(tmp_path, tensors))
