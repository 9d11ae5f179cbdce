"""Towers: what is learned, replayed and kept, at which learning rate, and from which step on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from online.models import Example, Options, create, recipe
from online.models.devices.determinism import determinism_domain
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import Mlp
from online.plugins.towers.options import STRENGTHS
from online.plugins.towers.parts import SingleProcessEngine
from online.plugins.towers.shared import as_tower
from online.plugins.towers.stack import FLAT, LearningOptions, Stack
from online.plugins.towers.step_rows import FreshRows
from online.plugins.towers.strategies import STRATEGIES, DarkReplay, ExperienceReplay, TrainingStep, create_strategy
from online.plugins.towers.tower import Tower
from online.plugins.towers.trainer import SPREAD
from tests.models.synthetic import row, vectors

SMALL: Options = {"input": "vector", "size": 6, "hidden": [16], "replay": 7, "buffer": 50}
DIGITS: Options = {"input": "vector", "size": 64, "batch": 10, "replay": 20, "buffer": 200, "rate": 0.003}
EXAMPLES, INPUTS = vectors(60), [example.features for example in vectors(20, 5)]
CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def stack_of(model: Tower) -> Stack:
    """The stack of a tower that is not split, and has learned."""
    assert isinstance(model.trainer.stack, Stack)
    return model.trainer.stack


def tower(**options: Any) -> Tower:
    return Tower({**SMALL, **options})


def train(examples: Sequence[Example] = EXAMPLES, **options: Any) -> Tower:
    model = tower(**options)
    model.learn(examples)
    return model


def label(offset: int, values: Sequence[float] | NDArray[np.float64], name: str) -> Example:
    return Example(offset, "label", np.array(values, np.float64).tobytes(), name)


def digits(classes: Sequence[int], rows: slice, start: int = 0) -> list[Example]:
    data = load_digits()
    chosen = [place for place in range(len(data.target)) if data.target[place] in classes][rows]
    return [label(start + n + 1, data.data[place], str(data.target[place])) for n, place in enumerate(chosen)]


def accuracy(model: Tower, examples: Sequence[Example]) -> float:
    answers = model.predict([example.features for example in examples])
    return float(np.mean([answer.choice == example.label for answer, example in zip(answers, examples, strict=True)]))


def probability(model: Tower, features: bytes, name: str) -> float:
    return next((c.score for c in model.predict([features])[0].candidates if c.id == name), 0.0)


def a_stack(labels: int = 4, inputs: int = 5) -> Stack:
    return Stack(ParameterLayout(Mlp(inputs, [8]), labels), LearningOptions((0.01, 0.1), 0.01, 0.9), CPU)


def descended(stack: Stack, steps: int) -> Stack:
    rng = np.random.default_rng(0)
    for _ in range(steps):
        x_BD = torch.from_numpy(rng.normal(size=(3, 5)).astype(np.float32))
        logits_LBC = stack.logits(x_BD)
        [gradient_LP] = stack.differentiate([logits_LBC[:, :, :3].log_softmax(2)[:, :, 0].neg().sum()])
        stack.descend(gradient_LP)
    return stack


# options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input": "image"}, "option 'input' must be one of text, vector, table, not 'image'"),
        ({"size": 0}, "input = 'vector' needs option 'size'"),
        (
            {"strategy": "sleep"},
            "option 'strategy' must be one of naive, er, er_ace, derpp, ewc, lwf, agem, not 'sleep'",
        ),
        ({"batch": 0}, "option 'batch' must be at least 1, not 0"),
        ({"rate": -1.0}, "option 'rate' must lie in"),
        ({"average": float("nan")}, "option 'average' must lie in"),
        ({"seed": -1}, "option 'seed' must lie in"),
        ({"hidden": []}, "option 'hidden' must be the widths of one layer or more"),
        ({"network": "cnn"}, r"a cnn reads images of 6 numbers: option 'image' must be \[channels, height, width\]"),
        ({"network": "transformer"}, "no network 'transformer': use mlp, cnn or package.module:attribute of your own"),
        (
            {"network": "tests.plugins.towers.own_networks:narrow"},
            "no network 'tests.plugins.towers.own_networks:narrow'",
        ),
        ({"network": "tests.plugins.towers.own_networks:a_number"}, "is not callable"),
        ({"network": "tests.plugins.towers.own_networks:batch_norm"}, "keeps no buffers: use LayerNorm or GroupNorm"),
        ({"network": "tests.plugins.towers.own_networks:one_number"}, r"must give \[B, H\] for \[B, 6\], not \[2\]"),
    ],
)
def test_an_invalid_option_is_refused_with_the_reason(options: Options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tower({**SMALL, **options})


# networks


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["wide", "Dropped"])
def test_a_users_module_learns(name: str) -> None:
    model = train(vectors(200), network=f"tests.plugins.towers.own_networks:{name}")
    assert accuracy(model, [example for example in vectors(100, 3) if example.reward >= 0.5]) >= 0.9


@pytest.mark.long
def test_a_cnn_learns_digits() -> None:
    options = {**DIGITS, "network": "cnn", "image": [1, 8, 8], "hidden": [32], "steps": 2}
    model = Tower(options)
    model.learn(digits(range(10), slice(0, 400)))
    assert accuracy(model, digits(range(10), slice(400, 600))) >= 0.8


def test_a_module_draws_its_first_weights_without_touching_the_global_generator() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    first = train(network="tests.plugins.towers.own_networks:wide").fingerprint()
    assert torch.equal(torch.rand(4), expected)
    assert train(network="tests.plugins.towers.own_networks:wide").fingerprint() == first


# growing


def test_old_classes_keep_their_weights_and_moments_when_the_output_grows() -> None:
    stack = descended(a_stack(), 30)
    before = {name: stack.layout.views(getattr(stack, name).clone()) for name in FLAT}
    grown = stack.grown(ParameterLayout(Mlp(5, [8]), 8))
    assert int(grown.steps) == 30
    for name, olds in before.items():
        for part, new in grown.layout.views(getattr(grown, name)).items():
            corner = new[tuple(slice(size) for size in olds[part].shape)]
            assert torch.equal(corner, olds[part])
            assert olds[part].any()


def test_spare_rows_for_classes_and_columns_start_without_moments() -> None:
    grown = descended(a_stack(), 30).grown(ParameterLayout(Mlp(16, [8]), 8))
    for name in ("mean_LP", "square_LP"):
        views = grown.layout.views(getattr(grown, name))
        assert not views["0.weight"][:, 5:].any()
        assert not views["head weight"][:, :, 4:].any()


def test_every_strategy_that_is_offered_exists_and_is_built_with_its_usual_strength() -> None:
    assert [*STRENGTHS] == [*STRATEGIES]
    for name, strength in STRENGTHS.items():
        strategy = create_strategy(name, 0.0)
        assert type(strategy) is STRATEGIES[name]
        assert strategy.strength == strength


@pytest.mark.few(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_spare_rows_for_classes_change_no_answer(strategy: str) -> None:
    examples = [label(n + 1, np.eye(6)[n % 4] * 2, f"class-{n % 4}") for n in range(120)]
    model = train(examples, strategy=strategy)
    before = model.predict(INPUTS)
    model._class(Example(500, "label", b"", "a fifth", reward=0.0))
    model._grow()
    model._served = None
    assert model.layout.labels == 8
    assert model.predict(INPUTS) == before


@pytest.mark.few(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_classes_and_columns_can_be_added_one_by_one(strategy: str) -> None:
    def lesson(n: int) -> Example:
        return Example(n + 1, "label", row({f"column {n % 40}": 1.0 + n % 2, "kind": f"k{n % 20}"}), f"label {n % 20}")

    model = Tower({"input": "table", "hidden": [32], "strategy": strategy, "buffer": 100})
    model.learn([lesson(n) for n in range(150)])
    assert len(model.labels) == 20
    assert model.layout.network.inputs == 64
    resumed = Tower({"input": "table", "hidden": [32], "strategy": strategy, "buffer": 100})
    resumed.restore(model.state())
    for each in (model, resumed):
        each.learn([lesson(n) for n in range(150, 200)])
    assert resumed.fingerprint() == model.fingerprint()


# strategies


@pytest.mark.few(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_resumes_where_it_was_interrupted(strategy: str) -> None:
    examples = vectors(260)
    resumed = tower(strategy=strategy)
    resumed.restore(train(examples[:230], strategy=strategy).state())
    resumed.learn(examples[230:])
    assert resumed.fingerprint() == train(examples, strategy=strategy).fingerprint()


@pytest.mark.few(1)
@pytest.mark.parametrize(("strategy", "at_least"), [("er", 0.9), ("er_ace", 0.9), ("derpp", 0.6)])
def test_replay_retains_what_plain_sgd_forgets(strategy: str, at_least: float) -> None:
    first, second = digits([0, 1], slice(0, 150)), digits([2, 3], slice(0, 150), 150)
    kept, forgetful = (Tower({**DIGITS, "strategy": name, "steps": 3}) for name in (strategy, "naive"))
    for model in (kept, forgetful):
        model.learn([*first, *second])
    assert accuracy(forgetful, digits([0, 1], slice(150, 300))) <= 0.2
    assert accuracy(kept, digits([0, 1], slice(150, 300))) >= at_least


@pytest.mark.few(1)
@pytest.mark.parametrize("strategy", ["ewc", "lwf", "agem"])
def test_the_penalty_of_a_strategy_changes_what_is_learned(strategy: str) -> None:
    examples = vectors(250)
    assert train(examples, strategy=strategy).fingerprint() != train(examples, strategy="naive").fingerprint()


def test_agem_takes_no_step_against_the_gradient_of_the_replayed_rows() -> None:
    model = train(strategy="agem")
    opposed = 0
    for offset in range(70, 90):
        fresh = fresh_rows(model, offset)
        step = model.trainer.prepare_step(stack_of(model), model._draw_rows(fresh, 0), model._classes())
        replayed_LP, plain_LP = stack_of(model).differentiate(model.trainer.strategy.loss_terms(step))
        opposed += int(((plain_LP * replayed_LP).sum(1) < 0).any())
        taken_LP = model.trainer.strategy.join_gradients([replayed_LP, plain_LP], stack_of(model))
        assert ((taken_LP * replayed_LP).sum(1) >= -1e-5).all()
    assert opposed


def fresh_rows(model: Tower, offset: int) -> FreshRows:
    values_D = np.random.default_rng(offset).normal(size=(1, 6))
    return FreshRows(offset, values_D, np.array([offset % 4]), np.array([True]))


# one thumb


def test_one_example_has_an_effect_at_once() -> None:
    model, features = train(vectors(200)), np.full(6, 3.0)
    before = probability(model, features.tobytes(), "something new")
    model.learn([label(900, features, "something new")])
    assert probability(model, features.tobytes(), "something new") > before == 0.0


def test_a_thumb_down_makes_an_answer_less_likely() -> None:
    model = train([example for example in vectors(200) if example.reward >= 0.5])
    features = INPUTS[0]
    choice = model.predict([features])[0].choice
    assert choice is not None
    before = probability(model, features, choice)
    model.learn([Example(900 + n, "reward", features, choice, reward=0.0) for n in range(5)])
    assert probability(model, features, choice) < before


def test_a_class_that_was_only_ever_wrong_is_no_candidate() -> None:
    model = train()
    model.learn([Example(900, "reward", INPUTS[0], "zebra", reward=0.0)])
    assert all(candidate.id != "zebra" for candidate in model.predict([INPUTS[0]])[0].candidates)
    model.learn([Example(901, "label", INPUTS[0], "zebra")])
    assert any(candidate.id == "zebra" for candidate in model.predict([INPUTS[0]])[0].candidates)


# micro-batches


def test_a_micro_batch_is_learned_with_its_last_offset() -> None:
    model, examples = tower(batch=4), vectors(12)  # offsets 1, 2, ...
    model.learn(examples[:2])
    assert model.trainer.stack is None and len(model.pending) == 2
    model.learn(examples[2:3])  # offset 3 ends the micro-batch 0..3
    assert int(stack_of(model).steps) == 1 and not model.pending


def test_an_incomplete_micro_batch_is_learned_when_the_next_begins() -> None:
    model, examples = tower(batch=4), vectors(12)
    model.learn([*examples[3:5], examples[8]])  # offsets 4, 5 and then 9
    assert int(stack_of(model).steps) == 1
    assert [example.offset for example in model.pending] == [9]


def test_padding_rows_of_a_micro_batch_have_no_weight() -> None:
    wide, narrow = tower(batch=8, strategy="naive"), tower(batch=2, strategy="naive")
    wide.learn([*vectors(12)[7:9], vectors(20)[17]])  # offsets 8 and 9, alone in 8..15; 18 ends it
    narrow.learn([*vectors(12)[7:9]])
    assert torch.allclose(stack_of(wide).parameters_LP, stack_of(narrow).parameters_LP, atol=1e-6)


def test_more_steps_on_a_micro_batch_replay_other_rows() -> None:
    model = train()
    first, second = (model._draw_rows(fresh_rows(model, 70), round) for round in (0, 1))
    assert np.array_equal(first.x_BD[:1], second.x_BD[:1])
    assert not np.array_equal(first.x_BD[1:], second.x_BD[1:])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch": 4, "steps": 2, "hidden": [16, 8]},
        {"batch": 8, "replay": 1},
        {"batch": 5, "hidden": [64, 32]},
        {"rate": 1.0},
    ],
)
def test_a_step_without_autograd_leaves_the_same_bits(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    without, rewards = train(**options), [example for example in EXAMPLES if example.reward < 0.5]
    assert rewards  # steps with wrong classes need autograd, and are mixed with the others
    monkeypatch.setattr(ExperienceReplay, "is_plain", False)
    assert train(**options).fingerprint() == without.fingerprint()


# learning rates


def test_the_three_learning_rates_learn_different_weights_from_the_same_examples() -> None:
    model = train()
    for one, other in ((0, 1), (1, 2)):
        assert not torch.equal(stack_of(model).parameters_LP[one], stack_of(model).parameters_LP[other])


def test_the_learning_rate_that_was_best_recently_is_served_and_reported() -> None:
    model = train(vectors(200))
    facts = model.facts()
    losses = [facts[f"loss_{what}{place}"] for what in ("average", "copy") for place in range(len(SPREAD))]
    best = int(np.argmin(losses)) % len(SPREAD)
    assert facts["learning_rate"] == pytest.approx(0.003 * SPREAD[best])


def test_a_learning_rate_that_is_far_too_high_is_not_served() -> None:
    model = train(vectors(260), rate=0.5)
    assert model.facts()["learning_rate"] == pytest.approx(0.5 / 3)


def test_numbers_of_any_size_leave_finite_weights() -> None:
    values = [1e300, -1e300, 1e-300, 0.0, 1e12, 5.0]
    model = train([label(n + 1, np.roll(values, n), f"class-{n % 3}") for n in range(60)])
    assert all(torch.isfinite(getattr(stack_of(model), name)).all() for name in FLAT)


# drift


def test_after_a_drift_only_newer_rows_are_replayed() -> None:
    model = train(vectors(40))
    model.drifted(None, 30)
    assert sorted(model.buffer.offset_N[: model.buffer.filled]) == list(range(30, 41))
    model.learn(vectors(60)[40:])
    assert model.buffer.filled == 31


def test_a_drift_of_one_class_leaves_the_others_in_the_buffer() -> None:
    model = train(vectors(40))
    gone = model.labels.index("mango")
    others = int((model.buffer.label_N[:40] != gone).sum())
    model.drifted("mango", 1_000)
    model.drifted("an unknown class", 1_000)
    assert model.buffer.filled == others
    assert gone not in model.buffer.label_N[:others]


# where it runs


def test_the_determinism_domain_names_the_build_and_the_device() -> None:
    domain = determinism_domain("cpu")
    assert f"torch {torch.__version__}" in domain and "cpu" in domain and "threads 1" in domain


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_gpu_learns_what_a_cpu_learns(strategy: str) -> None:
    on_cpu, on_gpu = (create("tower", {**SMALL, "strategy": strategy}, device) for device in ("cpu", "cuda"))
    for model in (on_cpu, on_gpu):
        model.learn(vectors(260))
    later = [example.features for example in vectors(100, 3)]
    same = [a.choice == b.choice for a, b in zip(on_cpu.predict(later), on_gpu.predict(later), strict=True)]
    assert np.mean(same) >= 0.95


def limit_memory(model: Tower, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Let a step whose parts have more rows than these run out of memory."""
    compute = model.trainer.strategy.loss_terms

    def compute_within(step: TrainingStep) -> tuple[torch.Tensor, ...]:
        if len(step.label_B) > rows:
            raise torch.OutOfMemoryError("too many rows")
        return compute(step)

    monkeypatch.setattr(model.trainer.strategy, "loss_terms", compute_within)


def test_without_enough_memory_a_step_is_cut_into_smaller_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, examples = tower(strategy="er_ace"), vectors(80)
    limit_memory(model, monkeypatch, rows=3)
    model.learn(examples)
    assert model.trainer.parts == 4  # of 1 + 7 rows: one fresh row and two replayed ones each
    cut = train(examples, strategy="er_ace", accumulate=4)
    assert model.fingerprint() == cut.fingerprint()


def test_without_memory_for_a_single_row_learning_fails_and_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = vectors(80)[:60], vectors(80)[60:]
    model = train(first, strategy="er_ace")
    limit_memory(model, monkeypatch, rows=0)
    with pytest.raises(torch.OutOfMemoryError):
        model.trainer.take_step(model._draw_rows(fresh_rows(model, 61), 0), model._classes())
    monkeypatch.undo()
    assert model.trainer.parts == 1
    model.learn(second)
    assert model.fingerprint() == train(vectors(80), strategy="er_ace").fingerprint()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_learning_continues_on_the_cpu_when_the_gpu_has_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Tower({**SMALL, "strategy": "er_ace"}, "cuda")
    model.learn(vectors(60))
    limit_memory(model, monkeypatch, rows=0)
    move = model.trainer.move

    def move_to(device: torch.device) -> None:
        monkeypatch.undo()
        move(device)

    monkeypatch.setattr(model.trainer, "move", move_to)
    model.learn(vectors(80)[60:])
    assert stack_of(model).parameters_LP.device.type == "cpu"
    assert int(stack_of(model).steps) == 80


# parts


@pytest.mark.few(4)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("parts", [2, 3, 16])
def test_a_step_in_parts_is_the_step_as_a_whole(strategy: str, parts: int) -> None:
    options: Options = {"strategy": strategy, "batch": 5, "rate": 1e-3}
    whole, cut = train(**options), train(**options, accumulate=parts)
    assert torch.allclose(stack_of(whole).mean_LP, stack_of(cut).mean_LP, atol=1e-6)
    assert torch.allclose(
        stack_of(whole).parameters_LP, stack_of(cut).parameters_LP, atol=1e-4
    )  # Adam divides by the mean
    assert np.allclose(whole.loss_K, cut.loss_K, atol=1e-4)
    assert np.allclose(whole.buffer.extra_N, cut.buffer.extra_N, atol=1e-3, equal_nan=True)


def test_gradients_of_16_bits_change_little_of_what_is_learned() -> None:
    exact, rounded = train(vectors(200)), train(vectors(200), gradients="bfloat16")
    later = [example.features for example in vectors(100, 3)]
    same = [a.choice == b.choice for a, b in zip(exact.predict(later), rounded.predict(later), strict=True)]
    assert exact.fingerprint() != rounded.fingerprint()
    assert np.mean(same) >= 0.95


def test_rates_are_compared_even_if_the_first_example_is_negative() -> None:
    wrong = Example(0, "reward", INPUTS[0], "sun", reward=0.0)
    assert np.isfinite(train([wrong, *EXAMPLES[1:]]).loss_K).all()


def dark_gradient(strength: float, fresh: int, replayed: int) -> torch.Tensor:
    """Of a step whose replayed rows still have the logits that were kept of them."""
    stack = Stack(ParameterLayout(Mlp(6, [4]), 4), LearningOptions((0.01,), 0.0, 0.9), CPU)
    rows = fresh + 2 * replayed
    x_BD = torch.from_numpy(np.random.default_rng(0).normal(size=(rows, 6)).astype(np.float32))
    logits_LBC = stack.logits(x_BD)
    logits_LBC = logits_LBC + x_BD[:, :4]  # a new head answers all alike
    known_C, liked_B = torch.ones(4, dtype=torch.bool), torch.ones(rows, dtype=torch.bool)
    kept_BLC = logits_LBC[:, fresh:].detach().transpose(0, 1)
    label_B, share_B = torch.arange(rows) % 4, torch.ones(rows)
    step = TrainingStep(stack.layout, logits_LBC, fresh, label_B, liked_B, share_B, known_C, known_C, x_BD, kept_BLC)
    return stack.differentiate(DarkReplay(strength).loss_terms(step))[0]


@pytest.mark.parametrize("fresh", [1, 4])
def test_dark_replay_holds_each_row_to_its_own_logits(fresh: int) -> None:
    assert torch.equal(dark_gradient(5.0, fresh, replayed=3), dark_gradient(0.0, fresh, replayed=3))


def test_dark_replay_accepts_micro_batches_larger_than_its_replay() -> None:
    assert np.isfinite(train(strategy="derpp", batch=8, replay=3).loss_K).all()


# towers that are split


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"accumulate": 1}, "at least 2"),
        ({"strategy": "ewc"}, "strategy ewc"),
        ({"gradients": "bfloat16"}, "16 bits"),
        ({"parallel": "tensor"}, "parallel"),
    ],
)
def test_options_with_which_a_tower_cannot_be_split_are_refused(options: Options, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Tower({**SMALL, "accumulate": 4, "parallel": "fsdp", **options})


def test_how_processes_hold_a_tower_does_not_change_its_recipe() -> None:
    assert recipe("tower", {**SMALL, "parallel": "fsdp"}) == recipe("tower", SMALL)


def test_a_tower_without_room_on_its_device_learns_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    create_stack, model = SingleProcessEngine.create, tower()
    model.trainer.device = torch.device("meta")

    def create_within(
        ranks: SingleProcessEngine, layout: ParameterLayout, learning: LearningOptions, device: torch.device
    ) -> Stack:
        if device.type != "cpu":
            raise torch.OutOfMemoryError("no room")
        return create_stack(ranks, layout, learning, device)

    monkeypatch.setattr(SingleProcessEngine, "create", create_within)
    model.learn(EXAMPLES)
    assert stack_of(model).device == CPU
    resumed = tower()
    resumed.trainer.device = torch.device("meta")
    resumed.restore(model.state())
    assert resumed.fingerprint() == model.fingerprint()


def test_a_tower_that_is_split_answers_with_layers_on_several_devices() -> None:
    options = {**SMALL, "hidden": [16, 16], "accumulate": 2, "parallel": "pipeline"}
    model = Tower(options)
    model.learn(EXAMPLES)
    serving = create("tower", options, "cpu,cpu")
    serving.restore({name: part for name, part in model.state(serving_only=True).items() if part.serving})
    tower = as_tower(serving)
    assert len(tower.devices) == 2
    for one, other in zip(serving.predict(INPUTS), model.predict(INPUTS), strict=True):
        assert one.choice == other.choice and one.score == pytest.approx(other.score, abs=1e-5)
    assert as_tower(create("tower", {**options, "parallel": "ddp"}, "cpu,cpu")).devices == [CPU]
