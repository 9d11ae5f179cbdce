"""`online keys`: create, list, rotate and revoke, beside a service that is running."""

import json
from pathlib import Path

from tests.support import run_online


def keys(folder: Path, *arguments: str) -> str:
    process = run_online("keys", *arguments, "--state", str(folder))
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def test_a_key_is_created_listed_rotated_and_revoked(tmp_path: Path) -> None:
    key = keys(tmp_path, "create", "--name", "website", "--models", "chat, digits", "--expires", "90d")
    assert key.startswith("online_") and "\n" not in key
    listed = json.loads(keys(tmp_path, "list", "--json"))["keys"]
    assert [(each["name"], each["scopes"], each["models"]) for each in listed] == [
        ("website", ["predict", "feedback"], ["chat", "digits"])
    ]
    assert listed[0]["prefix"] in key and key not in json.dumps(listed)
    rotated = json.loads(keys(tmp_path, "rotate", "website", "--grace", "0h", "--json"))["key"]
    assert rotated != key
    assert keys(tmp_path, "revoke", "website").startswith("revoked 1 key named website")
    assert "revoked" in keys(tmp_path, "list")


def test_a_wrong_option_is_refused_with_the_remedy(tmp_path: Path) -> None:
    for arguments, words in (
        (("create", "--name", "x", "--scopes", "everything"), "unknown scope 'everything'; the scopes are predict"),
        (("create", "--name", "x", "--expires", "soon"), "--expires soon: write a number and a unit"),
        (("revoke", "nobody"), "there is no active key 'nobody'; the active keys are: none"),
    ):
        process = run_online("keys", *arguments, "--state", str(tmp_path))
        assert process.returncode == 2 and words in process.stderr, process.stderr
