"""Measures how far corrections reach, and what follows a thumb down: CLINC150's intents as replies.

    a few training questions per intent --> ranker --one correction--> the other test questions, before and after

Reworded rules: a question that got the right reply is corrected to a new wording of it. The other questions of its intent
that got the old reply should get the new one with the scope `reply`, and none of them with the scope `question`. Wrong
replies: a question that got another intent's reply is corrected to its own; no right answer elsewhere should be lost.
Near-duplicates are those with a cosine of .95 or more; they may change under either scope. Each correction is measured
alone, on the same ranker, and un-learned again. Thumbs down: the best reply to a question is wrong; how often the next
one is right where the ranker gives it, and where it abstains, as it now does instead of giving something worse.

The thresholds were chosen on the validation questions; the test questions judge. The text of a new wording is the
intent's name with the words "new rule".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.chat import Dataset
from benchmarks.clinc150 import split
from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, table
from online.io.cache import cache_folder
from online.models import Example
from online.models.contract import Scope
from online.models.encoders.text import TextEncoder
from online.models.ranker.exemplars import NEAR_DUPLICATE, normalise_rows
from online.models.ranker.ranker import Ranker

SCOPES: tuple[Scope, ...] = ("", "question", "reply")
NEW = "reworded"
EFFECTS = (("paraphrases", 100), ("others_changed", 100), ("gained", 1), ("lost", 1))
NEXT = ("given", "right_if_given", "right_if_withheld")
Choices = NDArray[np.object_]


@dataclass(slots=True)
class Scene:
    """A ranker that has learned a few questions of each intent, and the test questions with its answers."""

    ranker: Ranker
    offset: int
    questions: NDArray[np.int8]
    right: Choices
    before: Choices

    @classmethod
    def of(cls, dataset: Dataset, examples: int, seed: int) -> "Scene":
        rng = np.random.default_rng(seed)
        labels = np.array(dataset.train.labels)
        learned = [Example(n, "reply", row, name, name) for n, (name, row) in enumerate(dataset.names.items(), 1)]
        for name in dataset.names:
            for at in rng.permutation(np.flatnonzero(labels == name))[:examples]:
                learned.append(Example(len(learned) + 1, "label", dataset.train.features[at].tobytes(), name))
        ranker = Ranker({})
        ranker.learn(learned)
        right = np.array(dataset.test.labels, object)
        scene = cls(ranker, len(learned), dataset.test.features, right, right)
        scene.before = scene.choices(range(len(right)))
        return scene

    def choices(self, places: Sequence[int]) -> Choices:
        inputs = [self.questions[at].tobytes() for at in places]
        return np.array([answer.choice for answer in self.ranker.predict(inputs)], object)

    def after_correction(self, at: int, reply: str, text: bytes | None, scope: Scope) -> Choices:
        """The answers to all questions with one correction more. text: the features of a reply that it brings."""
        events = [] if text is None else [Example(self.offset + 1, "reply", text, reply, reply, scope=scope)]
        superseded = self.before[at] if scope == "reply" else ""
        question = self.questions[at].tobytes()
        events.append(Example(self.offset + 2, "correction", question, reply, scope=scope, superseded=superseded))
        self.ranker.learn(events)
        after = self.choices(range(len(self.right)))
        self.ranker.unlearn(events)
        return after

    def near_duplicates(self, at: int) -> NDArray[np.bool_]:
        units = normalise_rows(self.questions)
        found: NDArray[np.bool_] = units @ units[at] >= NEAR_DUPLICATE
        return found


def measure_rewordings(scene: Scene, texts: dict[str, bytes], places: Sequence[int], scope: Scope) -> dict[str, float]:
    reached = asked = changed = others = 0
    for at in places:
        intent = scene.right[at]
        after, near = scene.after_correction(at, NEW, texts[intent], scope), scene.near_duplicates(at)
        like = (scene.right == intent) & (scene.before == intent) & ~near
        other = (scene.right != intent) & ~near
        reached, asked = reached + int((after[like] == NEW).sum()), asked + int(like.sum())
        changed, others = changed + int((after[other] != scene.before[other]).sum()), others + int(other.sum())
    return {"paraphrases": reached / asked, "others_changed": changed / others}


def measure_wrong_replies(scene: Scene, places: Sequence[int], scope: Scope) -> dict[str, float]:
    """Per correction: answers elsewhere that became right, and that were right before and are not now."""
    gained = lost = 0
    for at in places:
        after = scene.after_correction(at, scene.right[at], None, scope)
        elsewhere = np.arange(len(after)) != at
        was, now = (scene.before == scene.right)[elsewhere], (after == scene.right)[elsewhere]
        gained, lost = gained + int((now & ~was).sum()), lost + int((was & ~now).sum())
    return {"gained": gained / len(places), "lost": lost / len(places)}


def measure_next_replies(scene: Scene) -> dict[str, float]:
    """Of the questions whose best reply is wrong: how often the next one is given, and right where given and where not."""
    given = [0, 0]
    right = [0, 0]
    for at in np.flatnonzero((scene.before != scene.right) & (scene.before != None)):  # noqa: E711
        answer = scene.ranker.predict([scene.questions[at].tobytes()])[0]
        left = answer.without({str(answer.choice)})
        if left.candidates:
            is_given = int(left.choice is not None)
            given[is_given] += 1
            right[is_given] += int(left.candidates[0].id == scene.right[at])
    return {
        "given": given[1] / max(sum(given), 1),
        "right_if_given": right[1] / max(given[1], 1),
        "right_if_withheld": right[0] / max(given[0], 1),
    }


def measure(dataset: Dataset, texts: dict[str, bytes], examples: int, seed: int, count: int) -> dict[str, Any]:
    scene, rng = Scene.of(dataset, examples, seed), np.random.default_rng([seed, 1])
    known = np.flatnonzero(scene.before == scene.right)
    wrong = np.flatnonzero((scene.before != scene.right) & np.array([each is not None for each in scene.before]))
    rewordings, wrongs = rng.permutation(known)[:count].tolist(), rng.permutation(wrong)[:count].tolist()
    figures: dict[str, Any] = {"examples": examples, "seed": seed, "next": measure_next_replies(scene)}
    for scope in progress(SCOPES, f"{examples} examples, seed {seed}"):
        figures[scope or "none"] = {
            **measure_rewordings(scene, texts, rewordings, scope),
            **measure_wrong_replies(scene, wrongs, scope),
        }
    return figures


def show(runs: Sequence[dict[str, Any]]) -> None:
    by_examples = {number: [run for run in runs if run["examples"] == number] for number in sorted(all_examples(runs))}
    rows = [
        (f"{number} questions, {scope}", *(spread([run[scope][name] for run in of], scale) for name, scale in EFFECTS))
        for number, of in by_examples.items()
        for scope in (each or "none" for each in SCOPES)
    ]
    columns = ("learned per intent, scope", "paraphrases reached, %", "others changed, %", "gained", "lost")
    table("one correction: reworded rules; wrong replies (answers per correction)", columns, rows)
    nexts = [
        (f"{number} questions", *(spread([run["next"][name] for run in of], 100) for name in NEXT))
        for number, of in by_examples.items()
    ]
    heads = ("learned per intent", "given, %", "right where given, %", "right where withheld, %")
    table("the next reply after a wrong one", heads, nexts)


def all_examples(runs: Sequence[dict[str, Any]]) -> set[int]:
    return {run["examples"] for run in runs}


def spread(values: Sequence[float], scale: float) -> str:
    """The median over the seeds, with the least and the largest."""
    low, middle, high = (scale * value for value in (min(values), float(np.median(values)), max(values)))
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--corrections", type=int, default=60, help="corrections of each sort and seed")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--examples", type=int, nargs="+", default=[5, 50], help="training questions of each intent")
    parser.add_argument("--validation", action="store_true", help="judge on the validation questions instead")
    flags = parser.parse_args()
    run_on_one_thread()
    dataset = Dataset.clinc()
    if flags.validation:
        dataset = Dataset(dataset.train, split("val"), dataset.names)
    encoded = TextEncoder(cache_folder()).encode([f"{name.replace('_', ' ')}: new rule" for name in dataset.names])
    texts = dict(zip(dataset.names, encoded, strict=True))
    runs = [
        measure(dataset, texts, examples, seed, flags.corrections)
        for examples in flags.examples
        for seed in range(flags.seeds)
    ]
    if flags.json:
        print_json({"benchmark": "corrections", "runs": runs})
    else:
        show(runs)
    return 0


if __name__ == "__main__":
    command(main)
