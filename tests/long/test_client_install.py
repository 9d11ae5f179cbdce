"""The distribution online-client, installed by pip, talks to a service."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import Service, skip_or_fail
from tests.test_packaging import ROOT, build_wheel

CODE = """
import importlib.util
from online import Client

assert importlib.util.find_spec("torch") is None and importlib.util.find_spec("numpy") is None
with Client(URL, "chat") as bot:
    bot.wait_until_learned(1, 60)
    answer = bot.predict(["When do you open?"])
    print(bot.reward(answer["prediction_ids"][0], 1.0)["status"])
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of an environment with online-client and its dependencies."""
    wheel = build_wheel(ROOT / "packaging" / "client", tmp_path / "dist")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    interpreter = tmp_path / "venv" / "bin" / "python"
    installed = subprocess.run([interpreter, "-m", "pip", "install", "--quiet", wheel], capture_output=True, text=True)
    if installed.returncode:
        skip_or_fail(f"pip cannot install httpx: {installed.stderr.strip()[-200:]}")
    return interpreter


def test_a_client_without_torch_predicts_and_gives_feedback(python: Path, service: Service, tmp_path: Path) -> None:
    command = [str(python), "-c", CODE.replace("URL", repr(service.url))]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={}, check=False)
    assert process.returncode == 0 and process.stdout.strip() == "accepted", process.stderr
