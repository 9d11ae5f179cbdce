"""One suite over every kind whose examples several processes can sum (`online.models.statistics.partial_sums`)."""

from collections.abc import Sequence

import pytest
from safetensors.numpy import load, save

from online.models import KINDS, BadExample, Example, Model, State, StatePart, create
from online.models.checks import to_bytes
from online.models.statistics.partial_sums import as_summing, has_partial_sums
from tests.contracts.test_models import CASES, Case
from tests.models.synthetic import texts

COUNT = 1_000
SHARING = [
    case
    for case in CASES
    if has_partial_sums(case.kind, case.options) and "window" not in case.options and "max_age" not in case.options
]
CUTS = [(310, 470, 700), (260, 261, 999), (400, 401, 402)]


SLOW = {"number-text", "number-text-scaled"}  # of 384 numbers, and otherwise like those of a table


@pytest.fixture(
    params=[pytest.param(case, id=case.name, marks=[pytest.mark.long] * (case.name in SLOW)) for case in SHARING]
)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def learn_by_shares(model: Model, reader: Model, examples: Sequence[Example], cuts: Sequence[int]) -> int:
    """Learn examples by sums wherever these can be merged, else one share after the other. Return how many merged.

    reader: sums the shares, after each share that was not merged as `model` reads them by then.
    """
    merged = 0
    reader.restore(travel(model.state(serving_only=True)))
    for start, stop in zip((0, *cuts), (*cuts, len(examples)), strict=True):
        sums = as_summing(reader).sum_up(examples[start:stop])
        if sums is not None and as_summing(model).merge(load(save(dict(sums)))):
            merged += 1
        else:
            model.learn(examples[start:stop])
            reader.restore(travel(model.state(serving_only=True)))
    return merged


def travel(state: State) -> State:
    """The state as it arrives in another process."""
    return {name: StatePart(load(save(dict(part.tensors))), part.serving) for name, part in state.items()}


@pytest.mark.few(12)
@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_merging_shares_leaves_the_state_of_learning_them(case: Case, cuts: Sequence[int]) -> None:
    examples = case.examples(COUNT)
    alone, shared = case.model(), case.model()
    for example in examples:
        alone.learn([example])
    shared.learn(examples[:250])
    learn_by_shares(shared, case.model(), examples[250:], [cut - 250 for cut in cuts])
    assert shared.fingerprint() == alone.fingerprint()
    assert memory(shared) == memory(alone)


def memory(model: Model) -> dict[str, bytes]:
    """Every part but the solved weights, which are equal only to their last digits."""
    return {name: data for name, data in to_bytes(model.state()).items() if name != "weights"}


def test_shares_are_merged_where_nothing_is_decided_in_their_midst(case: Case) -> None:
    examples = case.examples(COUNT)
    model = case.model()
    model.learn(examples[:700])
    assert learn_by_shares(model, case.model(), examples[700:760], (20, 40)) >= 1


def test_summing_examples_changes_nothing(case: Case) -> None:
    examples = case.examples(COUNT)
    model = case.model()
    model.learn(examples[:700])
    before = to_bytes(model.state())
    as_summing(model).sum_up(examples[700:])
    assert to_bytes(model.state()) == before


def test_sums_of_a_bad_example_are_refused_by_its_reason(case: Case) -> None:
    model = case.model()
    model.learn(case.examples(COUNT)[:700])
    with pytest.raises(BadExample):
        as_summing(model).sum_up([*case.examples(10), case.bad[0]])


def test_sums_that_were_read_in_another_way_are_not_merged() -> None:
    tables = next(case for case in SHARING if case.name == "table")
    early, late = tables.model(), tables.model()
    early.learn(tables.examples(COUNT)[:250])
    late.learn(tables.examples(COUNT)[:700])
    sums = as_summing(early).sum_up(tables.examples(COUNT)[700:710])
    assert sums is not None
    before = late.fingerprint()
    assert not as_summing(late).merge(sums)
    assert late.fingerprint() == before


def test_sums_that_complete_a_decision_are_not_merged() -> None:
    model = create("classifier", {"input": "text"})
    sums = as_summing(model).sum_up(texts(200))
    assert sums is not None
    assert not as_summing(model).merge(sums)


def test_sums_with_more_classes_than_the_model_takes_are_not_merged() -> None:
    options = {"input": "text", "max_labels": 3}
    model, reader = create("classifier", options), create("classifier", options)
    model.learn(texts(10, among=range(2)))
    sums = as_summing(reader).sum_up(texts(10, among=range(2, 4)))
    assert sums is not None
    assert not as_summing(model).merge(sums)


@pytest.mark.parametrize("options", [{"window": 20}, {"max_age": 128}], ids=str)
def test_examples_that_decide_which_others_count_are_not_summed(options: dict[str, int]) -> None:
    model = create("classifier", {"input": "text", **options})
    assert as_summing(model).sum_up(texts(10)) is None


def test_examples_are_not_summed_while_recent_ones_are_compared_with_all() -> None:
    model = create("classifier", {"input": "text"})
    model.learn(texts(300))
    model.drifted(None, 250)
    assert as_summing(model).sum_up(texts(10)) is None


def test_every_kind_that_has_partial_sums_is_in_this_suite() -> None:
    assert {case.kind for case in SHARING} == {name for name, spec in KINDS.items() if spec.has_partial_sums}


def test_a_model_with_a_challenger_has_no_partial_sums() -> None:
    assert not has_partial_sums("classifier", {"challenger": {"kind": "knn"}})
