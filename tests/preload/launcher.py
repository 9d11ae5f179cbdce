"""Ask the preloader to run a program with these arguments, and exit with its status.

A copy of this file lies beside the socket, with a first line that names the interpreter, so it can replace it.
"""

import json
import os
import signal
import socket
import sys
from types import FrameType


def inheritable_fds() -> list[int]:
    """List the open descriptors that a program started here would inherit."""
    fds = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if os.get_inheritable(fd):
                fds.append(fd)
        except OSError:  # the one that listed the folder
            continue
    return fds


def main() -> None:
    fds = inheritable_fds()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(os.path.join(os.path.dirname(os.path.abspath(__file__)), "socket"))
    request = {
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "fds": fds,
        "executable": os.path.abspath(__file__),
        "new_session": os.getsid(0) == os.getpid(),
    }
    socket.send_fds(connection, [json.dumps(request).encode()], fds)
    for fd in fds:
        os.close(fd)  # only the program keeps them open
    pid = json.loads(connection.recv(4096))["pid"]

    def forward(number: int, frame: FrameType | None) -> None:
        os.kill(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, forward)
    status = json.loads(connection.recv(4096) or b'{"status": 1}')["status"]
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
