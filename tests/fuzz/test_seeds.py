"""Regression tests for the inputs on which the fuzzers (`python -m benchmarks.fuzz`) once failed."""

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
def test_bytes_that_once_broke_a_decoder_are_handled(path: Path) -> None:
    try_one(path.read_bytes())


SAMPLES = samples()


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_the_samples_that_a_fuzzer_starts_with_are_handled(number: int) -> None:
    try_one(SAMPLES[number])


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_that_was_once_answered_with_500_has_its_expected_status(service: Service, case: str) -> None:
    request = REQUESTS[case]
    response = service.http.request(
        request["method"], request["path"], content=request.get("body"), headers=request.get("headers")
    )
    assert response.status_code == request["status"], response.text
