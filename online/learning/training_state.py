"""A model together with everything that its learner keeps about it.

    entries --apply--> model              what is served
                       DriftMonitor       when the world changed
                       HeldOutSet         what a proposed snapshot is compared on
                       learned_until, refused

The learner and a replay apply entries to the same class, so both end in the same state.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from online.learning.drift import DriftMonitor
from online.learning.gate import AssessedVersion, GoldenQuestion, explain_loss
from online.learning.held_out import HeldOutSet
from online.models import BadExample, Example, Model, Options, State, Tensors, create, follows_changes
from online.models.statistics.partial_sums import as_summing
from online.schemas.events import Event
from online.scoring.drift_changes import Alarm
from online.settings import Drift

OWN_PARTS = ("drift", "gate")  # of a state, beside the model's: the detectors, and the held-out feedback


def build_example(event: Event) -> Example:
    """Return the event as an example. Raises BadExample for a retraction or a void event, which teach nothing."""
    if event.kind == "retraction" or event.kind == "void" or event.kind == "relearn" or event.kind == "control":
        raise BadExample(f"a {event.kind} of a retraction cannot be learned")
    return Example(
        event.offset,
        event.kind,
        event.features,
        event.label,
        event.text,
        event.reward,
        event.scope,
        event.superseded if event.kind == "correction" else "",
        event.signal,
    )


@dataclass(slots=True)
class TrainingState:
    """A model and the offset up to which it has learned.

    history: gives every entry up to an offset, for models that cannot subtract an example. restart: brings a state
    whose model is new to where the history begins, and returns the offset until which that has learned.
    refused: offsets that are excluded from learning, with the reasons.
    drift: off; watch: alarms are reported; act: the model also receives each alarm, right after the
    entry that raised it. taught_until: the last offset at or before learned_until that is no control event. relearned: the offset
    of the last event `relearn` that the state takes into account. log_digest: of the log until learned_until; "" if it is not known. missing_until: the offset
    up to which it lacks what had expired before it could learn it; 0: it lacks nothing. observe_together: entries that
    are learned one by one and observed together, if alarms are only reported: a replay needs them at its end. find_sums:
    the sums of examples, where another process has computed them. wrap: what the model is learned through.
    golden_questions: those that sums of a device may not make the model answer otherwise. on_learned: called with the
    number of examples, whenever some were learned, also again, and with whether their sums came from another process.
    """

    kind: str
    options: Options
    device: str
    history: Callable[[int], Iterable[Event]]
    refused: dict[int, str] = field(default_factory=dict)
    on_refused: Callable[[int, str], None] = lambda offset, reason: None
    drift: Drift = "watch"
    on_drift: Callable[[Sequence[Alarm]], None] = lambda alarms: None
    learned_until: int = 0
    taught_until: int = 0
    relearned: int = 0
    log_digest: str = ""
    missing_until: int = 0
    restart: Callable[["TrainingState"], int] = lambda training: 0
    observe_together: int = 1
    find_sums: Callable[[Sequence[Example]], Tensors | None] = lambda examples: None
    wrap: Callable[[Model], Model] = lambda model: model
    golden_questions: Sequence[GoldenQuestion] = ()
    on_learned: Callable[[int, bool], None] = lambda count, is_merged: None
    unobserved: list[Event] = field(init=False, default_factory=list)
    model: Model = field(init=False)
    monitor: DriftMonitor = field(init=False)
    held_out: HeldOutSet = field(init=False, default_factory=HeldOutSet)

    def __post_init__(self) -> None:
        self.model = self.create_model()
        self.monitor = DriftMonitor(self.kind, self.options)

    def create_model(self) -> Model:
        """Return a model that has learned nothing."""
        return self.wrap(create(self.kind, self.options, self.device))

    def apply(self, entries: Sequence[Event]) -> None:
        """Learn entries in order. An example that can never be learned is refused; any other error is raised."""
        if not entries:  # none have come yet, as while the copy in Redis is written again
            return
        teaching = (entry for entry in entries if not entry.teaches_nothing)
        for are_retractions, run in groupby(teaching, lambda entry: entry.kind == "retraction"):
            if are_retractions:
                self._apply_retractions(list(run))
            else:
                self._apply_feedback(list(run))
        self.taught_until = max([self.taught_until, *(each.offset for each in entries if each.kind != "control")])
        self.learned_until, self.log_digest = entries[-1].offset, entries[-1].digest

    def _apply_retractions(self, retractions: Sequence[Event]) -> None:
        for entry in retractions:
            self.held_out.observe(entry)
        self._retract(retractions)

    def _apply_feedback(self, entries: Sequence[Event]) -> None:
        """Learn entries that retract nothing; after each that raises alarms, pass these on before later entries count."""
        if self.observe_together > 1 and self.drift == "watch" and len(entries) == 1:
            self._learn_unless_refused(entries)
            self.unobserved += entries
            if len(self.unobserved) >= self.observe_together:
                self.observe_pending()
            return
        self.observe_pending()
        start = 0
        for index, alarms in self.monitor.observe_all(entries) if self.drift != "off" else ():
            self._learn_unless_refused(entries[start : index + 1])
            self.on_drift(alarms)
            self._act_on(alarms)
            start = index + 1
        self._learn_unless_refused(entries[start:])

    def observe_pending(self) -> None:
        """Let the detectors observe entries that waited for others."""
        entries, self.unobserved = self.unobserved, []
        for _, alarms in self.monitor.observe_all(entries):
            self.on_drift(alarms)

    def _learn_unless_refused(self, entries: Sequence[Event]) -> None:
        if self.refused:
            entries = [entry for entry in entries if entry.offset not in self.refused]
        for _, run in groupby(entries, lambda entry: entry.kind == "sums"):  # wherever a batch ends
            alike = list(run)
            for entry in alike:
                self.held_out.observe(entry)
            self._learn(alike)

    def refuse(self, offset: int, reason: str) -> None:
        """Exclude an entry from learning and from the comparison of versions."""
        self.refused[offset] = reason
        self.held_out.drop(offset)
        self.on_refused(offset, reason)

    def _act_on(self, alarms: Iterable[Alarm]) -> None:
        """Pass alarms to the model, except those of features: what was learned about other inputs still holds.

        What was held out before a change that it follows is dropped: the gate would refuse what is right now.
        """
        for alarm in alarms if self.drift == "act" else ():
            if alarm.what != "features":
                self.model.drifted(alarm.label, alarm.since)
                if follows_changes(self.kind, self.options):
                    self.held_out.drop_before(alarm.since)

    def _learn(self, entries: Sequence[Event]) -> None:
        """Learn entries of which either all are sums of devices, or none is."""
        if entries[0].kind != "sums":
            self._learn_run(entries)
            return
        for entry in entries:
            self._learn_contribution(entry)

    def _learn_contribution(self, entry: Event) -> None:
        """Learn the sums of a device, or refuse all of them: if the model answers worse with them, they are subtracted."""
        before = self._assess(entry.holder)
        self._learn_run([entry])
        if entry.offset in self.refused:
            return
        reason = explain_loss(before, self._assess(entry.holder), self.golden_questions)
        if reason is not None:
            self.model.unlearn([build_example(entry)])
            self.refuse(entry.offset, f"with these sums the model would answer worse: {reason}")

    def _assess(self, holder: int) -> AssessedVersion:
        """Return what the model answers to the held-out feedback of others and to golden questions now, as the gate asks."""
        assessed = AssessedVersion(0, self.model)
        assessed.assess(self.held_out.without(holder), self.golden_questions)
        return assessed

    def _learn_run(self, entries: Sequence[Event]) -> None:
        try:
            self._learn_examples([build_example(entry) for entry in entries])
        except BadExample as error:  # nothing of the batch was learned
            if len(entries) == 1:
                self.refuse(entries[0].offset, str(error))
                return
            for entry in entries:
                self._learn_run([entry])

    def _learn_examples(self, examples: Sequence[Example]) -> None:
        sums = self.find_sums(examples) if len(examples) > 1 else None
        is_merged = sums is not None and as_summing(self.model).merge(sums)
        if not is_merged:
            self.model.learn(examples)
        self.on_learned(len(examples), is_merged)

    def _retract(self, retractions: Sequence[Event]) -> None:
        """Un-learn what consecutive retractions take back. A model that cannot subtract learns again once for all."""
        for entry in retractions:
            target = entry.target
            if target is None or target.offset in self.refused:
                continue
            if not self.model.subtracts:
                self._relearn(retractions[-1].offset)
                return
            self.model.unlearn([build_example(target)])

    def _relearn(self, until: int) -> None:
        """Learn everything again except what was retracted: exact for a model that cannot subtract."""
        retracted = {
            entry.target.offset for entry in self.history(until) if entry.kind == "retraction" and entry.target
        }
        self.model = self.create_model()
        after = self.restart(self)
        alarms = deque(alarm for alarm in self.monitor.raised if alarm.offset > after)
        for entry in self.history(until):
            if entry.kind == "retraction" or entry.teaches_nothing or entry.offset <= after:
                continue
            if entry.offset in retracted or entry.offset in self.refused:
                continue
            while alarms and alarms[0].offset < entry.offset:
                self._act_on([alarms.popleft()])
            self._learn([entry])
        self._act_on(alarms)

    # state

    def state(self, serving_only: bool = False) -> State:
        """Return the model's parts and, unless serving_only, the held-out feedback and the detectors."""
        parts = dict(self.model.state(serving_only))
        if serving_only:
            return parts
        self.observe_pending()
        detectors = {} if self.drift == "off" else {"drift": self.monitor.part()}
        return {**parts, "gate": self.held_out.part(), **detectors}

    def restore_model(self, state: State) -> None:
        """Restore the model alone."""
        self.model.restore({name: part for name, part in state.items() if name not in OWN_PARTS})

    def restore(self, state: State) -> None:
        """Adopt a state: the model, the detectors and the held-out feedback."""
        self.restore_model(state)
        detectors, held_out = (state.get(name) for name in OWN_PARTS)
        if detectors is not None and self.drift != "off":
            self.monitor.restore(detectors)
        if held_out is not None:
            self.held_out.restore(held_out)
