"""Checks that a kind of model keeps the contract (`contract.Model`): run them on a kind of your own before you serve it.

    from online.models.checks import check_kind

    check_kind("nearest_mean:NearestMean")                                   # examples are made for what it reads
    check_kind("nearest_mean:NearestMean", {"scale": 2.0}, examples=my_own)  # or these are learned

A check raises AssertionError, whose message begins with the name of the contract that is broken. The tests of the project
run the same checks on the built-in kinds.

Shapes: N examples, C classes, D numbers of an input.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from safetensors.numpy import load, save

from online.models.contract import BadExample, Example, Model, Options, State, StatePart
from online.models.encoders.text import TEXT_SCALE, TEXT_WIDTH
from online.models.kinds import ADMITTED, KindSpec, find_kind, input_options, spec_of
from online.models.own_kinds import admit, check_spec
from online.models.registry import create

COUNT = 160  # examples that are made
CLASSES = ("apple", "brick", "cedar")
VECTOR_SIZE = 4
UNSEEN = 12  # of the examples that are made, so many inputs are only predicted
TEST_KEY = "00" * 32  # signs the states of a kind that signs them
SCORE_TOLERANCE = 1e-4  # of a score that is computed in a batch, or alone


@dataclass(frozen=True, eq=False)
class Subject:
    """The subject of the checks: a kind with options, and what it learns.

    inputs: are predicted only. bad: examples that it must refuse. first: how many examples must be learned before the
    others, such as the replies of a repertoire. is_exact: any order of the others leaves the same state.
    """

    kind: str
    options: Options
    examples: Sequence[Example]
    inputs: Sequence[bytes]
    bad: Sequence[Example] = ()
    first: int = 0
    is_exact: bool = False

    def create(self) -> Model:
        """Return a new model of the kind."""
        return create(self.kind, self.options)

    def train(self, examples: Sequence[Example]) -> Model:
        """Return a new model that has learned the examples in one batch."""
        model = self.create()
        model.learn(examples)
        return model

    @cached_property
    def usual(self) -> Model:
        """A model that has learned all examples. Checks that change it take a copy."""
        return self.train(self.examples)

    def restore(self, state: State) -> Model:
        """Return a new model with a state that was written to files and read again."""
        model = self.create()
        model.restore(write_and_read(state))
        return model


def check_kind(
    kind: str | KindSpec,
    options: Options | None = None,
    examples: Sequence[Example] | None = None,
    bad: Sequence[Example] | None = None,
) -> None:
    """Run every check that applies to a kind.

    kind: its name, its import path ("package.module:Class"), or its KindSpec. examples: made for what the kind reads and
    answers if None; of own ones, the last 12 are predicted only. bad: examples that it must refuse; made if None.

    Raises AssertionError that names the contract, ValueError for a kind that does not exist or lacks a method.
    """
    subject = prepare_subject(kind, options or {}, examples, bad)
    for check in CHECKS:
        check(subject)


def prepare_subject(
    kind: str | KindSpec, options: Options, examples: Sequence[Example] | None, bad: Sequence[Example] | None
) -> Subject:
    """Return what `check_kind` checks. Raises ValueError for a kind that cannot be used."""
    name = kind if isinstance(kind, str) else kind.name
    if not isinstance(kind, str) and find_kind(name) is None:
        check_spec(kind)
        ADMITTED[name] = kind
    admit(name)
    spec = spec_of(name)
    if spec.state_is_signed:
        options = {"key": TEST_KEY, **options}
    if spec.has_input_option and input_options(name, options)["input"] not in spec.inputs:
        options = {**options, "input": spec.inputs[-1]}
    made = [*examples] if examples is not None else make_examples(spec, options)
    learned, unseen = made[:-UNSEEN], [example.features for example in made[-UNSEEN:]]
    first = sum(example.kind == "reply" for example in learned)
    refused = make_bad_examples(spec, options) if bad is None else bad
    return Subject(name, options, learned, unseen, refused, first, spec.is_exact)


# the contracts


def check_unknown_option(subject: Subject) -> None:
    """An option that the kind does not have is refused, so that a misspelt one is noticed."""
    try:
        create(subject.kind, {**subject.options, "no_such_option": 1})
    except ValueError:
        return
    broken("an unknown option is refused", "it took the option no_such_option = 1; raise ValueError")


def check_untrained(subject: Subject) -> None:
    """A model that has learned nothing answers without a choice, and no inputs get no answers."""
    answers = subject.create().predict(subject.inputs)
    found = next((answer for answer in answers if answer.choice is not None or answer.candidates), None)
    if found is not None or len(answers) != len(subject.inputs):
        broken("an untrained model answers without a choice", f"it answered {found or len(answers)}")
    if subject.create().predict([]) != []:
        broken("no inputs get no answers", "predict([]) is not []")


def check_predict_changes_nothing(subject: Subject) -> None:
    """`predict` never changes the model: neither its fingerprint nor a byte of its state."""
    model = subject.usual
    before = describe(model)
    model.predict(subject.inputs)
    model.predict(subject.inputs)
    if describe(model) != before:
        broken("predict does not change the model", "its fingerprint or its state differs after predict")


def check_predicting_between_examples(subject: Subject) -> None:
    """What is learned does not depend on what is predicted between two examples."""
    predicting, silent = subject.create(), subject.create()
    for example in subject.examples[: subject.first + 14]:
        predicting.predict([subject.inputs[0]])
        predicting.learn([example])
        silent.learn([example])
    if predicting.fingerprint() != silent.fingerprint():
        broken("predicting does not change what is learned", "the fingerprints with and without predict differ")


def check_answers_in_batches(subject: Subject) -> None:
    """An input gets the same answer alone and in a batch."""
    model = subject.usual
    for alone, together in zip(
        [model.predict([each])[0] for each in subject.inputs], model.predict(subject.inputs), strict=True
    ):
        if alone.choice != together.choice or abs(alone.score - together.score) > SCORE_TOLERANCE:
            broken("answers are the same alone and in a batch", f"alone {alone}, in a batch {together}")


def check_candidates(subject: Subject) -> None:
    """Candidates are sorted, their scores are probabilities, and the choice is the best one, or none."""
    for answer in subject.usual.predict(subject.inputs):
        scores = [candidate.score for candidate in answer.candidates]
        if scores != sorted(scores, reverse=True):
            broken("candidates are sorted by score", f"it answered {answer}")
        if scores and (min(scores) < 0 or sum(scores) > 1 + 1e-6):
            broken("the scores of candidates are probabilities", f"it answered {answer}")
        if scores and answer.propensity == 1 and answer.choice not in (None, answer.candidates[0].id):
            broken("the choice is the best candidate", f"it answered {answer}")
        if answer.interval is not None and not (
            answer.interval[0] <= float(answer.choice or "nan") <= answer.interval[1]
        ):
            broken("a predicted number lies in its interval", f"it answered {answer}")


def check_batches(subject: Subject) -> None:
    """Learning one by one and in batches, cut anywhere, leaves the same state."""
    one_by_one, batched = subject.create(), subject.create()
    for example in subject.examples:
        one_by_one.learn([example])
    cuts = [0, 7, 8, len(subject.examples) // 2, len(subject.examples)]
    for start, end in pairwise(cuts):
        batched.learn(subject.examples[start:end])
    same_state(subject, one_by_one, batched, "batches leave the same state as one by one")
    same_state(subject, one_by_one, subject.usual, "one batch leaves the same state as one by one")


def check_order(subject: Subject) -> None:
    """Any order of the examples leaves the same state, for a kind that says it is exact."""
    if not subject.is_exact:
        return
    first, others = subject.examples[: subject.first], subject.examples[subject.first :]
    order = np.random.default_rng(1).permutation(len(others))
    another = subject.train([*first, *(others[int(place)] for place in order)])
    if another.fingerprint() != subject.usual.fingerprint():
        broken("an exact kind learns the same in any order", "another order left another fingerprint")


def check_fingerprint(subject: Subject) -> None:
    """The same examples leave the same fingerprint, and other ones another."""
    if subject.train(subject.examples).fingerprint() != subject.usual.fingerprint():
        broken("the same examples leave the same fingerprint", "two models that learned the same have different ones")
    if subject.train(subject.examples[:-1]).fingerprint() == subject.usual.fingerprint():
        broken("other examples leave another fingerprint", "without the last example the fingerprint is the same")


def check_arguments(subject: Subject) -> None:
    """Learning and predicting do not modify what they are given."""
    examples, inputs = [*subject.examples], [*subject.inputs]
    copied = copy.deepcopy((examples, inputs))
    subject.train(examples).predict(inputs)
    if (examples, inputs) != copied:
        broken("arguments are not modified", "the examples or the inputs differ after learn and predict")


def check_bad_examples(subject: Subject) -> None:
    """A bad example raises BadExample and changes nothing, also in the middle of a batch."""
    model = copy.deepcopy(subject.usual)
    before = describe(model)
    for bad in subject.bad:
        batch = [*renumber(subject.examples[-2:]), bad]
        try:
            model.learn(batch)
        except BadExample:
            pass
        else:
            broken("bad examples are refused", f"it learned {bad}; raise BadExample")
        if describe(model) != before:
            broken("a refused batch changes nothing", f"its state differs after it refused {bad}")


def check_unlearning(subject: Subject) -> None:
    """A model that says it subtracts returns to the state without an example, in the byte where the kind is exact."""
    model = copy.deepcopy(subject.usual)
    if not model.subtracts:
        return
    gone = [example for place, example in enumerate(subject.examples) if place % 3 == 0 and place >= subject.first]
    model.unlearn(gone)
    left = [example for example in subject.examples if example not in gone]
    never = subject.train(left)
    if model.fingerprint() != never.fingerprint():
        broken("unlearning leaves the state without the example", "its fingerprint is not that of never having learned")
    if choose_all(model, subject) != choose_all(never, subject):
        broken("unlearning leaves the state without the example", "it answers otherwise than without the examples")


def check_state(subject: Subject) -> None:
    """A state survives its files: the restored model is the same, and the serving parts alone answer the same."""
    for model in (subject.create(), subject.usual):
        again = subject.restore(model.state())
        if again.fingerprint() != model.fingerprint() or again.feature_epoch() != model.feature_epoch():
            broken("a state survives its files", "the restored model has another fingerprint, or other features")
        if again.subtracts != model.subtracts or again.probes() != model.probes():
            broken("a state survives its files", "the restored model has other probes, or subtracts otherwise")
        if again.predict(subject.inputs) != model.predict(subject.inputs):
            broken("a state survives its files", "the restored model answers otherwise")
        serving = {name: part for name, part in model.state().items() if part.serving}
        if subject.restore(serving).predict(subject.inputs) != model.predict(subject.inputs):
            broken("the serving parts alone predict the same", "a model of these parts answers otherwise")
        if to_bytes(model.state(serving_only=True)) != to_bytes(serving):
            broken("a serving state is the serving parts of the whole", "state(serving_only=True) has other parts")


def check_resuming(subject: Subject) -> None:
    """Learning resumes from a restored state as if it had not been interrupted."""
    half = subject.first + (len(subject.examples) - subject.first) // 2
    resumed = subject.restore(subject.train(subject.examples[:half]).state())
    resumed.learn(subject.examples[half:])
    same_state(subject, resumed, subject.usual, "learning resumes where it was interrupted")


def check_states_are_kept(subject: Subject) -> None:
    """Learning does not modify a state that was returned before."""
    model = copy.deepcopy(subject.usual)
    state = model.state()
    before = to_bytes(state)
    model.learn(renumber(subject.examples[subject.first :][:20]))
    if to_bytes(state) != before:
        broken("a returned state is not modified", "its tensors changed when the model learned more")


def check_probes(subject: Subject) -> None:
    """Probes are few, and a model of the serving parts gives each the expected answer."""
    probes = subject.usual.probes()
    served = subject.restore(subject.usual.state(serving_only=True))
    if not 0 < len(probes) <= 32:
        broken("a model names 1 to 32 probes", f"it names {len(probes)}")
    answers = served.predict([features for features, _ in probes])
    for answer, (_, expected) in zip(answers, probes, strict=True):
        if answer.choice is None or expected not in (None, answer.choice):
            broken("every probe gets the expected answer", f"expected {expected or 'a choice'}, it answered {answer}")


CHECKS = (
    check_unknown_option,
    check_untrained,
    check_predict_changes_nothing,
    check_predicting_between_examples,
    check_answers_in_batches,
    check_candidates,
    check_batches,
    check_order,
    check_fingerprint,
    check_arguments,
    check_bad_examples,
    check_unlearning,
    check_state,
    check_resuming,
    check_states_are_kept,
    check_probes,
)


def broken(contract: str, found: str) -> None:
    """Raise AssertionError for a broken part of the contract."""
    raise AssertionError(f"{contract}: {found}")


def same_state(subject: Subject, one: Model, other: Model, contract: str) -> None:
    """Raise AssertionError unless two models have the same state."""
    if one.fingerprint() != other.fingerprint():
        broken(contract, "the fingerprints differ")
    if subject.is_exact and to_bytes(one.state()) != to_bytes(other.state()):
        broken(contract, "the states differ, although the fingerprints are the same")


def choose_all(model: Model, subject: Subject) -> list[str | None]:
    """Return the choices for the inputs of the subject."""
    return [answer.choice for answer in model.predict(subject.inputs)]


def describe(model: Model) -> tuple[str, Mapping[str, bytes]]:
    """Return the fingerprint and the files of a model."""
    return model.fingerprint(), to_bytes(model.state())


def to_bytes(state: State) -> dict[str, bytes]:
    """Return the files of a state, by the name of the part."""
    return {
        name: save({key: np.ascontiguousarray(tensor) for key, tensor in part.tensors.items()})
        for name, part in state.items()
    }


def write_and_read(state: State) -> State:
    """Write a state as snapshots do, and read it again."""
    return {name: StatePart(load(data), state[name].serving) for name, data in to_bytes(state).items()}


def renumber(examples: Sequence[Example]) -> list[Example]:
    """Return the examples as later events."""
    return [Example(10_000 + n, e.kind, e.features, e.label, e.text, e.reward) for n, e in enumerate(examples)]


# examples


def make_examples(spec: KindSpec, options: Options) -> list[Example]:
    """Examples of three classes that a kind reads and answers, the same in each call; of a repertoire, its replies first."""
    rng = np.random.default_rng(7)
    places = rng.integers(len(CLASSES), size=COUNT)
    features = [encode_input(spec, options, int(place), rng) for place in places]
    if spec.predicts_numbers:
        labels = [repr(round(10.0 * int(place) + float(rng.normal(0, 0.1)), 3)) for place in places]
    else:
        labels = [CLASSES[place] for place in places]
    replies = [
        Example(n + 1, "reply", encode_input(spec, options, n, rng), name, f"About {name}.")
        for n, name in enumerate(CLASSES)
        if spec.has_repertoire
    ]
    examples = [
        Example(len(replies) + n + 1, "correction" if replies and n % 4 == 0 else "label", data, label)
        for n, (data, label) in enumerate(zip(features, labels, strict=True))
    ]
    return [*replies, *examples]


def encode_input(spec: KindSpec, options: Options, place: int, rng: np.random.Generator) -> bytes:
    """Return an input near the centre of a class, as it is logged."""
    seen = input_options(spec.name, options)
    noise_D = rng.normal(0, 0.3, TEXT_WIDTH if seen["input"] == "text" else int(seen.get("size") or VECTOR_SIZE))
    if seen["input"] == "table":
        return json.dumps({"colour": CLASSES[place], "size": 3.0 * place + float(noise_D[0])}).encode()
    centre_D = np.random.default_rng([3, place]).normal(0, 1, len(noise_D))
    if seen["input"] == "vector":
        return bytes((centre_D * 2 + noise_D).tobytes())
    text_D = centre_D + noise_D
    scaled_D = np.rint(TEXT_SCALE * text_D / np.linalg.norm(text_D))
    return bytes(np.clip(scaled_D, -127, 127).astype(np.int8).tobytes())


def make_bad_examples(spec: KindSpec, options: Options) -> list[Example]:
    """Examples that no kind of this task and these inputs can learn."""
    good = encode_input(spec, options, 0, np.random.default_rng(0))
    label = "1.0" if spec.predicts_numbers else CLASSES[0]
    bad = [Example(20_000, "label", b"\xff\x00 short", label)]
    if spec.predicts_numbers:
        bad += [Example(20_001, "label", good, "mango"), Example(20_002, "label", good, "nan")]
    elif spec.has_repertoire:
        bad += [Example(20_001, "label", good, "an unknown reply")]
    else:
        bad += [Example(20_001, "label", good, "")]
    return bad
