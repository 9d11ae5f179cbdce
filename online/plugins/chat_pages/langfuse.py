"""The ratings of a LibreChat (June 2026 or newer), and of Langfuse's own clients, as scores in Langfuse's API.

    a reply there --X-Message-Id--> recorded with its prediction (openai/chat_completions.py)
    a thumb there --score "user-feedback" of the trace sha256(message id)--> the feedback here is updated

The id of a score belongs to its message: sending it again changes the rating, deleting it retracts
the rating. LibreChat sends the thumbs on the answers of other models too; they are ignored without
an error. Clients send several scores at once, and drop those that are refused: one that is invalid
does not hold up the others.
"""

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from online.api.bodies import MAX_ECHO_CHARS, invalid_body
from online.errors import BadInput, NotFound, OnlineError, Unauthorized
from online.plugins.chat_pages.schemas import LangfuseScore
from online.plugins.chat_pages.tables import ExternalFeedbackRow, load_external_feedback, save_external_feedback
from online.plugins.openai.messages import MessageRow, find_by_trace
from online.schemas.feedback import FeedbackItem
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.feedback_slots import MAX_COMMENT, MAX_REASON, MAX_USER, FeedbackSlots, Outcome, clip_text
from online.store import Store

SOURCE = "langfuse"
THUMB = "user-feedback"


@dataclass(frozen=True, slots=True)
class SavedScore:
    """The result for one of several scores: its outcome, or the error that it was refused with. id: "" for a score without one."""

    id: str
    outcome: Outcome | None = None
    error: OnlineError | None = None


class Langfuse:
    """The part of Langfuse's API that LibreChat's ratings need."""

    def __init__(
        self,
        public_key: str,
        secret_key: str,
        store: Store,
        feedback: Mapping[str, Feedback],
        slots: FeedbackSlots,
    ) -> None:
        """feedback: by the name of the model."""
        self.store, self.feedback, self.slots = store, feedback, slots
        self._expected = b"Basic " + base64.b64encode(f"{public_key}:{secret_key}".encode())

    def check(self, authorization: str) -> None:
        """Raise Unauthorized for other keys than the configured ones."""
        if not hmac.compare_digest(authorization.encode(), self._expected):
            raise Unauthorized("the keys are not langfuse_public_key and langfuse_secret_key of this service")

    async def save_all(self, documents: Sequence[object]) -> list[SavedScore]:
        """Save several scores. Raises what concerns all of them, such as Unavailable: then the client sends them again."""
        return [await self._save_document(place, document) for place, document in enumerate(documents)]

    async def _save_document(self, place: int, document: object) -> SavedScore:
        try:
            score = LangfuseScore.model_validate(document)
            return SavedScore(score_id(score), outcome=await self.save(score))
        except ValidationError as invalid:
            return SavedScore("", error=BadInput(f"score {place}: {invalid_body(invalid, LangfuseScore)}"))
        except OnlineError as error:
            if error.status >= 500:
                raise
            return SavedScore(score_id(score), error=error)

    async def save(self, score: LangfuseScore) -> Outcome:
        """Make the feedback of a score what the score says."""
        trace = score.traceId
        if score.name != THUMB or trace is None:
            return "ignored"
        message: MessageRow | None = await asyncio.to_thread(
            self.store.read, lambda connection: find_by_trace(connection, trace)
        )
        feedback = self.feedback.get(message.model) if message else None
        if message is None or feedback is None:
            return "ignored"
        id, item = score_id(score), create_item(score, message.prediction_id)
        row = ExternalFeedbackRow(source=SOURCE, id=id, model=feedback.name, as_of=0)
        await asyncio.wrap_future(self.store.submit(lambda connection: save_external_feedback(connection, row)))
        return await self.slots.mirror(feedback, slot_key(id), item)

    async def delete(self, id: str) -> Outcome:
        """Retract the feedback of a score. Raises NotFound for a score that was never saved."""
        row: ExternalFeedbackRow | None = await asyncio.to_thread(
            self.store.read, lambda connection: load_external_feedback(connection, SOURCE, id)
        )
        feedback = self.feedback.get(row.model) if row and row.model else None
        if feedback is None:
            raise NotFound(f"there is no score {id[:80]!r}")
        return await self.slots.mirror(feedback, slot_key(id), None)


def score_id(score: LangfuseScore) -> str:
    """Return the id of a score: its own, or one for its trace."""
    return score.id or f"feedback-{score.traceId}"


def slot_key(id: str) -> str:
    """Return the key of a score's feedback.

    A score's id may contain any character, a key must fit into a URL path.
    """
    fits = re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", id)
    return f"{SOURCE}-{id if fits else hashlib.sha256(id.encode()).hexdigest()}"


def create_item(score: LangfuseScore, prediction_id: str) -> FeedbackItem | None:
    """Return the feedback that a score stands for; None where the thumb was removed. Raises BadInput."""
    if score.value is None:
        return None
    if score.value not in (0, 1):
        raise BadInput(f"value must be 1 for a thumb up or 0 for a thumb down, not {str(score.value)[:MAX_ECHO_CHARS]}")
    metadata = score.metadata or {}
    return FeedbackItem(
        prediction_id=prediction_id,
        reward=float(score.value),
        reason=clip_text(metadata.get("tag"), MAX_REASON),
        comment=clip_text(score.comment, MAX_COMMENT),
        user=clip_text(metadata.get("userId"), MAX_USER),
    )
