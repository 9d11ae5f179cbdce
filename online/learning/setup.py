"""The settings of learning and publishing, apart from the model, its log and its snapshots."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from online.learning.base_building import RetentionPeriod
from online.learning.gate import GoldenQuestion
from online.learning.lease import LearnerLease
from online.learning.workers import WorkerHost
from online.models.devices.turns import LearningQuantum
from online.settings import Drift, GuardMode
from online.telemetry import Tracer


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSetup:
    """The settings and helpers of one learner.

    batch: the most entries that are read at once. idle_ms: the longest wait for an entry, after which the stop signal is
    checked. is_outdated: whether the options have changed, so that another learner must take over. retention: how long the
    contents of events are kept; None: without end. waits_for_disk: whether learning continues only when a durable version is
    on the disk. workers: other processes that learn with this one. quantum: the size of a turn between two chances for
    others; without a limit, a turn is a batch. replica: the name of this one among those that share the store. lease: of a model that
    only one replica may learn at a time; None: any number may.
    """

    device: str = "cpu"
    batch: int = 256
    idle_ms: float = 250.0
    publish_every_ms: float = 10.0
    durable_every_s: float = 2.0
    clock: Callable[[], float] = time.monotonic
    drift: Drift = "watch"
    guard: GuardMode = "off"
    golden_questions: Sequence[GoldenQuestion] = ()
    is_outdated: Callable[[], bool] = lambda: False
    retention: RetentionPeriod | None = None
    waits_for_disk: bool = True
    workers: WorkerHost = field(default_factory=WorkerHost)
    replica: str = "alone"
    lease: LearnerLease | None = None
    quantum: LearningQuantum = field(default_factory=lambda: LearningQuantum(None))
    tracer: Tracer = field(default_factory=Tracer)
