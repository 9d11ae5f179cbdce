"""Rows of a batch job's input, read by a child process: what is made to be read badly ends that process at worst.

    job's thread --path, limits--> `online log rows` (memory and processor time are limited)
                 <--one JSON array a row-- Row

A row is parsed in the child, so that this process never holds more of the file than one row. The child is killed as soon
as the job ends, whatever it is doing.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import IO

from online.errors import BadInput, TooLarge
from online.plugins.jobs.batch_files import Check
from online.plugins.jobs.batch_rows import BatchRow, DirectReader, RowsRequest
from online.settings import Settings

CHECK_EVERY_MS = 100
PIPE_BYTES = 1 << 16
LIMITS = {"max_line_bytes", "max_unpacked_bytes", "max_unpacked_ratio", "max_job_memory_bytes", "max_job_cpu_s"}
KILLED = {
    -signal.SIGXCPU: "too much processor time (max_job_cpu_s)",
    -signal.SIGKILL: "too much processor time or memory (max_job_cpu_s, max_job_memory_bytes)",
    -signal.SIGABRT: "too much memory (max_job_memory_bytes)",
    -signal.SIGSEGV: "too much memory (max_job_memory_bytes)",
}


# in the child


def print_count(reader: DirectReader, request: RowsRequest) -> None:
    """Print the number of rows."""
    print_line(reader.count(request, lambda: None))


def print_rows(reader: DirectReader, request: RowsRequest) -> None:
    """Print the rows as lines of JSON."""
    for row in reader.read(request, lambda: None):
        try:
            print_line([row.line, row.instance, row.key, row.cause])
        except TypeError as error:  # a value of a Parquet file that is neither a text nor a number
            print_line([row.line, None, None, f"it cannot be used: {error}"])
    print_line(None)
    sys.stdout.flush()


def print_line(value: object) -> None:
    """Print a value as a line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")


# in the service


class ProcessReader:
    """Reads rows in a child process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def count(self, request: RowsRequest, check: Check) -> int:
        """Return the number of rows."""
        with child_lines(self.settings, request, check, "--count") as lines:
            return int(next(lines))

    def read(self, request: RowsRequest, check: Check) -> Generator[BatchRow, None, None]:
        """Yield the rows in order."""
        with child_lines(self.settings, request, check) as lines:
            for line in lines:
                values = json.loads(line)
                if values is None:
                    return
                yield BatchRow(*values)


@contextmanager
def child_lines(settings: Settings, request: RowsRequest, check: Check, *flags: str) -> Iterator[Iterator[bytes]]:
    """Yield the lines that a child process prints; it is killed when the block is left.

    Reading on raises BadInput where the child ends before it has printed all.
    """
    options = (f"--format={request.format}", f"--input={request.input}", f"--key={request.key}", *flags)
    command = [sys.executable, "-m", "online", "log", "rows", *options, "--", str(request.path)]
    with TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            with suppress(BrokenPipeError):  # it has ended; its status shows why
                process.stdin.write(settings.model_dump_json(include=LIMITS).encode() + b"\n")
                process.stdin.flush()
            yield read_lines(process, errors, request, check)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            with suppress(BrokenPipeError):
                process.stdin.close()


def read_lines(
    process: "subprocess.Popen[bytes]", errors: IO[bytes], request: RowsRequest, check: Check
) -> Iterator[bytes]:
    """Yield whole lines, with a call of `check` for each piece and while there is none."""
    assert process.stdout is not None
    output, poll = process.stdout.fileno(), select.poll()
    poll.register(output, select.POLLIN)
    pieces: list[bytes] = []
    while True:
        check()
        while not poll.poll(CHECK_EVERY_MS):
            check()
        piece = os.read(output, PIPE_BYTES)
        if not piece:
            raise find_reason(process.wait(), errors, request)
        *lines, rest = piece.split(b"\n")
        if lines:
            yield b"".join([*pieces, lines[0]])
            yield from lines[1:]
            pieces = []
        pieces.append(rest)


def find_reason(status: int, errors: IO[bytes], request: RowsRequest) -> BadInput:
    """Return why a child has ended before its last line."""
    if status in KILLED:
        return TooLarge(f"{request.path} was not read to its end: it takes {KILLED[status]}")
    errors.seek(0)
    lines = errors.read().decode(errors="replace").split("\n")
    reason = next(filter(None, reversed(lines)), f"the process that reads it ended with status {status}")
    return BadInput(reason.removeprefix("online: "))
