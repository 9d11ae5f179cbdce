"""Quantisation-aware towers: they learn by the products of their int8 file, reproducibly, and keep float weights."""

import logging
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from online.models import Example, Options
from online.models.kinds import spec_of
from online.plugins.export.exporter import RestoredVersion, build_graph, describe_export
from online.plugins.export.formats import FORMATS
from online.plugins.export.golden import ServedModel, ask
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.manifest import ExportSubject
from online.plugins.towers.fake_quantisation import FakeQuantiser
from online.plugins.towers.parallel.mirror import StackModule
from online.plugins.towers.stack import FLAT, Stack
from online.plugins.towers.tower import Tower
from tests.models.synthetic import vectors

pytestmark = pytest.mark.long

OPTIONS: Options = {
    "input": "vector",
    "size": 64,
    "hidden": [64, 96],
    "batch": 8,
    "replay": 8,
    "buffer": 100,
    "quantisation_aware": "int8",
}
NETWORKS: dict[str, Options] = {"mlp": {}, "cnn": {"network": "cnn", "image": [1, 8, 8]}}
LOG = vectors(160, size=64)
INPUTS = [example.features for example in vectors(60, 5, size=64)]


def train(log: list[Example] = LOG, **options: Any) -> Tower:
    model = Tower({**OPTIONS, **options})
    model.learn(log)
    return model


def read_served(model: Tower, classes: tuple[str, ...]) -> NDArray[np.float64]:
    answers = model.predict(INPUTS)
    scores = [{each.id: each.score for each in answer.candidates} for answer in answers]
    return np.array([[each[label] for label in classes] for each in scores])


def answer_with_file(model: Tower, form_name: str) -> tuple[tuple[str, ...], NDArray[np.float64], bytes]:
    """The classes, the chances [N, C] of one input after the other, and the file."""
    form = FORMATS[form_name]
    subject = ExportSubject("m", 1, "tower", len(LOG), model.fingerprint(), "", model.feature_epoch())
    version = RestoredVersion(subject, model.options, ServedModel(model, lambda rows: [bytes(row) for row in rows]))
    graph = build_graph(spec_of("tower"), model, ExportGraphBuilder(form.wide), ())
    description = describe_export(version.subject, spec_of("tower"), graph, form)
    data = form.write(graph, description)
    run = form.load(data, description)
    rows = [np.frombuffer(features, np.float64).tolist() for features in INPUTS]
    return graph.classes, np.stack([ask(graph, run, [row])[0]["chances"] for row in rows]), data


# what is learned


@pytest.mark.parametrize("network", NETWORKS)
def test_the_same_log_leaves_the_same_state_after_an_interruption(network: str) -> None:
    whole, resumed = train(**NETWORKS[network]), Tower({**OPTIONS, **NETWORKS[network]})
    resumed.restore(train(LOG[:77], **NETWORKS[network]).state())
    resumed.learn(LOG[77:])
    assert resumed.fingerprint() == whole.fingerprint()
    assert whole.fingerprint() != train(**NETWORKS[network], quantisation_aware="off").fingerprint()


@pytest.mark.parametrize("strategy", ["er_ace", "derpp", "ewc", "lwf", "agem"])
def test_every_strategy_learns_by_quantised_products(strategy: str) -> None:
    model, resumed = train(strategy=strategy), Tower({**OPTIONS, "strategy": strategy})
    resumed.restore(train(LOG[:120], strategy=strategy).state())
    resumed.learn(LOG[120:])
    assert resumed.fingerprint() == model.fingerprint()


def test_another_process_learns_the_same_and_nothing_is_printed() -> None:
    script = (
        "import torch\n"
        "from tests.plugins.towers.test_fake_quantisation import LOG, train\n"
        "torch.set_num_threads(1)\n"
        "print(train(LOG[:24]).fingerprint())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [train(LOG[:24]).fingerprint()]
    assert done.stderr == ""


def test_a_step_in_parts_is_that_of_all_rows_together() -> None:
    """Each row has its own scale: no other row of a part changes what it contributes."""
    whole, parts = Tower(OPTIONS), Tower({**OPTIONS, "accumulate": 4})
    for model in (whole, parts):
        model.learn(LOG[:15])
    assert isinstance(whole.trainer.stack, Stack) and isinstance(parts.trainer.stack, Stack)
    moved, same = whole.trainer.stack.mean_LP, parts.trainer.stack.mean_LP
    assert float((moved - same).abs().max()) < 1e-5 * float(moved.abs().max()) + 1e-7


def test_processes_that_learn_together_multiply_by_the_same_numbers() -> None:
    stack = train(LOG[:40]).trainer.stack
    assert isinstance(stack, Stack)
    x_BD = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    logits_LBC = stack.logits(x_BD)
    assert torch.equal(StackModule(stack.layout, stack.parameters_LP)(x_BD), logits_LBC)
    served_LBC = stack.layout.served_logits(stack.layout.views(stack.parameters_LP), x_BD)
    assert not torch.equal(served_LBC, logits_LBC)


def test_a_reward_below_a_half_is_learned_too() -> None:
    model = train()
    before = model.predict([INPUTS[0]])[0]
    model.learn([Example(1_000 + n, "reward", INPUTS[0], str(before.choice), reward=0.0) for n in range(16)])
    assert max(each.score for each in model.predict([INPUTS[0]])[0].candidates if each.id == before.choice) < (
        before.candidates[0].score
    )


def test_small_matrices_are_left_alone_as_in_the_file() -> None:
    aware, plain = (train(hidden=[32], strategy="er_ace", quantisation_aware=choice) for choice in ("int8", "off"))
    assert aware.fingerprint() == plain.fingerprint()


# the grid


@pytest.mark.parametrize("network", NETWORKS)
def test_a_tower_learns_from_the_answers_that_its_int8_file_gives(network: str) -> None:
    model = train(**NETWORKS[network])
    classes, file_NC, _ = answer_with_file(model, "onnx-int8")
    served = model._published()
    assert served is not None
    x_BD = torch.from_numpy(model.standard.scaled(model.standard.raw(INPUTS), 64))
    with torch.no_grad():
        logits_BC = model.layout.logits(model.layout.views(served.copy.row_1P), x_BD)[0]
    learned_NC = logits_BC[:, torch.from_numpy(model.known_C)].double().softmax(1).numpy()
    assert classes == tuple(model.labels)
    near_N = np.abs(learned_NC - file_NC).max(1) < 1e-4
    assert near_N.mean() >= 0.95  # the rest: a number that lies between two of the grid goes to either
    assert (np.abs(learned_NC - file_NC).max(1) < np.abs(read_served(model, classes) - file_NC).max(1))[near_N].all()


def test_the_weights_of_the_file_are_those_that_were_learned_with() -> None:
    model = train()
    _, _, data = answer_with_file(model, "onnx-int8")
    constants = {each.name: numpy_helper.to_array(each) for each in onnx.load_model_from_string(data).graph.initializer}
    served = model._published()
    assert served is not None
    for name in ("0.weight", "1.weight"):
        weight_LDH = model.layout.views(served.copy.row_1P)[name]
        learned_DH = FakeQuantiser().quantise_weights(weight_LDH, 1)[0].numpy()
        steps_DH, scale_H = constants[f"{name}.int8"], constants[f"{name}.scales"]
        assert steps_DH.dtype == np.int8 and steps_DH.max() == 64
        assert np.isclose(learned_DH, steps_DH * scale_H, rtol=1e-5, atol=1e-7).mean() > 0.999


def test_gradients_pass_straight_through_the_rounding() -> None:
    weight_LDH = torch.linspace(-1, 1, 12).reshape(1, 4, 3).requires_grad_()
    FakeQuantiser().quantise_weights(weight_LDH, 1).sum().backward()  # type: ignore[no-untyped-call]
    assert weight_LDH.grad is not None and torch.equal(weight_LDH.grad, torch.ones(1, 4, 3))


# what is served and exported


@pytest.mark.parametrize("network", NETWORKS)
def test_the_service_answers_with_float_weights(network: str) -> None:
    model = train(**NETWORKS[network])
    plain = Tower({**OPTIONS, **NETWORKS[network], "quantisation_aware": "off"})
    plain.restore(model.state(serving_only=True))
    assert plain.predict(INPUTS) == model.predict(INPUTS)
    classes, file_NC, _ = answer_with_file(model, "onnx")
    assert np.abs(file_NC - read_served(model, classes)).max() < 1e-4


def test_the_state_has_float_weights_that_lie_on_no_grid() -> None:
    stack = train().trainer.stack
    assert isinstance(stack, Stack)
    weights = stack.layout.views(stack.parameters_LP)["0.weight"]
    assert all(getattr(stack, name).dtype == torch.float32 for name in FLAT)
    assert len(set(weights[0, :, 0].tolist())) == 64


def test_an_int8_file_agrees_with_the_served_answers() -> None:
    for network in NETWORKS.values():
        model = train(**network)
        classes, file_NC, _ = answer_with_file(model, "onnx-int8")
        served_NC = read_served(model, classes)
        assert np.mean(file_NC.argmax(1) == served_NC.argmax(1)) >= 0.95


# options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantisation_aware": "int4"}, "option 'quantisation_aware' must be one of off, int8, not 'int4'"),
        ({"network": "tests.plugins.towers.own_networks:wide"}, "must be off with the network"),
        ({"accumulate": 2, "parallel": "fsdp"}, "must be off with 'parallel' = 'fsdp'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: Options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tower({**OPTIONS, **options})


def test_without_torchao_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao", None)  # as if it were not installed
    with pytest.raises(ValueError, match=r"pip install 'online\[quantised\]'"):
        Tower(OPTIONS)
    Tower({**OPTIONS, "quantisation_aware": "off"})


def test_the_levels_of_loggers_are_as_before() -> None:
    train(LOG[:8])
    assert logging.getLogger("torchao").level == logging.NOTSET
