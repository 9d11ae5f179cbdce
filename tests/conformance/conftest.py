"""The packages of the page, built as they are published, beside the scripts that use them, and a page that loads them."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.e2e.browsing import launch_browser
from tests.support import skip_or_fail

HERE = Path(__file__).parent
FRONTEND = HERE.parent.parent / "frontend"
LEARNER = FRONTEND / "packages" / "learner"
VITE = FRONTEND / "node_modules" / "vite" / "bin" / "vite.js"
RESULT_S = 120


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="session")
def node() -> str:
    path = shutil.which("node")
    if path is None:
        skip_or_fail("no node on PATH")
    return str(path)


@pytest.fixture(scope="session")
def package(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the learner and the scripts that replay a scenario."""
    folder = tmp_path_factory.mktemp("learner")
    build_package(node, LEARNER, folder / "package")
    return add_scripts(folder, HERE / "replay.js", HERE / "replay_node.js")


def build_package(node: str, source: Path, folder: Path) -> None:
    if not VITE.exists():
        skip_or_fail("the packages of the page are not installed: make page")
    config = source / "vite.config.ts"
    command = [node, str(VITE), "build", "-c", str(config), "--outDir", str(folder), "--logLevel", "error"]
    subprocess.run(command, cwd=FRONTEND, check=True, timeout=120)


def add_scripts(folder: Path, *scripts: Path) -> Path:
    for script in scripts:
        shutil.copy(script, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


@contextmanager
def open_page(folder: Path) -> Iterator[Page]:
    """A page in Chromium of an origin that serves a folder."""
    (folder / "index.html").write_text("<!doctype html><title>package</title>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with launch_browser() as browser:
        page = browser.new_page()
        page.set_default_timeout(RESULT_S * 1_000)
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        yield page
    server.shutdown()
    server.server_close()
