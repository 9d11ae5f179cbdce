"""The virtual environments of the fuzzers, and what a run of one has found."""

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import say
from benchmarks.service import BenchmarkError
from online.io.cache import cache_folder

HANG_S = 10
MAX_GROWTH_MB = 64


@dataclass(frozen=True, slots=True)
class Outcome:
    figures: dict[str, str | int | float]
    findings: list[str]


def environment(name: str, package: str, shares_packages: bool) -> Path:
    """Return the bin folder of an environment with this package.

    shares_packages: whether it can import the packages of this interpreter.
    """
    folder = cache_folder() / "fuzzers" / name
    done = folder / ".made"
    if not done.exists() or done.read_text() != package:
        say(f"creating the environment of {name}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", package]
        output = subprocess.run(pip, capture_output=True, text=True, check=False)
        if output.returncode:
            raise BenchmarkError(f"{package} cannot be installed: {output.stderr.strip()[-300:]}")
        if shares_packages:
            (packages,) = folder.glob("lib/python*/site-packages")
            (packages / "ours.pth").write_text(sysconfig.get_paths()["purelib"])
        done.write_text(package)
    return folder / "bin"
