"""The units of deploy/systemd, as systemd reads them, and the settings of their environment files."""

import re
import shlex
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from online.settings import Settings, load
from tests.support import skip_or_fail

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
SECRETS = ("ONLINE_SECRET", "ONLINE_ADMIN_KEY")
MAX_EXPOSURE = 20  # of 100, as `systemd-analyze security` counts it; a unit without any protection has 96


def read_unit(name: str) -> dict[str, list[str]]:
    """Return the values of each directive of a unit, with those that stand several times."""
    found = defaultdict[str, list[str]](list)
    for line in (UNITS / name).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            directive, _, value = line.partition("=")
            found[directive].append(value)
    return found


def read_variables(name: str) -> dict[str, str]:
    """Return the variables of an environment file, without the quotes that systemd removes."""
    lines = [line for line in (UNITS / name).read_text().splitlines() if line and not line.startswith("#")]
    pairs = [line.partition("=") for line in lines]
    return {name: "".join(shlex.split(value)) for name, _, value in pairs}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units in a folder, with a program that exists on this machine."""
    if shutil.which("systemd-analyze") is None:
        skip_or_fail("systemd-analyze is not installed")
    for name in ("online@.service", "online.target"):
        text = (UNITS / name).read_text()
        (tmp_path / name).write_text(text.replace("/opt/online/bin/online", shutil.which("true") or "/bin/true"))
    return tmp_path


def test_systemd_accepts_the_units(installed: Path) -> None:
    (installed / "online@1.service").symlink_to("online@.service")
    for name in ("online@1.service", "online.target"):
        command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(installed / name)]
        verified = subprocess.run(command, capture_output=True, text=True, check=False)
        about_ours = [line for line in verified.stderr.splitlines() if "online" in line]
        assert (verified.returncode, about_ours) == (0, []), verified.stderr


def test_systemd_would_find_a_misspelt_directive(installed: Path) -> None:
    unit = installed / "online@.service"
    unit.write_text(unit.read_text().replace("ProtectSystem=", "ProtektSystem="))
    (installed / "online@1.service").symlink_to("online@.service")
    command = ["systemd-analyze", "verify", "--man=no", str(installed / "online@1.service")]
    assert "ProtektSystem" in subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_the_service_is_confined(installed: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=yes", f"--threshold={MAX_EXPOSURE}"]
    analysed = subprocess.run(
        [*command, str(installed / "online@.service")], capture_output=True, text=True, check=False
    )
    assert analysed.returncode == 0, analysed.stdout[-3000:] + analysed.stderr


def test_the_service_is_restarted_limited_and_stopped_gently() -> None:
    unit = read_unit("online@.service")
    assert unit["Restart"] == ["always"] and unit["KillMode"] == ["mixed"] and unit["MemoryMax"] and unit["TasksMax"]
    assert "WatchdogSec" not in unit  # the service sends no keep-alive messages
    assert unit["ProtectSystem"] == ["strict"] and unit["DynamicUser"] == ["yes"]


def test_the_state_that_the_service_writes_is_the_one_that_systemd_gives_it() -> None:
    unit = read_unit("online@.service")
    (command,) = unit["ExecStart"]
    assert re.fullmatch(r"/opt/online/bin/online serve --state %S/(\S+)", command)
    assert (
        unit["StateDirectory"] == [command.rpartition("%S/")[2]]
        and "XDG_CACHE_HOME=%C/online/%i" in unit["Environment"][0]
    )
    assert unit["PartOf"] == unit["WantedBy"] == ["online.target"]


def test_the_settings_of_the_environment_files_exist_and_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = read_variables("online.env") | read_variables("replica.env")
    names = {name.removeprefix("ONLINE_").lower() for name in variables}
    assert names <= Settings.model_fields.keys()
    assert {variables[name] for name in SECRETS} == {""}  # nobody starts with a secret that everybody knows
    for name, value in variables.items():
        if name.removeprefix("ONLINE_").lower() in Settings.model_fields:
            monkeypatch.setenv(name, value)
    settings = load(None)
    assert settings.trusted_proxies == ("127.0.0.1",) and settings.public_url == "https://chat.example.com"
    assert variables["ONLINE_REPLICA_URL"] == f"http://{settings.host}:{settings.port}"
