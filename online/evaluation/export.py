"""A model's own log as JSONL: a header, then every event in order. What `replay` reads back."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from online.errors import SetupError
from online.evaluation.sources import header, log_line
from online.models import create, recipe
from online.store import log_rows, refused_offsets
from online.workspace import Workspace

PAGE = 1_000


def write_log(workspace: Workspace, model: str, output: Path) -> int:
    """Write the log of `model`; gives the number of events. Raises SetupError when the file cannot be written."""
    spec = workspace.settings.model(model)
    assert spec is not None, "the caller chose a model that is configured"
    options = workspace.options(spec)
    live = workspace.snapshots(model).live()
    epoch = (
        workspace.snapshots(model).manifest(live.version).feature_epoch
        if live
        else create(spec.kind, options).feature_epoch()
    )
    count = 0
    try:
        with opened(output) as file:
            file.write(json.dumps(header(spec, options, epoch)) + "\n")
            for count, line in enumerate(lines(workspace, model), 1):  # noqa: B007 (the last one is the answer)
                file.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
    except OSError as error:
        raise SetupError(f"the log cannot be written to {output}: {error.strerror}") from None
    return count


def opened(output: Path) -> IO[Any]:
    return gzip.open(output, "wt") if output.suffix == ".gz" else open(output, "w")


def lines(workspace: Workspace, model: str) -> Iterator[dict[str, Any]]:
    spec = workspace.settings.model(model)
    assert spec is not None, "the caller chose a model that is configured"
    made_by = recipe(spec.kind, workspace.options(spec))
    refused = workspace.store.read(lambda connection: refused_offsets(connection, model, made_by))
    after = 0
    while rows := page(workspace, model, after):
        yield from (log_line(row, refused) for row in rows)
        after = rows[-1]["offset"]


def page(workspace: Workspace, model: str, after: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = workspace.store.read(lambda connection: log_rows(connection, model, after, PAGE))
    return rows
