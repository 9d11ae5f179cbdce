"""The process that imports every module once and forks for each program that is to run.

It has one thread, which only waits and forks, so a fork copies no lock that is held.
"""

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import json
import multiprocessing
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
MESSAGE_BYTES, MAX_FDS = 1 << 20, 200
HIGH_FD = 400  # received descriptors are moved above this number, and then to the requested numbers
LIBRARIES = (  # without onnxruntime and pyarrow, which start a thread when they are imported
    *("uvicorn.loops.uvloop", "httptools", "websockets", "tokenizers", "psycopg", "sqlalchemy.dialects.postgresql"),
    *(
        f"river.{part}"
        for part in ("compose", "ensemble", "forest", "linear_model", "naive_bayes", "neighbors", "tree")
    ),
    "matplotlib.pyplot",
)
# of online-adapters, which services lack: one of them starts a thread
HIDDEN = ("accelerate", "datasets", "pandas", "peft", "trl")
INTERPRETER = ("PYTHON", "LD_", "COVERAGE_", "MALLOC_")  # the interpreter reads these variables before a program starts


@dataclass(frozen=True)
class Program:
    """A program to run in a fork. fds: the numbers that the descriptors sent with the request get in it."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    fds: list[int]
    executable: str
    new_session: bool

    def run(self) -> None:
        """Become this program. Returns, or raises SystemExit, when the program has ended."""
        is_same_interpreter = interpreter_variables(self.environment) == interpreter_variables(os.environ)
        if not (preloadable(self.arguments) and is_same_interpreter):
            os.execve(sys.executable, [sys.executable, *self.arguments], self.environment)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.executable = self.executable
        multiprocessing.set_executable(self.executable)
        reopen_streams(self.environment)
        if shares_metrics(self.arguments):
            from prometheus_client import values

            values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
        option, what, *arguments = self.arguments
        sys.argv = [what if option == "-m" else option, *arguments]
        sys.path.insert(0, self.folder)
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
            return
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)


def preloadable(arguments: list[str]) -> bool:
    return arguments[:1] in (["-m"], ["-c"])


def shares_metrics(arguments: list[str]) -> bool:
    """Whether the program is one of several workers, which share their metrics in files.

    prometheus_client decides this when it is imported.
    """
    several = "--workers" in arguments and arguments[arguments.index("--workers") + 1] != "1"
    return several or arguments[2:3] == ["work"]


def interpreter_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(INTERPRETER)}


def reopen_streams(environment: dict[str, str]) -> None:
    """Open the standard streams as a new interpreter does."""
    unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    for name, fd in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(fd, "r" if fd == 0 else "w", closefd=False)
        buffered: Any = io.BufferedReader(raw) if fd == 0 else io.BufferedWriter(raw)
        errors = "backslashreplace" if fd == 2 else "strict"
        line_buffering = fd == 2 or (fd == 1 and raw.isatty())
        stream = io.TextIOWrapper(buffered, "utf-8", errors, line_buffering=line_buffering, write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def import_everything() -> None:
    """Import every module of the package, and the libraries that it imports only when they are needed."""
    import online

    sys.modules |= dict.fromkeys(HIDDEN, None)  # type: ignore[arg-type]
    for name in [*LIBRARIES, *(found.name for found in pkgutil.walk_packages(online.__path__, "online."))]:
        if not (name.endswith("__main__") or ".migrations." in name):  # these run code when they are imported
            with contextlib.suppress(ImportError):  # an optional dependency that is not installed
                importlib.import_module(name)
    for name in HIDDEN:
        del sys.modules[name]
    assert len(os.listdir("/proc/self/task")) == 1, "an imported module has started a thread, which a fork would lack"


class Preloader:
    """Forks a process for each request. connections: each open connection with the process started for it, or None."""

    def __init__(self, listener: int) -> None:
        self.listener = socket.socket(fileno=listener)
        self.woken, self.wakeup = socket.socketpair()
        self.wakeup.setblocking(False)
        signal.set_wakeup_fd(self.wakeup.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector = selectors.DefaultSelector()
        for source in (self.listener, self.woken, sys.stdin):
            self.selector.register(source, selectors.EVENT_READ)
        self.connections: dict[socket.socket, int | None] = {}
        self.imported = False

    def serve(self) -> Program | None:
        """Answer requests. Return None when the test run is over, and in a forked child the program it has to run."""
        while True:
            for key, _ in self.selector.select():
                source = key.fileobj
                if source is sys.stdin:
                    signal.set_wakeup_fd(-1)  # children that end while this process exits wake nobody
                    return None
                if source is self.woken:
                    self.woken.recv(4096)
                    self.reap()
                elif source is self.listener:
                    connection, _ = self.listener.accept()
                    self.connections[connection] = None
                    self.selector.register(connection, selectors.EVENT_READ)
                elif isinstance(source, socket.socket) and (program := self.answer(source)) is not None:
                    return program

    def answer(self, connection: socket.socket) -> Program | None:
        """Start the requested program, or kill it when its connection is closed. Return the program in the child."""
        if connection not in self.connections:
            return None  # closed earlier in this round
        try:
            data, fds, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, MAX_FDS)
        except OSError:
            data, fds = b"", []
        if not data:
            self.forget(connection)
            return None
        if not self.imported:
            import_everything()
            gc.freeze()  # what is imported stays shared with the children
            self.imported = True
        program = Program(**json.loads(data))
        child = os.fork()
        if child == 0:
            self.become(program, fds)
            return program
        for fd in fds:
            os.close(fd)
        self.connections[connection] = child
        send(connection, pid=child)
        return None

    def become(self, program: Program, fds: list[int]) -> None:
        """Set up the child: default signal handlers, only its own descriptors, its session and its folder."""
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # no child outlives the preloader
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if program.new_session:
            os.setsid()
        self.selector.close()
        for ours in (self.listener, self.woken, self.wakeup, *self.connections):
            ours.close()
        received = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD) for fd in fds]
        for fd in fds:
            os.close(fd)
        for fd, number in zip(received, program.fds, strict=True):
            os.dup2(fd, number)
            os.close(fd)
        os.chdir(program.folder)

    def forget(self, connection: socket.socket) -> None:
        """Kill the program of a process that has ended."""
        self.selector.unregister(connection)
        connection.close()
        child = self.connections.pop(connection)
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL) if os.getpgid(child) == child else os.kill(child, signal.SIGKILL)

    def reap(self) -> None:
        """Send the exit statuses of ended processes to their connections."""
        ended = dict[int, int]()
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended[found[0]] = os.waitstatus_to_exitcode(found[1])
        for connection, child in self.connections.items():
            if child in ended:
                self.connections[connection] = None
                send(connection, status=ended[child])


def send(connection: socket.socket, **message: int) -> None:
    with contextlib.suppress(OSError):  # the connection is closed, which the next round notices
        connection.send(json.dumps(message).encode())


def status_of(program: Program) -> int:
    """Run a program as the interpreter does; return its exit status."""
    try:
        program.run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def leave(status: int) -> NoReturn:
    """Exit as the interpreter does, but without unloading the modules, which are shared with the parent."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    if (started := Preloader(int(sys.argv[1])).serve()) is not None:
        leave(status_of(started))
