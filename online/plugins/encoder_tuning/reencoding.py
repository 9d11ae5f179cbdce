"""Encodes everything that a model has read with another encoder, while the service continues.

log, predictions --texts--> encoder --features--> temporary tables, until few texts are left
                                                    |
    one transaction: the texts that are left, all features into place, the encoder's name
"""

import json
import logging
import time

from sqlalchemy import Connection, insert

from online.errors import SetupError
from online.io.progress import Progress
from online.models.encoders.text import TextEncoder
from online.plugins.encoder_tuning.text_events import (
    PAGE,
    TextEvent,
    read_page,
)
from online.schemas.control import ControlChange
from online.store.encoder_moves import (
    MOVED_EVENTS,
    MOVED_PREDICTIONS,
    begin_move,
    finish_move,
    load_predictions_to_move,
)
from online.store.events import head_of
from online.store.publications import record_change
from online.telemetry import log_event

log = logging.getLogger("online.reencoding")

MAX_BLOCKING = 16  # texts encoded while all other writers wait


class Reencoding:
    """A model's log and predictions, encoded by another encoder in the connection's temporary tables.

    texts: of the log, by offset. known: the features of the log's texts.
    """

    def __init__(self, connection: Connection, model: str, encoder: TextEncoder, tick: Progress) -> None:
        self.connection, self.model, self.encoder, self.tick = connection, model, encoder, tick
        self.texts: dict[int, str] = {}
        self.known: dict[str, bytes] = {}
        self.prediction_count = 0  # encoded so far
        self.after = ""  # the id after which the next page of predictions begins

    def catch_up(self) -> None:
        """Encode until only a few texts are left.

        This does not end while the service receives more texts than are encoded here.
        """
        events, predictions = self._read_rest()
        while len(events) + len(predictions) > MAX_BLOCKING:
            self.connection.commit()  # encoding takes long: keep no transaction open
            self._encode(events, predictions)
            self.connection.commit()
            events, predictions = self._read_rest()
        self._put_back(events)

    def try_move(self, name: str, since: int) -> bool:
        """Encode the rest and put all features into place, in one transaction.

        Return False, with nothing changed, if too many texts are left to make other writers wait.
        """
        begin_move(self.connection, self.model, name, since)
        began = time.monotonic()
        self.after = ""
        events, predictions = self._read_rest()
        if len(events) + len(predictions) > MAX_BLOCKING:
            self._put_back(events)
            return False
        self._encode(events, predictions)
        finish_move(self.connection, self.model)
        if head_of(self.connection, self.model):  # before the first event nothing answers with another encoder
            adoption = ControlChange("adopt_encoder", encoder=name)
            record_change(self.connection, self.model, adoption, self.connection.dialect.name != "sqlite")
        self.connection.commit()
        held_ms = round(1000 * (time.monotonic() - began), 1)  # no other writer could commit for this time
        log_event(log, "encoder adopted", model=self.model, encoder=name[:16] or "frozen", held_ms=held_ms)
        return True

    def _read_rest(self) -> tuple[list[TextEvent], list[tuple[str, str]]]:
        """Return the next page of the log, and the next page of predictions as (id, input)."""
        predictions = load_predictions_to_move(self.connection, self.model, self.after, PAGE)
        self.after = predictions[-1][0] if len(predictions) == PAGE else ""  # ids are unordered: start over
        return read_page(self.connection, self.model, self.texts), predictions

    def _put_back(self, events: list[TextEvent]) -> None:
        """Leave a page of the log to be read again."""
        self.connection.rollback()
        for each in events:
            del self.texts[each.event.offset]

    def _encode(self, events: list[TextEvent], predictions: list[tuple[str, str]]) -> None:
        event_rows = []
        for each in events:
            if each.text:
                self.known[each.text] = self.known.get(each.text) or self._encode_text(each.text, "log")
                event_rows.append({"offset": each.event.offset, "features": self.known[each.text]})
            self.tick("encoding the log", each.event.offset, events[-1].event.offset)
        prediction_rows = []
        for number, (id, text) in enumerate(predictions, 1):
            features = self._encode_text(json.loads(text), "predictions")
            prediction_rows.append({"id": id, "features": features})
            done, total = self.prediction_count + number, self.prediction_count + len(predictions)
            self.tick("encoding the predictions", done, total)
        self.prediction_count += len(predictions)
        for table, rows in ((MOVED_EVENTS, event_rows), (MOVED_PREDICTIONS, prediction_rows)):
            if rows:
                self.connection.execute(insert(table), rows)

    def _encode_text(self, text: object, source: str) -> bytes:
        """Encode the text of an input. Raises SetupError for an input that is not a text."""
        try:
            return self.encoder.encode([text])[0]
        except ValueError as error:
            reason = str(error).removeprefix("instance 0 ")
            raise SetupError(f"the {source} cannot be encoded again: {reason}") from None
