"""Tables of texts on a terminal."""

from collections.abc import Iterator, Sequence


def align(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with aligned columns, the heading first."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for cells in (columns, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
