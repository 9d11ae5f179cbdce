"""Rows as columns: the same rows, numbers and refusals as those of the lines of the file."""

import io
import json
import random
from pathlib import Path

import pytest

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.sources.arrival import LabelDelay
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.labelled_rows import LabelledRow, read_jsonl
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from online.evaluation.sources.row_blocks import BLOCK_ROWS, READ_BYTES, build_blocks, read_jsonl_columns
from tests.evaluation.replaying import write_blobs

GOOD = ['{"input": [1, 2.5], "label": 1}', '{"input": "a\u2028b", "label": "\u00e4"}', '{"input": [2], "label": 2.0}']
FAULTS = [
    "",
    "  \t",
    "not json",
    "[1]",
    '{"input": [1]}',
    '{"input": [1], "label": null}',
    '{"input": [1], "label": ""}',
    '{"input": null, "label": 2.0}',
    '{"input": {"a": 1, "b": 2, "a": 3}, "label": 1}',
    '{"input": [1], "label": true}',
    '{"input": [1], "label": 1},{"input": [1], "label": 2}',
    '{"input": [1],',
    '"label": 3}',
]


def read_both(data: bytes) -> tuple[list[LabelledRow], list[LabelledRow], BadLines, BadLines]:
    """Return the rows of the columns and of the lines, and the bad lines of both."""
    first, second = BadLines(1.0), BadLines(1.0)
    blocks = list(build_blocks(read_jsonl_columns(io.BytesIO(data), "log", first)))
    assert all(len(block) == BLOCK_ROWS for block in blocks[:-1])
    columns = [row for block in blocks for row in zip(block.numbers, block.instances, block.labels, strict=True)]
    assert [offset for block in blocks for offset in block.offsets] == [*range(1, len(columns) + 1)]
    lines = read_jsonl(io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline=""), "log", second)
    return (
        [LabelledRow(*row) for row in columns],
        [LabelledRow(row.number, row.instance, row.label) for row in lines],
        first,
        second,
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("faults", [[], FAULTS])
def test_columns_hold_the_rows_of_the_lines(end: str, faults: list[str]) -> None:
    draw = random.Random(0)
    texts = [draw.choice(GOOD) if draw.random() < 0.97 else draw.choice(faults or GOOD) for _ in range(5_000)]
    columns, lines, first, second = read_both(b"\xef\xbb\xbf" + end.join(texts).encode())
    assert columns == lines and len(lines) > 4_000
    assert first == second and bool(first.count) == bool(faults)


def test_a_line_longer_than_a_read_is_one_row() -> None:
    text = json.dumps({"input": "x" * (3 * READ_BYTES), "label": 1})
    columns, lines, _, _ = read_both(f"{text}\n{GOOD[0]}\n{text}".encode())
    assert columns == lines and len(columns) == 3


def test_a_carriage_return_inside_an_object_ends_a_line() -> None:
    columns, lines, first, second = read_both(b'{"input": [1],\r"label": 1}\n{"input": [2], "label": 1}\n')
    assert columns == lines == [LabelledRow(3, [2], "1")] and first.first == second.first


@pytest.mark.few(3)
@pytest.mark.parametrize("every", [1, 7, 256, 300])
@pytest.mark.parametrize("kind", ["classifier", "logistic"])
def test_rows_and_lines_give_the_same_report(tmp_path: Path, kind: str, every: int) -> None:
    """A delay of 0 s in a column of times reads lines, and gives the same order."""
    path, timed = write_blobs(tmp_path, 700), tmp_path / "timed.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    timed.write_text("\n".join(json.dumps({**row, "at": place}) for place, row in enumerate(rows)))
    candidate = CandidateSpec(kind, every=every)
    replays = [
        Replay(open_source(str(path)), candidate),
        Replay(open_source(str(timed), ReadOptions(delay=LabelDelay(at="at"))), candidate),
    ]
    assert [replay.source.has_plain_rows for replay in replays] == [True, False]
    losses = [list(replay.losses()) for replay in replays]
    one, other = (replay.report() for replay in replays)
    assert losses[0] == losses[1] and one.figures == other.figures and one.drift == other.drift
    assert (one.state_sha256, one.asked, one.events) == (other.state_sha256, other.asked, other.events)
