"""What fuzzers found once (`python -m benchmarks.fuzz`) is never found again."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fuzz_tensors import samples, try_one
from tests.support import Service

HERE = Path(__file__).parent
TENSORS = sorted(path for path in (HERE / "tensors").iterdir() if path.is_file())
REQUESTS: dict[str, dict[str, Any]] = json.loads((HERE / "requests.json").read_text())


@pytest.mark.parametrize("path", TENSORS, ids=lambda path: path.name)
def test_bytes_that_a_decoder_did_not_bear(path: Path) -> None:
    try_one(path.read_bytes())


@pytest.mark.parametrize("data", samples())
def test_what_a_fuzzer_begins_with_is_sound(data: bytes) -> None:
    try_one(data)


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_that_was_answered_with_500(service: Service, case: str) -> None:
    asked = REQUESTS[case]
    told = service.http.request(asked["method"], asked["path"], content=asked.get("body"), headers=asked.get("headers"))
    assert told.status_code == asked["status"], told.text
