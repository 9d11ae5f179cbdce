"""A model's log with the text behind each event's features, which another encoder can encode.

store: log, predictions --read_page--> TextEvent (entry, text)
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from online.errors import SetupError
from online.models.encoders.follow_ups import read_text
from online.schemas.events import Event
from online.store import Store
from online.store.database.values import NO_TEXT
from online.store.log_rows import LogRow, load_log_rows
from online.store.refusals import load_refusals

PAGE = 1_000
BEFORE_LOG = -(2**40)  # the offset of the first row of a file


@dataclass(frozen=True, slots=True)
class TextEvent:
    """An event of the log, and the text of its features; "" for an event without one."""

    event: Event
    text: str


def build_row_events(rows: Iterable[tuple[str, str]]) -> list[TextEvent]:
    """Return labelled texts of files as events that came before the log. rows: (text, label)."""
    return [
        TextEvent(Event(f"row {offset - BEFORE_LOG}", "label", label=label, offset=offset), text)
        for offset, (text, label) in enumerate(rows, BEFORE_LOG + 1)
    ]


def read_events_in_force(store: Store, model: str, recipe: str) -> list[TextEvent]:
    """Return the events of a model's log that were neither retracted nor refused.

    Raises SetupError if the text of a learned event is not in the store.
    """
    refused = store.read(lambda connection: load_refusals(connection, model, recipe))
    events = read_text_events(store, model)
    excluded = {each.event.target.offset for each in events if each.event.target is not None} | refused.keys()
    in_force = [each for each in events if each.event.kind != "retraction" and not each.event.teaches_nothing]
    return [each for each in in_force if each.event.offset not in excluded]


def read_text_events(store: Store, model: str) -> list[TextEvent]:
    """Return a model's whole log. A retraction has the text of what it retracts.

    Raises SetupError as `read_events_in_force` does.
    """
    events, texts = list[TextEvent](), dict[int, str]()
    while page := store.read(lambda connection: read_page(connection, model, texts)):
        events += page
    return events


def read_page(connection: Connection, model: str, texts: dict[int, str]) -> list[TextEvent]:
    """Return the page of the log after the last offset in `texts`, and add the page's texts to it."""
    after, events = next(reversed(texts), 0), list[TextEvent]()
    for row in load_log_rows(connection, model, after, PAGE):
        event = Event.parse(row.body, row.features)
        texts[row.offset] = texts[event.target.offset] if event.target else _parse_text(row, event, model)
        events.append(TextEvent(event.at(row.offset), texts[row.offset]))
    return events


def _parse_text(row: LogRow, event: Event, model: str) -> str:
    if event.text or not event.features or event.kind in ("reply", "sums"):  # sums cannot be encoded again
        return " ".join(event.text.split())
    stored = row.input if row.input is not None else row.own_input
    if stored == NO_TEXT:  # erased, and therefore retracted: its features make no difference
        return ""
    text = None if stored is None else read_text(json.loads(stored))
    if text is None:
        raise SetupError(
            f"the log of {model} has no text for offset {row.offset}, only features, which another encoder cannot encode again"
        )
    return " ".join(text.split())
