"""Finds a user's name in files, for the plugins that remove what their files say of an erased user.

A name is found where no letter or digit precedes or follows it, as it is written and as JSON escapes it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from online.errors import BadInput
from online.io.atomic import replace_file
from online.io.parquet_tables import open_parquet, read_parquet_rows
from online.io.records import open_bytes

CHUNK_BYTES = 1 << 20
PARQUET = ".parquet"


class FileInUse(Exception):
    """A file that names the user is in use now; the erasure asks for its removal again later."""


class NameSearch:
    """Searches files for the name of one user. pattern: of the name, in UTF-8 or JSON."""

    def __init__(self, user: str) -> None:
        forms = {user, json.dumps(user)[1:-1], json.dumps(user, ensure_ascii=False)[1:-1]}
        written = b"|".join(sorted(re.escape(form.encode(errors="replace")) for form in forms))
        self.pattern = re.compile(rb"(?<![0-9A-Za-z_])(?:%s)(?![0-9A-Za-z_])" % written)

    def is_in(self, path: Path) -> bool:
        """Return whether a file, decompressed, contains the name. A file that cannot be read as its format is searched as bytes."""
        if not path.is_file():
            return False
        try:
            return any(self.pattern.search(chunk) for chunk in read_chunks(path))
        except BadInput:
            return any(self.pattern.search(chunk) for chunk in read_raw(path))

    def leave_out_lines(self, path: Path) -> None:
        """Replace a file by its lines that do not contain the name."""
        lines = path.read_bytes().splitlines(keepends=True)
        replace_file(path, b"".join(line for line in lines if not self.pattern.search(line)), durable=True)


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the content in pieces that overlap, so that a name on a border is found. Raises BadInput."""
    if path.suffix == PARQUET:
        rows = read_parquet_rows(path, open_parquet(path))
        yield from (json.dumps(row, default=str, ensure_ascii=False).encode() for row in rows)
        return
    before = b""
    with open_bytes(path) as (file, _):
        while chunk := file.read(CHUNK_BYTES):
            yield before + chunk
            before = chunk[-CHUNK_BYTES // 16 :]


def read_raw(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, if it still exists."""
    try:
        yield path.read_bytes()
    except OSError:
        return  # deleted meanwhile
