"""Virtual environments for the clients of other vendors, kept between test runs."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from online.io.cache import cache_folder
from tests.support import skip_or_fail

ROOT = Path(__file__).parents[3]


def environment(name: str, packages: Sequence[str], setup: Callable[[Path], object] = lambda folder: None) -> Path:
    """Return the Python of an environment with these packages, created on first use. Skips the test if it cannot be.

    setup: a further step of its creation, called with its folder.
    """
    folder = cache_folder() / "clients" / name
    marker, content = folder / ".made", "\n".join(packages)
    if not marker.exists() or marker.read_text() != content:
        run(name, [sys.executable, "-m", "venv", "--clear", str(folder)])
        run(name, [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *packages])
        setup(folder)
        marker.write_text(content)
    return folder / "bin" / "python"


def run(name: str, command: Sequence[str]) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        skip_or_fail(f"no environment for {name}: {process.stderr.strip()[-300:]}")


def run_client(python: Path, module: str, *addresses: str) -> dict[str, Any]:
    """Run a module of this folder in a vendor's environment; return the answers its client got, printed as JSON."""
    command = [str(python), "-m", f"tests.long.clients.{module}", *addresses]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT, env={})
    assert process.returncode == 0, process.stderr
    answers: dict[str, Any] = json.loads(process.stdout)
    return answers
