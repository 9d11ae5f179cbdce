"""Limits on the memory and the processor time of a process that reads a file of somebody else."""

import subprocess

import pytest

from tests.preload import launcher

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
