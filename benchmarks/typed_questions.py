"""Measures what a chat makes of 490 questions as people type them (data/typed_questions.jsonl), with the shipped repertoire.

    repertoire.jsonl --> ranker that has learned nothing else --> each question --> right | wrong | no reply

"before" reads every text alone and as it comes, and always gives its best guess within the older rules (`language` any,
`min_chance` 0). "now" is the default: spelling is corrected, a follow-up is read with the question before it, a reply needs
a chance of being right, and a question in another language gets none. Settings were chosen on the splits `tune` and `tune2`; the others judge.

Sections: kinds (each kind, before and now), targets, offers (from which chance the page offers a reply where it gives none, or a
wrong one), steps (what each part adds, on `tune`), columns (hashed character n-grams beside the sentence embedding, which were tried
instead), spelling (CLINC150 with its spelling corrected).
"""

import json
import re
import zlib
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.chat import Dataset, taught_accuracy, timed_ms
from benchmarks.clinc150 import Int8s, Split, data_file
from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, table, verdict
from online.io.cache import cache_folder
from online.models import Answer, Example, ExampleKind, encoder_options
from online.models.encoders.follow_ups import add_previous
from online.models.encoders.spelling import SPELLING
from online.models.encoders.text import TextEncoder
from online.models.ranker.choice import EVIDENCE_GAIN
from online.models.ranker.exemplars import ExemplarIndex, compute_evidence, normalise_rows, stack_features
from online.models.ranker.other_languages import find_other_languages, withhold_untaught
from online.models.ranker.ranker import Ranker
from online.models.statistics.exact import ExactStatistics
from online.models.statistics.slda import SldaSolver

DATA = Path(__file__).parents[1] / "data"
KINDS = ("reworded", "misspelt", "follow-up", "two-in-one", "out-of-scope", "other-language")
SPLITS = ("tune", "test", "tune2", "test2", "test3")
BEFORE = {"language": "any", "min_chance": 0.0}
OFFERED = 3  # replies at most
FLOORS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
COLUMNS = (0, 128, 256, 384, 768)
NGRAM_SCALE = 512  # like TEXT_SCALE
SEEDS = 3


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    kind: str
    split: str
    text: str
    replies: tuple[str, ...]
    previous: str | None = None
    clean: str | None = None
    language: str = "en"

    @property
    def after_previous(self) -> Any:
        """The question as the chat stores it."""
        return self.text if self.previous is None else add_previous(self.text, [self.previous])


@cache
def questions() -> list[Question]:
    rows = map(json.loads, (DATA / "typed_questions.jsonl").read_text().splitlines())
    return [Question(**{**row, "replies": tuple(row["replies"])}) for row in rows]


def select(kind: str, name: str) -> list[Question]:
    return [each for each in questions() if (each.kind, each.split) == (kind, name)]


class Chat:
    """A ranker with the shipped repertoire and the encoder that its options ask for."""

    def __init__(self, **options: Any) -> None:
        self.options, self.ranker = options, Ranker(options)
        self.encoder = TextEncoder(cache_folder(), language=encoder_options("ranker", options)["language"])
        self.ranker.learn(self.examples())

    def examples(self) -> list[Example]:
        rows = [json.loads(line) for line in (DATA / "repertoire.jsonl").read_text().splitlines()]
        texts = [(row["id"], kind, text) for row in rows for kind, text in list_texts(row)]
        features = self.encoder.encode([text for _, _, text in texts])
        return [
            Example(offset, kind, data, id, text)
            for offset, ((id, kind, text), data) in enumerate(zip(texts, features, strict=True), 1)
        ]

    def answer(self, instances: Sequence[Any]) -> list[Answer]:
        """The answers of the service: of the model, after the rule for other languages."""
        answers = self.ranker.predict(self.encoder.encode(instances))
        return withhold_untaught(answers, find_other_languages("ranker", self.options, instances))


def list_texts(row: dict[str, Any]) -> Iterable[tuple[ExampleKind, str]]:
    return [("reply", row["text"]), *(("label", example) for example in row["examples"])]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Counts of answers: right, wrong (another reply was given, or one where none is right), and no reply."""

    right: int
    wrong: int
    none: int

    @classmethod
    def of(cls, asked: Sequence[Question], answers: Sequence[Answer]) -> "Outcomes":
        right = sum(answer.choice in each.replies for each, answer in zip(asked, answers, strict=True))
        none = sum(answer.choice is None for answer in answers)
        return cls(right, len(asked) - right - none, none)


def ask(chat: Chat, asked: Sequence[Question], is_alone: bool = False) -> Outcomes:
    instances = [each.text if is_alone else each.after_previous for each in asked]
    return Outcomes.of(asked, chat.answer(instances))


def ask_clean(chat: Chat, asked: Sequence[Question]) -> Outcomes:
    return Outcomes.of(asked, chat.answer([each.clean or each.text for each in asked]))


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


# the 300 questions


def kinds(flags: Namespace) -> Section:
    before, now, rows = Chat(**BEFORE), Chat(), list[tuple[object, ...]]()
    for name in flags.splits:
        for kind in KINDS:
            asked = select(kind, name)
            if not asked:
                continue
            old, new = ask(before, asked, is_alone=True), ask(now, asked)
            clean = ask_clean(now, asked).right if asked[0].clean else ""
            rows.append((name, kind, len(asked), old.right, old.wrong, old.none, new.right, new.wrong, new.none, clean))
    columns = (
        "split",
        "kind",
        "questions",
        "right before",
        "wrong",
        "no reply",
        "right now",
        "wrong",
        "no reply",
        "clean",
    )
    return Section("kinds: questions answered right, wrong, or not at all", columns, rows)


def targets(flags: Namespace) -> Section:
    chats, rows = {"before": Chat(**BEFORE), "now": Chat()}, list[tuple[object, ...]]()
    for name in flags.splits:
        for when, chat in chats.items():
            is_alone = when == "before"
            typos = share_of_clean(chat, select("misspelt", name), is_alone)
            follow_ups = share_of_clean(chat, select("follow-up", name), is_alone)
            outside = select("out-of-scope", name)
            wrong = 100 * ask(chat, outside, is_alone).wrong / len(outside)
            met = judge(typos, 85, at_least=True), judge(follow_ups, 80, at_least=True), judge(wrong, 5)
            rows.append((name, when, *met[0], *met[1], *met[2]))
    columns = (
        "split",
        "",
        "typos, % of clean",
        ">= 85",
        "follow-ups, % of clean",
        ">= 80",
        "wrong out of scope, %",
        "<= 5",
    )
    return Section("targets: settings were chosen on tune; test judges", columns, rows)


def judge(measured: float | None, target: float, at_least: bool = False) -> tuple[object, str]:
    """What was measured, and the verdict; empty if there are no such questions."""
    return ("", "") if measured is None else (measured, verdict(measured, target, at_least=at_least))


def share_of_clean(chat: Chat, asked: Sequence[Question], is_alone: bool) -> float | None:
    """Accuracy in percent of that on the same questions, spelt right and in full."""
    return 100 * ask(chat, asked, is_alone).right / ask_clean(chat, asked).right if asked else None


def offers(flags: Namespace) -> Section:
    """What is offered at each floor of the chance, to those who got no reply and to those who got a wrong one."""
    chat, rows = Chat(), list[tuple[object, ...]]()
    for name, splits in (("tune, tune2", ("tune", "tune2")), ("test, test2, test3", ("test", "test2", "test3"))):
        asked = [each for each in questions() if each.split in splits and each.kind != "other-language"]
        answered = list(zip(asked, chat.answer([each.after_previous for each in asked]), strict=True))
        none = [each for each in answered if each[1].choice is None]
        wrong = [each for each in answered if each[1].choice not in (None, *each[0].replies)]
        for case, given in (("no reply", none), ("a wrong one", wrong)):
            rows += [(name, case, floor, *count_offers(given, floor)) for floor in FLOORS]
    columns = (
        "splits",
        "given",
        "floor",
        "in scope",
        "right one offered",
        "others",
        "out of scope",
        "with offers",
        "offers",
    )
    return Section("offers: replies offered at each floor of the chance, at most three to a question", columns, rows)


def count_offers(answered: Sequence[tuple[Question, Answer]], floor: float) -> tuple[int, ...]:
    """In scope: questions, those with a right reply among the offers, other offers; out of scope: all, with offers, offers."""
    offered = [
        (each, [c.id for c in answer.candidates if c.id != answer.choice and c.score >= floor][:OFFERED])
        for each, answer in answered
    ]
    inside = [(each.replies, ids) for each, ids in offered if each.replies]
    outside = [ids for each, ids in offered if not each.replies]
    helped = sum(not set(replies).isdisjoint(ids) for replies, ids in inside)
    others = sum(len(set(ids).difference(replies)) for replies, ids in inside)
    return len(inside), helped, others, len(outside), sum(map(bool, outside)), sum(map(len, outside))


def steps(flags: Namespace) -> Section:
    stages: list[tuple[str, Chat, Callable[[Question], Any]]] = [
        ("before", Chat(**BEFORE), lambda each: each.text),
        ("+ the question before", Chat(**BEFORE), join_as_text),
        ("+ spelling, other languages", Chat(min_chance=0.0), lambda each: each.after_previous),
        ("+ a chance of 0.6", Chat(), lambda each: each.after_previous),
    ]
    rows = []
    for name, chat, read in stages:
        found = []
        for kind in KINDS:
            asked = select(kind, "tune")
            outcomes = Outcomes.of(asked, chat.answer([read(each) for each in asked]))
            found.append(f"{outcomes.right} / {outcomes.wrong}")
        rows.append((name, *found))
    return Section("steps: right / wrong of 25 questions for tuning", ("", *KINDS), rows)


def join_as_text(question: Question) -> Any:
    """A follow-up with the question before it as one text, for an encoder that reads texts as they come."""
    stored = question.after_previous
    return f"{stored['previous']} {stored['text']}" if isinstance(stored, dict) else stored


# hashed character n-grams


def columns(flags: Namespace) -> Section:
    """Rank replies by sums and evidence over the embedding and W columns of hashed n-grams, without correcting spelling."""
    chat = Chat(**BEFORE)
    texts = [(example.text, example.label, example.kind) for example in chat.examples()]
    rows: list[tuple[object, ...]] = [
        rank_with_columns(chat.encoder, texts, width) for width in progress(COLUMNS, "widths")
    ]
    rows.append(("0, spelling corrected", *count_best(Chat(min_chance=0.0)), ""))
    names = (
        "n-gram columns",
        "misspelt: best right, of 25",
        "reworded",
        "two-in-one",
        "ms to solve the weights",
    )
    return Section("columns: the best reply is right, on tune, without abstaining", names, rows)


def count_best(chat: Chat) -> list[int]:
    """For how many questions the best candidate is right, given or not."""
    counts = []
    for kind in ("misspelt", "reworded", "two-in-one"):
        asked = select(kind, "tune")
        best = [answer.candidates[0].id for answer in chat.answer([each.text for each in asked])]
        counts.append(sum(id in each.replies for id, each in zip(best, asked, strict=True)))
    return counts


def rank_with_columns(
    encoder: TextEncoder, texts: Sequence[tuple[str, str, str]], width: int
) -> tuple[int, int, int, int, float]:
    def encode(those: Sequence[str]) -> Int8s:
        return np.concatenate([stack_features(encoder.encode(those)), hash_ngrams(those, width)], axis=1)

    x_ND = encode([text for text, _, _ in texts])
    ids = list(dict.fromkeys(label for _, label, _ in texts))
    is_reply_N = np.array([kind == "reply" for _, _, kind in texts])
    class_N = np.array([ids.index(label) for _, label, _ in texts], np.int32)
    statistics = ExactStatistics(x_ND.shape[1])
    for id in ids:
        statistics.add_class(id)
    statistics.add(x_ND[~is_reply_N], class_N[~is_reply_N].tolist())

    def solve() -> Any:
        return SldaSolver(2.5, priors=False, rounded=True).solve(statistics, x_ND[is_reply_N])

    weights, count = solve(), int((~is_reply_N).sum())
    ones_E, zeros_R = np.ones(count, np.float32), np.zeros(len(ids))
    unit_ED, offset_E = normalise_rows(x_ND[~is_reply_N]), np.arange(count)
    index = ExemplarIndex(
        units=[unit_ED],
        offset_E=offset_E,
        reply_E=class_N[~is_reply_N],
        reward_E=ones_E,
        taught_E=ones_E > 1,
        thumb_E=ones_E > 1,
        scope_E=np.zeros(count, np.int8),
        superseded_E=np.full(count, -1, np.int32),
        thumbs_R=zeros_R,
    )
    right = []
    for kind in ("misspelt", "reworded", "two-in-one"):
        asked = select(kind, "tune")
        x_QD = encode([each.text for each in asked])
        cosine_QE = index.cosines(normalise_rows(x_QD))
        evidence_QR = np.stack([compute_evidence(cosine_E, index, len(ids)) for cosine_E in cosine_QE])
        scores_QR = x_QD.astype(np.float32) @ weights.matrix + weights.bias + EVIDENCE_GAIN * evidence_QR
        best = [ids[place] for place in scores_QR.argmax(1)]
        right.append(sum(id in each.replies for id, each in zip(best, asked, strict=True)))
    return width, right[0], right[1], right[2], timed_ms(solve)


def hash_ngrams(texts: Sequence[str], width: int) -> Int8s:
    """int8 [N, width]: signed counts of the words' n-grams of 2 to 4 characters, and of the words, at length NGRAM_SCALE."""
    found_NW = np.zeros((len(texts), width))
    for row_W, text in zip(found_NW, texts, strict=True):
        for gram in list_ngrams(text) if width else []:
            code = zlib.crc32(gram.encode())
            row_W[code % width] += 1 if code >> 16 & 1 else -1
    rooted_NW = np.sign(found_NW) * np.sqrt(np.abs(found_NW))
    length_N1 = np.maximum(np.linalg.norm(rooted_NW, axis=1, keepdims=True), 1e-9)
    features: Int8s = np.clip(np.rint(NGRAM_SCALE * rooted_NW / length_N1), -127, 127).astype(np.int8)
    return features


def list_ngrams(text: str) -> list[str]:
    words = [f"^{word}$" for word in re.findall(r"\w+", text.lower())]
    return [word[at : at + n] for word in words for n in (2, 3, 4, len(word)) for at in range(len(word) - n + 1)]


# CLINC150


def spelling(flags: Namespace) -> Section:
    """Teach some questions of each intent, read as they come and with their spelling corrected."""
    datasets = {"as it comes": Dataset.clinc(), "corrected": read_clinc_corrected()}
    rows = []
    for count in (1, 5, 10):
        found = {name: [taught_accuracy(each, count, seed) for seed in range(SEEDS)] for name, each in datasets.items()}
        gains = np.subtract(found["corrected"], found["as it comes"])
        means = [float(np.mean(each)) for each in found.values()]
        rows.append((f"{count} of each intent", *means, float(gains.min()), float(gains.max())))
    columns = ("taught", *(f"test %, {name}" for name in datasets), "least gain", "greatest gain")
    return Section(f"spelling: CLINC150, names and taught questions, {SEEDS} seeds", columns, rows)


def read_clinc_corrected() -> Dataset:
    dataset = Dataset.clinc()
    return Dataset(correct_split("train", dataset.train), correct_split("test", dataset.test), dataset.names)


def correct_split(name: str, as_it_comes: Split) -> Split:
    """The split with the features of the texts whose spelling is corrected."""
    texts = [text for text, _ in json.loads(data_file().read_bytes())[name]]
    changed = [(place, fixed) for place, text in enumerate(texts) if (fixed := SPELLING.correct(text)) != text]
    features = as_it_comes.features.copy()
    encoder = TextEncoder(cache_folder())
    for place, fixed in progress(changed, f"{name}: {len(changed)} corrected texts"):
        features[place] = np.frombuffer(encoder.encode([fixed])[0], np.int8)
    return Split(features, as_it_comes.labels)


SECTIONS: dict[str, Callable[[Namespace], Section]] = {
    section.__name__: section for section in (kinds, targets, offers, steps, columns, spelling)
}


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="only these sections")
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=list(SPLITS), help="of `kinds` and `targets`")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    run_on_one_thread()
    sections = {name: SECTIONS[name](flags) for name in flags.only}
    if flags.json:
        print_json({"benchmark": "typed_questions", **{name: each.rows for name, each in sections.items()}})
    else:
        for each in sections.values():
            table(each.title, each.columns, each.rows)
    return 0


if __name__ == "__main__":
    command(main)
