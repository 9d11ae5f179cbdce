"""The package of the learner, built as it is published, beside the script that replays a scenario."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import skip_or_fail

HERE = Path(__file__).parent
FRONTEND = HERE.parent.parent / "frontend"
VITE = FRONTEND / "node_modules" / "vite" / "bin" / "vite.js"
SCRIPTS = ("replay.js", "replay_node.js")


@pytest.fixture(scope="session")
def node() -> str:
    path = shutil.which("node")
    if path is None:
        skip_or_fail("no node on PATH")
    return str(path)


@pytest.fixture(scope="session")
def package(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and the scripts."""
    if not VITE.exists():
        skip_or_fail("the packages of the page are not installed: make page")
    folder = tmp_path_factory.mktemp("learner")
    config = FRONTEND / "packages" / "learner" / "vite.config.ts"
    command = [node, str(VITE), "build", "-c", str(config), "--outDir", str(folder / "package"), "--logLevel", "error"]
    subprocess.run(command, cwd=FRONTEND, check=True, timeout=120)
    for name in SCRIPTS:
        shutil.copy(HERE / name, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder
