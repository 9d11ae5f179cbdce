"""`online config` prints the settings, the origin of each, and masks secrets."""

import json
import os
from pathlib import Path

import pytest

from tests.support import run_online


def run_config(folder: Path, *arguments: str, **variables: str) -> str:
    process = run_online("config", *arguments, cwd=folder, env={**os.environ, **variables})
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_each_setting_is_printed_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "online.toml").write_text("retain = 3\n")
    printed = run_config(tmp_path, "--set", "workers=2", ONLINE_PORT="9000")
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines()}
    assert rows["setting"] == ["value", "from"]
    assert rows["retain"] == ["3", "file", "online.toml"]
    assert rows["port"] == ["9000", "environment", "ONLINE_PORT"]
    assert rows["workers"] == ["2", "flag", "--set", "workers"]
    assert rows["host"] == ["127.0.0.1", "default"]


def test_json_has_the_help_of_each_setting(tmp_path: Path) -> None:
    settings = json.loads(run_config(tmp_path, "--json", "--state", "elsewhere"))
    assert settings["state"] == {
        "value": "elsewhere",
        "origin": "flag",
        "origin_name": "--state",
        "help": "Folder that holds all data of the service.",
    }
    assert settings["models"]["value"][0]["name"] == "chat"


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_secrets_and_passwords_are_masked(tmp_path: Path, flags: tuple[str, ...]) -> None:
    urls = {"ONLINE_STORE": "postgresql://me:hunter2@h/db", "ONLINE_STREAM": "redis://:hunter2@h/0"}
    printed = run_config(tmp_path, *flags, ONLINE_ADMIN_KEY="hunter2hunter2", **urls)
    assert "hunter2" not in printed and "postgresql://me:***@h/db" in printed and "redis://:***@h/0" in printed


def test_a_config_file_can_be_named_by_the_environment(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("port = 7\n")
    assert "file mine.toml" in run_config(tmp_path, ONLINE_CONFIG="mine.toml")


def test_invalid_settings_are_refused_in_one_line(tmp_path: Path) -> None:
    process = run_online("config", "--set", "prot=1", cwd=tmp_path)
    assert process.returncode == 2 and process.stdout == ""
    assert process.stderr.startswith("online: --set: unknown setting 'prot'; did you mean 'port'")
