"""Prequential replay: answer, then score, then learn, in the order it happened.

    source --lines--> LineFeatures --> LoggedPrediction: model.predict --> PendingOutcome
                                   --> LoggedEvent: TrainingState.apply, and its outcome to JudgedOutcomes
           --rows---> LineFeatures --> both at once, in the batches that are learned together
    JudgedOutcomes --> Score, many at a time: it decides nothing

Each prediction is answered by a model that has learned the events before it and nothing else, so a
service's own log gives the answers that were served. The TrainingState is the learner's, so a replay
of the log ends in the state of the live model. Predictions and events are collected, and answered
and learned together, as long as that changes nothing.
"""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path

from online.errors import BadInput, OnlineError
from online.evaluation.replay.baseline import BaselineModel, create_baseline, find_remedies
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.line_features import LineFeatures
from online.evaluation.replay.model_setup import ModelSetup
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.replay.tasks import TaskSequence
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.log_format import Line, LoggedEvent, LoggedPrediction
from online.evaluation.sources.replay_source import Source
from online.evaluation.sources.row_blocks import RowBlock
from online.learning.training_state import TrainingState
from online.models import Answer, Candidate, Model, create, parse_number
from online.models.failures import CANNOT_LEARN, EstimatorFailures, describe_error, find_failures
from online.models.kinds import ADMITTED
from online.models.own_kinds import find_named_code
from online.models.ranker.policies import draw_key
from online.models.unseen import count_outside, count_targets_outside
from online.models.updates import answer_by_updates
from online.schemas.events import Event
from online.scoring.class_score import ClassScore
from online.scoring.number_score import NumberScore
from online.scoring.prequential import names_right_answer
from online.scoring.score import BaselineAnswers, JudgedOutcomes, Loss, PendingOutcome, Score

Chunk = Sequence[Line] | RowBlock
UNASKED_PREFIX = "#"  # begins the ids of predictions that the log does not contain
CHUNK_LINES = 256  # lines read, predictions answered and events learned at a time
MAX_REASONS = 20  # for which examples were not learned, that a report lists
UPDATED_EVENTS = 32  # learned at a time: with more, solving once costs less than an update for each


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """The events to score: those after `start`, up to `end`. Events up to `start` are only learned."""

    start: int = 0
    end: int | None = None

    def of(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Yield the lines to replay, up to the end of the span."""
        for line in lines:
            if self.end is not None and isinstance(line, LoggedEvent) and line.event.offset > self.end:
                return
            yield line


class Replay:
    """Replays one source with one model. It may be interrupted after any `feed`; `report` then covers what was fed.

    model_seconds: the time that the model took to answer and to learn, which a race with others does not change.
    """

    def __init__(
        self,
        source: Source,
        candidate: CandidateSpec,
        span: ScoredSpan | None = None,
        max_bad_ratio: float = 0.0,
        encoded: str = "",
    ) -> None:
        """encoded: the epoch of the encoder that has already encoded the lines.

        Raises BadInput for a kind that cannot read the source, ValueError for an unknown option.
        """
        self.source, self.candidate, self.span = source, candidate, span or ScoredSpan()
        self.setup = ModelSetup(source, candidate)
        self.encoder = self.setup.create_encoder()
        already_encoded = self.encoder is not None and self.encoder.epoch == encoded
        self.features, self.bad = LineFeatures(None if already_encoded else self.encoder), BadLines(max_bad_ratio)
        self.training = TrainingState(
            candidate.kind,
            self.setup.options,
            candidate.device,
            self._history,
            drift=self.setup.drift,
            observe_together=CHUNK_LINES,
        )
        decides = self.setup.drift == "act" and not source.header  # whether its own answers decide about its state
        if candidate.every <= UPDATED_EVENTS and not decides:
            answer_by_updates(self.training.model)
        self.score: Score = NumberScore() if self.setup.spec.predicts_numbers else ClassScore()
        self.tasks = self._tasks() if source.reads.task else None
        self.frozen: Model | None = None
        self.baseline: BaselineModel | None = create_baseline(self.setup)
        self.pending_predictions = list[tuple[LoggedPrediction, BaselineAnswers]]()
        self.pending_events = list[LoggedEvent]()
        self.pending_rows, self.pending_guesses = RowBlock(features=[]), list[BaselineAnswers]()
        self.outcomes: dict[str, PendingOutcome] = {}
        self.judged = JudgedOutcomes()
        self.examples = self.events = self.answers = self.same_answers = self.lines = self.orphans = 0
        self.outside = self.targets_outside = (
            0  # answers, and right answers, outside the ranges that the model had seen
        )
        self.clock = time.thread_time if candidate.device == "cpu" else time.perf_counter
        self.model_seconds = 0.0

    # going through it

    def run(self, at: Callable[[float, int], None] = lambda share, examples: None) -> None:
        """Replay the whole source. at: is called at intervals with the share read and the number of examples.

        Raises BadInput if too many lines are bad.
        """
        for _ in self.losses(at):
            pass

    def losses(self, at: Callable[[float, int], None] = lambda share, examples: None) -> Iterator[Loss]:
        """Replay the whole source; yield the losses of its outcomes, in order."""
        for chunk in read_chunks(self.source, self.span, self.bad, lambda share: at(share, self.examples)):
            yield from self.feed(chunk)
        yield from self.finish()

    def feed(self, chunk: Chunk) -> list[Loss]:
        """Take the next lines or rows; return the losses of the outcomes that were scored, in order.

        A loss is None if the outcome does not judge the model's answer.
        """
        if isinstance(chunk, RowBlock):
            self.lines += 2 * len(chunk)
            self._add_rows(self._drop_labels(self.features.of_rows(chunk, self.bad)))
        else:
            self.lines += len(chunk)
            for line in self.features.of(chunk, self.bad):
                self._predict(line) if isinstance(line, LoggedPrediction) else self._add_event(line)
        return self._judge()

    def finish(self) -> list[Loss]:
        """Answer, score and learn what is pending. Raises BadInput if too many lines were bad."""
        self._play_rows(self.pending_rows, self.pending_guesses)
        self._learn()
        if self.tasks is not None and self.tasks.current >= 0:
            self.tasks.test(self.training.model, ended=True)
        self.bad.check(count_read(self.source, self.lines, self.bad))
        self._check_failures()
        return self._judge()

    def _check_failures(self) -> None:
        """Raise BadInput if the code around which the model is built has never answered, or never learned."""
        found = self._failures
        if found.is_total:
            raise BadInput(f"{self.candidate.name} raised an error for each of {found.tried:,} answers.\n{found.first}")
        if 0 < self._count_failed_examples() == self.events:
            raise BadInput(f"{self.candidate.name} raised an error at each of {self.events:,} examples.\n{found.first}")

    @contextmanager
    def _naming_errors(self, what: str) -> Iterator[None]:
        """Turn what the operator's code raises, such as that of a kind of their own, into BadInput with its traceback."""
        try:
            yield
        except OnlineError:
            raise
        except Exception as error:
            if not (self.candidate.kind in ADMITTED or find_named_code(self.candidate.options)):
                raise
            at = f"{self.candidate.name} raised an error while it {what}, near example {max(self.examples, 1):,}"
            raise BadInput(f"{at}.\n{describe_error(error)}") from error

    @property
    def _failures(self) -> EstimatorFailures:
        return find_failures(self.training.model) or EstimatorFailures()

    def _count_failed_examples(self) -> int:
        return sum(reason.startswith(CANNOT_LEARN) for reason in self.training.refused.values())

    def _describe_failures(self) -> dict[str, object]:
        """Return what `ReplayReport.errors` holds."""
        found = self._failures
        if not found.first:
            return {}
        return {"answers": found.answers, "examples": self._count_failed_examples(), "first": found.first}

    def _judge(self) -> list[Loss]:
        """Score the outcomes of what was learned."""
        judged, self.judged = self.judged, JudgedOutcomes()
        return [*zip(judged.offsets, self.score.add_all(judged), strict=True)] if judged.events else []

    # rows, whose labels arrive before the next row

    def _add_rows(self, rows: RowBlock) -> None:
        """Take rows, and play those that are complete batches to learn."""
        guesses = [*self.pending_guesses, *map(self._guess, rows.labels, rows.offsets)]
        rows, start = self.pending_rows.join(rows), 0
        while (stop := self._find_batch(rows, start)) <= len(rows):
            self._play_rows(rows.part(start, stop), guesses[start:stop])
            start = stop
        self.pending_rows, self.pending_guesses = rows.part(start, None), guesses[start:]

    def _drop_labels(self, rows: RowBlock) -> RowBlock:
        """Return the rows whose labels this model can be judged by; the others are unusable lines."""
        if not self.setup.spec.predicts_numbers:
            return rows
        return rows.drop({at for at, label in enumerate(rows.labels) if not self._is_number(label, rows.numbers[at])})

    def _is_number(self, label: str, line: int) -> bool:
        try:
            parse_number(label)
        except ValueError as error:
            self.bad.add(f"{Path(self.source.name).name}, line {line}: {error}", line, "no_label")
            return False
        return True

    def _guess(self, label: str, offset: int) -> BaselineAnswers:
        """Return what the baselines guess before they see the label."""
        guesses = self.score.guesses()
        self._count_class(label, offset)
        return guesses

    def _find_batch(self, rows: RowBlock, start: int) -> int:
        """Return where the batch ends that begins at `start`; scoring begins between two batches."""
        stop, first = start + self.candidate.every, self.span.start
        if first and start < len(rows) and rows.offsets[start] <= first and first in rows.offsets[start:stop]:
            return rows.offsets.index(first) + 1
        return stop

    def _play_rows(self, rows: RowBlock, guesses: Sequence[BaselineAnswers]) -> None:
        """Answer rows, and learn them together."""
        inputs = rows.features or []
        answers, frozen = list[Answer](), list[Answer | None]()
        for start in range(0, len(rows), CHUNK_LINES):
            part = inputs[start : start + CHUNK_LINES]
            answers += self._ask(part, [None] * len(part))
            frozen += self._ask_frozen(part)
        guesses = self._add_guesses(guesses, inputs)
        columns = zip(rows.numbers, rows.offsets, inputs, rows.labels, answers, strict=True)
        events = [
            Event(str(number), "label", data, label, choice=each.choice, offset=offset)
            for number, offset, data, label, each in columns
        ]
        start = bisect_right(rows.offsets, self.span.start)  # of the rows that are scored
        scored = [*map(PendingOutcome, answers[start:], repeat(0), guesses[start:], frozen[start:])]
        self.judged.extend(events[start:], scored, rows.offsets[start:])
        self.examples += len(scored)
        self.answers += len(rows)
        self._apply(events)

    # lines

    def _predict(self, line: LoggedPrediction) -> None:
        if line.held_out_class is not None:
            return  # held out before the start
        if len(self.pending_events) >= self.candidate.every:
            self._learn()
        if self.tasks is not None:
            self._test(self.tasks, line)
        if line.feedback_count or self.setup.same:
            self.pending_predictions.append((line, self.score.guesses()))
        if len(self.pending_predictions) >= CHUNK_LINES:
            self._answer()

    def _test(self, tasks: TaskSequence, line: LoggedPrediction) -> None:
        """Test on the held-out rows when a task ends, and at intervals before that."""
        if tasks.ends_before(line) or tasks.due():
            self._learn()
            tasks.test(self.training.model, ended=tasks.ends_before(line))
        tasks.begin(line)

    def _tasks(self) -> TaskSequence:
        """Return the held-out rows of all tasks of the source."""
        tasks, features, bad = TaskSequence(), LineFeatures(self.encoder), BadLines(1.0)
        lines = self.source.lines(bad)
        while chunk := list(islice(lines, CHUNK_LINES)):
            for line in features.of(
                [line for line in chunk if isinstance(line, LoggedPrediction) and line.held_out_class is not None], bad
            ):
                if isinstance(line, LoggedPrediction):
                    tasks.hold(line)
        return tasks

    def _add_event(self, line: LoggedEvent) -> None:
        event = line.event
        offset = event.offset
        if self.setup.spec.predicts_numbers and not self.source.header and not self._is_number(event.label, offset):
            self.outcomes.pop(line.prediction_id or "", None)
            return
        if line.is_orphan:
            self.orphans += 1
            return
        if line.prediction_id is None and line.at is not None and event.kind == "label":
            line.prediction_id = f"{UNASKED_PREFIX}{offset}"  # a label with its input: answered before it is learned
            features = line.features or event.features
            self._predict(
                LoggedPrediction(line.prediction_id, None, features, choice=line.answer, was_answered=line.was_answered)
            )
        self.pending_events.append(line)
        if line.prediction_id is not None and names_right_answer(event):
            self._count_class(event.label, offset)
        if len(self.pending_events) >= max(self.candidate.every, CHUNK_LINES) or offset == self.span.start:
            self._learn()

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
            (line.choice is not None or logged) and not line.id.startswith(UNASKED_PREFIX)
            for line, _ in self.pending_predictions
        ]
        keys = [
            draw_key(line.id) if real and self._may_draw(line) else None
            for (line, _), real in zip(self.pending_predictions, served, strict=True)
        ]
        answers, frozen = self._ask(inputs, keys), self._ask_frozen(inputs)
        lines, before_them = zip(*self.pending_predictions, strict=True)
        all_guesses = self._add_guesses(before_them, inputs)
        for line, guesses, best, old, real in zip(lines, all_guesses, answers, frozen, served, strict=True):
            answer = best.without(line.exclude) if line.exclude else best
            self.answers += real or not logged
            self.same_answers += real and answer.choice == line.choice
            if line.feedback_count:
                before = build_served_answer(line) if real or line.was_answered else None
                self.outcomes[line.id] = PendingOutcome(
                    answer, line.feedback_count, guesses, old, before, line.version, line.user
                )
        self.pending_predictions = []

    def _may_draw(self, line: LoggedPrediction) -> bool:
        """Return whether a policy may draw the answer. The log's own model draws where it drew: the service may have kept it from that."""
        return not line.exclude and not (self.setup.same and line.propensity == 1)

    def _ask(self, inputs: Sequence[bytes], keys: Sequence[int | None]) -> list[Answer]:
        started = self.clock()
        with self._naming_errors("answered"):
            answers = self.training.model.predict(inputs, keys)
        self.model_seconds += self.clock() - started
        self.outside += count_outside(self.training.model, inputs)
        return answers

    def _ask_frozen(self, inputs: Sequence[bytes]) -> Sequence[Answer | None]:
        return self.frozen.predict(inputs) if self.frozen is not None else [None] * len(inputs)

    def _add_guesses(self, guesses: Sequence[BaselineAnswers], inputs: Sequence[bytes]) -> Sequence[BaselineAnswers]:
        """Return the guesses of the baselines with that of the model that runs beside the candidate."""
        if self.baseline is None or not self.baseline.is_awake:
            return guesses
        return [{**each, **more} for each, more in zip(guesses, self.baseline.guess(inputs), strict=True)]

    def _learn(self) -> None:
        """Learn the events that are pending, and note what they judge."""
        self._answer()
        entries = list[Event]()
        for line in self.pending_events:
            if line.refused is not None:
                self.training.refused[line.event.offset] = line.refused
            outcome = self._find_outcome(line) if line.prediction_id is not None else None
            entries.append(line.complete(self._find_own_choice(outcome)))
        self.pending_events = []
        self._apply(entries)

    def _apply(self, entries: Sequence[Event]) -> None:
        if entries:
            self.events += len(entries)
            if self.setup.spec.predicts_numbers:
                self.targets_outside += count_targets_outside(self.training.model, [*list_labels(entries)])
            started = self.clock()
            with self._naming_errors("learned"):
                self.training.apply(entries)
            self.model_seconds += self.clock() - started
            if self.baseline is not None:
                self.baseline.learn([each for each in entries if each.offset not in self.training.refused])
            self._freeze()

    def _find_own_choice(self, outcome: PendingOutcome | None) -> str | None:
        """Return this model's answer if none was served: drift is then judged by it."""
        return None if outcome is None or outcome.served is not None or self.source.header else outcome.answer.choice

    def _find_outcome(self, line: LoggedEvent) -> PendingOutcome | None:
        """Return the pending outcome that the event is about, and note the event if it is scored."""
        outcome = self.outcomes.get(line.prediction_id or "")
        if outcome is None:
            return None
        outcome.left -= 1
        if not outcome.left:
            del self.outcomes[line.prediction_id or ""]
        event = line.event
        offset = event.offset
        if event.kind in ("label", "correction", "reward") and offset > self.span.start:
            self.examples += 1
            self.judged.append(event, outcome, offset, line.at, line.lateness)
        return outcome

    def _freeze(self) -> None:
        """Keep a copy of the model at the point where scoring begins."""
        if self.frozen is None and self.span.start and self.training.learned_until >= self.span.start:
            self.frozen = create(self.candidate.kind, self.setup.options, self.candidate.device)
            self.frozen.restore(self.training.model.state(serving_only=True))

    def _history(self, until: int) -> Iterator[Event]:
        features, bad = LineFeatures(self.encoder), BadLines(1.0)
        lines = self.source.lines(bad)
        while chunk := list(islice(lines, CHUNK_LINES)):
            for line in features.of(chunk, bad):
                if isinstance(line, LoggedEvent):
                    if line.event.offset > until:
                        return
                    if not line.is_orphan:
                        yield line.complete()

    def report(self) -> ReplayReport:
        """Report on what was fed so far."""
        self._judge()  # there is something if a feed was interrupted
        self.training.observe_pending()
        leads = self.score.leads()
        rate = round(self.examples / self.model_seconds, 1) if self.model_seconds else 0.0
        return ReplayReport(
            self.candidate.name or self.candidate.kind,
            self.candidate.kind,
            self.examples,
            self.events,
            self.answers,
            self.same_answers if self.setup.own and self.setup.is_whole else None,
            {**self.score.figures(), **(self.tasks.figures() if self.tasks is not None else {})},
            rate,
            self.training.model.fingerprint(),
            list(self.training.monitor.alarms),
            self.bad.count,
            self.score.details(),
            self.tasks,
            self.source.contents_from,
            [*self.source.left_out],
            leads,
            find_remedies(self.setup, leads),
            self.baseline.skipped if self.baseline is not None else "",
            self.orphans,
            self.setup.settings,
            [*self.setup.profile.columns],
            self.bad.as_json() if self.bad.count else {},
            dict(Counter(self.training.refused.values()).most_common(MAX_REASONS)),
            self.outside,
            self.targets_outside,
            **self.bad.gaps.as_figures(),
            errors=self._describe_failures(),
        )


def list_labels(entries: Sequence[Event]) -> Iterator[str]:
    """Yield the right answers among events."""
    return (each.label for each in entries if each.kind in ("label", "correction"))


def read_chunks(source: Source, span: ScoredSpan, bad: BadLines, at: Callable[[float], None]) -> Iterator[Chunk]:
    """Yield the source in blocks of rows where it holds plain rows, else in chunks of lines."""
    if source.has_plain_rows and span.end is None:
        yield from source.blocks(bad, at)
        return
    lines = span.of(source.lines(bad, at))
    while chunk := list(islice(lines, CHUNK_LINES)):
        yield chunk


def count_read(source: Source, lines: int, bad: BadLines) -> int:
    """Return of how many lines the bad ones are a share. lines: those that were given on, two for each row of a table."""
    return lines + bad.count if source.header else lines


def build_served_answer(line: LoggedPrediction) -> Answer:
    """Return the answer that was served, as logged."""
    candidates = tuple(Candidate(id, score) for id, score in line.candidates)
    return Answer(line.choice, candidates, propensity=line.propensity, abstained=line.choice is None)
