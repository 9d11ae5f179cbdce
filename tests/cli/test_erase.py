"""`online erase` on a stopped state folder, and beside a service."""

import json
from pathlib import Path

from tests.conftest import Start
from tests.serving.erasure.searching import find_in_folder
from tests.support import run_online

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
USER = "annasophia"


def test_a_user_is_erased_from_a_stopped_state_folder(start: Start, tmp_path: Path) -> None:
    service = start(VEC)
    flags = ("--state", str(service.state), "--config", str(service.state.with_suffix(".toml")))
    with service.client("vec", "bert") as bert:
        head = bert.feedback([{"input": [n, 1], "label": "ab"[n]} for n in range(2)])[-1]["offset"]
    before = service.wait_learned("vec", head) and service.versions("vec")[0]["state_sha256"]
    with service.client("vec", USER) as anna:
        service.wait_learned("vec", anna.feedback([{"input": [3, 3], "label": "quokkaship"}])[-1]["offset"])
    refused = run_online("erase", USER, *flags)
    assert refused.returncode == 2 and "use DELETE /v1/users/{user} of the service" in refused.stderr
    assert service.stop() == 0
    needles = {"name": USER.encode(), "class": b"quokkaship"}
    assert find_in_folder(service.state, needles) == {"name", "class"}
    erased = run_online("erase", USER, "--output", str(tmp_path / "statement.json"), *flags)
    assert erased.returncode == 0, erased.stderr
    statement = json.loads((tmp_path / "statement.json").read_text())
    assert statement["models"]["vec"]["after"]["state_sha256"] == before
    assert find_in_folder(service.state, needles) == set()
    assert run_online("erase", "--verify", str(tmp_path / "statement.json"), *flags).returncode == 0
