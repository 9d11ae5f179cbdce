"""A replica on a real port, a proxy that cuts its connections, and the snapshots of a second replica."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import uvicorn
from fastapi import FastAPI

from online.io.wakeup import Wakeup
from online.models import StatePart
from online.plugins.cluster.peer_source import PeerSource
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest, ManifestSeal
from online.snapshots.roll_back import Freeze
from online.state.signing_keys import SigningKeys
from tests.api.auth.access import build

LARGE = 500_000  # numbers in the largest part, of 8 bytes each


@dataclass(frozen=True)
class Replica:
    """A replica that serves. Its model "vec" has no version until one is published, and none goes live."""

    url: str
    app: FastAPI

    @property
    def snapshots(self) -> Snapshots:
        snapshots: Snapshots = self.app.state.runtime.models["vec"].snapshots
        return snapshots

    @property
    def keys(self) -> SigningKeys:
        keys: SigningKeys = self.app.state.runtime.workspace.keys
        return keys

    def source(self, client: httpx.Client, url: str | None = None) -> PeerSource:
        return PeerSource(url or self.url, self.keys, client)


class ListeningServer(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_listening = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_listening.set()


@contextmanager
def run_replica(folder: Path) -> Iterator[Replica]:
    """Serve a model without a learner on a free port."""
    app = build(folder)
    app.state.runtime.models["vec"].snapshots.control.freeze(Freeze("", ""))
    server = ListeningServer(uvicorn.Config(app, port=0, log_config=None))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        assert server.is_listening.wait(60)
        yield Replica(f"http://127.0.0.1:{listener.getsockname()[1]}", app)
        server.should_exit = True
        thread.join(30)


def other_snapshots(folder: Path, model: str = "vec", seal: ManifestSeal | None = None) -> Snapshots:
    """The snapshots of a replica that has none yet."""
    return Snapshots(folder / "snapshots", model, Wakeup(folder / "bell"), retain=3, seal=seal)


def publish(snapshots: Snapshots, version: int, durable: bool = True, value: int | None = None) -> Manifest:
    """Publish a version with a small part, and a large one that is the same in all versions with this value."""
    large = np.random.default_rng(0 if value is None else value).integers(0, 2**62, LARGE)
    state = {
        "weights": StatePart({"w": np.full(4, version, np.float32)}, serving=True),
        "statistics": StatePart({"s": large}, serving=False),
    }
    manifest = Manifest(
        snapshots.model, version, version - 1 or None, version * 10, "2026-01-01T00:00:00+00:00", f"s{version}", "", "e",
        "r", durable,
    )  # fmt: skip
    return snapshots.publisher.publish(state, manifest)


def read_files(snapshots: Snapshots, version: int) -> dict[str, bytes]:
    """The files of a version, but the mark that they are on the disk."""
    files = (snapshots.folder.path / str(version)).iterdir()
    return {path.name: path.read_bytes() for path in files if path.name != "on-disk"}


def accept(manifest: Manifest) -> None:
    """Check nothing: any version is wanted."""


class CuttingProxy:
    """Forwards connections to a port. While `limit` is set, it cuts a connection after so many bytes of answers."""

    def __init__(self, port: int) -> None:
        self.port, self.limit, self.forwarded = port, 0, 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "CuttingProxy":
        self._thread.start()
        start = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result(30)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.port)
        requests = asyncio.ensure_future(self._forward(reader, up_writer))
        try:
            with suppress(ConnectionError, asyncio.CancelledError):
                while data := await up_reader.read(65_536):
                    self.forwarded += len(data)
                    writer.write(data)
                    await writer.drain()
                    if self.limit and self.forwarded >= self.limit:
                        break
        finally:
            requests.cancel()
            writer.close()
            up_writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
