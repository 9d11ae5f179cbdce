"""Prequential replay: answer, then score, then learn, in the order it happened.

    source --lines--> features (as logged, or encoded) --> Asked: model.predict --> Said
                                                       --> Told:  score the Said, then Pupil.apply

What is asked is answered by a model that knows what was told before, and nothing else; so a service's own log gives the
answers it gave. The Pupil is the learner's own: replaying the log ends in the very state the live model has. Answers and
events are gathered as long as that changes nothing, and predicted and learned together.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from online.errors import BadInput
from online.evaluation.formats import Bad
from online.evaluation.log import Asked, Line, Told
from online.evaluation.scores import (
    Details,
    Figures,
    Guesses,
    LabelScore,
    NumberScore,
    Said,
    Score,
)
from online.evaluation.sources import Source
from online.evaluation.tasks import Tasks
from online.learning.drift import Alarm
from online.learning.learner import Pupil
from online.models import Answer, Candidate, Encoder, Model, create
from online.models.encoder import encoder, reads_any
from online.models.policies import draw_key
from online.prequential import tells_what_is_right
from online.schemas import Entry
from online.settings import Drift
from online.workspace import cache_folder

Loss = tuple[int, float | None]  # offset of an outcome, and what the model lost by it; None where it is silent
UNASKED = "#"  # begins the ids under which examples are asked that a log has no prediction for
TOGETHER = 256  # lines taken at once; answers given together; events learned together


@dataclass(frozen=True, slots=True)
class Contender:
    """A model to be replayed. every: it learns when so many events are there to learn (1: each at once)."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    device: str = "cpu"
    drift: Drift | None = None
    every: int = 1


@dataclass(frozen=True, slots=True)
class Span:
    """Events after `start` up to `end` are scored; those up to `start` are learned alone."""

    start: int = 0
    end: int | None = None

    def of(self, lines: Iterator[Line]) -> Iterator[Line]:
        for line in lines:
            if self.end is not None and isinstance(line, Told) and line.entry.offset > self.end:
                return
            yield line


@dataclass(frozen=True, slots=True)
class Report:
    """figures: what the score knows, by name; None while nothing was scored.

    examples: outcomes about something asked, and labels that came with their input, which are asked as they come. events: everything learned. same_answers of asked: how many answers the
    log's own model gave again. bad: lines that could not be used.
    """

    name: str
    kind: str
    examples: int
    events: int
    asked: int
    same_answers: int | None
    figures: Figures
    examples_per_second: float
    state_sha256: str
    drift: list[Alarm]
    bad: int
    details: Details
    tasks: Tasks | None = None


class Features:
    """Gives lines the features that the model reads: as logged, or made of the instance. What is told about something
    asked has the features of that.

    kept: features of what was asked, and how often they will be needed.
    """

    def __init__(self, made_by: Encoder | None) -> None:
        self.encoder = made_by
        self.kept: dict[str, list[Any]] = {}

    def of(self, lines: Sequence[Line], bad: Bad) -> Iterator[Line]:
        """The lines with their features; without those that have none that could be used, which `bad` is told of."""
        needed = [self._instance(line) for line in lines]
        made = self._encoded([instance for each in needed for instance in each if instance is not None])
        for line, instance in zip(lines, needed, strict=True):
            features = next(made) if instance and instance[0] is not None else None
            if instance == (None,):
                continue  # its words were erased
            if isinstance(features, ValueError):
                bad.add(f"{where(line)}: {str(features).removeprefix('instance 0 ')}")
                continue
            if isinstance(line, Asked):
                self._keep(line, features)
                yield line
            elif self._found(line, features):
                yield line

    def _instance(self, line: Line) -> tuple[Any, ...]:
        """What is to be encoded, if anything is; None is what was erased."""
        if self.encoder is None:
            return ()
        if isinstance(line, Asked):
            return (line.instance,)
        event = line.entry.event
        words = event.text or (event.target.event.text if event.target else "")
        if line.asked is not None or not (event.features or words):
            return ()
        return (line.instance if line.instance is not None else words or None,)

    def _encoded(self, instances: Sequence[Any]) -> Iterator[bytes | ValueError]:
        if self.encoder is None or not instances:
            return
        try:
            yield from self.encoder.encode(instances)
            return
        except ValueError:
            pass  # one of them: which, is found one by one
        for instance in instances:
            try:
                yield self.encoder.encode([instance])[0]
            except ValueError as error:
                yield error

    def _keep(self, line: Asked, features: bytes | None) -> None:
        if features is not None:
            line.features = features
        if line.told:
            self.kept[line.id] = [line.features, line.told]

    def _found(self, line: Told, features: bytes | None) -> bool:
        """False for what is about something that could not be used."""
        line.features = features
        if line.asked is None:
            return True
        kept = self.kept.get(line.asked)
        if kept is None:
            return False
        line.features = kept[0]
        kept[1] -= 1
        if not kept[1]:
            del self.kept[line.asked]
        return True


class Replay:
    """One source through one model. It may be interrupted after any `feed`; `report` then tells what is known so far."""

    def __init__(
        self,
        source: Source,
        contender: Contender,
        span: Span | None = None,
        max_bad_ratio: float = 0.0,
        encoded: str = "",
    ) -> None:
        """encoded: names the encoder whose features the lines that are fed have already.

        Raises BadInput for a kind that cannot read the source, ValueError for options that do not exist.
        """
        kind = contender.kind
        if source.numbers and kind != "regressor":
            raise BadInput(f"{source.name} holds numbers to predict: replay it with --model regressor")
        if source.survey is not None and kind == "regressor":
            raise BadInput(f"{source.name} holds decisions, and a regressor chooses nothing: replay a model of labels")
        self.source, self.contender, self.span = source, contender, span or Span()
        self.own = source.header.get("kind") == kind
        self.options = self._options()
        self.same = self.own and {**self.options, "key": 0} == {**source.header["options"], "key": 0}
        logged = self.own or (reads_any(kind) and self._same_input())
        self.encoder = None if logged else self._encoder(kind)
        made = self.encoder is not None and self.encoder.epoch == encoded
        self.features, self.bad = Features(None if made else self.encoder), Bad(max_bad_ratio)
        drift: Drift = source.header.get("drift", "watch") if self.own else "watch"
        self.pupil = Pupil(kind, self.options, contender.device, self._history, drift=contender.drift or drift)
        self.score: Score = NumberScore() if kind == "regressor" else LabelScore()
        self.tasks = self._tasks() if source.reads.task else None
        self.frozen: Model | None = None
        self.asked = list[tuple[Asked, Guesses]]()
        self.told = list[Told]()
        self.said: dict[str, Said] = {}
        self.examples = self.events = self.answers = self.again = self.lines = 0
        self.started: float | None = None
        self.seconds = 0.0

    # what the model reads

    def _options(self) -> dict[str, Any]:
        """The log's own options where its kind is replayed, otherwise what the source's inputs call for."""
        given = dict(self.contender.options)
        if self.own:
            return {**self.source.header["options"], **given}
        if self.contender.kind == "ranker":
            raise BadInput("a ranker replays a log of a ranker; labelled data is for a classifier or a river model")
        if reads_any(self.contender.kind):
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

    def _encoder(self, kind: str) -> Encoder:
        made: Encoder = encoder({"input": "table"} if kind == "river" else self.options, cache_folder())
        return made

    # going through it

    def run(self, at: Callable[[float, int], None] = lambda share, examples: None) -> None:
        """Go through the source; `at` is told now and then how far it is (0 to 1), and how many examples there were.

        Raises BadInput where more of it is bad than is bearable.
        """
        for _ in self.losses(at):
            pass

    def losses(self, at: Callable[[float, int], None] = lambda share, examples: None) -> Iterator[Loss]:
        """The same; gives the losses of its outcomes, in order."""
        lines = self.span.of(self.source.lines(self.bad, lambda share: at(share, self.examples)))
        while chunk := list(islice(lines, TOGETHER)):
            yield from self.feed(chunk)
        yield from self.finish()

    def feed(self, lines: Iterable[Line]) -> list[Loss]:
        """Take the next lines. Gives the losses of the outcomes that became due, in order; None where one is silent."""
        self.started = self.started or time.perf_counter()
        losses = list[Loss]()
        whole = list(lines)
        self.lines += len(whole)
        for line in self.features.of(whole, self.bad):
            losses += self._ask(line) if isinstance(line, Asked) else self._tell(line)
        self.seconds = time.perf_counter() - self.started
        return losses

    def finish(self) -> list[Loss]:
        """Answer, score and learn what is still open. Raises BadInput where more was bad than is bearable."""
        losses = self._learn()
        if self.tasks is not None and self.tasks.current >= 0:
            self.tasks.test(self.pupil.model, ended=True)
        self.seconds = time.perf_counter() - (self.started or time.perf_counter())
        self.bad.check(self.lines)
        return losses

    def _ask(self, line: Asked) -> list[Loss]:
        if line.held is not None:
            return []  # known since before the start
        losses = self._learn() if len(self.told) >= self.contender.every else []
        if self.tasks is not None:
            losses += self._test(self.tasks, line)
        if line.told or self.same:
            self.asked.append((line, self.score.guesses()))
        if len(self.asked) >= TOGETHER:
            self._answer()
        return losses

    def _test(self, tasks: Tasks, line: Asked) -> list[Loss]:
        """Test on what is held out where a task ends, and now and then in between."""
        losses = list[Loss]()
        if tasks.ends_before(line) or tasks.due():
            losses = self._learn()
            tasks.test(self.pupil.model, ended=tasks.ends_before(line))
        tasks.begin(line)
        return losses

    def _tasks(self) -> Tasks:
        """What the source holds out, of all tasks."""
        tasks, features, bad = Tasks(), Features(self.encoder), Bad(1.0)
        lines = self.source.lines(bad)
        while chunk := list(islice(lines, TOGETHER)):
            for line in features.of([line for line in chunk if isinstance(line, Asked) and line.held is not None], bad):
                if isinstance(line, Asked):
                    tasks.hold(line)
        return tasks

    def _tell(self, line: Told) -> list[Loss]:
        event, losses = line.entry.event, list[Loss]()
        if line.asked is None and line.at is not None and event.kind == "label":
            line.asked = f"{UNASKED}{line.entry.offset}"  # somebody's example: asked as it comes
            losses = self._ask(Asked(line.asked, None, line.features or event.features))
        self.told.append(line)
        if line.asked is not None and tells_what_is_right(event):
            self._saw(event.label, line.entry.offset)
        due = len(self.told) >= max(self.contender.every, TOGETHER) or line.entry.offset == self.span.start
        return losses + self._learn() if due else losses

    def _saw(self, label: str, offset: int) -> None:
        try:
            self.score.saw(label)
        except ValueError as error:
            raise BadInput(f"{self.source.name}, example {offset}: {error}") from None

    def _answer(self) -> None:
        """Answer everything that was asked since the model learned last."""
        if not self.asked:
            return
        inputs = [line.features or b"" for line, _ in self.asked]
        logged = bool(self.source.header)
        served = [line.choice is not None or (logged and not line.id.startswith(UNASKED)) for line, _ in self.asked]
        keys = [draw_key(line.id) if real else None for (line, _), real in zip(self.asked, served, strict=True)]
        answers = self.pupil.model.predict(inputs, keys)
        frozen = self.frozen.predict(inputs) if self.frozen is not None else [None] * len(inputs)
        for (line, guesses), best, old, real in zip(self.asked, answers, frozen, served, strict=True):
            answer = best.without(line.besides) if line.besides else best
            self.answers += real or not logged
            self.again += real and answer.choice == line.choice
            if line.told:
                before = served_answer(line) if real else None
                self.said[line.id] = Said(answer, line.told, guesses, old, before, line.version, line.user)
        self.asked = []

    def _learn(self) -> list[Loss]:
        """Score and learn what was told since."""
        self._answer()
        losses, entries = list[Loss](), list[Entry]()
        for line in self.told:
            if line.refused is not None:
                self.pupil.refused[line.entry.offset] = line.refused
            said = self._scored(line, losses) if line.asked is not None else None
            entries.append(line.complete(self._ours(said)))
        self.told = []
        if entries:
            self.events += len(entries)
            self.pupil.apply(entries)
            self._freeze()
        return losses

    def _ours(self, said: Said | None) -> str | None:
        """What we answered, where nobody else did: drift is judged by it."""
        return None if said is None or said.served is not None or self.source.header else said.answer.choice

    def _scored(self, line: Told, losses: list[Loss]) -> Said | None:
        """Score what was said, which it gives."""
        said = self.said.get(line.asked or "")
        if said is None:
            return None
        said.left -= 1
        if not said.left:
            del self.said[line.asked or ""]
        offset, event = line.entry.offset, line.entry.event
        if event.kind in ("label", "correction", "reward") and offset > self.span.start:
            self.examples += 1
            losses.append((offset, self.score.add(event, said, offset, line.at, line.lateness)))
        return said

    def _freeze(self) -> None:
        """Keep a copy of the model as it is where scoring begins."""
        if self.frozen is None and self.span.start and self.pupil.learned_until >= self.span.start:
            self.frozen = create(self.contender.kind, self.options, self.contender.device)
            self.frozen.restore(self.pupil.model.state(serving_only=True))

    def _history(self, until: int) -> Iterator[Entry]:
        features, bad = Features(self.encoder), Bad(1.0)
        lines = self.source.lines(bad)
        while chunk := list(islice(lines, TOGETHER)):
            for line in features.of(chunk, bad):
                if isinstance(line, Told):
                    if line.entry.offset > until:
                        return
                    yield line.complete()

    def report(self) -> Report:
        rate = round(self.examples / self.seconds, 1) if self.seconds else 0.0
        return Report(
            self.contender.name or self.contender.kind,
            self.contender.kind,
            self.examples,
            self.events,
            self.answers,
            self.again if self.own else None,
            {**self.score.figures(), **(self.tasks.figures() if self.tasks is not None else {})},
            rate,
            self.pupil.model.fingerprint(),
            list(self.pupil.monitor.alarms),
            self.bad.count,
            self.score.details(),
            self.tasks,
        )


def served_answer(line: Asked) -> Answer:
    """What the log says was answered."""
    candidates = tuple(Candidate(id, score) for id, score in line.candidates)
    return Answer(line.choice, candidates, propensity=line.propensity, abstained=line.choice is None)


def where(line: Line) -> str:
    return f"example {line.id}" if isinstance(line, Asked) else f"event {line.entry.offset}"
