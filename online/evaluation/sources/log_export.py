"""Exports a model's log to a file of the format `online-log/3`, which `online replay` reads back."""

import base64
import gzip
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import orjson
import zstandard

from online.errors import SetupError
from online.evaluation.sources.log_format import build_header
from online.models import create, recipe
from online.schemas.json_values import JSONObject
from online.settings import ModelSettings
from online.state.workspace import Workspace
from online.store import Store
from online.store.deletion.event_expiry import EventExpiry, load_expiry
from online.store.log_rows import LogRow, load_input, load_log_rows, load_prediction_rows, select_prediction_order
from online.store.refusals import load_refusals

PAGE = 1_000

PlacedPrediction = tuple[int, JSONObject | None]  # the offset behind which it stands, and its line
NO_MORE: PlacedPrediction = (0, None)
WriteProgress = Callable[[int, int], None]  # lines written, lines in all


class LogExport:
    """One model's log up to the moment at which the export is created."""

    def __init__(self, workspace: Workspace, model: ModelSettings) -> None:
        self.workspace, self.store, self.model = workspace, workspace.store, model
        workspace.copy_journal()
        self.options = options = workspace.options(model)
        self.head = workspace.sql_stream(model.name).head()
        self.refused = self.store.read(
            lambda connection: load_refusals(connection, model.name, recipe(model.kind, options))
        )
        expiry: EventExpiry = self.store.read(lambda connection: load_expiry(connection, model.name))
        contents_from = expiry.removed_until + 1 if expiry.removed_until else 0
        self.prediction_count = sum(
            len(page) for page in self.store.walk(select_prediction_order(model.name, self.head), PAGE)
        )
        self.header = build_header(
            model, options, find_feature_epoch(workspace, model), self.prediction_count, self.head, contents_from
        )

    def write(self, output: Path, tick: WriteProgress) -> int:
        """Write the log; return the number of lines after the header.

        Raises SetupError if it cannot be written.

        The file appears when it is complete; after an interruption the former file remains.
        """
        count, output = 0, output.resolve()
        regular = output.is_file() or not output.exists()
        aside = output.with_name(f".{output.name}.part") if regular else output
        try:
            with open_output(aside, output.suffix) as file:
                file.write(json.dumps(self.header).encode() + b"\n")
                for count, line in enumerate(self.lines(), 1):
                    file.write(orjson.dumps(line) + b"\n")
                    if count % PAGE == 0:
                        tick(count, self.prediction_count + self.head)
            if recipe(self.model.kind, self.workspace.options(self.model)) != recipe(self.model.kind, self.options):
                raise SetupError(f"{self.model.name} adopted another encoder during the export: export it again")
            if regular:
                os.replace(aside, output)
        except OSError as error:
            raise SetupError(f"the log cannot be written to {output}: {error.strerror}") from None
        finally:
            if regular:
                aside.unlink(missing_ok=True)
        return count

    def lines(self) -> Iterator[JSONObject]:
        """Yield all lines: each prediction after the last event that its version had learned, and before all feedback on it."""
        predictions = self._read_predictions()
        after, prediction = next(predictions, NO_MORE)
        for offset, line in enumerate(self._read_events(), 1):
            while prediction is not None and after < offset:
                yield prediction
                after, prediction = next(predictions, NO_MORE)
            yield line
        while prediction is not None:
            yield prediction
            after, prediction = next(predictions, NO_MORE)

    def _read_predictions(self) -> Iterator[PlacedPrediction]:
        """Yield predictions that retention deletes during the export are left out."""
        for page in self.store.walk(select_prediction_order(self.model.name, self.head), PAGE):
            rows = self.store.read(lambda connection: load_prediction_rows(connection, [row.id for row in page]))  # noqa: B023 (read at once)
            for id, after, count in page:
                if id in rows:
                    yield after, render_prediction({**rows[id], "feedback_count": count})

    def _read_events(self) -> Iterator[JSONObject]:
        for row in read_log(self.store, self.model.name, self.head):
            line = render_event(row, self.refused)
            if (target := line["event"]["target"]) is not None:  # its text may have to be encoded again
                stored = self.store.read(lambda connection: load_input(connection, self.model.name, target["offset"]))
                line["event"]["input"] = None if stored is None else json.loads(stored)
            yield line


def read_log(store: Store, model: str, head: int) -> Iterator[LogRow]:
    """Yield the rows of a log in order, a page at a time."""
    after = 0
    while after < head:
        rows = store.read(lambda connection: load_log_rows(connection, model, after, min(PAGE, head - after)))  # noqa: B023
        yield from rows
        after = rows[-1].offset


def find_feature_epoch(workspace: Workspace, model: ModelSettings) -> str:
    """Return the name of the features that a model reads now."""
    snapshots = workspace.snapshots(model.name)
    live = snapshots.folder.live()
    if live is None:
        return create(model.kind, workspace.options(model)).feature_epoch()
    return snapshots.folder.manifest(live.version).feature_epoch


def open_output(path: Path, suffix: str) -> IO[bytes] | gzip.GzipFile:
    """Open a file to write bytes, compressed as its suffix says: .gz, .zst, or plain."""
    if suffix == ".gz":
        return gzip.open(path, "wb")
    if suffix == ".zst":
        compressed: IO[bytes] = zstandard.open(path, "wb")
        return compressed
    return open(path, "wb")


def render_prediction(row: Mapping[str, Any]) -> JSONObject:
    """Return the line of a row of `store.log_rows.load_prediction_rows`."""
    answered = {name: row[name] for name in ("version", "learned_until", "choice", "propensity")}
    line = {
        "id": row["id"],
        "input": json.loads(row["input"]),
        "features": encode_features(row["features"]),
        "feedback_count": row["feedback_count"],
    }
    exclude = json.loads(row["exclude"] or "[]")
    excluded = {"exclude": exclude} if exclude else {}
    candidates, origin = json.loads(row["candidates"]), {name: row[name] for name in ("user", "created_at")}
    return {"prediction": {**line, **answered, "candidates": candidates, **excluded, **origin}}


def render_event(row: LogRow, refused: Mapping[int, str]) -> JSONObject:
    """Return the line of a row of `store.log_rows.load_log_rows`.

    An event about a prediction leaves out the features and the input, which the prediction has. An event whose prediction
    is not in the log any more has its own features.
    """
    event = json.loads(row.body)
    line: JSONObject = {"offset": row.offset, **event}
    if row.is_about_kept:
        line["prediction_id"] = row.prediction_id
    else:
        line["input"] = None if row.own_input is None else json.loads(row.own_input)
        line["features"] = encode_features(row.features)
        if row.answered_until is not None:
            line["answer"] = row.answer
    if row.offset in refused:
        line["refusal"] = refused[row.offset]
    if row.learned_at is not None:
        line["learned_at"] = row.learned_at
    return {"event": {**line, "user": row.user, "created_at": row.created_at}}


def encode_features(features: bytes) -> str:
    """Return features as base64."""
    return base64.b64encode(features).decode()
