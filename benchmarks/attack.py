"""Measures what hostile callers cost: CLINC150, answered and rated by many callers, some of whom lie.

    an operator teaches a few examples of each class
    question --live version--> answer --a caller's label or thumb--> admission --> log --> learner --> live version
                                                                        ^                      |
                                                                        +---- review ----------+

Three strategies: `flips` (each hostile caller names a random wrong class), `coordinated` (all name the same wrong class)
and `sleepers` (they behave for the first half, then all name the same wrong class). Each is run with and without the
defence, with the same seed, questions and callers; without it, every caller counts as a curator. It runs in one process,
without HTTP, on a real store, with the admission, the review and the learner of the service. The times of a day are
compressed into minutes, so that no window ends during a run.
"""

import asyncio
import json
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, text

from benchmarks.clinc150 import Int8s, Split, split
from benchmarks.report import command, create_parser, print_json, progress, say, table, verdict
from online.learning.building import create_learner
from online.learning.learner import Learner
from online.plugins.moderation.callers.standing import load_newest_standings
from online.plugins.moderation.model_moderation import ModelModeration
from online.schemas.access.callers import Caller, Scope
from online.schemas.events import Event
from online.schemas.feedback import FeedbackItem
from online.serving.building import build
from online.serving.model_runtime import ModelRuntime
from online.settings import ModelSettings, Settings
from online.store import now
from online.store.predictions import add_predictions
from online.store.repertoire.replies import add_reply

MODEL = "m"
STRATEGIES = ("flips", "coordinated", "sleepers")
ROUND = 250  # questions that are answered by one version
REVIEW_EVERY = 2  # rounds
TARGET_POINTS = 5.0
CALLER: tuple[Scope, ...] = ("predict", "feedback")
CURATOR: tuple[Scope, ...] = (*CALLER, "curate")


@dataclass(slots=True)
class Run:
    """One run. Accuracies are % of the test questions. caught, blamed: of the hostile and the honest, those set apart."""

    kind: str
    strategy: str
    hostile: int
    is_defended: bool
    before: float = 0.0
    after: float = 0.0
    caught: int = 0
    blamed: int = 0
    blamed_because: list[str] = field(default_factory=list)
    established: int = 0
    learned: int = 0
    held: int = 0
    review_ms: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who asks what, and who lies how: drawn once for every run of a seed."""

    questions: Int8s
    labels: list[str]
    callers: list[int]
    lies: list[str]

    @classmethod
    def draw(cls, train: Split, names: Sequence[str], args: Namespace, strategy: str) -> "Crowd":
        draw = np.random.default_rng(args.seed)
        order = draw.permutation(len(train.labels))[: args.events]
        labels = [train.labels[place] for place in order]
        callers = draw.integers(args.callers, size=len(order)).tolist()
        others = [str(draw.choice([name for name in names if name != label])) for label in labels]
        target = str(draw.choice(list(names)))
        lies = others if strategy == "flips" else [target] * len(labels)
        return cls(train.features[order], labels, callers, lies)


class Attack:
    """One run on a store of its own."""

    def __init__(self, folder: Path, run: Run, crowd: Crowd, taught: Split, test: Split, args: Namespace) -> None:
        options = {"input": "text", "head": args.head} if run.kind == "classifier" else {}
        spec = ModelSettings(name=MODEL, kind=run.kind, options=options, guard=False)
        settings = Settings(
            state=folder, models=(spec,), publish_every_ms=0.0, durable_every_s=3_600.0, log_level="error"
        )
        self.run, self.crowd, self.taught, self.test, self.args = run, crowd, taught, test, args
        self.runtime = build(settings, with_learner=False)
        self.model: ModelRuntime = self.runtime.models[MODEL]
        self.learner = self._create_learner(spec)
        self.draw = np.random.default_rng(args.seed + 1)

    def _create_learner(self, spec: ModelSettings) -> Learner:
        workspace = self.runtime.workspace
        return create_learner(workspace, spec, workspace.options(spec), self.model.stream, "cpu")

    async def execute(self) -> None:
        started = time.monotonic()
        self.learner.start()
        self._teach()
        await self._learn()
        self.run.before = self.accuracy()
        starts = range(0, len(self.crowd.labels), ROUND)
        for number, start in enumerate(progress(starts, f"{self.run.strategy}, {self.run.hostile} hostile")):
            await self._give(range(start, min(start + ROUND, len(self.crowd.labels))))
            await self._learn()
            if self.run.is_defended and number % REVIEW_EVERY == REVIEW_EVERY - 1:
                await self._review()
        if self.run.is_defended:
            await self._review()
        self.run.after = self.accuracy()
        self._count()
        self.run.seconds = time.monotonic() - started
        await self.model.close()
        self.runtime.workspace.store.close()

    def _teach(self) -> None:
        """What an operator has imported: replies, and a few examples of each class."""
        stream = self.model.stream
        if self.run.kind == "ranker":
            for name in sorted(set(self.taught.labels)):
                row = self.taught.features[self.taught.labels.index(name)].tobytes()
                stream.append(Event(f"reply-{name}", "reply", row, name, name))
                self._add_reply(name, stream.head())
        for place, (row, label) in enumerate(zip(self.taught.features, self.taught.labels, strict=True)):
            stream.append(Event(f"taught-{place}", "label", row.tobytes(), label))

    def _add_reply(self, name: str, offset: int) -> None:
        self.runtime.workspace.store.submit(
            lambda connection: add_reply(connection, MODEL, name, name, offset)
        ).result()

    async def _learn(self) -> None:
        head = self.model.stream.head()
        while self.learner.training.learned_until < head:
            self.learner.learn(self.model.stream.read(self.learner.training.learned_until, 1_000, 0))
        self.learner.publish(durable=False)
        await self.model.live.refresh()

    def _answer(self, rows: Int8s) -> list[str | None]:
        model = self.model.live.current.model
        parts = (rows[start : start + 64] for start in range(0, len(rows), 64))
        return [answer.choice for part in parts for answer in model.predict([row.tobytes() for row in part])]

    def accuracy(self) -> float:
        answers = self._answer(self.test.features)
        return 100 * float(np.mean([given == right for given, right in zip(answers, self.test.labels, strict=True)]))

    def caller(self, number: int) -> Caller:
        id = f"key:{number}"
        return Caller(id, frozenset(CALLER if self.run.is_defended else CURATOR), user=id)

    async def _give(self, places: range) -> None:
        """One round: questions, answers, and what the callers say about them."""
        choices = self._answer(self.crowd.questions[places.start : places.stop])
        rows = [self._prediction(place, choice) for place, choice in zip(places, choices, strict=True)]
        await self.model.transactions.write(lambda connection: add_predictions(connection, rows))
        items = [self._say(place, choice) for place, choice in zip(places, choices, strict=True)]
        feedback = self.model.feedback
        await asyncio.gather(
            *(
                feedback.submit([item], self.caller(self.crowd.callers[place]))
                for place, item in zip(places, items, strict=True)
            )
        )

    def _prediction(self, place: int, choice: str | None) -> dict[str, Any]:
        served = self.model.live.current
        return {
            "id": f"p{place}",
            "model": MODEL,
            "version": served.version,
            "learned_until": served.learned_until,
            "user": self.caller(self.crowd.callers[place]).user,
            "input": json.dumps(f"question {place}"),
            "features": self.crowd.questions[place].tobytes(),
            "choice": choice,
            "propensity": 1.0,
            "candidates": "[]",
            "created_at": now(),
        }

    def _say(self, place: int, choice: str | None) -> FeedbackItem:
        """An honest caller is right but for a few slips. On a ranker, an agreeing caller clicks a thumb."""
        is_awake = self.run.strategy != "sleepers" or place >= len(self.crowd.labels) / 2
        is_hostile = self.crowd.callers[place] < self.run.hostile and is_awake
        slips = self.draw.random() < self.args.slips
        right, lie = self.crowd.labels[place], self.crowd.lies[place]
        label = lie if is_hostile and lie != right else str(self.draw.choice(self.test.labels)) if slips else right
        if self.run.kind == "ranker" and label == choice:
            return FeedbackItem(prediction_id=f"p{place}", reward=1.0)
        return FeedbackItem(prediction_id=f"p{place}", label=label)

    async def _review(self) -> None:
        started = time.monotonic()
        await self.model.parts.find(ModelModeration).review.review()
        self.run.review_ms = max(self.run.review_ms, 1_000 * (time.monotonic() - started))
        await self._learn()

    def _count(self) -> None:
        store = self.runtime.workspace.store
        for row in store.read(lambda connection: load_newest_standings(connection, MODEL, self.args.callers)):
            is_hostile = int(row.holder.removeprefix("key:")) < self.run.hostile
            self.run.caught += row.is_quarantined and is_hostile
            self.run.blamed += row.is_quarantined and not is_hostile
            if row.is_quarantined and not is_hostile:
                self.run.blamed_because.append(row.reason or "")
            self.run.established += row.state == "established"
        self.run.learned, self.run.held = store.read(count_feedback)


def count_feedback(connection: Connection) -> tuple[int, int]:
    """How much feedback stands, and how much is held."""
    stands = connection.scalar(text("SELECT count(*) FROM feedback WHERE retracted_offset IS NULL"))
    return stands, connection.scalar(text("SELECT count(*) FROM held_feedback WHERE decision IS NULL"))


def few_of_each(train: Split, count: int) -> tuple[Split, Split]:
    """Split off the first questions of each class."""
    seen: dict[str, int] = {}
    first = []
    for place, label in enumerate(train.labels):
        seen[label] = seen.get(label, 0) + 1
        if seen[label] <= count:
            first.append(place)
    rest = sorted(set(range(len(train.labels))) - set(first))
    return pick(train, first), pick(train, rest)


def pick(given: Split, places: Sequence[int]) -> Split:
    return Split(given.features[list(places)], [given.labels[place] for place in places])


def runs(args: Namespace) -> list[Run]:
    hostile = round(args.callers * args.hostile_ratio)
    found = []
    for kind in args.kinds.split(","):
        found += [Run(kind, "nobody", 0, False), Run(kind, "nobody", 0, True)]
        for strategy in args.strategies.split(","):
            found += [Run(kind, strategy, hostile, False), Run(kind, strategy, hostile, True)]
    return found


def measure(args: Namespace) -> list[Run]:
    train, test = split("train"), split("test")
    taught, rest = few_of_each(train, args.taught)
    names = sorted(set(train.labels))
    done = []
    for run in runs(args):
        crowd = Crowd.draw(rest, names, args, run.strategy)
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(Attack(Path(folder) / "state", run, crowd, taught, test, args).execute())
        say(f"{run}")
        done.append(run)
    return done


def costs(done: Sequence[Run]) -> dict[tuple[str, str, bool], float]:
    """Points that each run lost against one of its kind without hostile callers and without a defence."""
    honest = {run.kind: run.after for run in done if not run.hostile and not run.is_defended}
    return {(run.kind, run.strategy, run.is_defended): honest[run.kind] - run.after for run in done}


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--callers", type=int, default=300)
    parser.add_argument("--hostile-ratio", type=float, default=0.3)
    parser.add_argument("--taught", type=int, default=5, help="examples of each class that an operator has taught")
    parser.add_argument("--slips", type=float, default=0.03, help="share of wrong labels of honest callers")
    parser.add_argument("--kinds", default="classifier,ranker")
    parser.add_argument("--head", default="slda", help="of the classifier")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    done = measure(args)
    lost = costs(done)
    worst = max(points for (_, _, is_defended), points in lost.items() if is_defended)
    if args.json:
        print_json({"runs": [asdict(run) for run in done], "worst_points": worst})
        return int(worst > TARGET_POINTS)
    table(
        f"{args.events:,} events of {args.callers} callers, {100 * args.hostile_ratio:.0f} % of them hostile: "
        "% of held-out questions answered right",
        ["", "defence", "before", "after", "lost", "caught", "blamed", "learned", "held", "review, ms"],
        [
            [
                f"{run.kind}, {run.strategy}",
                "on" if run.is_defended else "off",
                run.before,
                run.after,
                lost[run.kind, run.strategy, run.is_defended],
                f"{run.caught} of {run.hostile}",
                run.blamed,
                run.learned,
                run.held,
                round(run.review_ms),
            ]
            for run in done
        ],
    )
    print(f"with the defence an attack costs at most {worst:.2f} points: {verdict(worst, TARGET_POINTS, ' points')}")
    return int(worst > TARGET_POINTS)


if __name__ == "__main__":
    command(main)
