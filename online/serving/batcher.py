"""Many single requests -> one model call, and one transaction of prediction rows.

    submit --queue--> [everything that waits, up to max_batch] -> one snapshot -> model.predict -> rows -> answers

While one batch is being committed the next one gathers: batches grow with the load and are of one when it is quiet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from online.models import Answer
from online.serving.live import Served


@dataclass(frozen=True, slots=True)
class Asked:
    """One request's encoded instances.

    keys: what a policy that explores draws with, one per instance; none for a dry run, like record, which makes the
    rows of the answers.
    """

    inputs: Sequence[bytes]
    keys: Sequence[int | None]
    record: Callable[[Served, Sequence[Answer]], list[dict[str, object]]] | None
    done: "asyncio.Future[tuple[Served, list[Answer]]]"


class Batcher:
    def __init__(
        self,
        current: Callable[[], Served],
        write: Callable[[list[dict[str, object]]], Awaitable[None]],
        max_batch: int,
        observe: Callable[[int], None],
    ) -> None:
        self._current, self._write, self._max, self._observe = current, write, max_batch, observe
        self._queue: asyncio.Queue[Asked] = asyncio.Queue()

    async def ask(
        self,
        inputs: Sequence[bytes],
        keys: Sequence[int | None],
        record: Callable[[Served, Sequence[Answer]], list[dict[str, object]]] | None,
    ) -> tuple[Served, list[Answer]]:
        """The answers of one version, given once their rows are committed."""
        asked = Asked(inputs, keys, record, asyncio.get_running_loop().create_future())
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
                await self._write(rows)
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
