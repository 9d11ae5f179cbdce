"""The version being served: watched for, loaded in a thread, swapped in by one assignment.

LIVE changes --wakeup--> load and verify in a thread --> self.current = new --> waiting requests go on

A request takes `current` once and keeps it to its end. A version that is damaged or cannot predict
is never swapped in. Other versions can be requested as well: those with a label, the previous one,
and as many of the newest as the settings keep. They are in `available`, which is replaced as a whole.
Versions that were learned from another log are set aside by the learner, and then answer no more.

`current` answers with the encoder it was learned with. `encoder_config` is what the next version
must be created with, and its encoder computes the features that are recorded. The two differ between a
change of the encoder and the first version that was learned with the new one.
"""

import asyncio
import errno
import hashlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Literal

from online.errors import (
    CorruptSnapshot,
    NotFound,
    NotLearnedYet,
    Overloaded,
    Unavailable,
    UnknownVersion,
    UnknownVersionLabel,
)
from online.models import create, recipe
from online.schemas.fields import Cause
from online.serving.devices.replica import ServingPlace
from online.serving.version_loader import VersionLoader
from online.serving.versions import EncoderConfig, OptionsSource, ServedVersion, VersionSelector
from online.snapshots import Snapshots
from online.snapshots.labels import CANARY, LATEST, LIVE, PREVIOUS, LabelTarget
from online.snapshots.roll_back import Freeze
from online.snapshots.set_aside import SetAsideRecord
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.live")

Keep = int | Literal["all"] | tuple[int, ...]
# the words of TensorFlow Serving. AVAILABLE: it can be requested. END: it is damaged. START: it is not loaded
VersionState = Literal["START", "LOADING", "AVAILABLE", "END"]
NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)
POLL_S = 0.25  # LIVE is also read this often without a wakeup: its publisher may be on another machine
MAX_WARM_UP = 4  # inputs that a new version must answer before it serves


class LiveModel:
    """The live version of one model, and the others that can be requested.

    unservable: there are versions, and none of them could be loaded. loading: versions being loaded.
    warm_up: recent inputs, which a new version must answer before it is swapped in. loaded_from_ns: since when the newest
    version was being loaded, in nanoseconds since 1970.
    """

    def __init__(
        self,
        kind: str,
        source: OptionsSource,
        snapshots: Snapshots,
        on_swap: Callable[[ServedVersion, ServedVersion], None],
        notify: Callable[..., None],
        keep: Keep = 2,
        max_waiting: int = 2_048,
        on_set_aside: Callable[[], None] = lambda: None,
        place: ServingPlace | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        """Load the live version. Raises what `source` raises, and ValueError for options the kind does not have.

        on_swap: called with (before, after). notify: called with (event, **data) for changes by an
        operator. keep: versions that can be requested in addition to labelled ones: a number of the
        newest, all, or these. max_waiting: requests that may wait for an offset to be learned.
        on_set_aside: called when versions were set aside because the log is another one. place: the devices on which
        versions answer; None: the CPU. poll_s: as POLL_S.
        """
        self.poll_s = poll_s
        self.kind, self.source, self.snapshots = kind, source, snapshots
        self.on_swap, self.notify, self.keep, self.max_waiting = on_swap, notify, keep, max_waiting
        self.on_set_aside = on_set_aside
        self.loader = VersionLoader(kind, source, snapshots, place)
        self.current = self._create_unlearned()
        self.available: Mapping[int, ServedVersion] = {}
        self.labels: Mapping[str, LabelTarget] = {}
        self.frozen: Freeze | None = None
        self.set_aside: SetAsideRecord | None = None
        self.loading: frozenset[int] = frozenset()
        self.unservable = False
        self.loaded_from_ns = time.time_ns()
        self.warm_up: deque[bytes] = deque(maxlen=MAX_WARM_UP)
        self._prepared: str | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._refreshing = asyncio.Lock()
        self._outage = OutageLog(log, "live version unavailable", model=snapshots.model)
        self._others_outage = OutageLog(log, "versions not loaded", model=snapshots.model)
        self._listener = snapshots.folder.wakeup.listen()

    def _create_unlearned(self) -> ServedVersion:
        """Return version 0: a model that has learned nothing."""
        config = self.loader.config
        return ServedVersion(create(self.kind, config.options), config.encoder, 0, 0, "")

    @property
    def encoder_config(self) -> EncoderConfig:
        """The encoder with which requests are encoded now."""
        return self.loader.config

    @property
    def damaged(self) -> dict[int, str]:
        """Why versions are refused, by number."""
        return self.loader.damaged

    def known_versions(self) -> list[int]:
        """Return the live version, then the others that are loaded, being loaded or damaged, newest first."""
        others = {*self.available, *self.damaged, *self.loading} - {self.current.version, 0}
        return [self.current.version, *sorted(others, reverse=True)]

    def state_of(self, version: int) -> VersionState:
        """Return the state of a version, in TensorFlow Serving's words."""
        if version == self.current.version or version in self.available:
            return "AVAILABLE"
        return "LOADING" if version in self.loading else "END" if version in self.damaged else "START"

    async def watch(self) -> None:
        """Follow LIVE until cancelled."""
        loop, wakeup = asyncio.get_running_loop(), asyncio.Event()

        def on_wakeup() -> None:
            self._listener.clear()
            wakeup.set()

        loop.add_reader(self._listener.fileno(), on_wakeup)
        try:
            while True:
                wakeup.clear()
                try:
                    await self.refresh()
                    await self.refresh_others()
                    self._prepare_upcoming()
                except OSError as error:  # such as too many open files: the present version goes on answering
                    self._outage.record_failure(error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.poll_s):
                        await wakeup.wait()
        finally:
            loop.remove_reader(self._listener.fileno())
            self.close()

    def close(self) -> None:
        """Stop listening for new versions."""
        self._listener.close()

    def _prepare_upcoming(self) -> None:
        """Begin to load an encoder that was announced, in the background."""
        options = self.source.announced()
        upcoming = None if options is None else recipe(self.kind, options)
        if options is not None and upcoming not in (self.encoder_config.recipe, self._prepared):
            self._prepared = upcoming
            self._preparing = asyncio.create_task(asyncio.to_thread(self.loader.prepare, options))

    async def refresh(self) -> None:
        """Swap in the version that LIVE names, if another one is served."""
        async with self._refreshing:
            had_versions = not self.current.version and bool(self.snapshots.folder.versions())
            try:
                live = self.snapshots.folder.live()
                if live is None and self.current.version not in (
                    0,
                    *self.snapshots.folder.versions(),
                ):  # it was set aside
                    self._swap(self._create_unlearned())
                if live is not None and live.version == self.current.version:
                    return
                self.loaded_from_ns = time.time_ns()
                served = await asyncio.to_thread(self._load_next, live.version if live else None)
            except Unavailable as error:
                self._outage.record_failure(error)
                return
            except (CorruptSnapshot, OSError) as error:  # of LIVE itself: the learner's next publish replaces it
                if isinstance(error, OSError) and error.errno in NO_MORE_FILES:
                    raise
                log_event(log, "LIVE is damaged", logging.ERROR, model=self.snapshots.model, reason=str(error))
                served = await asyncio.to_thread(self._load_next, None)
            self._outage.record_success()
            if served is not None and served.version != self.current.version:
                self._swap(served)
            self.unservable = had_versions and not self.current.version

    def _load_next(self, version: int | None) -> ServedVersion | None:
        """`version` if it can be loaded. If nothing is served yet, else the newest that can be."""
        known, is_first = self.current.loaded, not self.current.version
        try:
            if version is not None and version not in self.damaged:
                served = self.loader.load(version, known, self.warm_up, any_encoder=is_first)
                if served is not None or not is_first:
                    return served
        except NotFound:
            pass  # lost, or pruned between the two reads; then LIVE has moved on, which wakes us again
        except CorruptSnapshot as error:
            self.loader.refuse(version or 0, error)
        return self.loader.load_newest(known, self.warm_up) if is_first else None

    def _swap(self, served: ServedVersion) -> None:
        before, self.current = self.current, served
        self.available = {**self.available, served.version: served}
        for offset, future in self._waiting:
            if offset <= served.learned_until and not future.done():
                future.set_result(None)
        self._waiting = [(offset, future) for offset, future in self._waiting if not future.done()]
        self.on_swap(before, served)

    async def refresh_others(self) -> None:
        """Load the other versions that can be requested, and drop those that no longer can."""
        try:
            self._note_operator_changes(self.snapshots.labels.read(), self.snapshots.control.frozen())
            self._note_set_aside(self.snapshots.aside.find())
            wanted = self._wanted_versions() & {*self.snapshots.folder.versions(), self.current.version}
            missing = wanted - self.available.keys() - self.damaged.keys() - self.loader.foreign
            self.loading = frozenset(missing)
            found = await self._load_others(missing) if missing else {}
        except (OSError, Unavailable) as error:
            self._others_outage.record_failure(error)
            return
        finally:
            self.loading = frozenset()
        self._others_outage.record_success()
        loaded = {**self.available, **found, self.current.version: self.current}
        kept = wanted | {self.current.version}
        self.available = {version: served for version, served in sorted(loaded.items()) if version in kept}

    async def _load_others(self, versions: set[int]) -> dict[int, ServedVersion]:
        return await asyncio.to_thread(self.loader.load_others, versions, self.current.loaded, self.warm_up)

    def _note_operator_changes(self, labels: Mapping[str, LabelTarget], frozen: Freeze | None) -> None:
        labels_before, self.labels = self.labels, labels
        frozen_before, self.frozen = self.frozen, frozen
        if labels != labels_before:
            self.notify("labelled", labels={name: str(each.version) for name, each in labels.items()})
        if frozen != frozen_before:
            self.notify("frozen", frozen=None if frozen is None else asdict(frozen))

    def _note_set_aside(self, notice: SetAsideRecord | None) -> None:
        before, self.set_aside = self.set_aside, notice
        if notice == before:
            return
        if notice is not None and (before is None or notice.at != before.at):
            served = self.available.items()
            self.available = {number: each for number, each in served if number not in notice.versions}
            self.on_set_aside()
        self.notify("set_aside", set_aside=None if notice is None else describe_set_aside(notice))

    def _wanted_versions(self) -> set[int]:
        """Return the versions that can be requested."""
        wanted = {each.version for each in self.labels.values()} | {self.current.version, *self._previous()} - {0}
        if isinstance(self.keep, int):
            return wanted | set(sorted(self.available)[-self.keep :])
        return wanted | set(self.snapshots.folder.versions() if self.keep == "all" else self.keep)

    def _previous(self) -> list[int]:
        try:
            live = self.snapshots.folder.live()
        except CorruptSnapshot:
            return []
        return [live.previous] if live is not None else []

    def find(self, selector: VersionSelector, user: str | None = None) -> ServedVersion | None:
        """Return the requested version; None for the one that is live when the model is called.

        user: draws the canary's share where the selector has no route. Raises UnknownVersion or UnknownVersionLabel.
        """
        if selector.label is not None:
            return self._find_labelled(selector.label)
        if selector.version is not None:
            if selector.version == self.current.version and self.current.version:
                return self.current
            return self._find_available(selector.version)
        canary = self.labels.get(CANARY)
        if canary is None or not canary.percent:
            return None
        is_chosen = draw_percent(self.snapshots.model, selector.route or user) < canary.percent
        return self.available.get(canary.version) if is_chosen else None

    def _find_labelled(self, label: str) -> ServedVersion | None:
        if label in (LATEST, LIVE):
            return None
        if label == PREVIOUS:
            return self._find_available(next(iter(self._previous()), 0))
        if label not in self.labels:
            raise UnknownVersionLabel(self.snapshots.model, label, (LATEST, PREVIOUS, *self.labels))
        return self._find_available(self.labels[label].version)

    def _find_available(self, version: int) -> ServedVersion:
        if version not in self.available:
            raise UnknownVersion(self.snapshots.model, version)
        return self.available[version]

    def load_version(self, version: int) -> ServedVersion:
        """Return a version, from disk if it is not among the available ones. Slow.

        Raises NotFound, CorruptSnapshot, or Conflict for one of another kind or other options.
        """
        available = self.available.get(version)
        return available or self.loader.load_one(version, self.current.loaded, self.warm_up)

    async def refresh_encoder_config(self) -> None:
        """Read again the options of new versions. Raises Unavailable if they cannot be read."""
        async with self._refreshing:
            await asyncio.to_thread(self.loader.refresh_config)

    async def wait_until(self, offset: int, timeout_s: float) -> None:
        """Return once the live version has learned `offset`.

        Raises NotLearnedYet after `timeout_s` seconds, and Overloaded if too many requests wait already.
        """
        if self.current.learned_until >= offset:
            return
        if len(self._waiting) >= self.max_waiting:
            raise Overloaded(
                f"{len(self._waiting)} requests wait for an offset to be learned already (max_waiting); "
                "send the request again later"
            )
        started = time.monotonic()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            waited = f"{1000 * (time.monotonic() - started):.0f} ms"
            raise NotLearnedYet(
                f"offset {offset} is not learned after {waited}; version {self.current.version} has learned "
                f"until offset {self.current.learned_until}"
            ) from None
        finally:
            self._waiting = [entry for entry in self._waiting if entry[1] is not future]


def describe_set_aside(notice: SetAsideRecord) -> dict[str, object]:
    """Return the notice as the status of a model shows it."""
    versions = [str(version) for version in notice.versions]
    cause = find_cause(notice).model_dump()
    return {**asdict(notice), "versions": versions, "labels": list(notice.labels), "cause": cause}


def find_cause(notice: SetAsideRecord) -> Cause:
    """Return why versions were set aside."""
    figures = {"head": notice.head, "learned_until": notice.learned_until}
    return Cause(
        code="log_ends_early" if notice.learned_until > notice.head else "log_has_other_events", figures=figures
    )


def draw_percent(model: str, route: str | None) -> float:
    """Return a number in [0, 100): always the same for a route, random without one."""
    seed = route.encode() if route is not None else os.urandom(8)
    digest = hashlib.sha256(model.encode() + b"\0" + seed).digest()
    return 100 * int.from_bytes(digest[:8]) / 2**64
