"""The two halves of `benchmarks.heldout`: sets on which a value is chosen, and others that judge the choice.

    intents    five domains of CLINC150 each, 15 intents a domain; 45 scenarios of the chit-chat each, in three sets
    rows       generators of river with other concepts and seeds; other datasets of river and scikit-learn
    numbers    generators of river with other seeds, other made-up worlds, other datasets of river
    changes    intents as above and clusters of other sizes, whose classes are all relabelled halfway

No intent, scenario, dataset and seed is in both halves (a test). Nothing is read or encoded before a set is called, so a
choice can be made while the judging half is out of reach.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from benchmarks.chat import Dataset
from benchmarks.clinc150 import Int8s, Split, data_file, encode_texts
from benchmarks.member_streams import Rows, concepts, generated, shared, shuffled, yeast
from benchmarks.regression import Pair, friedman, small
from online.io.cache import cache_folder
from online.models.encoders.text import TextEncoder

TUNE_DOMAINS = ("banking", "kitchen_and_dining", "auto_and_commute", "utility", "small_talk")
JUDGE_DOMAINS = ("credit_cards", "home", "travel", "work", "meta")
SCENARIOS, CHAT_SEED, CHAT_SETS, INTENTS = 90, 16, 3, 15  # INTENTS: of a set
LEARNED, ASKED = 40, 20  # questions of an intent; of a scenario with few phrasings, two thirds and one third
PERSONALITY = "professional"  # whose replies stand for the scenarios of the chit-chat
UNKNOWN = 100  # questions of no intent
ROWS, NUMBERS = 1_000, 800  # of a stream of rows, and of numbers
TUNE_SEED, JUDGE_SEED = 500, 900

Set = TypeVar("Set")


@dataclass(frozen=True, slots=True)
class Half(Generic[Set]):
    """Sets by name. A set is read when it is called."""

    name: str
    sets: Mapping[str, Callable[[], Set]]


@dataclass(frozen=True, slots=True)
class Halves(Generic[Set]):
    tune: Half[Set]
    judge: Half[Set]

    @classmethod
    def of(cls, tune: Mapping[str, Callable[[], Set]], judge: Mapping[str, Callable[[], Set]]) -> "Halves[Set]":
        return cls(Half("tune", tune), Half("judge", judge))


# intents


@dataclass(frozen=True, slots=True)
class Intents:
    """dataset: some intents with their questions. unknown: int8 [N, 384], questions of no intent."""

    dataset: Dataset
    unknown: Int8s


def encode(texts: Sequence[str]) -> Int8s:
    """The features of some texts, kept in the user's cache."""
    content = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    path = cache_folder() / "benchmarks" / f"texts-{content[:16]}-{TextEncoder.epoch}.npy"
    return np.load(path) if path.exists() else encode_texts(texts, path)


def read_domains() -> dict[str, list[str]]:
    """CLINC150's published domains: 10 of 15 intents each."""
    domains: dict[str, list[str]] = json.loads((data_file().parent / "domains.json").read_bytes())
    return domains


def read_domain(domain: str, unknown: str) -> Intents:
    """The intents of a domain; the names of the replies are the names of the intents, without underscores."""
    data, intents = json.loads(data_file().read_bytes()), read_domains()[domain]
    questions = {
        split: [(text, intent) for name in intents for text, intent in list_questions(data[split], name)[:count]]
        for split, count in (("train", LEARNED), ("test", ASKED))
    }
    names = {name: name.replace("_", " ") for name in intents}
    return build_intents(questions["train"], questions["test"], names, [text for text, _ in data[unknown][:UNKNOWN]])


def list_questions(questions: Sequence[tuple[str, str]], intent: str) -> list[tuple[str, str]]:
    return [(text, label) for text, label in questions if label == intent]


def draw_scenarios(place: int) -> list[int]:
    """The scenarios of one of 2 x 3 sets of the chit-chat; the first three are for tuning."""
    order: list[int] = np.random.default_rng(CHAT_SEED).permutation(SCENARIOS).tolist()
    return order[place * INTENTS : (place + 1) * INTENTS]


def read_chitchat(place: int, unknown: str) -> Intents:
    """Scenarios of the chit-chat; the names of the replies are the replies themselves."""
    lines = (data_file().parents[1] / "chitchat" / "chitchat_en.jsonl").read_text().splitlines()
    learned, asked, names = list[tuple[str, str]](), list[tuple[str, str]](), dict[str, str]()
    for number in draw_scenarios(place):
        scenario = json.loads(lines[number])
        name, queries = f"scenario {number}", scenario["queries"][: LEARNED + ASKED]
        cut = 2 * len(queries) // 3
        learned += [(text, name) for text in queries[:cut]]
        asked += [(text, name) for text in queries[cut:]]
        names[name] = scenario["responses"][PERSONALITY]
    data = json.loads(data_file().read_bytes())
    return build_intents(learned, asked, names, [text for text, _ in data[unknown][:UNKNOWN]])


def build_intents(
    learned: Sequence[tuple[str, str]],
    asked: Sequence[tuple[str, str]],
    names: Mapping[str, str],
    unknown: Sequence[str],
) -> Intents:
    rows = [row.tobytes() for row in encode([*names.values()])]
    train, test = (Split(encode([text for text, _ in part]), [label for _, label in part]) for part in (learned, asked))
    return Intents(Dataset(train, test, dict(zip(names, rows, strict=True))), encode(unknown))


def list_intent_sets(domains: Sequence[str], first: int, unknown: str) -> dict[str, Callable[[], Intents]]:
    """first: the place of the first set of the chit-chat. unknown: the split of CLINC150 without an intent."""
    return {
        **{domain: partial(read_domain, domain, unknown) for domain in domains},
        **{f"chit-chat {place}": partial(read_chitchat, place, unknown) for place in range(first, first + CHAT_SETS)},
    }


INTENT_HALVES = Halves.of(
    list_intent_sets(TUNE_DOMAINS, 0, "oos_val"), list_intent_sets(JUDGE_DOMAINS, CHAT_SETS, "oos_test")
)

# rows with a class


def stream(name: str, *concepts: Mapping[str, Any]) -> Callable[[], Rows]:
    return partial(generated, name, *concepts, rows=ROWS)


def first_rows(read: Callable[[], Rows]) -> Callable[[], Rows]:
    """At most ROWS rows."""

    def cut() -> Rows:
        rows = read()
        return Rows(rows.inputs[:ROWS], rows.labels[:ROWS], rows.options)

    return cut


def list_streams(seed: int, other: bool) -> dict[str, Callable[[], Rows]]:
    """Streams of river's generators. other: with the concepts of the judging half."""
    moving = {
        "n_classes": 4 if other else 3,
        "n_centroids": 20,
        "n_drift_centroids": 10,
        "n_features": 7 if other else 9,
    }
    return {
        "Agrawal": stream("Agrawal", *concepts("classification_function", *((4, 8) if other else (1, 3)), seed=seed)),
        "SEA": stream("SEA", *concepts("variant", *((1, 3) if other else (2, 0)), seed=seed + 1, noise=0.15)),
        "Hyperplane": stream(
            "Hyperplane",
            {
                "seed": seed + 2,
                "n_features": 12 if other else 6,
                "n_drift_features": 3,
                "mag_change": 0.003 if other else 0.006,
                "noise_percentage": 0.05,
            },
        ),
        "RBF": stream("RandomRBF", {"seed_model": seed + 3, "seed_sample": seed + 3, "n_features": 8, "n_classes": 4}),
        "RBF moving": stream(
            "RandomRBFDrift",
            {"seed_model": seed + 4, "seed_sample": seed + 4, "change_speed": 0.003 if other else 0.001, **moving},
        ),
        "RandomTree": stream("RandomTree", {"seed_tree": seed + 5, "seed_sample": seed + 5, "n_classes": 2 + other}),
        "Sine": stream("Sine", *concepts("classification_function", *((0, 2) if other else (3, 1)), seed=seed + 6)),
        "LED": stream("LED", {"seed": seed + 7, "noise_percentage": 0.15, "irrelevant_features": other}),
    }


ROW_HALVES: Halves[Rows] = Halves.of(
    {
        **list_streams(TUNE_SEED, other=False),
        "wine": partial(shuffled, "wine", 178, seed=TUNE_SEED),
        "yeast 3": first_rows(partial(yeast, 3)),
        "bananas": partial(shared, "bananas", ROWS),
    },
    {
        **list_streams(JUDGE_SEED, other=True),
        "breast cancer": partial(shuffled, "breast_cancer", 569, seed=JUDGE_SEED),
        "phishing": partial(shared, "phishing", ROWS),
        "image segments": partial(shared, "imagesegments", ROWS),
    },
)

# rows with a number

Pairs = Callable[[], Sequence[Pair]]


def listed(make: Callable[..., Iterator[Pair]], *arguments: Any, seed: int | None = None) -> Pairs:
    return partial(list_pairs, make, *arguments, **({} if seed is None else {"seed": seed}))


def list_pairs(make: Callable[..., Iterator[Pair]], *arguments: Any, **seed: int) -> Sequence[Pair]:
    return [*islice(make(*arguments, **seed), NUMBERS)]


def number_stream(name: str, seed: int) -> Iterator[Pair]:
    from river.datasets import synth

    for x, number in getattr(synth, name)(seed=seed):
        yield {str(key): value for key, value in x.items()}, float(number)


def friedman_rows(drift: str, seed: int) -> Iterator[Pair]:
    return friedman(drift, seed, NUMBERS)


def linear_world(columns: int, change: str, seed: int) -> Iterator[Pair]:
    """A linear relation with noise of standard deviation 1 that stands still, switches at a third, or drifts."""
    draw = np.random.default_rng(seed)
    weights = draw.normal(0, 1, columns)
    for place in range(NUMBERS):
        if change == "switches" and place == NUMBERS // 3:
            weights = draw.normal(0, 1, columns)
        if change == "drifts":
            weights = weights + draw.normal(0, 0.03, columns)
        x = draw.normal(0, 1, columns)
        yield {f"x{at}": float(value) for at, value in enumerate(x)}, float(x @ weights + draw.normal())


def walk(pull: float, seed: int) -> Iterator[Pair]:
    """A number that walks, and one column that says little about it."""
    draw, level = np.random.default_rng(seed), 0.0
    for _ in range(NUMBERS):
        level += float(draw.normal()) - pull * level
        yield {"hint": level + float(draw.normal(0, 10))}, level + float(draw.normal(0, 0.5))


def list_worlds(seed: int, columns: int, pull: float) -> dict[str, Pairs]:
    changes = {
        f"linear, {change}": listed(linear_world, columns, change, seed=seed + at)
        for at, change in enumerate(("still", "switches", "drifts"))
    }
    return {
        **changes,
        "walk": listed(walk, pull, seed=seed + 3),
        **{
            f"Friedman {drift}": listed(friedman_rows, drift, seed=seed + 4 + at)
            for at, drift in enumerate(("lea", "gra", "gsg"))
        },
    }


NUMBER_HALVES = Halves.of(
    {
        **list_worlds(TUNE_SEED, 6, 0.0),
        "Planes2D": listed(number_stream, "Planes2D", seed=TUNE_SEED),
        "chick weights": listed(small, "ChickWeights"),
    },
    {
        **list_worlds(JUDGE_SEED, 10, 0.02),
        "Mv": listed(number_stream, "Mv", seed=JUDGE_SEED),
        "Trump approval": listed(small, "TrumpApproval"),
    },
)
