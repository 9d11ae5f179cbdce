"""What the chat makes of questions without the service: 490 questions as people type them, with the shipped repertoire.

    python -m benchmarks.offline_replies [--json]

A browser without a connection answers from hashed features, or from those of the compact MiniLM where a person has switched it
on, and the example questions of the replies (`frontend/src/lib/offline/replies.ts`). This is the same rule in Python, with the
same features and the same solution: a reply needs a chance, and a known text with a cosine. For hashed features, 0.3 and 0.35 were
chosen among three pairs with the answers to the splits `tune`, `tune2`, `test` and `test2` in view, so `test3` judges them better
than the other two. For MiniLM, 0.45 and 0.5 are the best of four pairs on `tune` and `tune2`, chosen
with the answers to all splits in view. A follow-up that gets no reply alone is read
with the question before it. `python -m benchmarks.offline_encoder` asks the same questions on the page.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

import numpy as np
from onnxruntime import InferenceSession

from benchmarks.report import command, create_parser, print_json, table
from benchmarks.typed_questions import KINDS, Question, questions
from online.io.cache import cache_folder
from online.models import Example, create
from online.models.contract import Model
from online.models.encoders import minilm
from online.models.encoders.hashed import hash_text
from online.models.encoders.text import quantise
from online.models.ranker.exemplars import normalise_rows, stack_features
from online.plugins.export.compact import compact_file

DATA = Path(__file__).parents[1] / "data"
SEEN, UNSEEN = (
    ("test", "test2"),
    ("test3",),
)  # whether their answers were looked at when the rule of hashed features was chosen
OPTIONS = {"input": "text", "text_features": "hashed"}  # features are given: the same sums and solution for both


@dataclass(frozen=True, slots=True)
class Reader:
    """Features of texts, and the rule that goes with them."""

    encode: Callable[[str], bytes]
    least_chance: float
    least_likeness: float


def create_readers() -> dict[str, Reader]:
    session, tokenizer = InferenceSession(str(compact_file(cache_folder()))), minilm.tokenizer()

    @cache
    def encode(text: str) -> bytes:
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        features: bytes = quantise(session.run(None, {"ids": ids})[0])[0].tobytes()
        return features

    return {"hashed": Reader(hash_text, 0.3, 0.35), "MiniLM": Reader(encode, 0.45, 0.5)}


class OfflineChat:
    """Answers as a browser does that keeps the repertoire."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        texts = list(list_texts())
        features = [reader.encode(text) for _, text in texts]
        self.model: Model = create("classifier", OPTIONS)
        self.model.learn([Example(n, "label", features[n - 1], reply) for n, (reply, _) in enumerate(texts, start=1)])
        self.known_ND = normalise_rows(stack_features(features))

    def answer(self, question: Question) -> str | None:
        reply = self._answer_text(question.text)
        if reply is None and question.previous is not None:
            reply = self._answer_text(f"{question.previous} {question.text}")
        return reply

    def _answer_text(self, text: str) -> str | None:
        features = self.reader.encode(text)
        likeness = float((self.known_ND @ normalise_rows(stack_features([features]))[0]).max())
        best = self.model.predict([features])[0].candidates[0]
        is_given = best.score >= self.reader.least_chance and likeness >= self.reader.least_likeness
        return best.id if is_given else None


class ShippedReply(TypedDict):
    id: str
    text: str
    examples: list[str]


def read_replies() -> list[ShippedReply]:
    return [json.loads(line) for line in (DATA / "repertoire.jsonl").read_text().splitlines()]


def list_texts() -> Iterator[tuple[str, str]]:
    """(reply, text) of every reply and example question."""
    for reply in read_replies():
        yield from ((reply["id"], text) for text in (*reply["examples"], reply["text"]))


def judge(asked: Sequence[Question], answers: Sequence[str | None]) -> dict[str, float]:
    """Shares of the questions. wrong: another reply was given, or one where none is right."""
    right = [answer in question.replies for question, answer in zip(asked, answers, strict=True)]
    given = [answer is not None for answer in answers]
    wrong = [is_given and not is_right for is_given, is_right in zip(given, right, strict=True)]
    return {"right": float(np.mean(right)), "wrong": float(np.mean(wrong)), "none": 1 - float(np.mean(given))}


def main() -> int:
    arguments = create_parser(__doc__ or "").parse_args()
    found = dict[str, dict[str, float]]()
    for name, reader in create_readers().items():
        chat = OfflineChat(reader)
        for splits in (SEEN, UNSEEN):
            for kind in KINDS:
                asked = [each for each in questions() if each.split in splits and each.kind == kind]
                if asked:
                    shares = judge(asked, [chat.answer(each) for each in asked])
                    found[f"{name}: {kind}, {' and '.join(splits)}"] = {"count": len(asked), **shares}
    if arguments.json:
        print_json(found)
        return 0
    names = ("right", "wrong", "none")
    rows = [(row, int(each["count"]), *(f"{100 * each[name]:.0f}" for name in names)) for row, each in found.items()]
    table("answers without the service, % of the questions", ("features: kind, splits", "questions", *names), rows)
    return 0


if __name__ == "__main__":
    command(main)
