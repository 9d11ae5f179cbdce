"""Our own log as JSONL, `online-log/2`: what was asked, answered and said, in the order in which it can be replayed.

    header
    {"asked": ...}    a prediction: after the last event that the version that answered had learned
    {"told": ...}     an event, by offset

So whoever goes through the lines, answers what is asked and learns what is told, knows at every answer exactly what the
version knew that answered. Both directions of the format are here: a row of the store to a line, a line to what a
replay takes.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from online.errors import BadInput
from online.schemas import Entry, Event, Target
from online.settings import ModelSettings

LOG_FORMAT = "online-log/2"


@dataclass(slots=True)
class Asked:
    """An instance to be answered. Beside it what was answered, where somebody did.

    features: as they were logged; None where the instance is all there is. told: how many events are about it. task:
    what it belongs to, where tasks are told apart. held: its label, where it is held out to test on. besides: answers
    that were not wanted.
    """

    id: str
    instance: Any
    features: bytes | None = None
    told: int = 1
    version: int = 0
    learned_until: int = 0
    choice: str | None = None
    propensity: float = 1.0
    candidates: tuple[tuple[str, float], ...] = ()
    user: str | None = None
    at: str | None = None
    task: str | None = None
    held: str | None = None
    besides: tuple[str, ...] = ()


@dataclass(slots=True)
class Told:
    """An event to be learned. asked: the id of what it is about; its features are then those of that.

    instance: what features can be made of again, where it is about nothing that was asked. refused: why it was set aside.
    features: found for it, where the entry is without.
    """

    entry: Entry
    asked: str | None = None
    instance: Any = None
    user: str | None = None
    at: str | None = None
    refused: str | None = None
    learned_at: str | None = None
    features: bytes | None = None

    def complete(self, choice: str | None = None) -> Entry:
        """The entry with the features that were found for it. choice: what was answered, where the log does not say."""
        if self.features is None and choice is None:
            return self.entry
        said = self.entry.event
        features = said.features if self.features is None else self.features
        choice, target = said.choice if choice is None else choice, said.target
        if target is not None:
            target = Target(target.offset, replace(target.event, features=features))
        event = Event(said.id, said.kind, features, said.label, said.text, said.reward, choice, target)
        return Entry(self.entry.offset, event)

    @property
    def lateness(self) -> float | None:
        """Seconds from its acknowledgement to the version that had learned it."""
        if self.at is None or self.learned_at is None:
            return None
        return (datetime.fromisoformat(self.learned_at) - datetime.fromisoformat(self.at)).total_seconds()


Line = Asked | Told


# store -> line


def header(
    model: ModelSettings, options: Mapping[str, Any], feature_epoch: str, asked: int = 0, told: int = 0
) -> dict[str, Any]:
    """asked, told: how many lines of each follow."""
    shown = {name: value for name, value in options.items() if name != "key"}
    named = {"model": model.name, "kind": model.kind, "options": shown, "drift": model.drift}
    return {"format": LOG_FORMAT, **named, "feature_epoch": feature_epoch, "asked": asked, "told": told}


def asked_line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `store.asked_rows`."""
    answered = {name: row[name] for name in ("version", "learned_until", "choice", "propensity")}
    line = {
        "id": row["id"],
        "input": json.loads(row["input"]),
        "features": encoded(row["features"]),
        "told": row["told"],
    }
    besides = json.loads(row["besides"] or "[]")
    unwanted = {"besides": besides} if besides else {}
    return {"asked": {**line, **answered, "candidates": json.loads(row["candidates"]), **unwanted, **whose(row)}}


def told_line(row: Mapping[str, Any], refused: Mapping[int, str]) -> dict[str, Any]:
    """A row of `store.log_rows`. What is about a prediction is without the features and the input of that."""
    event = json.loads(row["body"])
    line: dict[str, Any] = {"offset": row["offset"], **event}
    if row["prediction_id"] is not None:
        line["about"] = row["prediction_id"]
    else:
        line["input"] = None if row["own_input"] is None else json.loads(row["own_input"])
        line["features"] = encoded(row["features"])
    if row["offset"] in refused:
        line["refused"] = refused[row["offset"]]
    if row["learned_at"] is not None:
        line["learned_at"] = row["learned_at"]
    return {"told": {**line, **whose(row)}}


def whose(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"user": row["user"], "at": row["created_at"]}


def encoded(features: bytes) -> str:
    return base64.b64encode(features).decode()


# line -> replay


def parsed(text: str | bytes, name: str, number: int) -> Line:
    """Raises BadInput, naming the line."""
    value = json_of(text, name, number)
    try:
        return _asked(value["asked"]) if "asked" in value else _told(value["told"])
    except (KeyError, TypeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else error
        raise BadInput(f"{name}, line {number} is not a line of {LOG_FORMAT}: {what}") from None


def json_of(text: str | bytes, name: str, number: int) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise BadInput(f"{name}, line {number} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadInput(f"{name}, line {number} is not a JSON object")
    return value


AS_LOGGED: Sequence[str] = ("id", "told", "version", "learned_until", "choice", "propensity", "user", "at")
OF_EVENT: Sequence[str] = ("id", "kind", "label", "text", "reward", "choice")


def _asked(line: dict[str, Any]) -> Asked:
    candidates = tuple((id, score) for id, score in line["candidates"])
    features = base64.b64decode(line["features"])
    return Asked(
        instance=line["input"],
        features=features,
        candidates=candidates,
        besides=tuple(line.get("besides", ())),
        **{name: line[name] for name in AS_LOGGED},
    )


def _told(line: dict[str, Any]) -> Told:
    features = base64.b64decode(line.get("features", ""))
    target = None
    if line["target"] is not None:
        target = Target(line["target"]["offset"], Event.parse(line["target"]["event"], features))
    event = Event(features=features, target=target, **{name: line[name] for name in OF_EVENT})
    said = {name: line.get(name) for name in ("user", "at", "refused", "learned_at")}
    return Told(Entry(line["offset"], event), line.get("about"), line.get("input"), **said)
