"""What the drawing page says of shapes that nobody has taught: scikit-learn's digits, five of them taught.

    python -m benchmarks.novelty [--seeds 8] [--tune] [--json]

For each seed, five of the ten digits are taught with a few drawings each, and the model guesses every other row. The page's
own code (`frontend/src/lib/draw/confidence.ts`) puts each guess into words; it needs node and `npm ci` in `frontend/`.
Before: the words by the chances alone, where fewer than three drawings of a name are called few. --tune prints other seeds, on
which the distances of that file were chosen.
"""

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from sklearn.datasets import load_digits

from benchmarks.report import command, create_parser, print_json, say, table
from benchmarks.service import BenchmarkError
from online.models import Answer, Example, create

FRONTEND = Path(__file__).parents[1] / "frontend"
OPTIONS = {"input": "vector", "size": 64, "scale": 16.0}
COUNTS = (1, 3, 10)  # drawings of each name
KINDS = ("sure", "likely", "best", "few", "unsure", "new")
FIRST_SEED = 100
FEW, LIKELY, SURE = 3, 0.6, 0.9

# stdin: {"taught": {label: [features]}, "asked": [[label, {label: chance}, features]]}; stdout: the kinds
SCRIPT = """
import { readFileSync } from 'node:fs';
import ts from 'typescript';
const code = ts.transpileModule(readFileSync('src/lib/draw/confidence.ts', 'utf8'), {
  compilerOptions: { module: 'ESNext', target: 'ESNext' },
}).outputText;
const { KnownDrawings, opinionOf } = await import('data:text/javascript,' + encodeURIComponent(code));
const { taught, asked } = JSON.parse(readFileSync(0, 'utf8'));
const names = Object.entries(taught).map(([label, drawings]) => ({ label, drawings, count: drawings.length }));
const known = new KnownDrawings(names, true);
const kinds = asked.map(
  ([label, probabilities, features]) => opinionOf({ label, probabilities }, features, known).kind,
);
console.log(JSON.stringify(kinds));
"""


@dataclass(frozen=True, slots=True)
class Words:
    """One guess in words. whose: taught and guessed right, taught and guessed wrong, or untaught."""

    count: int
    whose: str
    before: str
    after: str


def ask(count: int, seed: int) -> Iterator[Words]:
    digits: Any = load_digits()
    rows, class_N = digits.data.astype(np.float64), digits.target
    draw = np.random.Generator(np.random.Philox(seed))
    classes = draw.permutation(10)[:5]
    taught = np.concatenate([draw.permutation(np.flatnonzero(class_N == c))[:count] for c in classes])
    asked = np.setdiff1d(np.arange(len(class_N)), taught)
    model = create("classifier", OPTIONS)
    model.learn(
        [
            Example(place + 1, "label", rows[row].tobytes(), str(class_N[row]))
            for place, row in enumerate(draw.permutation(taught).tolist())
        ]
    )
    answers = model.predict([rows[row].tobytes() for row in asked])
    by_label = {str(c): rows[taught[class_N[taught] == c]].tolist() for c in classes}
    after = put_into_words(by_label, answers, rows[asked])
    for row, answer, kind in zip(asked.tolist(), answers, after, strict=True):
        right = answer.choice == str(class_N[row])
        whose = "untaught" if class_N[row] not in classes else "taught, right" if right else "taught, wrong"
        yield Words(count, whose, describe_by_chance(answer, count), kind)


def put_into_words(taught: dict[str, list[list[float]]], answers: list[Answer], rows: Any) -> list[str]:
    """Return the kinds of opinion that the page's code has."""
    asked = [
        [answer.choice, {one.id: one.score for one in answer.candidates}, row.tolist()]
        for answer, row in zip(answers, rows, strict=True)
    ]
    node = shutil.which("node")
    if node is None or not (FRONTEND / "node_modules" / "typescript").exists():
        raise BenchmarkError("the page's code needs node, and `npm ci` in frontend/")
    run = [node, "--input-type=module", "-e", SCRIPT]
    given = orjson.dumps({"taught": taught, "asked": asked})
    kinds: list[str] = orjson.loads(
        subprocess.run(run, cwd=FRONTEND, input=given, capture_output=True, check=True).stdout
    )
    return kinds


def describe_by_chance(answer: Answer, count: int) -> str:
    if answer.score < LIKELY:
        return "unsure"
    return "few" if count < FEW else "sure" if answer.score >= SURE else "likely"


def summarize(words: list[Words]) -> list[dict[str, Any]]:
    """Return a row for each count, each kind of drawing, and before and after: the share of each kind of words in percent."""
    rows = []
    for count in COUNTS:
        for whose in ("untaught", "taught, right", "taught, wrong"):
            of = [one for one in words if (one.count, one.whose) == (count, whose)]
            for when in ("before", "after"):
                kinds = Counter(getattr(one, when) for one in of)
                shares = {kind: 100 * kinds[kind] / len(of) for kind in KINDS}
                rows.append({"count": count, "whose": whose, "when": when, "rows": len(of), **shares})
    return rows


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument(
        "--seeds", type=int, default=8, help="number of choices of the five digits and of their drawings"
    )
    parser.add_argument("--tune", action="store_true", help="use the seeds on which the distances were chosen")
    flags = parser.parse_args()
    first = 0 if flags.tune else FIRST_SEED
    torch.set_num_threads(1)
    words = list[Words]()
    for count in COUNTS:
        say(f"{count} of each")
        words += [one for seed in range(first, first + flags.seeds) for one in ask(count, seed)]
    rows = summarize(words)
    if flags.json:
        print_json({"seeds": flags.seeds, "results": rows})
    else:
        columns = ("count", "whose", "when", "rows", *KINDS)
        title = f"Words for guesses, 5 of 10 digits taught, {flags.seeds} seeds, % of the rows"
        table(title, ("of each", *columns[1:]), ([row[column] for column in columns] for row in rows))
    return 0


if __name__ == "__main__":
    command(main)
