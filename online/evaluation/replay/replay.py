"""Prequential replay: answer, then score, then learn, in the order it happened.

    source --lines--> LineFeatures --> LoggedPrediction: model.predict --> PendingOutcome
                                   --> LoggedEvent: score its outcome, then TrainingState.apply

Each prediction is answered by a model that has learned the events before it and nothing else, so a
service's own log gives the answers that were served. The TrainingState is the learner's, so a replay
of the log ends in the state of the live model. Predictions and events are collected, and answered
and learned together, as long as that changes nothing.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.line_features import LineFeatures
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.replay.tasks import Tasks
from online.evaluation.scoring.class_score import ClassScore
from online.evaluation.scoring.number_score import NumberScore
from online.evaluation.scoring.score import BaselineAnswers, PendingOutcome, Score
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.log_format import Line, LoggedEvent, LoggedPrediction
from online.evaluation.sources.replay_source import Source
from online.learning.training_state import TrainingState
from online.models import Answer, Candidate, Encoder, Model, create, input_options, spec_of
from online.models.encoders.factory import create_encoder
from online.models.ranker.policies import draw_key
from online.prequential import names_right_answer
from online.schemas.events import Entry
from online.settings import Drift
from online.workspace import cache_folder

Loss = tuple[int, float | None]  # offset of an outcome, and the model's loss; None if it does not judge the model
UNASKED_PREFIX = "#"  # begins the ids of predictions that the log does not contain
CHUNK_LINES = 256  # lines read, predictions answered and events learned at a time


@dataclass(frozen=True, slots=True)
class Span:
    """The events to score: those after `start`, up to `end`. Events up to `start` are only learned."""

    start: int = 0
    end: int | None = None

    def of(self, lines: Iterator[Line]) -> Iterator[Line]:
        for line in lines:
            if self.end is not None and isinstance(line, LoggedEvent) and line.entry.offset > self.end:
                return
            yield line


class Replay:
    """Replays one source with one model. It may be interrupted after any `feed`; `report` then covers what was fed."""

    def __init__(
        self,
        source: Source,
        candidate: CandidateSpec,
        span: Span | None = None,
        max_bad_ratio: float = 0.0,
        encoded: str = "",
    ) -> None:
        """encoded: the epoch of the encoder that has already encoded the lines.

        Raises BadInput for a kind that cannot read the source, ValueError for an unknown option.
        """
        kind = candidate.kind
        self.spec = spec_of(kind)
        if source.numbers and not self.spec.predicts_numbers:
            raise BadInput(f"{source.name} holds numbers to predict: replay it with --model regressor")
        if source.survey is not None and self.spec.predicts_numbers:
            raise BadInput(
                f"{source.name} holds decisions, and a {kind} makes no choices; replay a model that predicts classes"
            )
        self.source, self.candidate, self.span = source, candidate, span or Span()
        self.own = source.header.get("kind") == kind
        self.options = self._options()
        self.same = self.own and {**self.options, "key": 0} == {**source.header["options"], "key": 0}
        logged = self.own or (self.spec.has_input_option and self._same_input())
        self.encoder = None if logged else self._encoder()
        already_encoded = self.encoder is not None and self.encoder.epoch == encoded
        self.features, self.bad = LineFeatures(None if already_encoded else self.encoder), BadLines(max_bad_ratio)
        drift: Drift = source.header.get("drift", "watch") if self.own else "watch"
        self.training = TrainingState(
            kind, self.options, candidate.device, self._history, drift=candidate.drift or drift
        )
        self.score: Score = NumberScore() if self.spec.predicts_numbers else ClassScore()
        self.tasks = self._tasks() if source.reads.task else None
        self.frozen: Model | None = None
        self.pending_predictions = list[tuple[LoggedPrediction, BaselineAnswers]]()
        self.pending_events = list[LoggedEvent]()
        self.outcomes: dict[str, PendingOutcome] = {}
        self.examples = self.events = self.answers = self.same_answers = self.lines = 0
        self.started: float | None = None
        self.seconds = 0.0

    # what the model reads

    def _options(self) -> dict[str, Any]:
        """Return the log's own options if its kind is replayed, else those that fit the source's inputs."""
        given = dict(self.candidate.options)
        if self.own:
            return {**self.source.header["options"], **given}
        if self.spec.has_repertoire:
            raise BadInput("a ranker replays a log of a ranker; labelled data is for a classifier or a river model")
        if self.spec.has_input_option:
            seen = {"input": self.source.input, "size": self.source.size} if self.source.input else self._logged_input()
            return {**seen, **given}
        return given

    def _logged_input(self) -> dict[str, Any]:
        options = self.source.header["options"]
        return {name: options[name] for name in ("input", "size") if name in options} or {"input": "text"}

    def _same_input(self) -> bool:
        return bool(self.source.header) and self.options.get("input", "text") == self._logged_input().get(
            "input", "text"
        )

    def _encoder(self) -> Encoder:
        encoder: Encoder = create_encoder(input_options(self.candidate.kind, self.options), cache_folder())
        return encoder

    # going through it

    def run(self, at: Callable[[float, int], None] = lambda share, examples: None) -> None:
        """Replay the whole source. at: is called at intervals with the share read and the number of examples.

        Raises BadInput if too many lines are bad.
        """
        for _ in self.losses(at):
            pass

    def losses(self, at: Callable[[float, int], None] = lambda share, examples: None) -> Iterator[Loss]:
        """Replay the whole source; yield the losses of its outcomes, in order."""
        lines = self.span.of(self.source.lines(self.bad, lambda share: at(share, self.examples)))
        while chunk := list(islice(lines, CHUNK_LINES)):
            yield from self.feed(chunk)
        yield from self.finish()

    def feed(self, lines: Iterable[Line]) -> list[Loss]:
        """Take the next lines; return the losses of the outcomes that were scored, in order.

        A loss is None if the outcome does not judge the model's answer.
        """
        self.started = self.started or time.perf_counter()
        losses = list[Loss]()
        whole = list(lines)
        self.lines += len(whole)
        for line in self.features.of(whole, self.bad):
            losses += self._predict(line) if isinstance(line, LoggedPrediction) else self._add_event(line)
        self.seconds = time.perf_counter() - self.started
        return losses

    def finish(self) -> list[Loss]:
        """Answer, score and learn what is pending. Raises BadInput if too many lines were bad."""
        losses = self._learn()
        if self.tasks is not None and self.tasks.current >= 0:
            self.tasks.test(self.training.model, ended=True)
        self.seconds = time.perf_counter() - (self.started or time.perf_counter())
        self.bad.check(self.lines)
        return losses

    def _predict(self, line: LoggedPrediction) -> list[Loss]:
        if line.held_out_class is not None:
            return []  # held out before the start
        losses = self._learn() if len(self.pending_events) >= self.candidate.every else []
        if self.tasks is not None:
            losses += self._test(self.tasks, line)
        if line.feedback_count or self.same:
            self.pending_predictions.append((line, self.score.guesses()))
        if len(self.pending_predictions) >= CHUNK_LINES:
            self._answer()
        return losses

    def _test(self, tasks: Tasks, line: LoggedPrediction) -> list[Loss]:
        """Test on the held-out rows when a task ends, and at intervals before that."""
        losses = list[Loss]()
        if tasks.ends_before(line) or tasks.due():
            losses = self._learn()
            tasks.test(self.training.model, ended=tasks.ends_before(line))
        tasks.begin(line)
        return losses

    def _tasks(self) -> Tasks:
        """Return the held-out rows of all tasks of the source."""
        tasks, features, bad = Tasks(), LineFeatures(self.encoder), BadLines(1.0)
        lines = self.source.lines(bad)
        while chunk := list(islice(lines, CHUNK_LINES)):
            for line in features.of(
                [line for line in chunk if isinstance(line, LoggedPrediction) and line.held_out_class is not None], bad
            ):
                if isinstance(line, LoggedPrediction):
                    tasks.hold(line)
        return tasks

    def _add_event(self, line: LoggedEvent) -> list[Loss]:
        event, losses = line.entry.event, list[Loss]()
        if line.prediction_id is None and line.at is not None and event.kind == "label":
            line.prediction_id = (
                f"{UNASKED_PREFIX}{line.entry.offset}"  # a label with its input: answered before it is learned
            )
            losses = self._predict(LoggedPrediction(line.prediction_id, None, line.features or event.features))
        self.pending_events.append(line)
        if line.prediction_id is not None and names_right_answer(event):
            self._count_class(event.label, line.entry.offset)
        due = len(self.pending_events) >= max(self.candidate.every, CHUNK_LINES) or line.entry.offset == self.span.start
        return losses + self._learn() if due else losses

    def _count_class(self, label: str, offset: int) -> None:
        try:
            self.score.observe(label)
        except ValueError as error:
            raise BadInput(f"{self.source.name}, example {offset}: {error}") from None

    def _answer(self) -> None:
        """Answer the predictions that are pending."""
        if not self.pending_predictions:
            return
        inputs = [line.features or b"" for line, _ in self.pending_predictions]
        logged = bool(self.source.header)
        served = [
            line.choice is not None or (logged and not line.id.startswith(UNASKED_PREFIX))
            for line, _ in self.pending_predictions
        ]
        keys = [
            draw_key(line.id) if real else None
            for (line, _), real in zip(self.pending_predictions, served, strict=True)
        ]
        answers = self.training.model.predict(inputs, keys)
        frozen = self.frozen.predict(inputs) if self.frozen is not None else [None] * len(inputs)
        for (line, guesses), best, old, real in zip(self.pending_predictions, answers, frozen, served, strict=True):
            answer = best.without(line.exclude) if line.exclude else best
            self.answers += real or not logged
            self.same_answers += real and answer.choice == line.choice
            if line.feedback_count:
                before = build_served_answer(line) if real else None
                self.outcomes[line.id] = PendingOutcome(
                    answer, line.feedback_count, guesses, old, before, line.version, line.user
                )
        self.pending_predictions = []

    def _learn(self) -> list[Loss]:
        """Score and learn the events that are pending."""
        self._answer()
        losses, entries = list[Loss](), list[Entry]()
        for line in self.pending_events:
            if line.refused is not None:
                self.training.refused[line.entry.offset] = line.refused
            outcome = self._score(line, losses) if line.prediction_id is not None else None
            entries.append(line.complete(self._find_own_choice(outcome)))
        self.pending_events = []
        if entries:
            self.events += len(entries)
            self.training.apply(entries)
            self._freeze()
        return losses

    def _find_own_choice(self, outcome: PendingOutcome | None) -> str | None:
        """Return this model's answer if none was served: drift is then judged by it."""
        return None if outcome is None or outcome.served is not None or self.source.header else outcome.answer.choice

    def _score(self, line: LoggedEvent, losses: list[Loss]) -> PendingOutcome | None:
        """Score the event against its pending outcome, and return the outcome."""
        outcome = self.outcomes.get(line.prediction_id or "")
        if outcome is None:
            return None
        outcome.left -= 1
        if not outcome.left:
            del self.outcomes[line.prediction_id or ""]
        offset, event = line.entry.offset, line.entry.event
        if event.kind in ("label", "correction", "reward") and offset > self.span.start:
            self.examples += 1
            losses.append((offset, self.score.add(event, outcome, offset, line.at, line.lateness)))
        return outcome

    def _freeze(self) -> None:
        """Keep a copy of the model at the point where scoring begins."""
        if self.frozen is None and self.span.start and self.training.learned_until >= self.span.start:
            self.frozen = create(self.candidate.kind, self.options, self.candidate.device)
            self.frozen.restore(self.training.model.state(serving_only=True))

    def _history(self, until: int) -> Iterator[Entry]:
        features, bad = LineFeatures(self.encoder), BadLines(1.0)
        lines = self.source.lines(bad)
        while chunk := list(islice(lines, CHUNK_LINES)):
            for line in features.of(chunk, bad):
                if isinstance(line, LoggedEvent):
                    if line.entry.offset > until:
                        return
                    yield line.complete()

    def report(self) -> ReplayReport:
        rate = round(self.examples / self.seconds, 1) if self.seconds else 0.0
        return ReplayReport(
            self.candidate.name or self.candidate.kind,
            self.candidate.kind,
            self.examples,
            self.events,
            self.answers,
            self.same_answers if self.own else None,
            {**self.score.figures(), **(self.tasks.figures() if self.tasks is not None else {})},
            rate,
            self.training.model.fingerprint(),
            list(self.training.monitor.alarms),
            self.bad.count,
            self.score.details(),
            self.tasks,
            self.source.contents_from,
        )


def build_served_answer(line: LoggedPrediction) -> Answer:
    """Return the answer that was served, as logged."""
    candidates = tuple(Candidate(id, score) for id, score in line.candidates)
    return Answer(line.choice, candidates, propensity=line.propensity, abstained=line.choice is None)
