"""A real HTTP server that receives alerts, and answers as it is told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """statuses: of the next answers; 200 afterwards. answer: its body. held: while set, requests wait until it is released."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    answer: bytes = b"ok"
    received: list[Received] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def wait(self) -> Received:
        """The next request, once it is there."""
        assert self.arrived.acquire(timeout=30), "no alert arrived"
        return self.received[-1]


@contextmanager
def receive() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.released.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.received.append(Received(dict(self.headers), body))
            receiver.arrived.release()
            receiver.released.wait(30)
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", receiver.url + "/elsewhere")
            self.send_header("Content-Length", str(len(receiver.answer)))
            self.end_headers()
            self.wfile.write(receiver.answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}/hooks/secret-token"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield receiver
    receiver.released.set()
    server.shutdown()
    server.server_close()
    thread.join()
