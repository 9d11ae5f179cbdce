"""A model's own log as a file: a header, then everything asked and told, in order. What `replay` reads back."""

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import zstandard

from online.errors import SetupError
from online.evaluation.log import asked_line, header, told_line
from online.models import create, recipe
from online.settings import ModelSettings
from online.store import Store, asked_order, asked_rows, input_at, log_rows, refused_offsets
from online.workspace import Workspace

PAGE = 1_000

Tick = Callable[[int, int], None]  # lines written, lines in all


class Export:
    """One model's log up to now. What is asked and told from here on is not in it."""

    def __init__(self, workspace: Workspace, model: ModelSettings) -> None:
        self.workspace, self.store, self.model = workspace, workspace.store, model
        self.options = options = workspace.options(model)
        made_by = recipe(model.kind, options)
        self.head = workspace.sql_stream(model.name).head()
        self.refused = self.store.read(lambda connection: refused_offsets(connection, model.name, made_by))
        self.asked = sum(len(page) for page in self.store.walk(asked_order(model.name, self.head), PAGE))
        self.header = header(model, options, epoch(workspace, model), self.asked, self.head)

    def write(self, output: Path, tick: Tick) -> int:
        """Write everything; gives the number of lines after the header. Raises SetupError where that is impossible.

        A file appears when it is whole: whatever ends it early leaves what was there.
        """
        count, output = 0, output.resolve()
        regular = output.is_file() or not output.exists()
        aside = output.with_name(f".{output.name}.part") if regular else output
        try:
            with opened(aside, output.suffix) as file:
                file.write(json.dumps(self.header).encode() + b"\n")
                for count, line in enumerate(self.lines(), 1):
                    file.write(orjson.dumps(line) + b"\n")
                    if count % PAGE == 0:
                        tick(count, self.asked + self.head)
            if self.workspace.options(self.model) != self.options:
                raise SetupError(f"{self.model.name} took up another encoder meanwhile: export it again")
            if regular:
                os.replace(aside, output)
        except OSError as error:
            raise SetupError(f"the log cannot be written to {output}: {error.strerror}") from None
        finally:
            if regular:
                aside.unlink(missing_ok=True)
        return count

    def lines(self) -> Iterator[dict[str, Any]]:
        """Told and asked merged: what was asked stands behind the last event that was known when it was answered."""
        asked = self._asked()
        next_asked = next(asked, None)
        for offset, line in enumerate(self._told(), 1):
            while next_asked is not None and next_asked["asked"]["learned_until"] < offset:
                yield next_asked
                next_asked = next(asked, None)
            yield line
        if next_asked is not None:
            yield next_asked
        yield from asked

    def _asked(self) -> Iterator[dict[str, Any]]:
        for page in self.store.walk(asked_order(self.model.name, self.head), PAGE):
            told = {row.id: row.told for row in page}
            rows = self.store.read(lambda connection: asked_rows(connection, list(told)))  # noqa: B023 (read at once)
            yield from (asked_line({**rows[id], "told": told[id]}) for id in told)

    def _told(self) -> Iterator[dict[str, Any]]:
        for row in log_pages(self.store, self.model.name, self.head):
            line = told_line(row, self.refused)
            if (target := line["told"]["target"]) is not None:  # what it takes back may have to be encoded anew
                asked = self.store.read(lambda connection: input_at(connection, self.model.name, target["offset"]))
                line["told"]["input"] = None if asked is None else json.loads(asked)
            yield line


def log_pages(store: Store, model: str, head: int) -> Iterator[dict[str, Any]]:
    after = 0
    while after < head:
        rows = store.read(lambda connection: log_rows(connection, model, after, min(PAGE, head - after)))  # noqa: B023
        yield from rows
        after = rows[-1]["offset"]


def epoch(workspace: Workspace, model: ModelSettings) -> str:
    snapshots = workspace.snapshots(model.name)
    live = snapshots.live()
    if live is None:
        return create(model.kind, workspace.options(model)).feature_epoch()
    return snapshots.manifest(live.version).feature_epoch


def opened(path: Path, suffix: str) -> Any:
    """To write bytes, packed as .gz, as .zst, or plain."""
    if suffix == ".gz":
        return gzip.open(path, "wb")
    if suffix == ".zst":
        return zstandard.open(path, "wb")
    return open(path, "wb")
