"""Cuts files of labelled rows into pieces, which other processes read and encode.

    JSONL               --whole lines, unparsed--> FilePiece --RowReader, in any process--> examples
    CSV, Parquet, VW    --parsed rows-----------> FilePiece

The rows come before the first event of a model's log, so their offsets are below zero: that of a row is its place in
all files, counted from BEFORE_LOG.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path

from online.errors import BadInput
from online.evaluation.replay.line_features import LineFeatures
from online.evaluation.sources.bad_lines import MAX_SHOWN, BadLines
from online.evaluation.sources.column_choice import ALL_COLUMNS, ColumnChoice
from online.evaluation.sources.column_profile import NO_COLUMNS, TableProfile
from online.evaluation.sources.encoded_columns import encode_columns
from online.evaluation.sources.replay_source import Source
from online.evaluation.sources.row_blocks import RowBlock, build_blocks, read_blocks, read_jsonl_columns
from online.io.cache import cache_folder
from online.io.records import open_bytes
from online.learning.piece_sums import PieceRows
from online.models import Encoder, Example
from online.models.contract import Options
from online.models.encoders.factory import create_encoder

BEFORE_LOG = -(2**40)  # the offset of the first row
PIECE_ROWS = 4_096
PIECE_BYTES = 4_194_304  # of unparsed lines, at least one line more


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Consecutive rows of a file. content: whole lines of JSONL, or parsed rows.

    first: the number of the first line in its file. before: the lines of the files before it.
    """

    name: str
    first: int
    before: int
    content: bytes | RowBlock


def cut_files(
    sources: Sequence[Source], bad: BadLines, at: Callable[[str, float], None] = lambda name, share: None
) -> Iterator[FilePiece]:
    """Yield the pieces of all files, in order. bad: counts the rows that cannot be used, if they are parsed here.

    at: is called with the name of a file and the share of all files that is read. Raises BadInput.
    """
    before = 0
    for number, source in enumerate(sources):

        def at_share(share: float, name: str = source.name, number: int = number) -> None:
            at(name, (number + min(share, 1.0)) / len(sources))

        last = 0
        for piece in cut_file(source, bad, at_share):
            yield replace(piece, before=before)
            last = find_last_line(piece)
        before += last


def cut_file(source: Source, bad: BadLines, at: Callable[[float], None]) -> Iterator[FilePiece]:
    """Yield the pieces of a file: of lines without parsing them, or of parsed rows."""
    if source.format == "jsonl" and source.path is not None:
        return cut_lines(source, source.path, at)
    return cut_rows(source, bad, at)


def cut_lines(source: Source, path: Path, at: Callable[[float], None]) -> Iterator[FilePiece]:
    """Cut JSONL into pieces of whole lines, without parsing them."""
    first, size = 1, max(path.stat().st_size, 1)
    with open_bytes(path, source.reads.limits, (b"\n", b"\r")) as (file, position):
        held = list[bytes]()
        lines = 0
        for block in read_blocks(file):
            held.append(block)
            lines += count_lines(block)
            if lines >= PIECE_ROWS or sum(map(len, held)) >= PIECE_BYTES:
                yield FilePiece(source.name, first, 0, b"".join(held))
                at(position() / size)
                first, held, lines = first + lines, [], 0
        if held:
            yield FilePiece(source.name, first, 0, b"".join(held))


def cut_rows(source: Source, bad: BadLines, at: Callable[[float], None]) -> Iterator[FilePiece]:
    """Cut parsed rows into pieces."""
    held = RowBlock()
    for block in source.blocks(bad, at):
        held = held.join(block)
        if len(held) >= PIECE_ROWS:
            yield FilePiece(source.name, held.numbers[0], 0, held)
            held = RowBlock()
    if len(held):
        yield FilePiece(source.name, held.numbers[0], 0, held)


def count_lines(data: bytes) -> int:
    """Count the lines of a block of whole lines, as `str.splitlines` does for the ends that JSONL may have."""
    ends = data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
    return ends + (not data.endswith((b"\n", b"\r")))


def find_last_line(piece: FilePiece) -> int:
    """Return the number of the last line of a piece."""
    if isinstance(piece.content, bytes):
        return piece.first + count_lines(piece.content) - 1
    return piece.content.numbers[-1]


@dataclass
class PieceReader:
    """Reads the examples of pieces. options: of the encoder, which is created by the first piece.

    profile, columns: what is read of the columns of a row.
    """

    options: Options
    max_chars: int = 8_000
    tuned: Path | None = None
    profile: TableProfile = NO_COLUMNS
    columns: ColumnChoice = ALL_COLUMNS

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs: it creates an encoder of its own."""
        options = {"options": dict(self.options), "max_chars": self.max_chars, "tuned": self.tuned}
        return {**options, "profile": self.profile, "columns": self.columns}

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, created by the first piece in each process."""
        created: Encoder = create_encoder(self.options, cache_folder(), 1, self.max_chars, self.tuned)
        return encode_columns(created, self.profile)

    def __call__(self, piece: FilePiece) -> PieceRows:
        bad, examples = BadLines(max_ratio=1.0), list[Example]()
        features = LineFeatures(self.encoder)
        for block in read_rows(piece, bad):
            block.instances = self.columns.of_instances(block.instances)
            examples += build_examples(piece, features.of_rows(block, bad))
        return PieceRows(examples, tuple(bad.first[:MAX_SHOWN]), bad.count)


def read_rows(piece: FilePiece, bad: BadLines) -> Iterator[RowBlock]:
    """Yield the rows of a piece."""
    if isinstance(piece.content, RowBlock):
        return iter([replace(piece.content)])
    return build_blocks(read_jsonl_columns(BytesIO(piece.content), piece.name, bad, piece.first))


def build_examples(piece: FilePiece, rows: RowBlock) -> list[Example]:
    """Return the examples of encoded rows, with offsets before those of the log."""
    start = BEFORE_LOG + piece.before
    columns = zip(rows.numbers, rows.features or [], rows.labels, strict=True)
    return [Example(start + number, "label", features, label) for number, features, label in columns]


def fit_files(sources: Sequence[Source], wanted: str) -> tuple[list[Source], TableProfile]:
    """Return the files, and what a model reads of their rows: all are read alike, as the first one shows.

    wanted: text, vector or table. Raises BadInput if the columns do not give that.
    """
    first, texts = sources[0], dict[str, None]()
    for each in sources:
        texts |= dict.fromkeys(each.table.names_of("text") if each.table is not None else ())
    alike = [each if each.table is None else replace(each, table=each.table.with_texts([*texts])) for each in sources]
    try:
        return alike, first.profile.fit(wanted)
    except ValueError as error:
        raise BadInput(f"{first.name}: {error}") from None


def check_history(source: Source) -> None:
    """Raise BadInput for a source that is not plain rows with labels."""
    if source.header:
        raise BadInput(
            f"{source.name} is an exported log, whose events belong to its own model: judge models on it with "
            "`online replay`, or give labelled rows"
        )
    if source.survey is not None:
        raise BadInput(f"{source.name} holds decisions and their costs, not the right answers; give labelled rows")
