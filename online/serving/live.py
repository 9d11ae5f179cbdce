"""The snapshot being served: watched for, loaded aside, swapped in by one assignment.

    LIVE changes --bell--> load and verify in a thread --> self.current = new --> whoever waited for its offset wakes

A request takes `current` once and keeps it to its end. A version that is damaged or cannot predict is never swapped in.

Other versions may be asked for beside it: those with a label, the one before, and as many of the newest as are to be
kept. They stand in `available`, which is replaced as a whole too.

`current` answers with the encoder it was learned with. `made` is what a version must be made by to be the next one, as
the store has it: features are recorded by its encoder. Between a change of encoder and the first version that has learned
with it the two differ.
"""

import asyncio
import hashlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from online.errors import BadInput, Conflict, CorruptSnapshot, NotFound, NotLearnedYet, Unavailable
from online.models import Encoder, Model, Options, create, recipe
from online.observability import fact
from online.snapshots import CANARY, LATEST, LIVE, PREVIOUS, Frozen, Labelled, Loaded, Snapshots

log = logging.getLogger("online.live")

Keep = int | Literal["all"] | tuple[int, ...]
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


@dataclass(frozen=True, slots=True)
class Which:
    """The version a caller asks for: by number, by label, or neither. Then the live one answers, or the canary, whose share
    is drawn by `route`: the same route gets the same one.
    """

    version: int | None = None
    label: str | None = None
    route: str | None = None


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
        self,
        kind: str,
        source: Source,
        snapshots: Snapshots,
        on_swap: Callable[[Served, Served], None],
        tell: Callable[..., None],
        keep: Keep = 2,
    ) -> None:
        """tell: (event, **data) of what an operator changed. keep: versions that can be asked for beside those with a label:
        so many of the newest, or all, or these.

        Raises what `source` raises, and ValueError for options that the kind does not know.
        """
        self.kind, self.source, self.snapshots = kind, source, snapshots
        self.on_swap, self.tell, self.keep = on_swap, tell, keep
        self.made = self._made(source.options())
        self.current = Served(create(kind, self.made.options), self.made.encoder, 0, 0, "")
        self.available: Mapping[int, Served] = {}
        self.labels: Mapping[str, Labelled] = {}
        self.frozen: Frozen | None = None
        self.loading: frozenset[int] = frozenset()
        self._unfit: set[int] = set()  # made by another kind or other options: not ours to answer with
        self.coming: Made | None = None  # held so that its encoder is loaded when it is due
        self._prepared: str | None = None
        self._preparing: asyncio.Task[None] | None = None
        self.damaged: dict[int, str] = {}
        self.unservable = False  # there were versions, and none of them could be loaded
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
                await self.refresh_others()
                self._prepare()
                with suppress(TimeoutError):
                    await asyncio.wait_for(rung.wait(), POLL_S)
        finally:
            loop.remove_reader(self._listener.fileno())
            self.close()

    def close(self) -> None:
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
            there = not self.current.version and bool(self.snapshots.versions())
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
            self.unservable = there and not self.current.version

    async def refresh_others(self) -> None:
        """Have at hand what can be asked for beside the live version, and nothing else."""
        try:
            self._note(self.snapshots.labels(), self.snapshots.frozen())
            wanted = self._wanted()
            missing = wanted - self.available.keys() - self.damaged.keys() - self._unfit
            self.loading = frozenset(missing)
            found = await asyncio.to_thread(self._load_others, missing) if missing else {}
        except (OSError, Unavailable) as error:
            fact(log, "versions wait", logging.WARNING, model=self.snapshots.model, reason=str(error))
            return
        finally:
            self.loading = frozenset()
        at_hand = {**self.available, **found, self.current.version: self.current}
        self.available = {
            v: served for v, served in sorted(at_hand.items()) if v in wanted or v == self.current.version
        }

    def _note(self, labels: Mapping[str, Labelled], frozen: Frozen | None) -> None:
        labels_before, self.labels = self.labels, labels
        frozen_before, self.frozen = self.frozen, frozen
        if labels != labels_before:
            self.tell("labelled", labels={name: str(each.version) for name, each in labels.items()})
        if frozen != frozen_before:
            self.tell("frozen", frozen=None if frozen is None else asdict(frozen))

    def _wanted(self) -> set[int]:
        """Versions that are to be at hand."""
        wanted = {each.version for each in self.labels.values()} | {self.current.version, *self._previous()} - {0}
        if isinstance(self.keep, int):
            return wanted | set(sorted(self.available)[-self.keep :])
        return wanted | set(self.snapshots.versions() if self.keep == "all" else self.keep)

    def _previous(self) -> list[int]:
        try:
            live = self.snapshots.live()
        except CorruptSnapshot:
            return []
        return [live.previous] if live is not None else []

    def _load_others(self, versions: Iterable[int]) -> dict[int, Served]:
        found = {}
        for version in sorted(versions):
            try:
                served = self._load(version, by_any=True)
            except NotFound:
                continue
            except CorruptSnapshot as error:
                self.damaged[version] = str(error)
                fact(log, "refused to serve", logging.ERROR, model=self.snapshots.model, version=version, reason=error)
                continue
            if served is None:
                self._unfit.add(version)
            else:
                found[version] = served
        return found

    def find(self, which: Which) -> Served | None:
        """The version that is asked for; None where it is whatever is live when the model is called.

        Raises NotFound and BadInput in TensorFlow Serving's words, which its clients look for.
        """
        if which.label is not None:
            return self._labelled(which.label)
        if which.version is not None:
            if which.version == self.current.version and self.current.version:
                return self.current
            if which.version not in self.available:
                raise NotFound(f"Servable not found for request: Specific({self.snapshots.model}, {which.version})")
            return self.available[which.version]
        canary = self.labels.get(CANARY)
        if canary is not None and canary.percent and drawn(self.snapshots.model, which.route) < canary.percent:
            return self.available.get(canary.version)
        return None

    def _labelled(self, label: str) -> Served | None:
        if label in (LATEST, LIVE):
            return None
        if label == PREVIOUS:
            version = next(iter(self._previous()), 0)
        elif label in self.labels:
            version = self.labels[label].version
        else:
            raise BadInput(f"Unrecognized servable version label: {label}")
        if version not in self.available:
            raise NotFound(f"Servable not found for request: Specific({self.snapshots.model}, {version})")
        return self.available[version]

    def one(self, version: int) -> Served:
        """A version, whether it is at hand or not. Slow. Raises NotFound, CorruptSnapshot, or Conflict for one that another
        kind or other options made.
        """
        served = self.available.get(version) or self._load(version, by_any=True)
        if served is None:
            raise Conflict(f"version {version} of {self.snapshots.model} was made by another kind or by other options")
        return served

    def state_of(self, version: int) -> str:
        """In TensorFlow Serving's words: AVAILABLE can be asked for, END is damaged or not ours, START may come."""
        if version in self.available:
            return "AVAILABLE"
        return "LOADING" if version in self.loading else "END" if version in self.damaged else "START"

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
        self.available = {**self.available, served.version: served}
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


def drawn(model: str, route: str | None) -> float:
    """A number in [0, 100) that is always the same for a route; without one, any."""
    told = route.encode() if route is not None else os.urandom(8)
    digest = hashlib.sha256(model.encode() + b"\0" + told).digest()
    return 100 * int.from_bytes(digest[:8]) / 2**64
