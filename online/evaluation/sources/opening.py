"""Opens what a command line names as a source: looks at its format and its inputs, and refuses the rest."""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from online.errors import BadInput
from online.evaluation.sources.arrival import LabelDelay, are_in_order
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.column_choice import ALL_COLUMNS
from online.evaluation.sources.column_profile import profile_columns
from online.evaluation.sources.datasets import open_dataset, open_river_dataset
from online.evaluation.sources.labelled_rows import is_json, refuse_label
from online.evaluation.sources.log_format import parse_json
from online.evaluation.sources.log_lines import is_header, is_log_line, parse_header
from online.evaluation.sources.replay_source import ReadOptions, Source
from online.evaluation.sources.vw_survey import LABELS, Survey, survey_file
from online.io.csv_tables import DELIMITERS, open_csv
from online.io.parquet_tables import check_columns, is_parquet, name_columns, open_parquet
from online.io.records import ReadLimits, open_text, suffix_of

FORMATS = ("online", "jsonl", "csv", "parquet", "vw", "dsjson")


SURVEYED_ROWS = 1_000  # at least, to find the columns of a table without a header


TABLES = ("jsonl", "csv", "parquet")  # whose columns are looked at


PACKINGS = ("", ".gz", ".zst")
JSON_LINES = tuple(f"{ending}{packed}" for ending in (".jsonl", ".ndjson") for packed in PACKINGS)
JSON_TEXTS = tuple(f".json{packed}" for packed in PACKINGS)
ENDINGS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".vw": "vw", ".dsjson": "dsjson"}


DATASET_PREFIXES = ("river:", "sklearn:")


def open_sources(names: Sequence[str], reads: ReadOptions) -> list[Source]:
    """Open the sources that a command line names. Raises BadInput for a source that cannot be replayed, or is given twice."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise BadInput(f"{twice[0]} is given twice; give every log once")
    return [open_source(name, reads) for name in names]


def open_source(name: str, reads: ReadOptions | None = None) -> Source:
    """Open a file, a dataset or standard input (-). Raises BadInput if it cannot be replayed."""
    source = _describe(name, reads or ReadOptions())
    source = choose_columns(source) if source.reads.columns else source
    check_rows(source)
    source = profile_source(source) if source.input == "table" and source.format in TABLES else source
    return check_order(source)


def check_order(source: Source) -> Source:
    """Return the source, which then knows whether its rows are in the order of the times by which labels arrive."""
    delay = source.reads.delay
    if source.header or not delay.at:
        return source
    rows = source._rows(BadLines(max_ratio=1.0), lambda share: None)
    return replace(source, is_in_order=are_in_order(rows, delay))


def choose_columns(source: Source) -> Source:
    """Return the source, which then knows the columns that it leaves out. Raises BadInput for a wrong choice of them."""
    choice, known = source.reads.columns, find_columns(source)
    choice.check(source.name, source.reads.label or "label", known)
    return replace(source, left_out=tuple(column for column in known if not choice.wants(column)))


def find_columns(source: Source) -> list[str]:
    """Return the columns of a table, without its label: those that a header names, or else those of its rows.

    Reads the first SURVEYED_ROWS rows, and further ones until each chosen column has been seen. Raises BadInput for
    texts and vectors, which have no columns.
    """
    if source.table is not None:
        return [name for name in source.table.names if name != source.reads.label]
    if source.path is not None and source.format == "parquet":
        names = name_columns(open_parquet(source.path, source.reads.limits))
        return [name for name in names if name != source.reads.label]
    whole = replace(source, reads=replace(source.reads, columns=ALL_COLUMNS))
    found = dict[str, None]()
    for number, instance in enumerate(whole.instances()):
        if not isinstance(instance, dict):
            kind = "texts" if isinstance(instance, str) else "vectors"
            raise BadInput(f"{source.name} holds {kind}, which have no columns; --drop and --feature are for tables")
        if number >= SURVEYED_ROWS and source.reads.columns.are_all_known(found):
            break
        found.update(dict.fromkeys(instance))
    return [*found]


def profile_source(source: Source) -> Source:
    """Return the source, which then knows what its columns are, as its first rows show."""
    if source.format == "parquet" and source.path is not None:
        unread = {*source.left_out} - source.reads.others
        check_columns(source.path, open_parquet(source.path, source.reads.limits), unread)
    rows = [each for each in islice(source.instances(), SURVEYED_ROWS) if isinstance(each, dict)]
    styles = source.table.styles if source.table is not None else {}
    named = [name for name in {name for row in rows for name in row} if source.reads.columns.names_feature(name)]
    profile = profile_columns(rows, named, source.reads.delay.at, styles)
    if source.table is not None:  # "42" in a column of texts, or of ids, is one
        unlike_numbers = [each.name for each in profile.columns if each.kind in ("text", "date")]
        source = replace(source, table=source.table.with_texts(unlike_numbers))
    return replace(source, profile=profile, input=profile.input, size=profile.size)


def check_rows(source: Source) -> None:
    """Raise BadInput for a file without a row that can be used."""
    if source.header or source.path is None or source.survey is not None:
        return
    bad = BadLines(max_ratio=1.0)
    if next(source._rows(bad, lambda share: None), None) is None:
        bad.max_ratio = 0.0
        bad.check(0)
        raise BadInput(f"{source.name} holds no rows").because("log_without_rows")


def _describe(name: str, reads: ReadOptions) -> Source:
    if name.startswith(DATASET_PREFIXES):
        return _describe_dataset(name, reads)
    path = spool_stdin() if name == "-" else Path(name)
    if not path.exists():
        raise BadInput(
            f"there is no file {name}; give a log, JSONL, a CSV with --label COLUMN, Parquet, "
            "Vowpal Wabbit's text, river:Phishing, sklearn:digits, or - for standard input"
        )
    named = _find_named_format(path, reads)
    first = "" if named == "parquet" else read_first_line(path, reads.limits)
    format = named or _guess_format(first, reads.label)
    if not named and format == "jsonl":
        check_first_line(first, name)
    if not first and format in ("online", "jsonl"):
        raise refuse_empty(name)
    if format == "online":
        if reads.task or reads.delay != LabelDelay():
            raise BadInput(
                f"{name} is a log: it has no tasks, and its own delays; --task and --delay are for labelled rows"
            )
        return Source(name, path, format, "", 0, None, reads, parse_header(first, name))
    if format in ("csv", "parquet") and not reads.label:
        raise BadInput(f"{name} is a {format.upper()}: say which column is the label with --label COLUMN").because(
            "log_label_missing"
        )
    made = Source(name, path, format, "table", 0, None, reads)
    if format in ("vw", "dsjson"):
        return replace(made, survey=find_survey(path, format, reads))
    if format in ("csv", "parquet"):
        return describe_table(made, path)
    kind, size = find_input_kind(read_first_example(path, name, first, reads.limits).get("input"), name)
    return replace(made, input=kind, size=size)


def find_survey(path: Path, format: str, reads: ReadOptions) -> Survey | None:
    """Return what the decisions of a file of Vowpal Wabbit's are; None for labelled rows."""
    survey = survey_file(path, format, reads.costs, reads.named_by, reads.limits)
    return None if survey.shape == LABELS else survey


def describe_table(source: Source, path: Path) -> Source:
    """Return the source with what its header shows. Raises BadInput if it has no such label."""
    label, limits = source.reads.label, source.reads.limits
    if source.format == "parquet":
        names = name_columns(open_parquet(path, limits))
    else:
        table = open_csv(path, limits, source.reads.delimiter, label)
        source, names = replace(source, table=table), [*table.names]
    if label not in names:
        raise refuse_label(path.name, label, names)
    return source


def _describe_dataset(name: str, reads: ReadOptions) -> Source:
    if name.startswith("river:"):
        found = open_river_dataset(name.removeprefix("river:"))
        return Source(name, None, "", "table", 0, found.n_samples, reads, numbers=found.task == "Regression")
    first, _ = next(iter(open_dataset(name)))
    count = sum(1 for _ in open_dataset(name))
    return Source(name, None, "", "vector", len(first), count, reads, numbers=name == "sklearn:diabetes")


def _find_named_format(path: Path, reads: ReadOptions) -> str:
    if reads.format and reads.format not in FORMATS:
        raise BadInput(f"there is no format {reads.format!r}; one of {', '.join(FORMATS)}")
    return reads.format or ENDINGS.get(suffix_of(path), "parquet" if is_parquet(path) else "")


def _guess_format(first: str, label: str) -> str:
    """Return the format of a file whose name does not show it: `label |features` is Vowpal Wabbit's.

    label: a first line that names this column among others is the header of a table.
    """
    if not is_json(first):
        if label and any(label in [cell.strip(' "\r\n') for cell in first.split(each)][1:] for each in DELIMITERS):
            return "csv"
        return "vw" if "|" in first and "," not in first.partition("|")[0] else "jsonl"
    try:
        line = parse_json(first, "", 1)
    except BadInput:  # reported with its number where the lines are read
        return "jsonl"
    if "_label_cost" in line:
        return "dsjson"
    return "online" if is_header(line) or is_log_line(line) else "jsonl"


def check_first_line(first: str, name: str) -> None:
    """Raise BadInput for a file that cannot be JSONL, with what it could be instead."""
    if first.lstrip().startswith("[") and not name.endswith(JSON_LINES):
        raise BadInput(
            f"{name} is a JSON array; write one object a line (JSONL), for instance with `jq -c '.[]' {name} > rows.jsonl`"
        ).because("log_unreadable")
    if first and not is_json(first) and not name.endswith((*JSON_LINES, *JSON_TEXTS)) and name != "-":
        raise BadInput(
            f"{name}, line 1 is no JSON; a table is read with --format csv, where its first line names the columns and --label one of "
            "them; ARFF, LIBSVM and columns between spaces are not read: write them as CSV"
        ).because("log_lines_invalid", line=1, problem="not_json", count=1)


def refuse_empty(name: str) -> BadInput:
    """Return the error for an empty file."""
    return BadInput(f"{name} is empty").because("log_empty")


def read_first_line(path: Path, limits: ReadLimits) -> str:
    """Return the first line that is not blank; "" if there is none."""
    with open_text(path, limits) as (file, _):
        return next((line for line in file if line.strip()), "")


def read_first_example(path: Path, name: str, first: str, limits: ReadLimits) -> dict[str, object]:
    """Return the first line that is an example, among the first SURVEYED_ROWS, for what its input shows.

    Raises BadInput about the first line of the file where there is none.
    """
    with open_text(path, limits) as (file, _):
        for line in islice(file, SURVEYED_ROWS):
            with suppress(BadInput):
                if isinstance((example := parse_json(line, name, 1)).get("input"), (str, list, dict)):
                    return example
    return parse_json(first, name, 1)


def spool_stdin() -> Path:
    """Copy standard input to a file that can be read more than once. It is deleted with the process."""
    file = tempfile.NamedTemporaryFile(prefix="online-replay-")
    shutil.copyfileobj(sys.stdin.buffer, file)
    file.flush()
    _spools.append(file)
    return Path(file.name)


_spools: list[Any] = []


def find_input_kind(instance: object, name: str) -> tuple[str, int]:
    """Return the kind and the size of an input. Raises BadInput if no model reads it."""
    if isinstance(instance, str):
        return "text", 0
    if isinstance(instance, list):
        return "vector", len(instance)
    if isinstance(instance, dict):
        return "table", 0
    raise BadInput(
        f'{name}, line 1: expected {{"input": ..., "label": ...}} with a text, a list of numbers or an object as input; rows '
        'whose names are columns, such as {"text": ..., "label": ...}, are read from CSV or Parquet'
    ).because("log_lines_invalid", line=1, problem="no_example", count=1)
