"""A learner in Node and in Chromium has the fingerprint of Python after 10,000 events, and comes back to Python."""

import base64
import json
import subprocess
import threading
from collections.abc import Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from online.models import Answer
from online.models.classifier import Classifier
from online.models.export.learner_file import read_learner_file
from online.models.statistics.sums_file import read_sums
from tests.conformance.scenarios import Scenario, create_scenarios
from tests.e2e.browsing import launch_browser

SCENARIOS = create_scenarios()
RESULT_S = 120
SERVED_DIFFERENCE = 1e-3  # of probabilities: the service adds up scores of 1e3 in float32
by_name = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def page(package: Path) -> Iterator[Page]:
    """A page of an origin that serves the package."""
    (package / "index.html").write_text("<!doctype html><title>learner</title>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(package)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with launch_browser() as browser:
        page = browser.new_page()
        page.set_default_timeout(RESULT_S * 1_000)
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        yield page
    server.shutdown()
    server.server_close()


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


def compare_answers(answers: list[list[list[Any]]], expected: list[Answer]) -> float:
    """The largest difference of a probability."""
    worst = 0.0
    for ours, theirs in zip(answers, expected, strict=True):
        scores = {candidate.id: candidate.score for candidate in theirs.candidates}
        assert scores.keys() == {label for label, _ in ours}
        worst = max(worst, *(abs(score - scores[label]) for label, score in ours))
    return worst


def check_result(scenario: Scenario, result: dict[str, Any]) -> None:
    assert result["wrong"] is None, f"another fingerprint after {result['wrong']}"
    assert result["fingerprint"] == learn(scenario.name)
    returned = read_learner_file(base64.b64decode(result["file"]))
    assert returned.fingerprint() == learn(scenario.name)
    assert result["reads"] == returned.feature_epoch() == Classifier(scenario.options).feature_epoch()
    assert result["count"] == returned.head.count
    expected = returned.predict([scenario.as_bytes(row.value) for row in scenario.probes])
    assert compare_answers(result["answers"], expected) < SERVED_DIFFERENCE


def test_there_are_ten_thousand_events_of_every_operation() -> None:
    assert sum(scenario.count for scenario in SCENARIOS) == 10_000
    for scenario in SCENARIOS:
        assert {step.operation for step in scenario.steps} == {"learn", "unlearn", "merge", "subtract"}


@by_name
def test_node_has_the_fingerprint_of_python(node: str, package: Path, scenario: Scenario) -> None:
    learn(scenario.name)
    check_result(scenario, replay_in_node(node, package, scenario))


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


@by_name
def test_python_continues_from_the_file_of_a_learner(node: str, package: Path, scenario: Scenario) -> None:
    model = scenario.learn()
    returned = read_learner_file(base64.b64decode(replay_in_node(node, package, scenario)["file"]))
    more = scenario.as_examples([row for step in scenario.steps[:20] for row in step.rows])
    for each in (model, returned):
        each.learn(more)
        each.unlearn(more[:30])
    assert returned.fingerprint() == model.fingerprint()


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
