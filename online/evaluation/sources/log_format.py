"""The format `online-log/2`: our own log as JSONL, in the order in which it can be replayed.

    header
    {"asked": ...}    a prediction, after the last event that the answering version had learned
    {"told": ...}     an event, by offset

A reader that answers the predictions and learns the events in this order knows, at every answer,
exactly what the answering version knew. Here are what a line holds, and the way from a row of the store
to a line (`render_*`). The way back is in log_lines.py.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from online.errors import BadInput
from online.schemas.events import Entry, Target
from online.settings import ModelSettings

LOG_FORMAT = "online-log/2"


@dataclass(slots=True)
class LoggedPrediction:
    """A request to answer, with the recorded answer if there is one.

    features: as logged; None if only the instance is known. feedback_count: the number of events
    about it. task: the task it belongs to, for sources with tasks. held_out_class: the right class,
    if the row is held out to test on. exclude: answers that the caller did not accept. was_answered: of the input
    of a label, which nobody asked about, whether a version answered it all the same.
    """

    id: str
    instance: Any
    features: bytes | None = None
    feedback_count: int = 1
    version: int = 0
    learned_until: int = 0
    choice: str | None = None
    propensity: float = 1.0
    candidates: tuple[tuple[str, float], ...] = ()
    user: str | None = None
    at: str | None = None
    task: str | None = None
    held_out_class: str | None = None
    exclude: tuple[str, ...] = ()
    was_answered: bool = False


@dataclass(slots=True)
class LoggedEvent:
    """An event to learn.

    prediction_id: of the prediction it is about, whose features it has; None if it is about none.
    instance: the input of an event about no prediction, which can be encoded again. refused: the
    reason if it was not learned. features: those found for it, if the entry has none. is_orphan: whether its prediction
    does not stand before it, so that none were found. was_answered: whether a version answered the instance before the event
    was learned; answer: with what, None if it abstained.
    """

    entry: Entry
    prediction_id: str | None = None
    instance: Any = None
    user: str | None = None
    at: str | None = None
    refused: str | None = None
    learned_at: str | None = None
    features: bytes | None = None
    is_orphan: bool = False
    was_answered: bool = False
    answer: str | None = None

    def complete(self, choice: str | None = None) -> Entry:
        """Return the entry with the features found for it, and with `choice` as the answer if given."""
        if self.features is None and choice is None:
            return self.entry
        event = self.entry.event
        features = event.features if self.features is None else self.features
        choice, target = event.choice if choice is None else choice, event.target
        if target is not None:
            target = Target(target.offset, replace(target.event, features=features))
        completed = replace(event, features=features, choice=choice, target=target)
        return Entry(self.entry.offset, completed)

    @property
    def lateness(self) -> float | None:
        """Seconds from the acknowledgement to the version that had learned the event."""
        if self.at is None or self.learned_at is None:
            return None
        return (datetime.fromisoformat(self.learned_at) - datetime.fromisoformat(self.at)).total_seconds()


Line = LoggedPrediction | LoggedEvent


EXPIRED = (
    "contents exist from offset {contents_from:,} on: those before have expired (event_retention_days), so no model "
    "learns them here"
)


def describe_expired(contents_from: int) -> str:
    """Say what a log lacks whose first offset with contents is this one."""
    return EXPIRED.format(contents_from=contents_from)


# from the store to a line


def build_header(
    model: ModelSettings,
    options: Mapping[str, Any],
    feature_epoch: str,
    prediction_count: int = 0,
    event_count: int = 0,
    contents_from: int = 0,
) -> dict[str, Any]:
    """Return the first line. The counts are those of the lines that follow.

    contents_from: the first offset whose contents had not expired; 0 if none had.
    """
    public = {name: value for name, value in options.items() if name != "key"}
    described = {"model": model.name, "kind": model.kind, "options": public, "drift": model.drift}
    counts = {"asked": prediction_count, "told": event_count}
    expired = {"contents_from": contents_from} if contents_from else {}
    return {"format": LOG_FORMAT, **described, "feature_epoch": feature_epoch, **counts, **expired}


def render_prediction(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of a row of `store.log_rows.load_prediction_rows`."""
    answered = {name: row[name] for name in ("version", "learned_until", "choice", "propensity")}
    line = {
        "id": row["id"],
        "input": json.loads(row["input"]),
        "features": encode_features(row["features"]),
        "told": row["told"],
    }
    exclude = json.loads(row["exclude"] or "[]")
    excluded = {"besides": exclude} if exclude else {}
    return {
        "asked": {**line, **answered, "candidates": json.loads(row["candidates"]), **excluded, **render_origin(row)}
    }


def render_event(row: Mapping[str, Any], refused: Mapping[int, str]) -> dict[str, Any]:
    """Return the line of a row of `store.log_rows.load_log_rows`.

    An event about a prediction leaves out the features and the input, which the prediction has. An event whose prediction
    is not in the log any more has its own features.
    """
    event = json.loads(row["body"])
    line: dict[str, Any] = {"offset": row["offset"], **event}
    if row["is_about_kept"]:
        line["about"] = row["prediction_id"]
    else:
        line["input"] = None if row["own_input"] is None else json.loads(row["own_input"])
        line["features"] = encode_features(row["features"])
        if row["answered_until"] is not None:
            line["answer"] = row["answer"]
    if row["offset"] in refused:
        line["refused"] = refused[row["offset"]]
    if row["learned_at"] is not None:
        line["learned_at"] = row["learned_at"]
    return {"told": {**line, **render_origin(row)}}


def render_origin(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"user": row["user"], "at": row["created_at"]}


def encode_features(features: bytes) -> str:
    return base64.b64encode(features).decode()


# lines of JSON


def parse_json(text: str | bytes, name: str, number: int) -> dict[str, Any]:
    """Raises BadInput for a line that is not a JSON object."""
    try:
        value = orjson.loads(text)
    except ValueError as error:
        refused = BadInput(f"{name}, line {number} is not JSON: {error}")
        raise refused.because("log_lines_invalid", line=number, problem="not_json", count=1) from None
    if not isinstance(value, dict):
        refused = BadInput(f"{name}, line {number} is not a JSON object")
        raise refused.because("log_lines_invalid", line=number, problem="not_json", count=1)
    return value
