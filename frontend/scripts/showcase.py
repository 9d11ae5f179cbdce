"""What the scripts that take pictures share: a service on a temporary folder, a browser, and small picture files."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parent.parent.parent
COLORS = 256


@contextmanager
def running_service(config: str) -> Iterator[str]:
    """Run a service with the starter repertoire, and yield its URL."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "online.toml").write_text(config)
        command = [sys.executable, "-m", "online", "serve", "--port", "0"]
        command += ["--state", str(folder / "state"), "--config", str(folder / "online.toml")]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
        try:
            yield read_url(service)
        finally:
            service.terminate()
            service.communicate(timeout=60)


def read_url(service: subprocess.Popen[str]) -> str:
    assert service.stdout is not None
    output = ""
    for line in service.stdout:
        output += line
        if found := re.search(r"is ready: (http://\S+)", line):
            return found.group(1)
    raise RuntimeError(f"the service did not start:\n{output}")


def wait_until_learned(client: httpx.Client, model: str, question: object) -> None:
    """Predict with the newest offset, which waits until the live version has learned it."""
    head = client.get(f"/v1/models/{model}").json()["head"]
    body = {"instances": [question], "record": False, "min_offset": head, "timeout_ms": 60_000}
    client.post(f"/v1/models/{model}:predict", json=body).raise_for_status()


@contextmanager
def running_browser() -> Iterator[Browser]:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def reduce_picture(path: Path) -> None:
    """Reduce a picture to few colors, so that its file is small."""
    with Image.open(path) as picture:
        reduced = picture.convert("RGB").quantize(COLORS)
    reduced.save(path, optimize=True)
