"""The format `online-log/3`: our own log as JSONL, in the order in which it can be replayed.

    header
    {"prediction": ...}    after the last event that the answering version had learned
    {"event": ...}         in the order of the offsets

A reader that answers the predictions and learns the events in this order knows, at every answer,
exactly what the answering version knew. Here is what a line holds. log_export.py writes lines, log_lines.py reads them. A log of version 2 is read, too: `rename` gives its keys the names
of version 3 before anything else sees them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import orjson
from msgspec.structs import replace

from online.errors import BadInput
from online.schemas.events import Event
from online.schemas.json_values import JSON, JSONObject
from online.settings import ModelSettings

LOG_FORMAT = "online-log/3"

Names = Mapping[str, str]  # former name -> name, and the other way, of the keys whose names changed


def swap(**names: str) -> Names:
    """Return names and their former names, in both directions."""
    return names | {name: former for former, name in names.items()}


@dataclass(frozen=True, slots=True)
class FormerNames:
    """The names of keys in a former version of the format: in the header, in every line, in a prediction and in an event."""

    header: Names = field(default_factory=dict)
    line: Names = field(default_factory=dict)
    prediction: Names = field(default_factory=dict)
    event: Names = field(default_factory=dict)

    def translate(self, line: dict[str, object]) -> dict[str, object]:
        """Return a line with the names of this version of the format."""
        if not self.line:
            return line
        inner = {"prediction": self.prediction, "event": self.event}
        renamed = rename(line, self.line)
        return {
            name: rename(value, inner[name]) if name in inner and isinstance(value, dict) else value
            for name, value in renamed.items()
        }


FORMER_NAMES = {
    LOG_FORMAT: FormerNames(),
    "online-log/2": FormerNames(
        header=swap(asked="prediction_count", told="event_count"),
        line=swap(asked="prediction", told="event"),
        prediction=swap(told="feedback_count", besides="exclude", at="created_at"),
        event=swap(about="prediction_id", at="created_at", refused="refusal"),
    ),
}


def rename(fields: Mapping[str, object], names: Names) -> dict[str, object]:
    """Return fields by the names of this version of the format."""
    return {names.get(name, name): value for name, value in fields.items()}


@dataclass(slots=True)
class LoggedPrediction:
    """A request to answer, with the recorded answer if there is one.

    features: as logged; None if only the instance is known. feedback_count: the number of events
    about it. task: the task it belongs to, for sources with tasks. held_out_class: the right class,
    if the row is held out to test on. exclude: answers that the caller did not accept. was_answered: of the input
    of a label, which nobody asked about, whether a version answered it all the same.
    """

    id: str
    instance: JSON
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
    reason if it was not learned. features: those found for it, if the event has none. is_orphan: whether its prediction
    does not stand before it, so that none were found. was_answered: whether a version answered the instance before the event
    was learned; answer: with what, None if it abstained.
    """

    event: Event
    prediction_id: str | None = None
    instance: JSON = None
    user: str | None = None
    at: str | None = None
    refused: str | None = None
    learned_at: str | None = None
    features: bytes | None = None
    is_orphan: bool = False
    was_answered: bool = False
    answer: str | None = None

    def complete(self, choice: str | None = None) -> Event:
        """Return the event with the features found for it, and with `choice` as the answer if given."""
        event = self.event
        if self.features is None and choice is None:
            return event
        features = event.features if self.features is None else self.features
        choice, target = event.choice if choice is None else choice, event.target
        if target is not None:
            target = replace(target, features=features)
        return replace(event, features=features, choice=choice, target=target)

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


def build_header(
    model: ModelSettings,
    options: Mapping[str, object],
    feature_epoch: str,
    prediction_count: int = 0,
    event_count: int = 0,
    contents_from: int = 0,
) -> JSONObject:
    """Return the first line. The counts are those of the lines that follow.

    contents_from: the first offset whose contents had not expired; 0 if none had.
    """
    public = {name: value for name, value in options.items() if name != "key"}
    described = {"model": model.name, "kind": model.kind, "options": public, "drift": model.drift}
    counts = {"prediction_count": prediction_count, "event_count": event_count}
    expired = {"contents_from": contents_from} if contents_from else {}
    return {"format": LOG_FORMAT, **described, "feature_epoch": feature_epoch, **counts, **expired}


# lines of JSON


def parse_json(text: str | bytes, name: str, number: int) -> dict[str, object]:
    """Return the fields of a line. Raises BadInput for a line that is not a JSON object."""
    try:
        value = orjson.loads(text)
    except ValueError as error:
        refused = BadInput(f"{name}, line {number} is not JSON: {error}")
        raise refused.because("log_lines_invalid", line=number, problem="not_json", count=1) from None
    if not isinstance(value, dict):
        refused = BadInput(f"{name}, line {number} is not a JSON object")
        raise refused.because("log_lines_invalid", line=number, problem="not_json", count=1)
    return value
