"""The spans of a learner, in the traces of the requests whose feedback it has learned.

    learn(5 to 8), learn(9), publish(version 4, until 9) --kept for a moment--+
    channel --offsets 7 to 9 are traced and served, a span--------------------+--> two spans `learn` and one `publish`, as its parts

So nothing about traces is in the log, and a learner that was away when feedback came shows what it has done all the same.
"""

import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider

from online.plugins.traces.channel import TracedOffsets, TraceListener, find_channel
from online.plugins.traces.provider import PROPAGATOR, SCOPE, annotate
from online.telemetry import Tracer

KEPT = 1_000  # steps and publications of one model: ten seconds of a learner that does nothing else
MAX_FOLLOWED = 100  # traced requests of one model whose version is not published here yet


@dataclass(frozen=True, slots=True)
class LearnedStep:
    """The events that were learned at once: first to last offset."""

    first: int
    last: int
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class WrittenVersion:
    """One version, and how long writing it took."""

    version: int
    learned_until: int
    began_ns: int
    ended_ns: int


@dataclass(slots=True)
class LearnedModel:
    """The newest steps and versions of one learner, and the traced requests whose version it has not published yet: another
    replica has made it, or it was served before `publish` was called."""

    steps: deque[LearnedStep] = field(default_factory=lambda: deque(maxlen=KEPT))
    publications: deque[WrittenVersion] = field(default_factory=lambda: deque(maxlen=KEPT))
    followed: deque[TracedOffsets] = field(default_factory=lambda: deque(maxlen=MAX_FOLLOWED))


class LearningTracer(Tracer):
    """Records the steps of the learners of one process that traced requests have led to."""

    is_on = True

    def __init__(self, provider: TracerProvider, state: Path) -> None:
        """Listen in a thread. Raises OSError."""
        self.provider, self.spans = provider, provider.get_tracer(SCOPE)
        self._models = defaultdict[str, LearnedModel](LearnedModel)
        self._lock = threading.Lock()
        self._listener = TraceListener(find_channel(state))
        self._thread = threading.Thread(target=self._listen, name="traced-offsets", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        for traced in self._listener:
            self.follow(traced)

    def follow(self, traced: TracedOffsets) -> None:
        """Record what was done about these offsets, and what will be until their version is published."""
        with self._lock:
            model = self._models[traced.model]
            for step in model.steps:
                self._record_step(traced, step)
            if not any(map(partial(self._record_publication, traced), model.publications)):
                model.followed.append(traced)

    def learn(self, model: str, first: int, last: int, began_ns: int) -> None:
        """Keep a step, and record it for each request that is followed."""
        step = LearnedStep(first, last, began_ns, time.time_ns())
        with self._lock:
            self._models[model].steps.append(step)
            for traced in self._models[model].followed:
                self._record_step(traced, step)

    def publish(self, model: str, version: int, learned_until: int, began_ns: int) -> None:
        """Keep a publication, and record it for each request whose feedback it is the first to have learned."""
        published = WrittenVersion(version, learned_until, began_ns, time.time_ns())
        with self._lock:
            kept = self._models[model]
            kept.publications.append(published)
            for traced in [*kept.followed]:
                if self._record_publication(traced, published):
                    kept.followed.remove(traced)

    def _record_step(self, traced: TracedOffsets, step: LearnedStep) -> None:
        if step.first <= traced.last and traced.first <= step.last:
            facts = {"first_offset": step.first, "last_offset": step.last}
            self._record(traced, "learn", step.began_ns, step.ended_ns, facts)

    def _record_publication(self, traced: TracedOffsets, published: WrittenVersion) -> bool:
        """Return whether no later publication is of interest: this is the first with the offsets, or follows the served one."""
        if published.learned_until < traced.last or published.version > traced.version:
            return published.version >= traced.version
        facts = {"version": published.version, "learned_until": published.learned_until}
        self._record(traced, "publish", published.began_ns, published.ended_ns, facts)
        return True

    def _record(self, traced: TracedOffsets, name: str, began_ns: int, ended_ns: int, facts: dict[str, int]) -> None:
        parent = PROPAGATOR.extract({"traceparent": traced.traceparent}, Context())
        span = self.spans.start_span(name, parent, start_time=began_ns)
        annotate(span, model=traced.model, **facts)
        span.end(ended_ns)

    def close(self) -> None:
        """Stop listening, and send all."""
        self._listener.stop()
        self._thread.join()
        self.provider.shutdown()
