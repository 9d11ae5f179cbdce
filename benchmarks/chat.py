"""Does a chat page learn from thumbs? CLINC150's 150 intents as replies, known by their names alone at the start.

    a person asks --> the ranker's best reply --> 👍 / 👎 (and, where the scenario says so, chips or the right reply)
          ^                                           |  learned and published ten at a time
          +-------------------------------------------+

15,000 turns are the training questions, once, in an order of the seed; nothing of the test is learned or chosen by.
The ranker never abstains here, so that every turn can be rated. Scenarios: thumbs only; one thumb in ten is a lie;
three chips after a 👎; a 👎 always followed by the right reply; one turn in twenty is rated; a policy that explores.
Beside them peers that are given the same similarity of question and name, a person who likes one personality only,
what must hold for ever, and learning from a few examples.
"""

import json
import os
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from benchmarks.chat_peers import PEERS
from benchmarks.clinc150 import Int8s, Split, encoded, split
from benchmarks.report import command, parser, percentile, print_json, say, table, verdict
from benchmarks.service import Failed
from online.models import Answer, Example, Kind, Model, create
from online.models.encoder import TextEncoder
from online.models.exemplars import unit_rows
from online.workspace import cache_folder

NEVER_ABSTAIN = {"abstain_below": -1.0, "abstain_margin": 0.0}
LEARN_EVERY = 10  # events: what the learner finds in the stream while it publishes, where people type quickly
CURVE = (500, 1_000, 2_000, 5_000, 10_000, 15_000)
LAST = 500  # turns
CHIPS = 3
LIKED = "friendly"
THUMBS_PER_SCENARIO = 5


@dataclass(slots=True)
class Bot:
    """A ranker and the stream that leads to it."""

    options: dict[str, Any]
    learn_every: int = LEARN_EVERY
    offset: int = 0
    waiting: list[Example] = field(default_factory=list)
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        self.model = create("ranker", {**NEVER_ABSTAIN, **self.options})

    def tell(self, kind: Kind, features: bytes, reply: str, reward: float = 1.0, text: str = "") -> None:
        self.offset += 1
        self.waiting.append(Example(self.offset, kind, features, reply, text, reward))
        if len(self.waiting) >= self.learn_every:
            self.learn()

    def learn(self) -> None:
        if self.waiting:
            self.model.learn(self.waiting)
            self.waiting = []

    def ask(self, questions: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        return self.model.predict(questions, keys)

    def replies_to(self, questions: Int8s) -> list[str | None]:
        """The best reply to each, all learned before."""
        self.learn()
        parts = (questions[start : start + 64] for start in range(0, len(questions), 64))
        return [answer.choice for part in parts for answer in self.ask([row.tobytes() for row in part])]


@dataclass(frozen=True, slots=True)
class World:
    """What is asked and what would be right; names: the replies, in words."""

    train: Split
    test: Split
    names: dict[str, bytes]

    @classmethod
    def clinc(cls) -> "World":
        train, test = split("train"), split("test")
        names = sorted(set(train.labels))
        texts = TextEncoder(cache_folder()).encode([name.replace("_", " ") for name in names])
        return cls(train, test, dict(zip(names, texts, strict=True)))

    def bot(self, learn_every: int = LEARN_EVERY, **options: Any) -> Bot:
        bot = Bot(options, learn_every)
        for name, features in self.names.items():
            bot.tell("reply", features, name, text=name)
        bot.learn()
        return bot


@dataclass(frozen=True, slots=True)
class Person:
    """flip: the share of thumbs that lie. rated: the share of turns with a thumb. after_down: what helps then."""

    name: str
    flip: float = 0.0
    rated: float = 1.0
    after_down: str = ""  # chips, taught
    options: dict[str, Any] = field(default_factory=dict)

    def react(self, bot: Bot, asked: bytes, answer: Answer, right: str, draw: np.random.Generator) -> None:
        assert answer.choice is not None
        up, corrects = self.verdict(answer.choice, [candidate.id for candidate in answer.candidates], right, draw)
        if up is not None:
            bot.tell("reward", asked, answer.choice, reward=float(up))
        if corrects:
            bot.tell("correction", asked, right)

    def verdict(
        self, choice: str, candidates: Sequence[str], right: str, draw: np.random.Generator
    ) -> tuple[bool | None, bool]:
        """(the thumb, if there is one; whether the right reply is given then)"""
        lies, rates = draw.random(2) < (self.flip, self.rated)
        if not rates:
            return None, False
        up = (choice == right) != bool(lies)
        chips = [id for id in candidates if id != choice][:CHIPS]
        return up, not up and (self.after_down == "taught" or (self.after_down == "chips" and right in chips))


PEOPLE = (
    Person("thumbs only"),
    Person("10 % of thumbs lie", flip=0.1),
    Person("three chips after a 👎", after_down="chips"),
    Person("👎, then the right reply", after_down="taught"),
    Person("5 % of turns rated", rated=0.05),
    Person("epsilon 0.05 explores", options={"policy": "epsilon"}),
    Person("squarecb explores", options={"policy": "squarecb"}),
    Person("lin_ts explores", options={"policy": "lin_ts"}),
)


@dataclass(frozen=True, slots=True)
class Played:
    """turns -> share right in percent, of the last 500 turns and of the test."""

    last: dict[int, float]
    test: dict[int, float]


def play(world: World, person: Person, seed: int, turns: int) -> Played:
    bot, draw, hits = world.bot(**person.options), np.random.default_rng(seed), list[bool]()
    played = Played({}, {})
    order = draw.permutation(len(world.train.labels))[:turns]
    for turn, place in enumerate(bar(order.tolist(), f"{person.name}, seed {seed}"), 1):
        asked, right = world.train.features[place].tobytes(), world.train.labels[place]
        answer = bot.ask([asked], [turn])[0]
        hits.append(answer.choice == right)
        person.react(bot, asked, answer, right, draw)
        if turn in CURVE:
            played.last[turn] = percent(hits[-LAST:])
            played.test[turn] = percent(agreed(bot.replies_to(world.test.features), world.test.labels))
    return played


def scenarios(world: World, flags: Namespace) -> dict[str, Any]:
    told = {}
    for person in PEOPLE:
        if wanted(flags, person.name):
            runs = [play(world, person, seed, flags.turns) for seed in range(flags.seeds)]
            told[person.name] = curves(runs)
    return told


def curves(runs: Sequence[Played]) -> dict[str, Any]:
    """Means over the seeds, and the seeds' last values."""
    turns = runs[0].last.keys()
    return {
        "last": {str(turn): float(np.mean([run.last[turn] for run in runs])) for turn in turns},
        "test": {str(turn): float(np.mean([run.test[turn] for run in runs])) for turn in turns},
        "test_of_each_seed": [run.test[max(turns)] for run in runs],
    }


def peers(world: World, flags: Namespace) -> dict[str, Any]:
    """The same turns of one seed with the same thumbs, and the same similarity of question and name."""
    order = np.random.default_rng(0).permutation(len(world.train.labels))[: flags.turns]
    names = list(world.names)
    described = np.frombuffer(b"".join(world.names.values()), np.int8).reshape(len(names), -1)
    right = np.array([names.index(label) for label in world.train.labels])[order]
    test_right = np.array([names.index(label) for label in world.test.labels])
    told = {}
    for name, peer in PEERS.items():
        if wanted(flags, name):
            started = time.perf_counter()
            hits, answered = peer(described, world.train.features[order], right, world.test.features, bar)
            told[name] = {
                "last": {str(turn): percent(hits[max(0, turn - LAST) : turn]) for turn in CURVE if turn <= len(hits)},
                "test": {str(len(hits)): percent(answered == test_right)},
                "seconds": time.perf_counter() - started,
            }
    return told


# few examples


def few_shot(world: World, flags: Namespace) -> dict[str, float]:
    return {
        f"{count} a class": float(np.mean([taught(world, count, seed) for seed in range(flags.seeds)]))
        for count in (1, 5, 10)
    }


def taught(world: World, count: int, seed: int) -> float:
    bot, draw = world.bot(learn_every=1_000), np.random.default_rng(seed)
    labels = np.array(world.train.labels)
    for name in world.names:
        for place in draw.choice(np.flatnonzero(labels == name), count, replace=False):
            bot.tell("correction", world.train.features[place].tobytes(), name)
    return percent(agreed(bot.replies_to(world.test.features), world.test.labels))


# what must hold


def promises(world: World, flags: Namespace) -> dict[str, float]:
    same, near = repeated_mistakes(world, flags.seeds)
    return {
        "the same mistake again": same,
        "again for a near duplicate": near,
        "stable after one thumb up": stable_after_a_thumb(world),
        "taught and still answered": still_taught(world),
    }


def repeated_mistakes(world: World, seeds: int) -> tuple[float, float]:
    """Percent of vetoed answers that come again: for the question itself, and for others at cosine >= 0.9."""
    same, near = list[bool](), list[bool]()
    unit = unit_rows(world.train.features)
    for seed in range(seeds):
        bot, draw = world.bot(), np.random.default_rng(seed)
        order = draw.permutation(len(unit))
        for place in order[:2_000]:
            rate(bot, world, int(place))
        bot.learn()
        for place in order[2_000:4_000]:
            asked = world.train.features[place].tobytes()
            choice = bot.ask([asked])[0].choice
            assert choice is not None
            if choice == world.train.labels[place]:
                continue
            bot.tell("reward", asked, choice, reward=0.0)
            bot.learn()
            same.append(bot.ask([asked])[0].choice == choice)
            twins = np.flatnonzero(unit @ unit[place] >= 0.9)
            for twin in (t for t in twins if t != place and world.train.labels[t] != choice):
                near.append(bot.ask([world.train.features[twin].tobytes()])[0].choice == choice)
    return percent(same), percent(near)


def stable_after_a_thumb(world: World) -> float:
    """Percent of 200 replies with one 👍 each that are still given after 1,000 rated turns about other questions."""
    bot, draw = world.bot(), np.random.default_rng(0)
    order = draw.permutation(len(world.train.labels))
    praised = dict[int, str]()
    for place in order[:2_000]:
        choice = rate(bot, world, int(place))
        if choice == world.train.labels[place] and len(praised) < 200:
            praised[int(place)] = choice
    for place in order[2_000:3_000]:
        rate(bot, world, int(place))
    places = np.array(list(praised))
    return percent(agreed(bot.replies_to(world.train.features[places]), list(praised.values())))


def still_taught(world: World, later: int = 10_000) -> float:
    """Percent of 150 taught pairs given as taught after 10,000 events that teach and praise other replies nearby."""
    bot, draw = world.bot(learn_every=100), np.random.default_rng(0)
    unit, labels = unit_rows(world.train.features), np.array(world.train.labels)
    pairs = {int(draw.choice(np.flatnonzero(labels == name))): name for name in world.names}
    for place, name in pairs.items():
        bot.tell("correction", world.train.features[place].tobytes(), name)
    nearest = np.argsort(-(unit @ unit[list(pairs)].T), axis=0)[: later // len(pairs) + 2].T.ravel()
    others = [int(place) for place in nearest if place not in pairs and not same_question(unit, int(place), pairs)]
    wrong = list(world.names)
    for turn, place in enumerate((others * 2)[:later]):
        reply = wrong[(wrong.index(world.train.labels[place]) + 1 + turn) % len(wrong)]
        bot.tell("correction" if turn % 2 else "reward", world.train.features[place].tobytes(), reply)
    return percent(agreed(bot.replies_to(world.train.features[list(pairs)]), list(pairs.values())))


def same_question(unit: NDArray[np.float32], place: int, pairs: dict[int, str]) -> bool:
    return bool((unit[list(pairs)] @ unit[place]).max() >= 0.999)


def rate(bot: Bot, world: World, place: int) -> str:
    """One turn with an honest thumb; what was answered."""
    asked = world.train.features[place].tobytes()
    choice = bot.ask([asked])[0].choice
    assert choice is not None
    bot.tell("reward", asked, choice, reward=float(choice == world.train.labels[place]))
    return choice


# a person who likes one personality only


def personality(flags: Namespace) -> dict[str, float]:
    kinds = (
        ("whatever was asked", 0, False),
        ("only where it fits", 0, True),
        ("only where it fits, 3 examples", 3, True),
    )
    told = dict[str, float]()
    for name, examples, fits in kinds:
        runs = [liking(seed, examples, fits) for seed in bar(range(flags.seeds), f"likes {LIKED} {name}")]
        told |= {f"{name}{what}": float(np.mean([run[what] for run in runs])) for what in runs[0]}
    return told


def liking(seed: int, examples: int, fits: bool) -> dict[str, float]:
    """450 replies, five for each of 90 scenarios; a 👍 is given to the replies of one personality alone.

    examples: questions taught beforehand, alike for the five replies of a scenario; fits: a 👍 wants the right scenario too.
    """
    scenarios, questions, replies = chitchat()
    bot, draw = Bot({}, learn_every=1), np.random.default_rng(seed)
    for id, (text, features) in replies.items():
        bot.tell("reply", features, id, text=text)
    asked, known, held = split_questions(scenarios, draw, examples)
    for place in known:
        for id in replies:
            if id.startswith(f"{scenarios[place]}-"):
                bot.tell("label", questions[place].tobytes(), id)
    for place in draw.permutation(asked).tolist():
        question = questions[place].tobytes()
        choice = bot.ask([question])[0].choice
        assert choice is not None
        scenario, who = choice.split("-")
        up = who == LIKED and (not fits or int(scenario) == scenarios[place])
        bot.tell("reward", question, choice, reward=float(up))
    given = [str(choice).split("-") for choice in bot.replies_to(questions[held])]
    liked = [personality == LIKED for _, personality in given]
    fitting = [int(scenario) == scenarios[place] for (scenario, _), place in zip(given, held, strict=True)]
    return {"": percent(liked), ", right scenario": percent(fitting)}


def split_questions(
    scenarios: NDArray[np.int64], draw: np.random.Generator, examples: int
) -> tuple[list[int], list[int], list[int]]:
    """Of each scenario five phrasings to be rated and `examples` to be known before; the others are held out."""
    asked, known, held = list[int](), list[int](), list[int]()
    for scenario in np.unique(scenarios):
        places = draw.permutation(np.flatnonzero(scenarios == scenario)).tolist()
        asked += places[:THUMBS_PER_SCENARIO]
        known += places[THUMBS_PER_SCENARIO : THUMBS_PER_SCENARIO + examples]
        held += places[THUMBS_PER_SCENARIO + examples :]
    return asked, known, held


def chitchat() -> tuple[NDArray[np.int64], Int8s, dict[str, tuple[str, bytes]]]:
    """The scenario of each phrasing, the phrasings, and the replies as "scenario-personality" -> (text, features)."""
    rows = chitchat_rows()
    scenarios = np.array([row["intent"] for row in rows for _ in row["queries"]])
    ids = [(f"{row['intent']}-{who}", text) for row in rows for who, text in sorted(row["responses"].items())]
    texts = [*(query for row in rows for query in row["queries"]), *(text for _, text in ids)]
    kept = cache_folder() / "benchmarks" / f"chitchat-{TextEncoder.epoch}.npy"
    features = np.load(kept) if kept.exists() else encoded(texts, kept)
    described = features[len(scenarios) :]
    replies = {id: (text, row.tobytes()) for (id, text), row in zip(ids, described, strict=True)}
    return scenarios, features[: len(scenarios)], replies


def chitchat_rows() -> list[dict[str, Any]]:
    """One a scenario: its intent, its queries, its responses by personality."""
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "chitchat" / "chitchat_en.jsonl"
    if not path.exists():
        raise Failed(f"there is no {path}; say where the folder is that holds chitchat with ONLINE_SHARED_DATA")
    return [json.loads(line) for line in path.read_text().splitlines()]


# speed


def speed(world: World, flags: Namespace) -> dict[str, float]:
    """Milliseconds with 20,000 exemplars: one answer; one thumb learned and solved into a state to publish."""
    bot, draw = world.bot(learn_every=500), np.random.default_rng(0)
    for place in draw.integers(0, len(world.train.labels), 20_000).tolist():
        up = float(draw.random() < 0.85)
        bot.tell("reward", world.train.features[place].tobytes(), world.train.labels[place], reward=up)
    bot.learn()
    bot.model.state(serving_only=True)
    questions = [row.tobytes() for row in world.test.features[:100]]
    answering = [timed_ms(bot.ask, [asked]) for asked in questions]
    publishing = [timed_ms(publish, bot, asked, world.test.labels[0]) for asked in questions[:30]]
    return {
        "one answer, ms (median)": percentile(answering, 50),
        "one thumb until it can be published, ms (median)": percentile(publishing, 50),
    }


def publish(bot: Bot, asked: bytes, reply: str) -> None:
    bot.tell("reward", asked, reply)
    bot.learn()
    bot.model.state(serving_only=True)


def timed_ms(act: Callable[..., object], *given: Any) -> float:
    started = time.perf_counter()
    act(*given)
    return 1_000 * (time.perf_counter() - started)


# report


def percent(hits: Sequence[bool] | NDArray[Any]) -> float:
    return 100 * float(np.mean(hits)) if len(hits) else float("nan")


def agreed(given: Sequence[str | None], right: Sequence[str]) -> list[bool]:
    return [choice == label for choice, label in zip(given, right, strict=True)]


def bar(items: Sequence[Any], title: str) -> Iterator[Any]:
    return iter(track(items, title, console=Console(stderr=True), transient=True))


def wanted(flags: Namespace, name: str) -> bool:
    return not flags.only or any(part in name for part in flags.only)


def bars_of(told: dict[str, Any]) -> list[tuple[str, float, str, str]]:
    """(what, value, bar, verdict) for everything that was measured and has a bar."""
    rows = list[tuple[str, float, str, str]]()

    def row(what: str, value: float, target: float, at_least: bool = True) -> None:
        sign = ">=" if at_least else "<="
        rows.append((what, value, f"{sign} {target:g}", verdict(value, target, at_least=at_least)))

    played, end = told.get("scenarios", {}), str(CURVE[-1])
    honest = played.get("thumbs only", {"last": {}})
    if end in honest["last"]:
        row("thumbs only: last 500 turns", honest["last"][end], 89.0)
        row("thumbs only: test", honest["test"][end], 87.0)
        row("  stretch: last 500 turns", honest["last"][end], 91.0)
        row("  stretch: test", honest["test"][end], 89.0)
        if lied := played.get("10 % of thumbs lie"):
            row("10 % lies: points lost, last 500 turns", honest["last"][end] - lied["last"][end], 3.0, at_least=False)
            row("10 % lies: points lost, test", honest["test"][end] - lied["test"][end], 3.0, at_least=False)
    if end in (chips := played.get("three chips after a 👎", {"last": {}}))["last"]:
        row("chips: last 500 turns before turn 5,000", chips["last"]["5000"], 91.0)
        row("chips: test at turn 5,000", chips["test"]["5000"], 91.0)
        row("chips: test", chips["test"][end], 91.0)
    if end in (right := played.get("👎, then the right reply", {"last": {}}))["last"]:
        row("the right reply after a 👎: test", right["test"][end], 93.0)
    for name, target in (("1 a class", 76.5), ("5 a class", 87.0), ("10 a class", 90.0)):
        if "few" in told:
            row(f"taught {name}: test", told["few"][name], target)
    if "promises" in told:
        row("the same mistake again, %", told["promises"]["the same mistake again"], 0.0, at_least=False)
        row("again for a near duplicate, %", told["promises"]["again for a near duplicate"], 5.0, at_least=False)
        row("stable after one 👍 and 1,000 events, %", told["promises"]["stable after one thumb up"], 99.9)
        row("taught, after 10,000 events, %", told["promises"]["taught and still answered"], 100.0)
    if "personality" in told:
        for name, value in told["personality"].items():
            if name.endswith("scenario"):
                rows.append((f"  {name}, %", value, "-", "-"))
            else:
                row(f"liked personality {name}, %", value, 90.0)
    for name, target in (
        ("one answer, ms (median)", 2.0),
        ("one thumb until it can be published, ms (median)", 40.0),
    ):
        if "speed" in told:
            row(name, told["speed"][name], target, at_least=False)
    return rows


def print_tables(told: dict[str, Any]) -> None:
    lines = told.get("scenarios", {}) | {f"peer: {name}": peer for name, peer in told.get("peers", {}).items()}
    columns = [f"{turn:,}" for turn in CURVE]
    rows = [
        (f"{name}, {which}", *(shown(line[which].get(str(turn))) for turn in CURVE))
        for name, line in lines.items()
        for which in ("last", "test")
    ]
    if rows:
        table(f"right, % of the last {LAST} turns and of the test, after so many turns", ("", *columns), rows)
    table("bars", ("", "measured", "bar", ""), bars_of(told))


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


PARTS: dict[str, Callable[[World, Namespace], dict[str, Any]]] = {
    "scenarios": scenarios,
    "peers": peers,
    "few": few_shot,
    "promises": promises,
    "personality": lambda world, flags: personality(flags),
    "speed": speed,
}


def flags_given() -> Namespace:
    flags = parser(__doc__ or "")
    flags.add_argument("--seeds", type=int, default=5)
    flags.add_argument("--turns", type=int, default=CURVE[-1])
    flags.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    flags.add_argument("--only", nargs="*", default=[], help="of the scenarios and peers: those whose name has this")
    return flags.parse_args()


def main() -> int:
    flags = flags_given()
    torch.set_num_threads(1)  # these matrices are small
    world = World.clinc()
    told: dict[str, Any] = {}
    for part in flags.parts:
        say(f"{part} ...")
        told[part] = PARTS[part](world, flags)
    print_json({"benchmark": "chat", "seeds": flags.seeds, **told}) if flags.json else print_tables(told)
    return 0


if __name__ == "__main__":
    command(main)
