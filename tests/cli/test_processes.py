"""Limits on the memory and the processor time of a process that reads a file of somebody else, and the end of a worker."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.preload import launcher
from tests.support import until

CODE = """
from online.cli.processes import limited_resources
from online.errors import TooLarge
from online.settings import Settings

try:
    with limited_resources(Settings(max_job_memory_bytes=67_108_864, max_job_cpu_s=1)):
        {work}
except TooLarge as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ("b'x' * 100_000_000", "more than 67,108,864 bytes of memory (max_job_memory_bytes)"),
        ("[*iter(int, 1)]", "more than 67,108,864 bytes of memory (max_job_memory_bytes)"),
        ("while True: pass", "more than 1 s of processor time (max_job_cpu_s)"),
        ("len(b'x' * 1_000_000)", ""),
    ],
)
def test_work_beyond_a_limit_ends_with_a_sentence(work: str, words: str) -> None:
    command = [launcher(), "-c", CODE.format(work=work)]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert words in process.stdout and bool(process.stdout) == bool(words)


CHILD = """
import os, signal
from online.cli.processes import die_with_parent
die_with_parent()
print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
def test_the_kernel_ends_a_worker_with_its_parent_even_if_it_does_nothing_itself() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(30)
    until(lambda: state_of(child) in ("", "Z"), what="the end of a worker that is stopped")
    parent.stdout.close()


def state_of(pid: int) -> str:
    """The state of a process by the kernel (proc(5)): "" once it is gone, Z until somebody has noticed its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
