"""Start the preloader, and start programs through it."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).parent
FOLDER = "ONLINE_TEST_PRELOADER"  # the environment variable with the folder of the socket and the launcher
SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class PreloaderProcess:
    """The preloader of one run of the suite. It imports nothing before the first request, and ends with its parent."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="online-preloader-"))
        launcher = self.folder / "python"
        launcher.write_text(f"#!{sys.executable} -IS\n{(HERE / 'launcher.py').read_text()}")
        launcher.chmod(0o755)
        environment = {**os.environ, **SINGLE_THREADED, "GRPC_ENABLE_FORK_SUPPORT": "0"}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(self.folder / "socket"))
            listener.listen(256)
            fd = listener.fileno()
            command = [sys.executable, str(HERE / "server.py"), str(fd)]
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, pass_fds=(fd,), start_new_session=True
            )
        os.environ[FOLDER] = str(self.folder)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.folder)
        del os.environ[FOLDER]


def launcher() -> str:
    """The path to use instead of `sys.executable` to start `-m MODULE` or `-c CODE` through the preloader."""
    return str(Path(os.environ[FOLDER]) / "python")


class ForkedProcess:
    """Like `subprocess.Popen`, for a program that the preloader runs. `stdout` has its output and its errors."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        read, write = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(str(Path(os.environ[FOLDER]) / "socket"))
        request = {
            "arguments": list(arguments),
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(Path.cwd()),
            "fds": [0, 1, 2],
            "executable": launcher(),
            "new_session": False,
        }
        socket.send_fds(self._connection, [json.dumps(request).encode()], [nothing, write, write])
        os.close(nothing)
        os.close(write)
        self.stdout: TextIO = open(read)
        self.pid: int = json.loads(self._connection.recv(4096))["pid"]
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._wait_status(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._wait_status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("online", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _wait_status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = json.loads(self._connection.recv(4096))["status"]
            self._connection.close()
        return self.returncode
