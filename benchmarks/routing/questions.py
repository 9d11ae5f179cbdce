"""Recorded answers of several language models to the same questions: what each was worth, and what it cost.

    ParetoBandit's wheel (Apache-2.0)    1,785 + 1,824 prompts, three models, graded answers, US dollars
    shared data, routellm                9,765 questions of MMLU, two models, right or wrong; a call of the strong one costs 1

Shapes: N questions, K routes, D numbers of a text.
"""

import gzip
import importlib.util
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.service import BenchmarkError
from online.models.encoders.text import TextEncoder
from online.plugins.router.inputs import build_tail
from online.schemas.json_values import JSONObject

CACHE = Path.home() / ".cache" / "online" / "routing"
PEER = "pareto_bandit"
ROUTES = ("meta-llama/llama-3.1-8b-instruct", "mistralai/mistral-large-2512", "google/gemini-2.5-pro")
PRICES = ((0.1, 0.1), (0.5, 1.5), (1.25, 10.0))  # US dollars per million tokens, in and out, of the peer's registry
WEAK_COST, STRONG_COST = 1e-3, 1.0  # of one call, so that a budget is the share of strong calls
CHUNK = 256

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Questions:
    """N questions and the answers of K routes. inputs: as a router logs them. topics: of the data set, for a control."""

    routes: tuple[JSONObject, ...]
    inputs: tuple[bytes, ...]
    text_ND: NDArray[np.int8]
    reward_NK: Floats
    cost_NK: Floats
    topics: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, places: NDArray[np.int64]) -> "Questions":
        """Return some of the questions."""
        picked = [int(place) for place in places]
        return Questions(
            self.routes,
            tuple(self.inputs[place] for place in picked),
            self.text_ND[picked],
            self.reward_NK[picked],
            self.cost_NK[picked],
            tuple(self.topics[place] for place in picked),
        )

    def replace_answers(self, reward_NK: Floats, cost_NK: Floats) -> "Questions":
        """Return the questions with other answers."""
        return Questions(self.routes, self.inputs, self.text_ND, reward_NK, cost_NK, self.topics)


@cache
def encoder() -> TextEncoder:
    """Return the encoder, which keeps what it has encoded."""
    return TextEncoder(CACHE, os.cpu_count() or 1, 1_000_000, keeps=True)


def encode(texts: list[str]) -> list[bytes]:
    """Return the numbers of texts."""
    return [each for at in range(0, len(texts), CHUNK) for each in encoder().encode(texts[at : at + CHUNK])]


def build(
    routes: tuple[JSONObject, ...], texts: list[str], rewards: Floats, costs: Floats, topics: list[str]
) -> Questions:
    """Return questions as a router sees them."""
    encoded = encode(texts)
    inputs = tuple(head + build_tail(text, {}, 0) for head, text in zip(encoded, texts, strict=True))
    text_ND = np.frombuffer(b"".join(encoded), np.int8).reshape(len(texts), -1)
    return Questions(routes, inputs, text_ND, rewards, costs, tuple(topics))


def peer_folder() -> Path:
    """Return the folder of the peer's package. Raises BenchmarkError."""
    spec = importlib.util.find_spec(PEER)
    if spec is None or spec.origin is None:
        raise BenchmarkError("pip install paretobandit==0.1.1: it has the questions, and is the peer")
    return Path(spec.origin).parent


def load_graded() -> tuple[Questions, Questions]:
    """Return the questions that are learned, and those that are scored, of the peer's wheel. Raises BenchmarkError."""
    folder = peer_folder() / "data" / "examples"
    return read_graded(folder / "val.jsonl"), read_graded(folder / "test_holdout.jsonl")


def read_graded(path: Path) -> Questions:
    """Read one file of the peer."""
    with open(path, encoding="utf-8") as file:  # line by line: the prompts have other line separators of Unicode
        rows = [json.loads(line) for line in file if line.strip()]
    arms = [[row["arms"][name] for name in ROUTES] for row in rows]
    routes = tuple(
        {"name": name, "price_in": price_in, "price_out": price_out}
        for name, (price_in, price_out) in zip(ROUTES, PRICES, strict=True)
    )
    rewards, costs = (np.array([[float(arm[key]) for arm in each] for each in arms]) for key in ("reward", "cost"))
    return build(routes, [row["prompt"] for row in rows], rewards, costs, [row["source"] for row in rows])


def load_weak_and_strong() -> Questions:
    """Return the questions with a weak and a strong model. Raises BenchmarkError."""
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "routellm" / "mmlu_two_models.jsonl.gz"
    if not path.exists():
        raise BenchmarkError(f"{path} is missing; set ONLINE_SHARED_DATA")
    rows = [json.loads(line) for line in gzip.open(path, "rt")]
    rewards = np.array([[row["weak"], row["strong"]] for row in rows], np.float64)
    routes: tuple[JSONObject, ...] = (  # prices of an answer of 400 tokens
        {"name": "weak", "price_out": WEAK_COST * 2_500},
        {"name": "strong", "price_out": STRONG_COST * 2_500},
    )
    costs = np.tile([WEAK_COST, STRONG_COST], (len(rows), 1))
    return build(routes, [row["prompt"] for row in rows], rewards, costs, [row["subject"] for row in rows])
