"""Many single requests -> one model call, and one transaction of prediction rows.

    submit --queue--> [everything that waits, up to max_batch] -> one snapshot -> model.predict -> rows -> answers

While one batch is being committed the next one gathers: batches grow with the load and are of one when it is quiet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass

from online.errors import EncoderMoved
from online.models import Answer, Encoder
from online.serving.live import Served

Rows = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request's encoded instances.

    encoder: that made the inputs, and must be that of the version that answers. keys: what a policy that explores draws
    with, one per instance; none for a dry run, like record, which makes the rows of the answers. recorded_by: name of
    the encoder of the features in the rows.
    """

    inputs: Sequence[bytes]
    encoder: Encoder
    keys: Sequence[int | None]
    record: Callable[[Served, Sequence[Answer]], Rows] | None
    recorded_by: str
    done: "asyncio.Future[tuple[Served, list[Answer]]]"


class Batcher:
    def __init__(
        self,
        current: Callable[[], Served],
        write: Callable[[Rows, Set[str]], Awaitable[None]],
        max_batch: int,
        observe: Callable[[int], None],
    ) -> None:
        self._current, self._write, self._max, self._observe = current, write, max_batch, observe
        self._queue: asyncio.Queue[Asked] = asyncio.Queue()

    async def ask(
        self,
        inputs: Sequence[bytes],
        encoder: Encoder,
        keys: Sequence[int | None],
        record: Callable[[Served, Sequence[Answer]], Rows] | None,
        recorded_by: str,
    ) -> tuple[Served, list[Answer]]:
        """The answers of one version, given once their rows are committed.

        Raises EncoderMoved where the version that is live by now, or the store, takes another encoder's features.
        """
        done = asyncio.get_running_loop().create_future()
        asked = Asked(inputs, encoder, keys, record, recorded_by, done)
        self._queue.put_nowait(asked)
        return await asked.done

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._answer(await self._gather())

    async def _gather(self) -> list[Asked]:
        batch = [await self._queue.get()]
        size = len(batch[0].inputs)
        while not self._queue.empty() and size < self._max:
            batch.append(self._queue.get_nowait())
            size += len(batch[-1].inputs)
        self._observe(size)
        return batch

    async def _answer(self, batch: list[Asked]) -> None:
        served = self._current()
        try:
            if any(asked.encoder is not served.encoder for asked in batch):
                raise EncoderMoved("another version is live, with another encoder; try again")
            answers = served.model.predict(
                [features for asked in batch for features in asked.inputs],
                [key for asked in batch for key in asked.keys],
            )
            shares, rows, start = [], [], 0
            for asked in batch:
                shares.append(answers[start : start + len(asked.inputs)])
                start += len(asked.inputs)
                rows += asked.record(served, shares[-1]) if asked.record else []
            if rows:
                await self._write(rows, {asked.recorded_by for asked in batch if asked.record})
        except Exception as error:  # whoever caused it must not be a trouble to the others
            if len(batch) > 1:
                for asked in batch:
                    await self._answer([asked])
            elif not batch[0].done.done():
                batch[0].done.set_exception(error)
            return
        for asked, share in zip(batch, shares, strict=True):
            if not asked.done.done():  # a caller may have gone away
                asked.done.set_result((served, share))
