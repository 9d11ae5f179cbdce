"""Measures how a chat model learns from thumbs: CLINC150's 150 intents as replies, known only by name at first.

    a user asks --> the ranker's best reply --> 👍 / 👎 (and in some scenarios chips or the right reply)
          ^                                           |  learned and published ten at a time
          +-------------------------------------------+

The 15,000 turns are the training questions, once each, in an order drawn from the seed; the test
questions are neither learned nor used to choose options. The ranker never abstains here, so every
turn can be rated. Scenarios: thumbs only; one thumb in ten is wrong; three chips after a 👎; the
right reply after every 👎; one turn in twenty is rated; an exploring policy. Also measured: peers
with the same similarity of question and name, a user who likes one personality only, the guarantees,
and learning from a few examples.
"""

import json
import os
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.chat_peers import PEERS
from benchmarks.clinc150 import Int8s, Split, encode_texts, split
from benchmarks.report import command, create_parser, percentile, print_json, progress, say, table, verdict
from benchmarks.service import BenchmarkError
from online.io.cache import cache_folder
from online.models import Answer, Example, ExampleKind, Model, create
from online.models.encoders.text import TextEncoder
from online.models.ranker.exemplars import normalise_rows

NEVER_ABSTAIN = {"abstain_below": -1.0, "abstain_margin": 0.0, "min_chance": 0.0}
LEARN_EVERY = 10  # events; with fast users, about as many arrive while the learner publishes
CURVE = (500, 1_000, 2_000, 5_000, 10_000, 15_000)
LAST = 500  # turns
CHIPS = 3
LIKED = "friendly"
THUMBS_PER_SCENARIO = 5


@dataclass(slots=True)
class Bot:
    """A ranker and the stream of its events."""

    options: dict[str, Any]
    learn_every: int = LEARN_EVERY
    offset: int = 0
    waiting: list[Example] = field(default_factory=list)
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        self.model = create("ranker", {**NEVER_ABSTAIN, **self.options})

    def send(self, kind: ExampleKind, features: bytes, reply: str, reward: float = 1.0, text: str = "") -> None:
        self.offset += 1
        self.waiting.append(Example(self.offset, kind, features, reply, text, reward))
        if len(self.waiting) >= self.learn_every:
            self.learn()

    def learn(self) -> None:
        if self.waiting:
            self.model.learn(self.waiting)
            self.waiting = []

    def predict(self, questions: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        return self.model.predict(questions, keys)

    def best_replies(self, questions: Int8s) -> list[str | None]:
        """Return the best reply to each question, after learning everything pending."""
        self.learn()
        parts = (questions[start : start + 64] for start in range(0, len(questions), 64))
        return [answer.choice for part in parts for answer in self.predict([row.tobytes() for row in part])]


@dataclass(frozen=True, slots=True)
class Dataset:
    """The questions and their right replies. names: the replies' texts."""

    train: Split
    test: Split
    names: dict[str, bytes]

    @classmethod
    def clinc(cls) -> "Dataset":
        train, test = split("train"), split("test")
        names = sorted(set(train.labels))
        texts = TextEncoder(cache_folder()).encode([name.replace("_", " ") for name in names])
        return cls(train, test, dict(zip(names, texts, strict=True)))

    def bot(self, learn_every: int = LEARN_EVERY, **options: Any) -> Bot:
        bot = Bot(options, learn_every)
        for name, features in self.names.items():
            bot.send("reply", features, name, text=name)
        bot.learn()
        return bot


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """A simulated user. flip: share of wrong thumbs. rated: share of turns with a thumb. after_down: what follows a 👎."""

    name: str
    flip: float = 0.0
    rated: float = 1.0
    after_down: str = ""  # chips, taught
    options: dict[str, Any] = field(default_factory=dict)

    def react(self, bot: Bot, question: bytes, answer: Answer, right: str, draw: np.random.Generator) -> None:
        assert answer.choice is not None
        up, corrects = self.verdict(answer.choice, [candidate.id for candidate in answer.candidates], right, draw)
        if up is not None:
            bot.send("reward", question, answer.choice, reward=float(up))
        if corrects:
            bot.send("correction", question, right)

    def verdict(
        self, choice: str, candidates: Sequence[str], right: str, draw: np.random.Generator
    ) -> tuple[bool | None, bool]:
        """Return the thumb, None for no rating, and whether the right reply follows."""
        flips, rates = draw.random(2) < (self.flip, self.rated)
        if not rates:
            return None, False
        up = (choice == right) != bool(flips)
        chips = [id for id in candidates if id != choice][:CHIPS]
        return up, not up and (self.after_down == "taught" or (self.after_down == "chips" and right in chips))


USERS = (
    SimulatedUser("thumbs only"),
    SimulatedUser("10 % of thumbs are wrong", flip=0.1),
    SimulatedUser("three chips after a 👎", after_down="chips"),
    SimulatedUser("👎, then the right reply", after_down="taught"),
    SimulatedUser("5 % of turns rated", rated=0.05),
    SimulatedUser("epsilon 0.05 explores", options={"policy": "epsilon"}),
    SimulatedUser("squarecb explores", options={"policy": "squarecb"}),
    SimulatedUser("lin_ts explores", options={"policy": "lin_ts"}),
)


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Accuracy in percent by the number of turns: on the last 500 turns, and on the test questions."""

    last: dict[int, float]
    test: dict[int, float]


def play(dataset: Dataset, user: SimulatedUser, seed: int, turns: int) -> Accuracies:
    bot, draw, hits = dataset.bot(**user.options), np.random.default_rng(seed), list[bool]()
    accuracies = Accuracies({}, {})
    order = draw.permutation(len(dataset.train.labels))[:turns]
    for turn, place in enumerate(progress(order.tolist(), f"{user.name}, seed {seed}"), 1):
        question, right = dataset.train.features[place].tobytes(), dataset.train.labels[place]
        answer = bot.predict([question], [turn])[0]
        hits.append(answer.choice == right)
        user.react(bot, question, answer, right, draw)
        if turn in CURVE:
            accuracies.last[turn] = percent(hits[-LAST:])
            accuracies.test[turn] = percent(matches(bot.best_replies(dataset.test.features), dataset.test.labels))
    return accuracies


def scenarios(dataset: Dataset, flags: Namespace) -> dict[str, Any]:
    results = {}
    for user in USERS:
        if is_selected(flags, user.name):
            runs = [play(dataset, user, seed, flags.turns) for seed in range(flags.seeds)]
            results[user.name] = curves(runs)
    return results


def curves(runs: Sequence[Accuracies]) -> dict[str, Any]:
    """Return means over the seeds, and each seed's last values."""
    turns = runs[0].last.keys()
    return {
        "last": {str(turn): float(np.mean([run.last[turn] for run in runs])) for turn in turns},
        "test": {str(turn): float(np.mean([run.test[turn] for run in runs])) for turn in turns},
        "test_of_each_seed": [run.test[max(turns)] for run in runs],
    }


def peers(dataset: Dataset, flags: Namespace) -> dict[str, Any]:
    """Run the peers on the same turns and thumbs of one seed, with the same similarities."""
    order = np.random.default_rng(0).permutation(len(dataset.train.labels))[: flags.turns]
    names = list(dataset.names)
    described = np.frombuffer(b"".join(dataset.names.values()), np.int8).reshape(len(names), -1)
    right = np.array([names.index(label) for label in dataset.train.labels])[order]
    test_right = np.array([names.index(label) for label in dataset.test.labels])
    results = {}
    for name, peer in PEERS.items():
        if is_selected(flags, name):
            started = time.perf_counter()
            hits, answered = peer(described, dataset.train.features[order], right, dataset.test.features, progress)
            results[name] = {
                "last": {str(turn): percent(hits[max(0, turn - LAST) : turn]) for turn in CURVE if turn <= len(hits)},
                "test": {str(len(hits)): percent(answered == test_right)},
                "seconds": time.perf_counter() - started,
            }
    return results


# few examples


def few_shot(dataset: Dataset, flags: Namespace) -> dict[str, float]:
    return {
        f"{count} a class": float(np.mean([taught_accuracy(dataset, count, seed) for seed in range(flags.seeds)]))
        for count in (1, 5, 10)
    }


def taught_accuracy(dataset: Dataset, count: int, seed: int) -> float:
    bot, draw = dataset.bot(learn_every=1_000), np.random.default_rng(seed)
    labels = np.array(dataset.train.labels)
    for name in dataset.names:
        for place in draw.choice(np.flatnonzero(labels == name), count, replace=False):
            bot.send("correction", dataset.train.features[place].tobytes(), name)
    return percent(matches(bot.best_replies(dataset.test.features), dataset.test.labels))


# guarantees


def promises(dataset: Dataset, flags: Namespace) -> dict[str, float]:
    same, near = repeated_mistakes(dataset, flags.seeds)
    return {
        "the same mistake again": same,
        "again for a near duplicate": near,
        "stable after one thumb up": stable_after_a_thumb(dataset),
        "taught and still answered": still_taught(dataset),
    }


def repeated_mistakes(dataset: Dataset, seeds: int) -> tuple[float, float]:
    """Return the percentage of rejected answers that recur: for the same question, and for others at cosine >= 0.9."""
    same, near = list[bool](), list[bool]()
    unit = normalise_rows(dataset.train.features)
    for seed in range(seeds):
        bot, draw = dataset.bot(), np.random.default_rng(seed)
        order = draw.permutation(len(unit))
        for place in order[:2_000]:
            rate(bot, dataset, int(place))
        bot.learn()
        for place in order[2_000:4_000]:
            question = dataset.train.features[place].tobytes()
            choice = bot.predict([question])[0].choice
            assert choice is not None
            if choice == dataset.train.labels[place]:
                continue
            bot.send("reward", question, choice, reward=0.0)
            bot.learn()
            same.append(bot.predict([question])[0].choice == choice)
            duplicates = np.flatnonzero(unit @ unit[place] >= 0.9)
            for duplicate in (t for t in duplicates if t != place and dataset.train.labels[t] != choice):
                near.append(bot.predict([dataset.train.features[duplicate].tobytes()])[0].choice == choice)
    return percent(same), percent(near)


def stable_after_a_thumb(dataset: Dataset) -> float:
    """Return the percentage of 200 replies with one 👍 that are still given after 1,000 rated turns on other questions."""
    bot, draw = dataset.bot(), np.random.default_rng(0)
    order = draw.permutation(len(dataset.train.labels))
    praised = dict[int, str]()
    for place in order[:2_000]:
        choice = rate(bot, dataset, int(place))
        if choice == dataset.train.labels[place] and len(praised) < 200:
            praised[int(place)] = choice
    for place in order[2_000:3_000]:
        rate(bot, dataset, int(place))
    places = np.array(list(praised))
    return percent(matches(bot.best_replies(dataset.train.features[places]), list(praised.values())))


def still_taught(dataset: Dataset, later: int = 10_000) -> float:
    """Return the percentage of 150 taught pairs still answered as taught after 10,000 events about similar replies."""
    bot, draw = dataset.bot(learn_every=100), np.random.default_rng(0)
    unit, labels = normalise_rows(dataset.train.features), np.array(dataset.train.labels)
    pairs = {int(draw.choice(np.flatnonzero(labels == name))): name for name in dataset.names}
    for place, name in pairs.items():
        bot.send("correction", dataset.train.features[place].tobytes(), name)
    nearest = np.argsort(-(unit @ unit[list(pairs)].T), axis=0)[: later // len(pairs) + 2].T.ravel()
    others = [int(place) for place in nearest if place not in pairs and not same_question(unit, int(place), pairs)]
    wrong = list(dataset.names)
    for turn, place in enumerate((others * 2)[:later]):
        reply = wrong[(wrong.index(dataset.train.labels[place]) + 1 + turn) % len(wrong)]
        bot.send("correction" if turn % 2 else "reward", dataset.train.features[place].tobytes(), reply)
    return percent(matches(bot.best_replies(dataset.train.features[list(pairs)]), list(pairs.values())))


def same_question(unit: NDArray[np.float32], place: int, pairs: dict[int, str]) -> bool:
    return bool((unit[list(pairs)] @ unit[place]).max() >= 0.999)


def rate(bot: Bot, dataset: Dataset, place: int) -> str:
    """Play one turn with a correct thumb, and return the chosen reply."""
    question = dataset.train.features[place].tobytes()
    choice = bot.predict([question])[0].choice
    assert choice is not None
    bot.send("reward", question, choice, reward=float(choice == dataset.train.labels[place]))
    return choice


# a user who likes one personality only


def personality(flags: Namespace) -> dict[str, float]:
    kinds = (
        ("for any question", 0, False),
        ("only where it fits", 0, True),
        ("only where it fits, 3 examples", 3, True),
    )
    results = dict[str, float]()
    for name, examples, fits in kinds:
        runs = [
            play_personality(seed, examples, fits) for seed in progress(range(flags.seeds), f"likes {LIKED} {name}")
        ]
        results |= {f"{name}{what}": float(np.mean([run[what] for run in runs])) for what in runs[0]}
    return results


def play_personality(seed: int, examples: int, fits: bool) -> dict[str, float]:
    """Rate 450 replies, five for each of 90 scenarios; only the replies of one personality get a 👍.

    examples: questions taught beforehand, the same for the five replies of a scenario. fits: whether a
    👍 also requires the right scenario.
    """
    scenarios, questions, replies = chitchat()
    bot, draw = Bot({}, learn_every=1), np.random.default_rng(seed)
    for id, (text, features) in replies.items():
        bot.send("reply", features, id, text=text)
    to_rate, known, held_out = split_questions(scenarios, draw, examples)
    for place in known:
        for id in replies:
            if id.startswith(f"{scenarios[place]}-"):
                bot.send("label", questions[place].tobytes(), id)
    for place in draw.permutation(to_rate).tolist():
        question = questions[place].tobytes()
        choice = bot.predict([question])[0].choice
        assert choice is not None
        scenario, personality = choice.split("-")
        up = personality == LIKED and (not fits or int(scenario) == scenarios[place])
        bot.send("reward", question, choice, reward=float(up))
    given = [str(choice).split("-") for choice in bot.best_replies(questions[held_out])]
    liked = [personality == LIKED for _, personality in given]
    fitting = [int(scenario) == scenarios[place] for (scenario, _), place in zip(given, held_out, strict=True)]
    return {"": percent(liked), ", right scenario": percent(fitting)}


def split_questions(
    scenarios: NDArray[np.int64], draw: np.random.Generator, examples: int
) -> tuple[list[int], list[int], list[int]]:
    """Split each scenario's phrasings: five to rate, `examples` to teach beforehand, and the others held out."""
    to_rate, known, held_out = list[int](), list[int](), list[int]()
    for scenario in np.unique(scenarios):
        places = draw.permutation(np.flatnonzero(scenarios == scenario)).tolist()
        to_rate += places[:THUMBS_PER_SCENARIO]
        known += places[THUMBS_PER_SCENARIO : THUMBS_PER_SCENARIO + examples]
        held_out += places[THUMBS_PER_SCENARIO + examples :]
    return to_rate, known, held_out


def chitchat() -> tuple[NDArray[np.int64], Int8s, dict[str, tuple[str, bytes]]]:
    """Return each phrasing's scenario, the phrasings, and the replies by name: their text and features."""
    rows = chitchat_rows()
    scenarios = np.array([row["intent"] for row in rows for _ in row["queries"]])
    ids = [
        (f"{row['intent']}-{personality}", text)
        for row in rows
        for personality, text in sorted(row["responses"].items())
    ]
    texts = [*(query for row in rows for query in row["queries"]), *(text for _, text in ids)]
    cached = cache_folder() / "benchmarks" / f"chitchat-{TextEncoder.epoch}.npy"
    features = np.load(cached) if cached.exists() else encode_texts(texts, cached)
    described = features[len(scenarios) :]
    replies = {id: (text, row.tobytes()) for (id, text), row in zip(ids, described, strict=True)}
    return scenarios, features[: len(scenarios)], replies


def chitchat_rows() -> list[dict[str, Any]]:
    """Return one row per scenario: its intent, its queries, and its responses by personality."""
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "chitchat" / "chitchat_en.jsonl"
    if not path.exists():
        raise BenchmarkError(f"{path} does not exist; set ONLINE_SHARED_DATA to the folder that contains chitchat")
    return [json.loads(line) for line in path.read_text().splitlines()]


# speed


def speed(dataset: Dataset, flags: Namespace) -> dict[str, float]:
    """Return milliseconds with 20,000 exemplars: for one answer, and for learning one thumb up to a publishable state."""
    bot, draw = dataset.bot(learn_every=500), np.random.default_rng(0)
    for place in draw.integers(0, len(dataset.train.labels), 20_000).tolist():
        up = float(draw.random() < 0.85)
        bot.send("reward", dataset.train.features[place].tobytes(), dataset.train.labels[place], reward=up)
    bot.learn()
    bot.model.state(serving_only=True)
    questions = [row.tobytes() for row in dataset.test.features[:100]]
    answering = [timed_ms(bot.predict, [question]) for question in questions]
    publishing = [timed_ms(publish, bot, question, dataset.test.labels[0]) for question in questions[:30]]
    return {
        "one answer, ms (median)": percentile(answering, 50),
        "one thumb until it can be published, ms (median)": percentile(publishing, 50),
    }


def publish(bot: Bot, question: bytes, reply: str) -> None:
    bot.send("reward", question, reply)
    bot.learn()
    bot.model.state(serving_only=True)


def timed_ms(function: Callable[..., object], *arguments: Any) -> float:
    started = time.perf_counter()
    function(*arguments)
    return 1_000 * (time.perf_counter() - started)


# report


def percent(hits: Sequence[bool] | NDArray[Any]) -> float:
    return 100 * float(np.mean(hits)) if len(hits) else float("nan")


def matches(choices: Sequence[str | None], right: Sequence[str]) -> list[bool]:
    return [choice == reply for choice, reply in zip(choices, right, strict=True)]


def is_selected(flags: Namespace, name: str) -> bool:
    return not flags.only or any(part in name for part in flags.only)


def target_rows(results: dict[str, Any]) -> list[tuple[str, float, str, str]]:
    """Return (name, value, target, verdict) for every figure that has a target."""
    rows = list[tuple[str, float, str, str]]()

    def row(what: str, value: float, target: float, at_least: bool = True) -> None:
        sign = ">=" if at_least else "<="
        rows.append((what, value, f"{sign} {target:g}", verdict(value, target, at_least=at_least)))

    scenarios, end = results.get("scenarios", {}), str(CURVE[-1])
    thumbs = scenarios.get("thumbs only", {"last": {}})
    if end in thumbs["last"]:
        row("thumbs only: last 500 turns", thumbs["last"][end], 89.0)
        row("thumbs only: test", thumbs["test"][end], 87.0)
        row("  stretch: last 500 turns", thumbs["last"][end], 91.0)
        row("  stretch: test", thumbs["test"][end], 89.0)
        if flipped := scenarios.get("10 % of thumbs are wrong"):
            row(
                "10 % wrong: points lost, last 500 turns",
                thumbs["last"][end] - flipped["last"][end],
                3.0,
                at_least=False,
            )
            row("10 % wrong: points lost, test", thumbs["test"][end] - flipped["test"][end], 3.0, at_least=False)
    if end in (chips := scenarios.get("three chips after a 👎", {"last": {}}))["last"]:
        row("chips: last 500 turns before turn 5,000", chips["last"]["5000"], 91.0)
        row("chips: test at turn 5,000", chips["test"]["5000"], 91.0)
        row("chips: test", chips["test"][end], 91.0)
    if end in (corrected := scenarios.get("👎, then the right reply", {"last": {}}))["last"]:
        row("the right reply after a 👎: test", corrected["test"][end], 93.0)
    for name, target in (("1 a class", 76.5), ("5 a class", 87.0), ("10 a class", 90.0)):
        if "few" in results:
            row(f"taught {name}: test", results["few"][name], target)
    if "promises" in results:
        row("the same mistake again, %", results["promises"]["the same mistake again"], 0.0, at_least=False)
        row("again for a near duplicate, %", results["promises"]["again for a near duplicate"], 5.0, at_least=False)
        row("stable after one 👍 and 1,000 events, %", results["promises"]["stable after one thumb up"], 99.9)
        row("taught, after 10,000 events, %", results["promises"]["taught and still answered"], 100.0)
    if "personality" in results:
        for name, value in results["personality"].items():
            if name.endswith("scenario"):
                rows.append((f"  {name}, %", value, "-", "-"))
            else:
                row(f"liked personality {name}, %", value, 90.0)
    for name, target in (
        ("one answer, ms (median)", 2.0),
        ("one thumb until it can be published, ms (median)", 40.0),
    ):
        if "speed" in results:
            row(name, results["speed"][name], target, at_least=False)
    return rows


def print_tables(results: dict[str, Any]) -> None:
    lines = results.get("scenarios", {}) | {f"peer: {name}": peer for name, peer in results.get("peers", {}).items()}
    columns = [f"{turn:,}" for turn in CURVE]
    rows = [
        (f"{name}, {metric}", *(format_percent(line[metric].get(str(turn))) for turn in CURVE))
        for name, line in lines.items()
        for metric in ("last", "test")
    ]
    if rows:
        table(f"right, % of the last {LAST} turns and of the test, after so many turns", ("", *columns), rows)
    table("targets", ("", "measured", "target", ""), target_rows(results))


def format_percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


PARTS: dict[str, Callable[[Dataset, Namespace], dict[str, Any]]] = {
    "scenarios": scenarios,
    "peers": peers,
    "few": few_shot,
    "promises": promises,
    "personality": lambda dataset, flags: personality(flags),
    "speed": speed,
}


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=CURVE[-1])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--only", nargs="*", default=[], help="only scenarios and peers whose names contain this")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    torch.set_num_threads(1)  # these matrices are small
    dataset = Dataset.clinc()
    results: dict[str, Any] = {}
    for part in flags.parts:
        say(f"{part} ...")
        results[part] = PARTS[part](dataset, flags)
    print_json({"benchmark": "chat", "seeds": flags.seeds, **results}) if flags.json else print_tables(results)
    return 0


if __name__ == "__main__":
    command(main)
