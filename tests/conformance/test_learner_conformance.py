"""A learner in Node and in Chromium has the fingerprint of Python after 10,000 events, and comes back to Python."""

import base64
import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from online.models.classifier import Classifier
from online.models.exchange.sums_file import read_sums
from online.models.statistics.calibration import softmax
from online.models.statistics.discriminant import compute_diagonal, compute_means, compute_scatter
from online.plugins.export.learner_file import read_learner_file
from tests.conformance.conftest import RESULT_S, open_page
from tests.conformance.scenarios import Scenario, create_scenarios

SCENARIOS = create_scenarios()
SERVED_DIFFERENCE = 1e-4  # of probabilities: the service keeps its weights in float32
SOLVED_DIFFERENCE = 1e-9  # from the same equations in float64
by_name = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


@pytest.fixture(scope="module")
def page(package: Path) -> Iterator[Page]:
    with open_page(package) as page:
        yield page


@cache
def learn(name: str) -> str:
    """The fingerprint of a scenario in Python; those of its steps are noted on the way."""
    return next(scenario for scenario in SCENARIOS if scenario.name == name).learn().fingerprint()


def replay_in_node(node: str, package: Path, scenario: Scenario) -> dict[str, Any]:
    text = scenario.write()
    done = subprocess.run(
        [node, "replay_node.js"], cwd=package, input=text, capture_output=True, text=True, timeout=RESULT_S
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def replay_in_browser(page: Page, package: Path, scenario: Scenario) -> dict[str, Any]:
    (package / f"{scenario.name}.json").write_text(scenario.write())
    result: dict[str, Any] = page.evaluate(
        "async (name) => (await import('/replay.js')).replay(await (await fetch(`/${name}.json`)).json())",
        scenario.name,
    )
    return result


def compare_answers(answers: list[list[list[Any]]], expected: list[dict[str, float]]) -> float:
    """The largest difference of a probability. expected: of each class that may be answered."""
    worst = 0.0
    for ours, theirs in zip(answers, expected, strict=True):
        assert theirs.keys() == {label for label, _ in ours}
        worst = max(worst, *(abs(score - theirs[label]) for label, score in ours))
    return worst


def solve_in_float64(model: Classifier, inputs: list[bytes]) -> list[dict[str, float]]:
    """The probabilities of linear discriminants by NumPy's general solver, nothing of it in float32."""
    sums = model.statistics
    counts_C, sums_CD = sums.counts[0], sums.sums[0]
    lower_DD = np.tril(np.asarray(compute_scatter(sums.gram, counts_C, sums_CD)))
    within_DD = lower_DD + np.tril(lower_DD, -1).T
    total = int(counts_C.sum())
    squares, shrinkage = int(sums.gram.trace()), model.head.shrinkage
    diagonal_D = compute_diagonal(within_DD.diagonal().copy(), squares, total, shrinkage, False)
    means_DC = compute_means(sums.counts, sums.sums, counts_C, sums_CD, None)[1].T
    solved_DC = np.linalg.solve(within_DD + np.diag(diagonal_D), means_DC)
    scale = shrinkage * sums.width + total
    prior_C = np.log((counts_C + 1) / (total + len(counts_C)))
    scores_BC = scale * (model.inputs.features(inputs) @ solved_DC - (means_DC * solved_DC).sum(0) / 2) + prior_C
    scores_BC[:, counts_C == 0] = -np.inf
    known = [(place, label) for place, label in enumerate(sums.classes) if counts_C[place]]
    return [
        {label: row_C[place] for place, label in known} for row_C in softmax(scores_BC / model.head.decided.temperature)
    ]


def check_result(scenario: Scenario, result: dict[str, Any]) -> None:
    assert result["wrong"] is None, f"another fingerprint after {result['wrong']}"
    assert result["fingerprint"] == learn(scenario.name)
    returned = read_learner_file(base64.b64decode(result["file"]))
    assert returned.fingerprint() == learn(scenario.name)
    assert result["reads"] == returned.feature_epoch() == Classifier(scenario.options).feature_epoch()
    assert result["count"] == returned.statistics.counts[0].sum()
    inputs = [scenario.as_bytes(row.value) for row in scenario.probes]
    served = [{each.id: each.score for each in answer.candidates} for answer in returned.predict(inputs)]
    assert compare_answers(result["answers"], served) < SERVED_DIFFERENCE
    if returned.head.head == "slda":
        assert compare_answers(result["answers"], solve_in_float64(returned, inputs)) < SOLVED_DIFFERENCE


def test_there_are_ten_thousand_events_of_every_operation() -> None:
    assert sum(scenario.count for scenario in SCENARIOS) == 10_000
    for scenario in SCENARIOS:
        assert {step.operation for step in scenario.steps} == {"learn", "unlearn", "merge", "subtract"}


@pytest.mark.few(2)
@by_name
def test_node_has_the_fingerprint_of_python(node: str, package: Path, scenario: Scenario) -> None:
    learn(scenario.name)
    check_result(scenario, replay_in_node(node, package, scenario))


@pytest.mark.few(1)
@by_name
def test_chromium_has_the_fingerprint_of_python(page: Page, package: Path, scenario: Scenario) -> None:
    learn(scenario.name)
    check_result(scenario, replay_in_browser(page, package, scenario))


def test_a_worker_in_chromium_learns_as_python_does(page: Page) -> None:
    scenario = SCENARIOS[1]
    rows = [row for step in scenario.steps[:10] for row in step.rows]
    fingerprint = page.evaluate(
        """async ([options, rows]) => {
            const { LearnerWorker } = await import('/package/worker.js');
            const worker = await LearnerWorker.create(options);
            await worker.learn(rows.map(([input, label, reward]) => ({ input, label, reward })));
            const fingerprint = await worker.fingerprint();
            worker.close();
            return fingerprint;
        }""",
        [scenario.create, [[row.value, row.label, row.reward] for row in rows]],
    )
    model = Classifier(scenario.options)
    model.learn(scenario.as_examples(rows))
    assert fingerprint == model.fingerprint()


@pytest.mark.few(1)
@by_name
def test_python_continues_from_the_file_of_a_learner(node: str, package: Path, scenario: Scenario) -> None:
    model = scenario.learn()
    returned = read_learner_file(base64.b64decode(replay_in_node(node, package, scenario)["file"]))
    more = scenario.as_examples([row for step in scenario.steps[:20] for row in step.rows])
    for each in (model, returned):
        each.learn(more)
        each.unlearn(more[:30])
    assert returned.fingerprint() == model.fingerprint()


@pytest.mark.few(1)
@by_name
def test_a_contribution_is_what_a_learner_adds_to_its_start(node: str, package: Path, scenario: Scenario) -> None:
    """Steps without merges: these are not the learner's own."""
    own = [step for step in scenario.steps[:60] if step.operation == "learn"]
    part = Scenario(scenario.name, scenario.reads, scenario.options, scenario.create, scenario.start, own)
    result = replay_in_node(node, package, part)
    contribution = read_sums(base64.b64decode(result["contribution"]))
    model = part.create_model()
    assert contribution.meta["reads"] == model.feature_epoch()
    assert contribution.meta["octave"] == model.head.projection.octave
    assert contribution.meta["columns"] == model.inputs.mapping()["columns"]
    model.statistics.merge(contribution.statistics)
    assert model.fingerprint() == result["fingerprint"]
    assert np.array_equal(part.learn().statistics.gram, model.statistics.gram)
