"""Reads labelled texts from files, for what learns from the texts themselves and not from their features.

files --open_sources--> sources --read_labelled_texts--> (text, label) of each row
"""

from collections.abc import Iterator, Sequence

from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.column_profile import TableProfile, create_treatment
from online.evaluation.sources.file_pieces import check_history, fit_files
from online.evaluation.sources.opening import open_sources
from online.evaluation.sources.replay_source import ReadOptions, Source
from online.models.encoders.follow_ups import read_text
from online.schemas.json_values import JSON


def read_labelled_texts(files: Sequence[str], reads: ReadOptions, max_chars: int) -> Iterator[tuple[str, str]]:
    """Yield the text and the label of each row of the files, in order.

    max_chars: of a text. Raises BadInput, also for more rows without a usable text than `reads` allows.
    """
    opened = open_sources(files, reads)
    for source in opened:
        check_history(source)
    sources, profile = fit_files(opened, "text")
    bad, used = BadLines(reads.max_bad_ratio), 0
    for source in sources:
        for number, instance, label in read_rows(source, bad):
            text = find_text(instance, profile)
            if (cause := find_cause(text, max_chars)) is not None:
                bad.add(f"{source.name}, line {number} {cause}", number, "no_example")
                continue
            used += 1
            yield text, label
    bad.check(used + bad.count)


def read_rows(source: Source, bad: BadLines) -> Iterator[tuple[int, JSON, str]]:
    """Yield (number, instance, label) of each row."""
    for block in source.blocks(bad):
        yield from zip(block.numbers, block.instances, block.labels, strict=True)


def find_text(instance: object, profile: TableProfile) -> str:
    """Return the text that a model reads of a row, with single spaces; "" if it has none."""
    read = instance if profile.is_plain else create_treatment(profile)(instance)
    return " ".join((read_text(read) or "").split())


def find_cause(text: str, max_chars: int) -> str | None:
    """Return why a text cannot be used; None if it can."""
    if not text:
        return "has no text"
    return None if len(text) <= max_chars else f"has a text of {len(text):,} characters; at most {max_chars:,}"
