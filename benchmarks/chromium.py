"""Starts the Chromium of this machine for the benchmarks of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from benchmarks.service import BenchmarkError

FLAGS = ["--no-sandbox", "--disable-gpu"]


@contextmanager
def launch_chromium() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise BenchmarkError("chromium is needed on PATH, or its path in CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
