"""Fuzzes the readers of files: mutated small files, through every reader of labelled rows, decisions and batch jobs.

    tests/field/tables, the same rows as JSONL, Parquet and VW, decisions, an exported log
        --mutate--> file --read--> rows, bad lines, or one sentence

A finding is an error that is none of ours, or rows that are neither read nor named. Each is kept as a file in --keep, with its seed.
"""

import csv
import io
import json
import random
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow
import pyarrow.parquet

from benchmarks.report import create_parser, print_json
from benchmarks.service import ROOT
from online.errors import OnlineError
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.file_pieces import PieceReader, check_history, cut_files, fit_files
from online.evaluation.sources.opening import open_source, open_sources
from online.evaluation.sources.replay_source import ReadOptions
from online.learning.bulk_load import BulkLoad
from online.models import create
from online.plugins.jobs.batch_rows import DirectReader, RowsRequest
from online.plugins.off_policy.logged_decisions import CsvColumns, DecisionReadOptions, read_decision_log

TABLES, LOG = ROOT / "tests" / "field" / "tables", ROOT / "data" / "desk.jsonl"
LOG_LINES = 31  # the header, predictions and feedback
PIECES = (
    b'"',
    b",",
    b";",
    b"\t",
    b"|",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"007",
    b"1_0",
    b"NaN",
    b"1e999",
    b"[1,2]",
    b"{}",
    b"''",
)
VALUES = (
    None,
    1,
    -1.5,
    float("nan"),
    float("inf"),
    2**63,
    True,
    "",
    " ",
    "007",
    "1,5",
    "nan",
    "2026-01-31",
    "ä" * 50,
    b"\xff",
)
TYPES = (
    pyarrow.int64(),
    pyarrow.float64(),
    pyarrow.string(),
    pyarrow.binary(),
    pyarrow.bool_(),
    pyarrow.timestamp("ns"),
)


def list_seeds() -> list[tuple[str, bytes]]:
    """Return (name, content) of the tables, and the same rows in the other formats of text."""
    seeds = [(path.name, path.read_bytes()) for path in sorted(TABLES.iterdir())]
    rows: list[dict[str, Any]] = [{"x": n % 5, "when": f"2026-01-{1 + n % 28:02}", "id": f"r{n}"} for n in range(30)]
    lines = "\n".join(json.dumps({"input": row, "label": row["x"] % 2}) for row in rows)
    words = "\n".join(f"{row['x'] % 2} 1.0 'r{n}| x:{row['x']} word" for n, row in enumerate(rows))
    return [*seeds, ("rows.jsonl", lines.encode()), ("rows.vw", words.encode()), *list_decisions()]


def list_decisions() -> list[tuple[str, bytes]]:
    """Return (name, content) of decisions and their rewards, and of an exported log."""
    decisions = [("abc"[n % 3], n % 2, 1 / (2 + n % 3), f"v{n % 4}") for n in range(30)]
    table = "".join(f"{action},{reward},{chance:.3f},{context}\n" for action, reward, chance, context in decisions)
    words = "\n".join(f"{1 + n % 3}:{n % 2}:0.5 | word{n % 4} x:{n % 5}" for n in range(30))
    entries = [
        {
            "_label_cost": -reward,
            "_label_probability": chance,
            "_labelIndex": 0,
            "_labelAction": 1,
            "a": [1, 2],
            "p": [chance, 1 - chance],
            "c": {"who": {context: 1}, "_multi": [{"item": {action: 1}}, {"item": {"other": 1}}]},
        }
        for action, reward, chance, context in decisions
    ]
    log = LOG.read_bytes().splitlines(keepends=True)[:LOG_LINES] if LOG.exists() else []
    header = "action,reward,propensity,context"
    return [
        ("decisions.csv", f"{header}\n{table}".encode()),
        ("decisions.vw", words.encode()),
        ("decisions.dsjson", "\n".join(map(json.dumps, entries)).encode()),
        *([("log.jsonl", b"".join(log))] if log else []),
    ]


def mutate(draw: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(draw.randint(1, 6)):
        at, length = draw.randrange(len(data) + 1), draw.randrange(12)
        match draw.randrange(4):
            case 0:
                data[at : at + length] = draw.choice(PIECES)
            case 1:
                data[at:at] = draw.choice(PIECES)
            case 2:
                del data[at : at + length]
            case _:
                data[at:at] = data[at // 2 : at // 2 + 5 * length]
    return bytes(data)


def write_parquet(draw: random.Random, path: Path) -> None:
    """Write columns of random types and values."""
    columns: dict[str, Any] = {"label": [str(draw.randrange(3)) for _ in range(30)]}
    for place in range(draw.randint(1, 4)):
        values = [draw.choice(VALUES) for _ in range(30)] if draw.random() < 0.3 else [draw.choice(VALUES)] * 30
        try:
            columns[f"c{place}"] = pyarrow.array(values, draw.choice(TYPES))
        except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
            columns[f"c{place}"] = pyarrow.array([[draw.random()] * draw.randrange(3) for _ in range(30)])
    if draw.random() < 0.2:
        columns["label"] = columns["c0"]
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def count_records(path: Path) -> int | None:
    """Return how many rows a file has, counted without our readers; None where that is not plain."""
    if path.suffix == ".parquet":
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    data = path.read_bytes()
    if path.suffix in (".jsonl", ".vw"):
        lines = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")
        return sum(1 for line in lines if line.strip())
    if b'"' in data or b"\r" in data or data.startswith(b"sep="):
        return None
    return max(0, sum(1 for row in csv.reader(io.StringIO(data.decode("utf-8-sig"))) if row) - 1)


def read_rows(path: Path) -> None:
    bad = BadLines(max_ratio=1.0)
    source = open_source(str(path), ReadOptions(label="label", max_bad_ratio=1.0))
    read = sum(len(block) for block in source.blocks(bad))
    expected = None if source.header or source.survey else count_records(path)
    assert expected is None or read + bad.count == expected, f"{expected} rows, {read} read and {bad.count} named"


def replay(path: Path) -> None:
    source = open_source(str(path), ReadOptions(label="label", max_bad_ratio=1.0))
    replay = Replay(source, CandidateSpec("majority"), max_bad_ratio=1.0)
    replay.run()
    report, expected = replay.report(), None if source.header or source.survey else count_records(path)
    judged = report.examples + report.bad
    assert expected is None or judged == expected, f"{expected} rows, {report.examples} judged and {report.bad} named"


def predict(path: Path) -> None:
    format = {".tsv": "csv", ".vw": "jsonl", ".dsjson": "jsonl"}.get(path.suffix, path.suffix.removeprefix("."))
    for input in ("table", "text", "vector"):
        request = RowsRequest(path, format, "", input)
        rows = sum(1 for _ in DirectReader().read(request, lambda: None))
        counted = DirectReader().count(request, lambda: None)
        assert rows == counted, f"{counted} rows counted, {rows} read"


def load(path: Path) -> None:
    sources, profile = fit_files(open_sources([str(path)], ReadOptions(label="label", max_bad_ratio=1.0)), "table")
    for source in sources:
        check_history(source)
    bad, read = BadLines(max_ratio=1.0), PieceReader({"input": "table"}, profile=profile)
    counts = BulkLoad(create("majority", {}), read, on_unusable=bad.add_all).learn(cut_files(sources, bad))
    expected, loaded = count_records(path), counts.examples + bad.count
    assert expected is None or loaded == expected, f"{expected} rows, {counts.examples} loaded and {bad.count} named"


def evaluate(path: Path) -> None:
    columns = CsvColumns("action", "reward", "propensity") if path.suffix == ".csv" else CsvColumns()
    decisions, _ = read_decision_log(str(path), DecisionReadOptions(columns=columns, max_bad_ratio=1.0))
    expected, named = count_records(path) if path.suffix == ".csv" else None, sum(decisions.left_out.values())
    counted = len(decisions) + named
    assert expected is None or counted == expected, f"{expected} rows, {len(decisions)} decisions and {named} named"


READERS: tuple[Callable[[Path], None], ...] = (read_rows, replay, load, evaluate, predict)


def try_one(seed: int, seeds: list[tuple[str, bytes]], folder: Path) -> tuple[Path, list[str]]:
    """Make the file of a seed, and return it with what is wrong with the way it is read."""
    draw = random.Random(seed)
    name, content = draw.choice([*seeds, ("rows.parquet", b"")] if seed % 3 else [("rows.parquet", b"")])
    path = folder / name
    if name == "rows.parquet":
        write_parquet(draw, path)
    else:
        path.write_bytes(mutate(draw, content))
    found = list[str]()
    for read in READERS:
        try:
            read(path)
        except OnlineError:
            pass  # one sentence
        except Exception:
            found.append(f"{read.__name__}: {traceback.format_exc()}")
    return path, found


def fuzz(seconds: float, first: int, keep: Path) -> dict[str, Any]:
    seeds, ends, seed, findings = list_seeds(), time.monotonic() + seconds, first, 0
    with TemporaryDirectory(prefix="online-fuzz-") as name:
        while time.monotonic() < ends:
            path, found = try_one(seed, seeds, Path(name))
            if found:
                findings += 1
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}-{path.name}").write_bytes(path.read_bytes())
                print(f"seed {seed}, {path.name}\n{found[0]}", flush=True)
            seed += 1
    return {"files": seed - first, "seconds": seconds, "findings": findings}


def main() -> None:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first file; each next file has the next one")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder of the files with findings")
    given = parser.parse_args()
    print_json(fuzz(given.seconds, given.seed, given.keep))


if __name__ == "__main__":
    main()
