"""The snapshot being served: watched for, loaded aside, swapped in by one assignment.

    LIVE changes --bell--> load and verify in a thread --> self.current = new --> whoever waited for its offset wakes

A request takes `current` once and keeps it to its end. A version that is damaged or cannot predict is never swapped in.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from online.errors import CorruptSnapshot, NotFound, NotLearnedYet
from online.models import Model, Options, create, recipe
from online.observability import fact
from online.snapshots import Loaded, Snapshots

log = logging.getLogger("online.live")

POLL_S = 0.25  # LIVE is looked at this often even when nobody rings (a publisher on another machine)


@dataclass(frozen=True, slots=True)
class Served:
    """What answers: immutable, and only ever replaced as a whole."""

    model: Model
    version: int
    learned_until: int
    weights_sha256: str
    loaded: Loaded | None = None


class LiveModel:
    def __init__(
        self, kind: str, options: Options, snapshots: Snapshots, on_swap: Callable[[Served, Served], None]
    ) -> None:
        self.kind, self.options, self.snapshots, self.on_swap = kind, options, snapshots, on_swap
        self.recipe = recipe(kind, options)
        self.current = Served(create(kind, options), 0, 0, "")
        self.damaged: dict[int, str] = {}
        self.warm_up: deque[bytes] = deque(maxlen=4)  # inputs a new version must answer before it serves
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._listener = snapshots.bell.listen()

    async def watch(self) -> None:
        """Follow LIVE until cancelled."""
        loop, rung = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._listener.fileno(), rung.set)
        try:
            while True:
                await self.refresh()
                try:
                    await asyncio.wait_for(rung.wait(), POLL_S)
                except TimeoutError:
                    continue
                rung.clear()
                self._listener.clear()
        finally:
            loop.remove_reader(self._listener.fileno())
            self._listener.close()

    async def refresh(self) -> None:
        """Swap in what LIVE points at, if it is not what is served already."""
        try:
            live = self.snapshots.live()
            if live is None or live.version == self.current.version:
                return
            served = await asyncio.to_thread(self._load, live.version)
        except NotFound:
            return  # pruned between the two reads: LIVE has moved on, and the bell with it
        except CorruptSnapshot as error:
            served = await asyncio.to_thread(self._fall_back, str(error))
        if served is not None and served.version != self.current.version:
            self._swap(served)

    def _load(self, version: int) -> Served | None:
        if version in self.damaged:
            raise CorruptSnapshot(self.damaged[version])
        loaded = self.snapshots.load(version, known=self.current.loaded)
        if loaded.manifest.recipe != self.recipe:
            return None  # made by another configuration; the learner is about to publish ours
        model = create(self.kind, self.options)
        try:
            model.restore(loaded.parts)
            model.predict(list(self.warm_up))
        except Exception as error:  # whatever it is, it would have been a caller's error
            raise CorruptSnapshot(f"version {version} cannot predict: {error}") from error
        return Served(model, version, loaded.manifest.learned_until, loaded.manifest.weights_sha256, loaded)

    def _fall_back(self, reason: str) -> Served | None:
        """Keep what is served; a server that has nothing yet takes the newest version that is whole."""
        live = self.snapshots.live()
        if live is not None and live.version not in self.damaged:
            self.damaged[live.version] = reason
            fact(
                log, "refused to serve", logging.ERROR, model=self.snapshots.model, version=live.version, reason=reason
            )
        if self.current.version:
            return None
        for version in reversed(self.snapshots.versions()):
            try:
                return self._load(version)
            except (CorruptSnapshot, NotFound) as error:
                self.damaged[version] = str(error)
        return None

    def _swap(self, served: Served) -> None:
        before, self.current = self.current, served
        for offset, future in self._waiting:
            if offset <= served.learned_until and not future.done():
                future.set_result(None)
        self._waiting = [(offset, future) for offset, future in self._waiting if not future.done()]
        self.on_swap(before, served)

    async def wait_until(self, offset: int, timeout_s: float) -> None:
        """Return once the live version has learned `offset`. Raises NotLearnedYet after `timeout_s` seconds."""
        if self.current.learned_until >= offset:
            return
        started = time.monotonic()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        try:
            await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            waited = f"{1000 * (time.monotonic() - started):.0f} ms"
            known = self.current.learned_until
            raise NotLearnedYet(
                f"offset {offset} is not learned after {waited}; version {self.current.version} knows {known}"
            ) from None
        finally:
            self._waiting = [entry for entry in self._waiting if entry[1] is not future]
