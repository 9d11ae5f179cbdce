"""Recording of predictions: in the journal, or, for the turns of conversations, in the store.

    request, features, ids --prepare_rows--> rows without answers --record, with the answers--> journal ...> store
                                        in a conversation: --record_turns--> store (predictions, turns)

A conversation belongs to one user, and its list and its turns are read as soon as the answer is there. So its predictions are
committed with their turns before the answer leaves; everything else is written to the journal.
"""

import json
from collections.abc import Sequence

import orjson
from sqlalchemy import Connection

from online.journal import JournalFrame, JournalRow, JournalWriter
from online.models import Answer
from online.models.encoders.rows import ParsedNumbers
from online.models.ranker.other_languages import withhold_untaught
from online.schemas.predict import PredictRequest
from online.serving.batcher import Answered
from online.serving.transactions import Transactions
from online.serving.versions import ServedVersion
from online.store import now
from online.store.conversations.conversations import add_turns, make_title
from online.store.conversations.turns import RequestedTurn
from online.store.journal_copy import build_row
from online.store.predictions import add_predictions

FLOAT64_BYTES = 8


class PredictionRecorder:
    """Records the predictions of one model."""

    def __init__(self, transactions: Transactions, journal: JournalWriter, max_candidates: int) -> None:
        """max_candidates: the number of candidates of an answer that are recorded, the best ones."""
        self.transactions, self.journal, self.max_candidates = transactions, journal, max_candidates

    def record(self, served: ServedVersion, answered: Answered) -> None:
        """Write a micro-batch to the journal. Raises Unavailable."""
        rows = dict[str, list[JournalRow]]()  # by encoder
        for request, answers in answered:
            if request.rows:
                self.fill_rows(request.rows, answers, request.are_other_languages)
                rows.setdefault(request.rows_encoder, []).extend(request.rows)
        self.journal.append(*(self.build_frame(served, encoder, of_encoder) for encoder, of_encoder in rows.items()))

    def fill_rows(
        self, rows: Sequence[JournalRow], answers: Sequence[Answer], are_other_languages: Sequence[bool]
    ) -> None:
        """Write the answers of a request into its rows."""
        answers = apply_rules(answers, rows[0].exclude, are_other_languages)
        for row, answer in zip(rows, answers, strict=True):
            best = answer.top(self.max_candidates).candidates
            row.choice, row.propensity = answer.choice, answer.propensity
            row.candidates, row.scores = [each[0] for each in best], [each[1] for each in best]

    def build_frame(self, served: ServedVersion, encoder: str, rows: list[JournalRow]) -> JournalFrame:
        """Return the frame of a batch for the journal."""
        return JournalFrame(self.transactions.name, served.version, served.learned_until, encoder, now(), rows)

    async def record_turns(
        self,
        request: PredictRequest,
        journal_rows: list[JournalRow],
        encoder: str,
        features: Sequence[bytes],
        served: ServedVersion,
    ) -> None:
        """Commit the predictions of a conversation, with their answers, and their turns. encoder: of the features.

        Raises EncoderMoved unless the store uses the encoder of the features, and NotFound for a conversation of
        another user.
        """
        frame = self.build_frame(served, encoder, journal_rows)
        rows = [build_row(frame, row, encoded) for row, encoded in zip(frame.rows, features, strict=True)]
        # each question of a request follows the one before it
        afters = (
            [None] * len(rows) if request.after is None else [request.after, *(row.id for row in journal_rows[:-1])]
        )
        turns = [
            {**row, "turn": RequestedTurn(request.conversation, make_title(instance), tuple(request.exclude), after)}
            for row, instance, after in zip(rows, request.instances, afters, strict=True)
        ]

        def record(connection: Connection) -> None:
            self.transactions.hold_encoder(connection)
            self.transactions.check_encoder(connection, {encoder})
            add_predictions(connection, rows)
            add_turns(connection, self.transactions.name, turns)

        await self.transactions.write(record)


def prepare_rows(request: PredictRequest, features: Sequence[bytes], ids: Sequence[str]) -> list[JournalRow]:
    """Return what is recorded beside the answers. features, ids: one per instance."""
    return [
        JournalRow(
            id,
            request.user,
            instance_json(instance, encoded),
            None if type(instance) is ParsedNumbers else encoded,
            exclude=request.exclude,
        )
        for id, instance, encoded in zip(ids, request.instances, features, strict=True)
    ]


def apply_rules(
    answers: Sequence[Answer], exclude: Sequence[str], are_other_languages: Sequence[bool]
) -> Sequence[Answer]:
    """Return the answers that are given and recorded: without what the request excludes, or the language of a question rules out."""
    if are_other_languages:
        answers = withhold_untaught(answers, are_other_languages)
    return [answer.without(exclude) for answer in answers] if exclude else answers


def instance_json(instance: object, features: bytes) -> bytes:
    """Return an instance as JSON.

    ParsedNumbers keep the text of the request, or take the fast path: encoding has checked that they are
    finite. In anything else non-ASCII letters are escaped, as the store's search expects.
    """
    if type(instance) is ParsedNumbers:
        return instance.text
    numbers = type(instance) is list and len(features) == FLOAT64_BYTES * len(instance)
    try:
        return orjson.dumps(instance) if numbers else json.dumps(instance).encode()
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(instance).encode()
