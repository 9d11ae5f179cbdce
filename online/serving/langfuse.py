"""The ratings of a LibreChat (June 2026 or newer), which it sends to what it takes for a Langfuse.

    a reply there --X-Message-Id--> which prediction it is                          (completions.py)
    a thumb there --score "user-feedback" of the trace sha256(message id)--> what stands here is made the same

A score's id is the same for as long as its message: sending it again changes it, deleting it takes it back. Thumbs on the
answers of other models come too; they are about nothing here, and LibreChat is told no error for them.
"""

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import Mapping

from online import outside
from online.errors import BadInput, NotFound, Unauthorized
from online.schemas import FeedbackItem, Score
from online.serving.opinions import MAX_COMMENT, MAX_REASON, MAX_USER, Opinions, Outcome, cut
from online.serving.predictor import Predictor
from online.store import Store

SOURCE = "langfuse"
THUMB = "user-feedback"


class Langfuse:
    def __init__(
        self,
        public_key: str,
        secret_key: str,
        store: Store,
        predictors: Mapping[str, Predictor],
        opinions: Opinions,
    ) -> None:
        self.store, self.predictors, self.opinions = store, predictors, opinions
        self._expected = b"Basic " + base64.b64encode(f"{public_key}:{secret_key}".encode())

    def check(self, authorization: str) -> None:
        """Raises Unauthorized unless the keys are ours."""
        if not hmac.compare_digest(authorization.encode(), self._expected):
            raise Unauthorized("the keys are not langfuse_public_key and langfuse_secret_key of this service")

    async def take(self, score: Score) -> Outcome:
        """Make what stands under the score's id what it says."""
        shown: outside.MessageRow | None = await asyncio.to_thread(
            self.store.read, lambda connection: outside.traced_as(connection, score.traceId)
        )
        predictor = self.predictors.get(shown.model) if shown else None
        if score.name != THUMB or shown is None or predictor is None:
            return "ignored"
        id, item = id_of(score), item_of(score, shown.prediction_id)
        row = outside.HeardRow(source=SOURCE, id=id, model=predictor.name, as_of=0)
        await asyncio.wrap_future(self.store.submit(lambda connection: outside.hear(connection, row)))
        return await self.opinions.echo(predictor, key_of(id), item)

    async def take_back(self, id: str) -> Outcome:
        """Raises NotFound for a score that was never taken."""
        heard: outside.HeardRow | None = await asyncio.to_thread(
            self.store.read, lambda connection: outside.heard_of(connection, SOURCE, id)
        )
        predictor = self.predictors.get(heard.model) if heard and heard.model else None
        if predictor is None:
            raise NotFound(f"no score {id[:80]!r} was taken here")
        return await self.opinions.echo(predictor, key_of(id), None)


def id_of(score: Score) -> str:
    return score.id or f"feedback-{score.traceId}"


def key_of(id: str) -> str:
    """An id of theirs may hold anything; one of ours must fit into a path."""
    fits = re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", id)
    return f"{SOURCE}-{id if fits else hashlib.sha256(id.encode()).hexdigest()}"


def item_of(score: Score, prediction_id: str) -> FeedbackItem | None:
    """What is to stand; None where there is no thumb any more. Raises BadInput."""
    if score.value is None:
        return None
    if score.value not in (0, 1):
        raise BadInput(f"value must be 1 for a thumb up or 0 for one down, not {score.value}")
    about = score.metadata or {}
    return FeedbackItem(
        prediction_id=prediction_id,
        reward=float(score.value),
        reason=cut(about.get("tag"), MAX_REASON),
        comment=cut(score.comment, MAX_COMMENT),
        user=cut(about.get("userId"), MAX_USER),
    )
