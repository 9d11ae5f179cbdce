"""The check that schemathesis makes of every response. It runs in the environment of schemathesis, without our packages.

rules.json in its working folder says which operations are closed to the caller, and which words it must not see.
statuses.json says at the end how many responses had each status: a run in which all were refused has tested nothing.
"""

import atexit
import json
from collections import Counter
from pathlib import Path

import schemathesis

RULES = json.loads(Path("rules.json").read_text())
STATUSES = Counter[int]()


def nothing_is_open_or_leaks(
    context: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """Raise AssertionError if a closed operation is not refused with 4xx, or a response has a word of somebody else."""
    STATUSES[response.status_code] += 1
    if case.operation.label in RULES["closed"] and not 400 <= response.status_code < 500:
        raise AssertionError(f"{case.operation.label} is closed to this caller, but answered {response.status_code}")
    for word in RULES["secrets"]:
        if word.encode() in response.content:  # which may be a file of bytes
            raise AssertionError(f"{case.operation.label} shows this caller the word {word!r} of somebody else")


schemathesis.check(nothing_is_open_or_leaks)
atexit.register(lambda: Path("statuses.json").write_text(json.dumps(STATUSES)))
