"""Members of a cohort in Node and in Chromium send the bytes of Python, and add up with members in Python to one model."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from tests.conformance.conftest import RESULT_S, open_page
from tests.conftest import config
from tests.e2e.browsing import launch_browser
from tests.packages.online_federated.aggregation_vectors import FILE, Vectors, write_vectors
from tests.packages.online_federated.members import COHORTS, Member
from tests.serving.feedback.sums.files import OPTIONS, Labelled, central_fingerprint, draw
from tests.support import Service

VECTORS: Vectors = json.loads(FILE.read_text())
REPLAY = (
    "import { replay } from './aggregation.js'; console.log(JSON.stringify(await replay(JSON.parse(process.argv[1]))))"
)
LAB = """
min_cohort_members = 3

[[models]]
name = "lab"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
PARAMETERS = {"classes": ["a", "b"], "size": 5, "max_examples": 10, "round_s": 600}

Advance = Callable[[], str]


def test_the_vectors_are_those_of_the_present_code() -> None:
    assert FILE.read_text() == write_vectors(), (
        "run python -m tests.packages.online_federated.aggregation_vectors > the file"
    )


def test_the_vectors_add_up_to_the_values_of_the_survivors() -> None:
    values = [VECTORS["members"][str(number)]["values"] for number in VECTORS["survivors"]]
    assert VECTORS["sum"] == [sum(each) for each in zip(*values, strict=True)]


@pytest.mark.long
def test_node_sends_the_bytes_of_python(node: str, aggregation_package: Path) -> None:
    command = [node, "--input-type=module", "-e", REPLAY, json.dumps(VECTORS)]
    done = subprocess.run(command, cwd=aggregation_package, capture_output=True, text=True, timeout=RESULT_S)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == VECTORS["members"]


@pytest.mark.long
def test_chromium_sends_the_bytes_of_python(aggregation_package: Path) -> None:
    with open_page(aggregation_package) as page:
        sent = page.evaluate("async (vectors) => (await import('/aggregation.js')).replay(vectors)", VECTORS)
    assert sent == VECTORS["members"]


def test_a_page_without_a_secure_context_is_refused_with_the_remedy(aggregation_package: Path) -> None:
    with open_page(aggregation_package) as page:
        error = page.evaluate(
            """async () => {
                const { checkSupport } = await import('/package/index.js');
                Object.defineProperty(globalThis, 'crypto', { value: {} });
                return checkSupport().catch(({ message }) => message);
            }"""
        )
    assert error == "crypto.subtle does not exist here: open the page over https or on localhost"


# a cohort of Python, Node and Chromium


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("cohort")
    service = Service(folder / "state", config(folder, LAB))
    yield service
    service.stop()


def describe_device(service: Service, cohort: str, rows: list[Labelled]) -> dict[str, Any]:
    address = {"service": service.url, "model": "lab", "id": cohort}
    return {"address": address, "create": OPTIONS, "rows": rows}


@contextmanager
def join_in_node(node: str, package: Path, device: dict[str, Any]) -> Iterator[Advance]:
    command = [node, "member_node.js"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=package, text=True, bufsize=1, **pipes) as process:  # type: ignore[call-overload]

        def answer(line: str) -> str:
            process.stdin.write(f"{line}\n")
            answered: str = process.stdout.readline().strip()
            return answered

        try:
            assert answer(json.dumps(device)) == "joined"
            yield lambda: answer("advance")
        finally:
            process.stdin.close()


@contextmanager
def join_in_chromium(package: Path, device: dict[str, Any]) -> Iterator[Advance]:
    """A page of the service's own origin, which loads the packages from it, too."""

    def send_file(route: Route) -> None:
        path = package / route.request.url.split("/devices/")[1]
        route.fulfill(content_type="text/javascript", body=path.read_text())

    with launch_browser() as browser:
        page: Page = browser.new_page()
        page.set_default_timeout(RESULT_S * 1_000)
        page.route("**/devices/**", send_file)
        page.goto(f"{device['address']['service']}/healthz")
        page.evaluate(
            """async (device) => {
                const { join } = await import('/devices/member.js');
                globalThis.advance = await join(device);
            }""",
            device,
        )
        yield lambda: str(page.evaluate("() => globalThis.advance()"))


def test_a_cohort_of_python_node_and_chromium_merges_the_central_model(
    node: str, aggregation_package: Path, service: Service
) -> None:
    cohort = service.http.post(COHORTS, json=PARAMETERS).raise_for_status().json()["id"]
    rows = [draw(6, seed=seed) for seed in range(5)]
    with (
        join_in_node(node, aggregation_package, describe_device(service, cohort, rows[0])) as in_node,
        join_in_chromium(aggregation_package, describe_device(service, cohort, rows[1])) as in_chromium,
    ):
        members = [Member(service.http, cohort, own, {}) for own in rows[2:]]
        for member in members:
            assert member.join().status_code == 201
        for round, state in (("share", "sharing"), ("mask", "masking"), ("unmask", "unmasking")):
            assert [in_node(), in_chromium()] == [state, state]
            assert in_node() == state, "a round that is done is not done again"
            for member in members:
                assert getattr(member, round)().status_code == 200
        assert [in_node(), in_chromium()] == ["done", "done"]
    offset = service.http.get(f"/v1/models/lab/feedback/cohort%23{cohort}").raise_for_status().json()["offset"]
    service.wait_learned("lab", offset)
    assert service.versions("lab")[0]["state_sha256"] == central_fingerprint([row for own in rows for row in own])
