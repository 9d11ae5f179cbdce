"""The snapshot being served: watched for, loaded aside, swapped in by one assignment.

    LIVE changes --bell--> load and verify in a thread --> self.current = new --> whoever waited for its offset wakes

A request takes `current` once and keeps it to its end. A version that is damaged or cannot predict is never swapped in.

`current` answers with the encoder it was learned with. `made` is what a version must be made by to be the next one, as
the store has it: features are recorded by its encoder. Between a change of encoder and the first version that has learned
with it the two differ.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from online.errors import CorruptSnapshot, NotFound, NotLearnedYet, Unavailable
from online.models import Encoder, Model, Options, create, recipe
from online.observability import fact
from online.snapshots import Loaded, Snapshots

log = logging.getLogger("online.live")

POLL_S = 0.25  # LIVE is looked at this often even when nobody rings (a publisher on another machine)


@dataclass(frozen=True, slots=True)
class Served:
    """What answers: immutable, and only ever replaced as a whole."""

    model: Model
    encoder: Encoder
    version: int
    learned_until: int
    weights_sha256: str
    loaded: Loaded | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What versions are made by: options, and the encoder they name."""

    options: Options
    recipe: str
    encoder: Encoder

    @property
    def encoder_name(self) -> str:
        """As the store tells it; "" for one that was never tuned."""
        return str(self.options.get("encoder", ""))


class Source(Protocol):
    """Where a model's options and encoders come from. Slow: never to be asked on the event loop."""

    def options(self) -> Options:
        """As they are now. Raises Unavailable."""

    def others(self) -> Iterator[Options]:
        """With each encoder that is still there."""

    def announced(self) -> Options | None:
        """Those that are about to come, where somebody said so. Quick."""

    def encoder(self, options: Options) -> Encoder:
        """The same for the same options. Raises ValueError or FileNotFoundError where there is none."""


class LiveModel:
    def __init__(
        self, kind: str, source: Source, snapshots: Snapshots, on_swap: Callable[[Served, Served], None]
    ) -> None:
        """Raises what `source` raises, and ValueError for options that the kind does not know."""
        self.kind, self.source, self.snapshots, self.on_swap = kind, source, snapshots, on_swap
        self.made = self._made(source.options())
        self.current = Served(create(kind, self.made.options), self.made.encoder, 0, 0, "")
        self.coming: Made | None = None  # held so that its encoder is loaded when it is due
        self._prepared: str | None = None
        self._preparing: asyncio.Task[None] | None = None
        self.damaged: dict[int, str] = {}
        self.warm_up: deque[bytes] = deque(maxlen=4)  # inputs a new version must answer before it serves
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._refreshing = asyncio.Lock()
        self._listener = snapshots.bell.listen()

    async def watch(self) -> None:
        """Follow LIVE until cancelled."""
        loop, rung = asyncio.get_running_loop(), asyncio.Event()

        def heard() -> None:
            self._listener.clear()
            rung.set()

        loop.add_reader(self._listener.fileno(), heard)
        try:
            while True:
                rung.clear()
                await self.refresh()
                self._prepare()
                with suppress(TimeoutError):
                    await asyncio.wait_for(rung.wait(), POLL_S)
        finally:
            loop.remove_reader(self._listener.fileno())
            self._listener.close()

    def _prepare(self) -> None:
        """Begin to load an encoder that is announced, beside everything."""
        options = self.source.announced()
        named = None if options is None else recipe(self.kind, options)
        if options is not None and named not in (self.made.recipe, self._prepared):
            self._prepared = named
            self._preparing = asyncio.create_task(asyncio.to_thread(self._load_coming, options))

    def _load_coming(self, options: Options) -> None:
        try:
            self.coming = self._made(options)
        except (ValueError, OSError) as error:  # should it ever come, it is tried again and said
            fact(log, "not prepared", logging.WARNING, model=self.snapshots.model, reason=str(error))

    async def refresh(self) -> None:
        """Swap in what LIVE points at, if it is not what is served already."""
        async with self._refreshing:
            try:
                live = self.snapshots.live()
                if live is not None and live.version == self.current.version:
                    return
                served = await asyncio.to_thread(self._next, live.version if live else None)
            except Unavailable as error:
                fact(log, "live waits", logging.WARNING, model=self.snapshots.model, reason=str(error))
                return
            except (CorruptSnapshot, OSError) as error:  # of LIVE itself: the learner's next publication replaces it
                fact(log, "live unreadable", logging.ERROR, model=self.snapshots.model, reason=str(error))
                served = await asyncio.to_thread(self._next, None)
            if served is not None and served.version != self.current.version:
                self._swap(served)

    async def follow(self) -> None:
        """Take note of what versions are made by now. Raises Unavailable where that cannot be found out."""
        async with self._refreshing:
            await asyncio.to_thread(self._follow)

    def _follow(self) -> None:
        options = self.source.options()
        if recipe(self.kind, options) == self.made.recipe:
            return
        try:
            self.made = self._made(options)
        except (ValueError, OSError) as error:
            raise Unavailable(f"the encoder of {self.snapshots.model} cannot be loaded: {error}") from error
        fact(log, "another encoder", model=self.snapshots.model, encoder=self.made.encoder_name[:16] or "frozen")

    def _made(self, options: Options) -> Made:
        return Made(options, recipe(self.kind, options), self.source.encoder(options))

    def _next(self, version: int | None) -> Served | None:
        """`version`, if it is sound; otherwise what is served stays, or whatever is sound where nothing is served."""
        try:
            if version is not None and version not in self.damaged:
                served = self._load(version, by_any=not self.current.version)
                if served is not None or self.current.version:
                    return served
        except NotFound:
            pass  # pruned between the two reads (then LIVE has moved on, and the bell with it), or lost
        except CorruptSnapshot as error:
            self.damaged[version or 0] = str(error)
            facts = {"model": self.snapshots.model, "version": version, "reason": str(error)}
            fact(log, "refused to serve", logging.ERROR, **facts)
        return None if self.current.version else self._newest_sound()

    def _newest_sound(self) -> Served | None:
        for version in reversed(self.snapshots.versions()):
            try:
                served = self._load(version)
            except (CorruptSnapshot, NotFound) as error:
                self.damaged[version] = str(error)
                continue
            if served is not None:
                return served
        return None

    def _load(self, version: int, by_any: bool = False) -> Served | None:
        """by_any: an encoder that is not the store's any more may have made it; that is better than no version."""
        loaded = self.snapshots.load(version, known=self.current.loaded)
        if loaded.manifest.recipe != self.made.recipe:
            self._follow()
        made = self.made if loaded.manifest.recipe == self.made.recipe else None
        if by_any and made is None:
            made = self._made_before(loaded.manifest.recipe)
        if made is None:
            return None  # made by another configuration; the learner is about to publish ours
        model = create(self.kind, made.options)
        try:
            model.restore(loaded.parts)
            model.predict(list(self.warm_up))
        except Exception as error:  # whatever it is, it would have been a caller's error
            raise CorruptSnapshot(f"version {version} cannot predict: {error}") from error
        manifest = loaded.manifest
        return Served(model, made.encoder, version, manifest.learned_until, manifest.weights_sha256, loaded)

    def _made_before(self, wanted: str) -> Made | None:
        try:
            return next((self._made(o) for o in self.source.others() if recipe(self.kind, o) == wanted), None)
        except (ValueError, OSError) as error:
            raise CorruptSnapshot(f"the encoder of a version cannot be loaded: {error}") from error

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
