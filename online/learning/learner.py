"""The loop: read after the offset in the last snapshot, learn, ask the gate, publish.

    stream --entries--> Pupil (model + offset) --state--> gate --> snapshots
       ^                   | cannot be learned
       |                   v
       offset          set aside by offset, with the reason

The offset lives in the snapshot. After a crash, learning resumes from the newest durable one and reads on from there;
no acknowledgement is kept anywhere else, so that nothing is learned twice and nothing is left out.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import torch

from online.candidates import CandidateRow, add_refusal
from online.errors import EncoderMoved, Unavailable
from online.guard import Guard
from online.learning.drift import Alarm, Monitor
from online.learning.gate import Canary, Comparison, Gate, Unsound
from online.learning.held_out import HeldOut
from online.models import BadExample, Example, Model, Options, State, create, recipe
from online.models.contest import CHALLENGER, CHAMPION
from online.models.encoder import adapts
from online.models.stack import determinism_domain
from online.observability import fact
from online.schemas import Entry, Event
from online.settings import Drift
from online.snapshots import Loaded, Manifest, Snapshots
from online.store import Store, add_drift, check_encoder, mark_refused, now, refused_offsets
from online.stream import Stream, head_of

log = logging.getLogger("online.learner")

NOBODYS_FAULT = (Unavailable, MemoryError, torch.OutOfMemoryError)  # no event is to blame for these
IDLE_MS = 250.0  # the longest the loop waits before it looks whether it should stop
PRUNE_EVERY = 32  # publications
LONG_S, REST = 0.2, 5  # a durable snapshot that takes longer is followed by a rest of so many times its cost
RETRY_S = 0.5  # after the stream or the disk did not answer
REFUSED_REST_S = 1.0  # before the gate is asked again whether it is still worse


def example_of(entry: Entry) -> Example:
    event = entry.event
    if event.kind == "retraction":
        raise BadExample("a retraction inside a retraction")
    return Example(entry.offset, event.kind, event.features, event.label, event.text, event.reward)


@dataclass(slots=True)
class Pupil:
    """A model and how far it has learned. Learner and replay drive the same one, so both end in the same state.

    history: every entry up to an offset, for models that cannot subtract. refused: offsets set aside, with reasons.
    drift: off; watch: alarms are told; act: the model hears of them too, right after the entry that showed them.
    """

    kind: str
    options: Options
    device: str
    history: Callable[[int], Iterable[Entry]]
    refused: dict[int, str] = field(default_factory=dict)
    on_refused: Callable[[int, str], None] = lambda offset, reason: None
    drift: Drift = "watch"
    on_drift: Callable[[Sequence[Alarm]], None] = lambda alarms: None
    learned_until: int = 0
    model: Model = field(init=False)
    monitor: Monitor = field(init=False)
    held_out: HeldOut = field(init=False, default_factory=HeldOut)

    def __post_init__(self) -> None:
        self.model = create(self.kind, self.options, self.device)
        self.monitor = Monitor(self.kind, self.options)

    def apply(self, entries: Sequence[Entry]) -> None:
        """Learn entries in order. What can never be learned is set aside; any other error is raised."""
        pending: list[Entry] = []
        for entry in entries:
            if entry.event.kind == "retraction":
                self._learn(pending)
                pending = []
                self._take_back(entry)
                self.held_out.observe(entry)
                continue
            if entry.offset not in self.refused:
                pending.append(entry)
                self.held_out.observe(entry)
            if alarms := self._alarms(entry):
                self._learn(pending)
                pending = []
                self.on_drift(alarms)
                self._act(alarms)
        self._learn(pending)
        self.learned_until = entries[-1].offset

    def _alarms(self, entry: Entry) -> list[Alarm]:
        return self.monitor.observe(entry) if self.drift != "off" else []

    def _act(self, alarms: Iterable[Alarm]) -> None:
        """Features alone are no reason to forget: what was learned of others still holds."""
        for alarm in alarms if self.drift == "act" else ():
            if alarm.what != "features":
                self.model.drifted(alarm.label, alarm.since)

    def _learn(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        try:
            self.model.learn([example_of(entry) for entry in entries])
        except BadExample as error:  # nothing of the batch was learned
            if len(entries) == 1:
                self.set_aside(entries[0].offset, str(error))
                return
            for entry in entries:
                self._learn([entry])

    def set_aside(self, offset: int, reason: str) -> None:
        self.refused[offset] = reason
        self.held_out.drop(offset)
        self.on_refused(offset, reason)

    def _take_back(self, entry: Entry) -> None:
        target = entry.event.target
        if target is None or target.offset in self.refused:
            return
        if self.model.subtracts:
            self.model.unlearn([example_of(Entry(target.offset, target.event))])
        else:
            self._learn_without(entry.offset)

    def _learn_without(self, until: int) -> None:
        """The exact way for a model that cannot subtract: everything again, without what was taken back."""
        gone = {e.event.target.offset for e in self.history(until) if e.event.kind == "retraction" and e.event.target}
        self.model = create(self.kind, self.options, self.device)
        kept = (
            e
            for e in self.history(until)
            if e.event.kind != "retraction" and e.offset not in gone | self.refused.keys()
        )
        told = deque(self.monitor.alarms)
        for entry in kept:
            while told and told[0].offset < entry.offset:
                self._act([told.popleft()])
            self._learn([entry])
        self._act(told)

    # state

    def state(self, serving_only: bool = False) -> State:
        """The model's parts, and beside them what was held out and the detectors."""
        parts = dict(self.model.state(serving_only))
        if serving_only:
            return parts
        detectors = {} if self.drift == "off" else {"drift": self.monitor.part()}
        return {**parts, "gate": self.held_out.part(), **detectors}

    def restore(self, state: State) -> None:
        parts = dict(state)
        detectors, held_out = parts.pop("drift", None), parts.pop("gate", None)
        self.model.restore(parts)
        if detectors is not None and self.drift != "off":
            self.monitor.restore(detectors)
        if held_out is not None:
            self.held_out.restore(held_out)


class Learner:
    """One model's learner. `run` until told to stop; every step is safe to be killed in."""

    def __init__(
        self,
        kind: str,
        options: Options,
        snapshots: Snapshots,
        stream: Stream,
        store: Store,
        device: str = "cpu",
        batch: int = 256,
        publish_every_ms: float = 10.0,
        durable_every_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        drift: Drift = "watch",
        guarded: bool = False,
        canaries: Sequence[Canary] = (),
    ) -> None:
        self.snapshots, self.stream, self.store = snapshots, stream, store
        self.kind, self.options, self.device, self.clock = kind, options, device, clock
        self.drift: Drift = drift
        self.batch, self.publish_every_s, self.durable_every_s = batch, publish_every_ms / 1000, durable_every_s
        self.gate, self.recipe = Gate(kind, options), recipe(kind, options)
        self.comparison = Comparison(kind, options, snapshots, canaries)
        self.refused_since: int | None = None
        self.guard = Guard(snapshots, store, self.recipe) if guarded else None
        self.events = self.rated = self.right = 0
        self.published_at = self.durable_at = -1e9
        self.durable_cost_s = 0.0
        self.durable_until = self.tried_until = -1
        self.silent_until = 0  # nothing is published before this is learned
        self.parent: int | None = None
        self.publications = 0
        self.challenged: float | None = None  # 1.0 while a challenger is served
        self.pupil = self._new_pupil()

    def run(self, stop: threading.Event) -> None:
        """Resume, then read, learn and publish until `stop` is set; the last state is left durable.

        Raises EncoderMoved once the log's features are another encoder's than its options name.
        """
        self.start()
        while not stop.is_set():
            try:
                if self.snapshots.frozen() is None:
                    self.step()
                else:
                    self.rest()
                    stop.wait(IDLE_MS / 1000)
            except EncoderMoved:
                raise
            except Unavailable as error:
                fact(log, "waiting", logging.WARNING, model=self.snapshots.model, reason=str(error))
                stop.wait(RETRY_S)
        self.rest()

    def start(self) -> None:
        """Resume; and where nothing usable is live, make live what there is.

        Where another encoder's version may still answer, nothing takes its place that knows less than the log.
        """
        if self.guard is not None:
            self.guard.finish()
        self.resume()
        live_until = self.snapshots.live_until(self.recipe)
        if live_until < 0 and adapts(self.kind, self.options):
            self.silent_until = self.store.read(lambda connection: head_of(connection, self.snapshots.model))
        if self.pupil.learned_until > live_until and not self.silent:
            self.publish(durable=True)

    @property
    def silent(self) -> bool:
        return self.pupil.learned_until < self.silent_until

    def resume(self) -> None:
        """Take up the newest durable snapshot that can be, or start from nothing."""
        self.pupil = self._new_pupil()
        taken = next(filter(self._taken_up, self.snapshots.durable(self.recipe)), None)
        if taken is None:
            self.events = self.rated = self.right = 0
        self.durable_until = self.pupil.learned_until if taken else -1
        self.tried_until = self.durable_until
        self.parent = taken.manifest.version if taken else None
        until = self.pupil.learned_until
        fact(log, "resumed", model=self.snapshots.model, version=self.parent, learned_until=until)

    def _taken_up(self, loaded: Loaded) -> bool:
        try:
            self.pupil.restore(loaded.parts)
        except Exception as error:  # whatever is wrong with it: an older one, or the log itself, will do
            reason = f"{type(error).__name__}: {error}"
            version = loaded.manifest.version
            fact(log, "cannot resume", logging.ERROR, model=self.snapshots.model, version=version, reason=reason)
            self.pupil = self._new_pupil()
            return False
        self.pupil.learned_until = loaded.manifest.learned_until
        counts = loaded.manifest.metrics
        self.events, self.rated, self.right = (int(counts.get(name, 0)) for name in ("events", "rated", "right"))
        return True

    def step(self) -> None:
        """Read once, learn what came, publish what is due."""
        entries = self._read(self.batch, self._patience_ms())
        if entries:
            self.learn(entries)
        if self.silent or (self.guard is not None and self.snapshots.frozen() is not None):
            return
        if self.pupil.learned_until > self.tried_until and self.clock() - self.published_at >= self.publish_every_s:
            self.publish(durable=self._durable_due())
        elif self.pupil.learned_until > self.durable_until and self._durable_due():
            self.publish(durable=True)

    def rest(self) -> None:
        """Make durable what was learned; that is all there is to do at the end, and while the model is frozen."""
        if self.pupil.learned_until > self.durable_until and not self.silent:
            self.publish(durable=True)

    def _read(self, count: int, block_ms: float = 0) -> list[Entry]:
        """The next entries. Offsets have no gaps: a stream that has one lost something, and is waited for.

        A stream gives features of one encoder alone: once there is another, it raises EncoderMoved or gives no more.
        """
        entries = self.stream.read(self.pupil.learned_until, count, block_ms)
        if not entries:
            encoder = self.options.get("encoder", "")
            self.store.read(lambda connection: check_encoder(connection, self.snapshots.model, encoder))
        for expected, entry in enumerate(entries, self.pupil.learned_until + 1):
            if entry.offset != expected:
                raise Unavailable(f"the stream goes on with offset {entry.offset} where {expected} is due")
        return entries

    def learn(self, entries: Sequence[Entry]) -> None:
        try:
            self.pupil.apply(entries)
        except NOBODYS_FAULT:
            self.resume()  # some of the entries may be learned already: none of them is, after this
            raise
        except Exception as error:  # the model is in an unknown state: find the culprit from the last good one
            fact(
                log, "isolating", logging.WARNING, model=self.snapshots.model, error=f"{type(error).__name__}: {error}"
            )
            self._isolate(entries[-1].offset)
        for entry in entries:
            self._score(entry.event)

    def _score(self, event: Event) -> None:
        """Prequential: what was answered against what came back, in the order it happened."""
        self.events += 1
        if event.choice is not None and event.kind in ("label", "correction", "reward"):
            self.rated += 1
            if self.kind != "regressor":  # a number is never simply right or wrong
                self.right += event.reward >= 0.5 if event.kind == "reward" else event.choice == event.label

    def _counts(self) -> dict[str, float]:
        counts = {"events": self.events, "rated": self.rated, "drift_alarms": self.pupil.monitor.told}
        return dict(counts) if self.kind == "regressor" else {**counts, "right": self.right}

    def _patience_ms(self) -> float:
        if self.pupil.learned_until > self.tried_until and not self.silent:
            return max(0.0, (self.published_at + self.publish_every_s - self.clock()) * 1000)
        return IDLE_MS

    def _durable_due(self) -> bool:
        """A state that takes long to write is written less often, so that learning is not all writing."""
        rest_s = REST * self.durable_cost_s if self.durable_cost_s > LONG_S else 0.0
        return self.clock() - self.durable_at >= max(self.durable_every_s, rest_s)

    # publish

    def publish(self, durable: bool) -> Manifest | None:
        """Write the current state as a version and make it live where it knows more than what is live.

        None when there was nothing to write or the gate refused it.
        """
        started_at = self.clock()
        until = self.pupil.learned_until
        self.tried_until = until
        if not durable and until <= self.snapshots.live_until(self.recipe):
            return None
        state = self.pupil.state(serving_only=not durable)
        try:
            candidate = self.gate.candidate(state, self.pupil.model.probes())
        except Unsound as error:
            self._note_candidate(until, str(error))
            self._isolate(until, gated=True)
            return None
        refusal = self.comparison.refusal(candidate, self.pupil.held_out)
        if refusal is not None:
            self._note_candidate(until, refusal)
            self.published_at = self.clock() + REFUSED_REST_S - self.publish_every_s
            return None
        written = self._write(state, until, durable)
        self.comparison.passed(written.version)
        self.refused_since = None
        self.durable_cost_s = self.clock() - started_at if durable else self.durable_cost_s
        return written

    def _write(self, state: State, until: int, durable: bool) -> Manifest:
        manifest = Manifest(
            model=self.snapshots.model,
            version=self.snapshots.next_version(),
            parent=self.parent,
            learned_until=until,
            created_at=now(),
            state_sha256=self.pupil.model.fingerprint(),
            weights_sha256="",
            feature_epoch=self.pupil.model.feature_epoch(),
            recipe=self.recipe,
            durable=durable,
            metrics={**self._counts(), **self.pupil.model.facts()},
            determinism_domain=determinism_domain(self.device),
        )
        written = self.snapshots.publish(state, manifest)
        self._tell_served(manifest.metrics)
        self.parent, self.published_at = written.version, self.clock()
        if durable:
            self.durable_at, self.durable_until = self.published_at, until
        self.publications += 1
        if self.publications % PRUNE_EVERY == 0:
            self.snapshots.prune()
        fact(
            log,
            "published",
            logging.DEBUG,
            model=written.model,
            version=written.version,
            learned_until=until,
            durable=durable,
        )
        return written

    def _tell_served(self, metrics: Mapping[str, float]) -> None:
        """Of a model with a challenger: who answers from now on, when that has changed."""
        challenged = metrics.get(f"{CHALLENGER}_served")
        if challenged is not None and challenged != self.challenged:
            fact(log, "served", model=self.snapshots.model, who=CHALLENGER if challenged else CHAMPION)
        self.challenged = challenged

    # poison

    def _isolate(self, until: int, gated: bool = False) -> None:
        """From the last durable state, learn one by one, and set aside whatever breaks the model."""
        counts = self.events, self.rated, self.right
        found = 0
        self.resume()
        while (culprit := self._first_culprit(until, gated)) is not None:
            found += 1
            self.pupil.set_aside(*culprit)
            self.resume()
        self.events, self.rated, self.right = counts
        self.tried_until = until if gated and not found else self.tried_until

    def _first_culprit(self, until: int, gated: bool) -> tuple[int, str] | None:
        while self.pupil.learned_until < until:
            entries = self._read(1)
            if not entries:
                raise Unavailable(f"the stream ends before offset {until}, which it had")
            entry = entries[0]
            try:
                self.pupil.apply([entry])
            except NOBODYS_FAULT:
                raise
            except Exception as error:  # any error at all: this entry must not stop the ones behind it
                return entry.offset, f"{type(error).__name__}: {error}"
            model = self.pupil.model
            refusal = self.gate.refusal(model.state(serving_only=True), model.probes()) if gated else None
            if refusal is not None:
                return entry.offset, refusal
        return None

    def _new_pupil(self) -> Pupil:
        refused = self.store.read(lambda connection: refused_offsets(connection, self.snapshots.model, self.recipe))
        told = self._note_refused, self.drift, self._note_drift
        return Pupil(self.kind, self.options, self.device, self._history, refused, *told)

    def _history(self, until: int) -> Iterator[Entry]:
        after = 0
        while after < until and (entries := self.stream.read(after, 1_000)):
            yield from (entry for entry in entries if entry.offset <= until)
            after = entries[-1].offset

    def _note_refused(self, offset: int, reason: str) -> None:
        fact(log, "set aside", logging.WARNING, model=self.snapshots.model, offset=offset, reason=reason)
        self.store.submit(
            lambda connection: mark_refused(connection, self.snapshots.model, self.recipe, offset, reason)
        ).result()

    def _note_candidate(self, until: int, reason: str) -> None:
        self.refused_since = until if self.refused_since is None else self.refused_since
        model, since = self.snapshots.model, self.refused_since
        fact(log, "refused", logging.ERROR, model=model, learned_until=until, reason=reason)
        row = CandidateRow(model=model, since=since, until=until, times=1, reason=reason, created_at=now())
        self.store.submit(lambda connection: add_refusal(connection, row)).result()

    def _note_drift(self, alarms: Sequence[Alarm]) -> None:
        """After a crash the same alarms are raised again: what is in the store already stays as it is."""
        for alarm in alarms:
            fact(log, "drift", logging.WARNING, model=self.snapshots.model, **asdict(alarm))
        told = [asdict(alarm) for alarm in alarms]
        self.store.submit(lambda connection: add_drift(connection, self.snapshots.model, told)).result()
        risen = next((alarm for alarm in alarms if alarm.what == "loss"), None)
        if self.guard is not None and risen is not None:
            reason = (
                f"{100 * risen.after:.0f} % of the last {risen.window} answers were wrong; "
                f"up to event {risen.since} it was {100 * risen.before:.0f} %"
            )
            self.guard.act(risen.offset, risen.since, reason)
