"""Tiny models and adapters, made once, and servers of them."""

import importlib.util
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import uvicorn

from online_adapters.adapter_folder import AdapterFolder
from tests.packages.online_adapters import tiny_model
from tests.support import skip_or_fail, until

RUNNING = re.compile(r"running on (http://\S+)")
Serve = Callable[[Path, Path], AbstractContextManager["AdapterProcess"]]


@pytest.fixture(scope="session", autouse=True)
def libraries() -> None:
    for name in ("transformers", "peft", "trl", "datasets"):
        if importlib.util.find_spec(name) is None:
            skip_or_fail(f"{name}: pip install -e packages/online-adapters")


@pytest.fixture(scope="session")
def talking_model(libraries: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says "base"."""
    return tiny_model.make_model(tmp_path_factory.mktemp("talking") / "tiny", talks=True)


@pytest.fixture(scope="session")
def random_model(libraries: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose weights are random."""
    return tiny_model.make_model(tmp_path_factory.mktemp("random") / "tiny", talks=False)


@pytest.fixture(scope="session")
def saved_words(talking_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Adapters that say one word each, as PEFT has saved them."""
    folder = tmp_path_factory.mktemp("saved")
    return {word: tiny_model.make_talking_adapter(talking_model, folder / word, word) for word in tiny_model.WORDS[1:]}


@pytest.fixture
def folder(tmp_path: Path) -> AdapterFolder:
    return AdapterFolder(tmp_path / "adapters")


@pytest.fixture
def words(folder: AdapterFolder, saved_words: dict[str, Path]) -> dict[str, str]:
    """The adapters of `folder`: word -> name."""
    return {word: folder.add(path) for word, path in saved_words.items()}


class AdapterProcess:
    """`online-adapters serve` as a child process. Its output is kept in `output`."""

    def __init__(self, model: Path, adapters: Path) -> None:
        command = ["serve", "--model", str(model), "--adapters", str(adapters), "--port", "0", "--device", "cpu"]
        self.output = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "online_adapters", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = str(until(self._find_url, 120, "the start of the server"))

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line

    def _find_url(self) -> str | None:
        assert self.process.poll() is None, self.output
        found = RUNNING.search(self.output)
        return found[1] if found else None

    def stop(self) -> int:
        """Send SIGTERM, and wait; return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def run_server(model: Path, adapters: Path) -> Iterator[AdapterProcess]:
    server = AdapterProcess(model, adapters)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def serve(libraries: None) -> Serve:
    return run_server


@contextmanager
def run_in_a_thread(model: Path, adapters: AdapterFolder) -> Iterator[str]:
    """Serve a model by a thread of this process, which has the libraries loaded already; the URL is that of /v1."""
    from online_adapters.adapted_model import AdaptedModel
    from online_adapters.server import AdapterServer

    app = AdapterServer(AdaptedModel(model, adapters), model.name).create_app()
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        until(lambda: server.started, what="the start of the server")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


@pytest.fixture(scope="module")
def random_url(random_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server whose model says this and that."""
    with run_in_a_thread(random_model, AdapterFolder(tmp_path_factory.mktemp("adapters"))) as url:
        yield url
