"""Environments of their own for other vendors' clients, kept between runs."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from online.workspace import cache_folder
from tests.support import absent

ROOT = Path(__file__).parents[2]


def environment(name: str, packages: Sequence[str], besides: Callable[[Path], object] = lambda folder: None) -> Path:
    """The python of an environment with these packages; made where there is none yet, skipped where it cannot be.

    besides: what else it takes, done in its folder.
    """
    folder = cache_folder() / "clients" / name
    done, wanted = folder / ".made", "\n".join(packages)
    if not done.exists() or done.read_text() != wanted:
        run(name, [sys.executable, "-m", "venv", "--clear", str(folder)])
        run(name, [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *packages])
        besides(folder)
        done.write_text(wanted)
    return folder / "bin" / "python"


def run(name: str, command: Sequence[str]) -> None:
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode:
        absent(f"no environment for {name}: {told.stderr.strip()[-300:]}")


def ask(python: Path, calls: str, *addresses: str) -> dict[str, Any]:
    """What a vendor's client was told, by a module of this folder that runs in its environment and prints it as JSON."""
    command = [str(python), "-m", f"tests.compat.{calls}", *addresses]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT, env={})
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told
