"""Recording of predictions: one row per answer, written in the transaction of its micro-batch.

request, features, ids --prepare--> rows of the answers --write--> store (predictions, turns)
"""

import json
from collections.abc import Callable, Sequence, Set
from typing import Any

import orjson
from sqlalchemy import Connection

from online.models import Answer
from online.models.encoders.rows import ParsedNumbers
from online.schemas.predict import PredictRequest
from online.serving.batcher import Rows
from online.serving.transactions import Transactions
from online.serving.versions import ServedVersion
from online.store import now
from online.store.conversations import Turn, add_turns, make_title
from online.store.predictions import add_predictions

TURN = "turn"  # key of a row's turn of a conversation; it goes to a table of its own
FLOAT64_BYTES = 8


class PredictionRecorder:
    """Builds and writes the prediction rows of one model."""

    def __init__(self, transactions: Transactions, max_candidates: int) -> None:
        """max_candidates: the number of candidates of an answer that are recorded, the best ones."""
        self.transactions, self.max_candidates = transactions, max_candidates

    def prepare(
        self, request: PredictRequest, features: Sequence[bytes], ids: Sequence[str]
    ) -> Callable[[ServedVersion, Sequence[Answer]], Rows]:
        """Return a function that makes the rows once the answers are known.

        features, ids: one per instance; the features are computed by the store's encoder.
        """
        model = self.transactions.name

        def rows(served: ServedVersion, answers: Sequence[Answer]) -> Rows:
            created_at = now()
            return [
                {
                    "id": id,
                    "model": model,
                    "version": served.version,
                    "learned_until": served.learned_until,
                    "user": request.user,
                    "input": instance_json(instance, encoded),
                    "features": encoded,
                    "choice": answer.choice,
                    "propensity": answer.propensity,
                    "candidates": candidates_json(answer.top(self.max_candidates)),
                    "created_at": created_at,
                    **turn_fields(request, instance),
                }
                for id, instance, encoded, answer in zip(
                    ids, request.instances, features, apply_exclusions(answers, request), strict=True
                )
            ]

        return rows

    async def write(self, rows: Rows, encoders: Set[str]) -> None:
        """Raises EncoderMoved unless the store uses each of `encoders`, which computed the features."""

        def record(connection: Connection) -> None:
            self.transactions.hold_encoder(connection)
            self.transactions.check_encoder(connection, encoders)
            turns = [row for row in rows if TURN in row]
            add_predictions(connection, without_turns(rows) if turns else rows)
            if turns:
                add_turns(connection, self.transactions.name, turns)

        await self.transactions.write(record)


def apply_exclusions(answers: Sequence[Answer], request: PredictRequest) -> list[Answer]:
    """The answers without the replies that the request excludes."""
    return [answer.without(request.exclude) for answer in answers] if request.exclude else list(answers)


def candidates_json(answer: Answer) -> str:
    return orjson.dumps([[candidate.id, round(candidate.score, 6)] for candidate in answer.candidates]).decode()


def turn_fields(request: PredictRequest, instance: Any) -> dict[str, Any]:
    """The turn of a conversation that a row belongs to; empty for a request outside any."""
    if request.conversation is None and not request.exclude:
        return {}
    return {TURN: Turn(request.conversation, make_title(instance), tuple(request.exclude))}


def without_turns(rows: Rows) -> Rows:
    return [{name: value for name, value in row.items() if name != TURN} for row in rows]


def instance_json(instance: Any, features: bytes) -> str:
    """An instance as JSON text.

    ParsedNumbers keep the text of the request, or take the fast path: encoding has checked that they are
    finite. In anything else non-ASCII letters are escaped, as the store's search expects.
    """
    if type(instance) is ParsedNumbers:
        return instance.text
    numbers = type(instance) is list and len(features) == FLOAT64_BYTES * len(instance)
    try:
        return orjson.dumps(instance).decode() if numbers else json.dumps(instance)
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(instance)
