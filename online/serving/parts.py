"""The parts that plugins contribute to a running service, and to each of its models.

build: Plugin.service_part(runtime), Plugin.model_part(model, runtime)
start: background() of each    log replaced: forget_log()    stop: close()
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from online.models import Encoder

Work = Coroutine[object, object, None]


class PruningRun(NamedTuple):
    """One run of retention. at: now, UTC. before: what was made before this instant (ISO 8601) is too old; None: nothing is.

    write: runs a small transaction once no interactive request waits; returns the number of rows that it has deleted.
    """

    at: datetime
    before: str | None
    write: Callable[[Callable[[Connection], int]], Awaitable[int]]


class AnsweredRequest(NamedTuple):
    """The instances of one request, after they were answered.

    ids: under which the answers were recorded; none if they were not. inputs: the encoded instances. keys: from which the
    answering policy drew; None where it did not draw.
    """

    ids: Sequence[str]
    inputs: Sequence[bytes]
    encoder: Encoder
    keys: Sequence[int | None]


class ServicePart:
    """The part of a service that a plugin contributes. Each method does nothing unless it is overridden."""

    async def start(self) -> None:
        """Begin, before the service says that it is ready. Raises SetupError."""

    def background(self, is_primary: bool) -> Iterable[Work]:
        """Return what runs beside the requests until the service stops. is_primary: whether this is the first worker."""
        return ()

    async def prune(self, pruning: PruningRun) -> None:
        """Delete what is older than the settings keep. Called every few minutes, in the first worker. Raises Unavailable, OSError."""

    async def update_metrics(self) -> None:
        """Set the metrics that are read from elsewhere. Called before they are shown."""

    async def close(self) -> None:
        """Write what is not written yet. A part of the service or of a model has ended its background
        work by then; a part of the API has not.
        """


class ModelPart(ServicePart):
    """The part of a served model that a plugin contributes."""

    def observe(self, request: AnsweredRequest) -> None:
        """See a request that was answered. Called for each, before the caller has the answer: it must not block or raise."""

    async def find_open_questions(self) -> Mapping[str, str]:
        """Return question, folded -> the id of the group of the inbox in which it waits for a curator."""
        return {}

    def forget_log(self) -> None:
        """Drop what is in memory of a log that is no longer there, or of a user who was erased. Called in a thread."""
