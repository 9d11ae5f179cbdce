"""Profiles the columns of a table by their first rows, and chooses a treatment for each, which is always reported.

    rows --profile_columns--> ColumnProfile for each column --create_treatment--> what a model reads of a row

    number, category    read as they are
    identifier          left out: it is another one in every row
    date                parsed: days since 1970, the day of the week, the hour
    number with a unit  read as the number: $1,200.50, 12.5 %, 7 kg, where all have the same one
    text                the input, where no number, category or vector stands beside it; else left out
    vector              the input, where nothing stands beside it; else a number for each place, `embedding.0`
    empty               left out: it holds no value

A column that --feature names is never left out as an identifier.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from functools import partial
from itertools import pairwise
from typing import Literal, cast

from online.io.csv_tables import Style, read_cell
from online.io.instants import find_day
from online.schemas.columns import ColumnKind, Reason, Treatment
from online.schemas.json_values import JSON, JSONArray, JSONObject

Input = Literal["text", "vector", "table"]

LEAST_ROWS = 20  # that show an identifier
TEXT_WORDS = 3.0  # of a free text, on average
TEXT_SHARE = 0.5  # of its values that are different
LONGEST_CATEGORY = 1_000  # characters: what a table takes as one value
WORD = re.compile(r"[\x21-\x7e]{1,100}")
ID_WORDS = frozenset({"id", "idx", "uuid", "guid", "index", "rowid", "row", "pk"})
ROW_NAMES = ("unnamed: 0", "column 1")  # of a column without a name, as pandas and `csv_tables` call it
WORD_END = re.compile(r"[_\s.-]")
CAMEL_ID = re.compile(r"[a-z](?:Id|ID)\Z")
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?\s?(?:Z|[+-]\d\d:?\d\d)?)?")
CLOCK = r"(?:,?[ T](\d{1,2}):(\d\d)(?::(\d\d))?(?:\s?([AaPp])\.?[Mm]\.?)?)?"
OTHER_DATE = re.compile(rf"(\d{{1,4}})([./-])(\d{{1,2}})\2(\d{{2,4}}){CLOCK}")
# 3 May 2026, 03-May-2026
DAY_FIRST = re.compile(rf"(\d{{1,2}})(?:st|nd|rd|th|\.)?[-\s/]([^\W\d]{{3,9}})\.?,?[-\s/](\d{{4}}){CLOCK}")
MONTH_FIRST = re.compile(rf"([^\W\d]{{3,9}})\.?\s(\d{{1,2}})(?:st|nd|rd|th)?,?\s(\d{{4}}){CLOCK}")  # May 3, 2026
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
GERMAN_MONTHS = {"mär": 3, "mrz": 3, "mai": 5, "okt": 10, "dez": 12}
LEAST_NUMBERS = 10  # different ones, with one unit or as dates: fewer are names of categories
UNIT_SIGNS = "$€£¥₹%‰°"
WITH_UNIT = re.compile(
    rf"([+-]?)([{UNIT_SIGNS}]|[A-Z]{{3}}\s)?\s?([+-]?\d[\d.,]*)\s?([{UNIT_SIGNS}]?[^\W\d_]{{0,8}}(?:/[^\W\d_]{{1,4}})?)"
)
DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY_S = 86_400
STYLED: Mapping[str, Reason] = {
    "comma": "decimal_commas",
    "comma_grouped": "decimal_commas",
    "grouped": "grouped_digits",
}


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """One column. reason: what shows its kind.

    reads: of a date, how it is written: iso, dmy, mdy, ymd, named (3 May 2026) or compact (20260503); of a number with a unit, how its
    digits are, as in io/csv_tables.py, and the unit: "grouped $".
    """

    name: str
    kind: ColumnKind
    reason: Reason
    treatment: Treatment = "read"
    reads: str = ""


@dataclass(frozen=True, slots=True)
class TableProfile:
    """All columns of a table, and what a model reads of a row: the text, the vector, or the table. size: of a vector."""

    columns: tuple[ColumnProfile, ...] = ()
    input: Input = "table"
    size: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether rows are read as they are."""
        plain = (column.treatment == "read" and column.reason != "units" for column in self.columns)
        return self.input == "table" and all(plain)

    def fit(self, wanted: str) -> "TableProfile":
        """Return the profile for a model that reads texts, vectors or tables.

        Raises ValueError if the columns do not give that.
        """
        if not self.columns or wanted == self.input:
            return self
        if wanted == "table":
            return TableProfile(tuple(treat(column, text="read") for column in self.columns))
        kinds = find_text_kinds(self.columns) if wanted == "text" else find_number_kinds(self.columns)
        return TableProfile(
            tuple(keep_kinds(column, kinds) for column in self.columns), "text" if wanted == "text" else "vector"
        )

    def names(self, *treatments: Treatment) -> list[str]:
        """Return the names of the columns with these treatments."""
        return [column.name for column in self.columns if column.treatment in treatments]


NO_COLUMNS = TableProfile()


def profile_columns(
    rows: Sequence[Mapping[str, object]],
    named: Iterable[str] = (),
    at: str = "",
    styles: Mapping[str, str] | None = None,
) -> TableProfile:
    """Return what the columns of the first rows are.

    rows: values by name, without those that are missing. named: columns that the user has named as features. at: the
    column of the times. styles: how the numbers of a column are written, where not as 1.5 (see io/csv_tables.py).
    """
    columns = dict[str, JSONArray]()
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    kept, styled = {*named}, styles or {}
    found = [profile_column(name, values, len(rows), styled.get(name, "")) for name, values in columns.items()]
    found = [keep_named(each) if each.name in kept else each for each in found]
    return choose_treatments(found, columns, at)


# kinds


def profile_column(name: str, given: Sequence[object], rows: int, style: str = "") -> ColumnProfile:
    """Return the profile of a column from its first values."""
    values = [value for value in given if value is not None and value != []]
    if not values:
        return ColumnProfile(name, "empty", "no_value")
    if all(map(is_vector, values)):
        return ColumnProfile(name, "vector", "lists")
    if style == "text" and not holds_texts(values):
        return find_identifier(name, values, rows) or ColumnProfile(name, "category", "leading_zero")
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        if are_compact_dates(values):
            return ColumnProfile(name, "date", "dates", reads="compact")
        return find_identifier(name, values, rows) or ColumnProfile(name, "number", STYLED.get(style, "numbers"))
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        return profile_texts(name, texts, rows)
    return ColumnProfile(name, "category", "mixed" if texts else "truth_values")


def profile_texts(name: str, texts: Sequence[str], rows: int) -> ColumnProfile:
    """Return the profile of a column of texts: dates, units, categories or free text."""
    if how := find_date_format(texts):
        return ColumnProfile(name, "date", "dates", reads=how)
    if reads := find_unit(texts):
        return ColumnProfile(name, "number", "units", reads=reads)
    if identifier := find_identifier(name, texts, rows):
        return identifier
    if holds_texts(texts):
        return ColumnProfile(name, "text", "sentences")
    return ColumnProfile(name, "category", "names")


def find_unit(texts: Sequence[str]) -> str:
    """Return how numbers with a unit are read, see `ColumnProfile`; "" where they have none, or not all the same."""
    found = [split_unit(text) for text in texts]
    units = {unit for _, unit in found}
    unit = units.pop()
    if units or not unit or len({*texts}) < LEAST_NUMBERS:
        return ""
    styles = ("number", "grouped", "comma", "comma_grouped")
    fitting = (each for each in styles if all(read_digits(digits, each) is not None for digits, _ in found))
    style = next(fitting, "")
    return f"{style} {unit}" if style else ""


def split_unit(text: str) -> tuple[str, str]:
    """Return the digits of a number, with its sign, and the unit beside it; ("", "") for any other text."""
    match = WITH_UNIT.fullmatch(text)
    return (f"{match[1]}{match[3]}", f"{match[2] or ''}{match[4]}") if match else ("", "")


def read_digits(text: str, style: str) -> float | None:
    """Return the number that a text of this style stands for; None if it is none."""
    read = read_cell(text, cast(Style, style))
    return read if isinstance(read, float) else None


def parse_units(value: object, reads: str) -> object:
    """Return the number beside a unit. What is none, or has another unit, in a row behind those that were looked at, stays."""
    style, _, unit = reads.partition(" ")
    digits, found = split_unit(value) if isinstance(value, str) else ("", "")
    number = read_digits(digits, style) if found == unit else None
    return value if number is None else number


def are_compact_dates(values: Sequence[JSON]) -> bool:
    """Return whether numbers are dates such as 20260503. A number beside others that are none is not."""
    different = {*map(float, values)}
    return len(different) >= LEAST_NUMBERS and all(find_day(value) is not None for value in different)


def is_vector(value: object) -> bool:
    """Return whether a value is a list, or a cell that holds one as JSON."""
    if isinstance(value, list):
        return True
    return isinstance(value, str) and value.startswith("[") and parse_vector(value) is not None


def parse_vector(value: object) -> list[object] | None:
    """Return the list that a value is, or that its JSON is; None for anything else, and for an empty one."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
        if not isinstance(found, list) or not found:
            return None
        return [*map(float, found)] if all(type(each) in (int, float) for each in found) else found
    except (ValueError, OverflowError, RecursionError):
        return None


def holds_texts(values: Sequence[object]) -> bool:
    """Return whether values are sentences, rather than names of categories."""
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values) or not texts:
        return False
    if any(len(text) > LONGEST_CATEGORY for text in texts):
        return True
    return sum(map(count_words, texts)) >= TEXT_WORDS * len(texts) and len({*texts}) > TEXT_SHARE * len(texts)


def count_words(text: str) -> float:
    """Return how many words a text has; two letters of a script without spaces between words count as one."""
    return max(len(text.split()), sum(letter >= "\u2e80" for letter in text) / 2)


def find_identifier(name: str, values: Sequence[JSON], rows: int) -> ColumnProfile | None:
    """Return the profile of a column that only tells rows apart, or None.

    Its values are all different, and are words, or whole numbers that count the rows or that the column's name calls ids.
    """
    if len(values) < max(LEAST_ROWS, rows) or len({*values}) < len(values):
        return None
    if all(isinstance(value, str) and WORD.fullmatch(value) for value in values):
        return ColumnProfile(name, "identifier", "another_word")
    if not all(
        isinstance(value, (int, float)) and value == int(value) for value in values if not isinstance(value, str)
    ):
        return None
    if values[0] in (0, 1) and all(after - before == 1 for before, after in pairwise(values)):
        return ColumnProfile(name, "identifier", "counts_rows")
    if is_id_name(name):
        return ColumnProfile(name, "identifier", "another_id")
    return None


def is_id_name(name: str) -> bool:
    """Return whether a column's name says that it holds ids: row, order_id, userId."""
    lowered = name.lower()
    return lowered in ROW_NAMES or WORD_END.split(lowered)[-1] in ID_WORDS or CAMEL_ID.search(name) is not None


def keep_named(column: ColumnProfile) -> ColumnProfile:
    """Return a column that the user has named as a feature: what looks like an identifier is read."""
    if column.kind != "identifier":
        return column
    return replace(column, kind="category" if column.reason == "another_word" else "number")


# treatments


def choose_treatments(found: Sequence[ColumnProfile], columns: Mapping[str, Sequence[object]], at: str) -> TableProfile:
    """Decide what is read of each column: never nothing at all, where there is anything."""
    kinds = {column.kind for column in found}
    if at:
        found = [replace(each, treatment="time") if each.name == at and each.kind == "date" else each for each in found]
    if "text" in kinds and not kinds & {"number", "category", "vector"}:
        return TableProfile(tuple(treat(each, text="input", date="left_out") for each in found), "text")
    if kinds <= {"identifier", "empty"} and "identifier" in kinds:
        return choose_last(found)
    vectors = [each for each in found if each.kind == "vector"]
    if len(vectors) == 1 and not kinds & {"number", "category", "text", "date"}:
        size = len(parse_vector(next(value for value in columns[vectors[0].name] if value not in (None, []))) or ())
        return TableProfile(tuple(treat(each, vector="input") for each in found), "vector", size)
    return TableProfile(tuple(map(treat, found)))


def treat(
    column: ColumnProfile, text: Treatment = "left_out", date: Treatment = "parsed", vector: Treatment = "spread"
) -> ColumnProfile:
    """Return a column with the treatment of its kind."""
    of: dict[ColumnKind, Treatment] = {"identifier": "left_out", "empty": "left_out"}
    of |= {"text": text, "date": date, "vector": vector}
    return column if column.treatment == "time" else replace(column, treatment=of.get(column.kind, "read"))


def find_text_kinds(columns: Sequence[ColumnProfile]) -> set[ColumnKind]:
    """Return the kind of the columns that a model of texts reads: the sentences, or else the only names."""
    kinds = [column.kind for column in columns]
    if "text" in kinds:
        return {"text"}
    for kind in ("category", "identifier", "date"):
        if kinds.count(kind) == 1:
            return {kind}
    raise ValueError(
        f"none of the columns {', '.join(column.name for column in columns)} holds texts; name it with --feature"
    )


def find_number_kinds(columns: Sequence[ColumnProfile]) -> set[ColumnKind]:
    """Return the kinds of the columns whose numbers, in order, are a vector."""
    if others := [column for column in columns if column.kind in ("category", "text", "date")]:
        raise ValueError(
            f"a vector has numbers alone, and the column {others[0].name!r} has others; leave it out with --drop"
        )
    return {"number", "vector"}


def keep_kinds(column: ColumnProfile, kinds: set[ColumnKind]) -> ColumnProfile:
    """Return a column that is an input if it is of one of these kinds, and is left out else."""
    return replace(column, treatment="input" if column.kind in kinds else "left_out")


def choose_last(found: Sequence[ColumnProfile]) -> TableProfile:
    """Return what is read where every column is an identifier: a word is the text, and a number stays a number."""
    words = [each for each in found if each.reason == "another_word"]
    if words:
        kept = [replace(each, kind="text", treatment="input") if each in words[:1] else treat(each) for each in found]
        return TableProfile(tuple(kept), "text")
    return TableProfile(
        tuple(replace(each, kind="number") if each.kind == "identifier" else treat(each) for each in found)
    )


def create_treatment(profile: TableProfile) -> Callable[[JSON], JSON]:
    """Return a function that turns the values of a row into what a model reads; None where a text or number is missing.

    What is no row, such as a text of JSONL among objects, stays as it is.
    """
    inputs, treat_row = profile.names("input"), TableTreatment(profile).treat
    if profile.input == "text":
        treat_row = partial(join_texts, inputs)
    elif profile.input == "vector":
        treat_row = partial(join_numbers, inputs)
    units = {each.name: each.reads for each in profile.columns if each.reason == "units"}
    if units and profile.input != "text":
        treat_row = partial(treat_numbers, units, treat_row)
    return lambda instance: treat_row(instance) if isinstance(instance, dict) else instance


def treat_numbers(
    units: Mapping[str, str], treat_row: Callable[[Mapping[str, object]], object], row: Mapping[str, object]
) -> object:
    """Treat a row whose numbers with a unit are read first. units: how each of these columns is read."""
    read = {name: parse_units(row[name], reads) for name, reads in units.items() if name in row}
    return treat_row({**row, **read})


def join_texts(names: Sequence[str], row: Mapping[str, object]) -> str | None:
    """Return the texts of a row in one text; None without any."""
    return "\n".join(str(row[name]) for name in names if row.get(name) not in (None, "")) or None


def join_numbers(names: Sequence[str], row: Mapping[str, object]) -> list[object] | None:
    """Return the numbers of a row as one vector; None if one is missing."""
    numbers = JSONArray()
    for name in names:
        value = row.get(name)
        vector = parse_vector(value) if is_vector(value) else None if value is None else [value]
        if vector is None:
            return None
        numbers += vector
    return numbers


class TableTreatment:
    """Turns the values of a row into the columns of a table."""

    def __init__(self, profile: TableProfile) -> None:
        self.left_out = frozenset(profile.names("left_out", "time"))
        self.dates = {each.name: each.reads for each in profile.columns if each.treatment == "parsed"}
        self.vectors = frozenset(profile.names("spread"))

    def treat(self, row: Mapping[str, object]) -> object:
        """Return the values of a row that the model reads, with dates and vectors spread over columns."""
        treated = JSONObject()
        for name, value in row.items():
            if name in self.left_out:
                continue
            if name in self.dates:
                treated |= parse_date(name, value, self.dates[name])
            elif name in self.vectors:
                treated |= {f"{name}.{place}": number for place, number in enumerate(parse_vector(value) or ())}
            else:
                treated[name] = value
        return treated


# dates


def find_date_format(texts: Sequence[str]) -> str:
    """Return how all texts are written as dates, see `ColumnProfile`; "" if one is no date, or they may be either."""
    if all(ISO_DATE.fullmatch(text) for text in texts):
        return "iso" if all(read_instant(text, "iso") is not None for text in texts) else ""
    if not all(OTHER_DATE.fullmatch(text) for text in texts):
        return "named" if all(read_instant(text, "named") is not None for text in texts) else ""
    fitting = [how for how in ("ymd", "dmy", "mdy") if all(read_instant(text, how) is not None for text in texts)]
    if fitting == ["dmy", "mdy"] and all("." in text for text in texts):
        return "dmy"
    return fitting[0] if len(fitting) == 1 else ""


def read_instant(value: JSON, how: str) -> datetime | None:
    """Return the time that a text, or a number such as 20260503, names; one without a zone is UTC. None if it names none."""
    try:
        if how == "compact":
            day = find_day(float(value))
            return None if day is None else datetime.combine(day, time(), UTC)
        if how == "iso":
            read = datetime.fromisoformat(value.strip().replace(",", ".").replace(" Z", "Z"))
            return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
        year, month, day, *clock = find_date_parts(value, how)
        return datetime(int(year), month, int(day), *read_clock(*clock), tzinfo=UTC)
    except (ValueError, OverflowError, TypeError):
        return None


def find_date_parts(text: str, how: str) -> tuple[JSON, ...]:
    """Return the year, month and day of a text, and its hour, minute, second and half of the day. Raises ValueError."""
    if how == "named":
        if found := DAY_FIRST.fullmatch(text):
            return found[3], read_month(found[2]), found[1], *found.groups()[3:]
        if found := MONTH_FIRST.fullmatch(text):
            return found[3], read_month(found[1]), found[2], *found.groups()[3:]
        raise ValueError(text)
    found = OTHER_DATE.fullmatch(text)
    parts = dict(zip(how, (found[1], found[3], found[4]), strict=True)) if found else {"y": ""}
    if found is None or len(parts["y"]) != 4:
        raise ValueError(text)
    return parts["y"], int(parts["m"]), parts["d"], *found.groups()[4:]


def read_month(name: str) -> int:
    """Return the number of a month by the first letters of its English or German name. Raises ValueError."""
    short = name[:3].lower()
    return GERMAN_MONTHS.get(short) or 1 + MONTHS.index(short)


def read_clock(hour: str | None, minute: str | None, second: str | None, half: str | None) -> tuple[int, int, int]:
    """half: a or p of a clock of twelve hours. Raises ValueError."""
    found = int(hour or 0)
    if half is not None:
        if not 1 <= found <= 12:
            raise ValueError(hour)
        found = found % 12 + 12 * (half in "Pp")
    return found, int(minute or 0), int(second or 0)


def parse_date(name: str, value: object, how: str) -> dict[str, object]:
    """Return the features of a date: days since 1970, the day of the week, and the hour where it has a time.

    What is no date, in a row behind those that were looked at, is a category.
    """
    is_read = isinstance(value, (int, float) if how == "compact" else str) and not isinstance(value, bool)
    instant = read_instant(value, how) if is_read else None
    if instant is None:
        return {} if value is None else {name: value}
    features = {name: instant.timestamp() / DAY_S, f"{name}.weekday": DAY_NAMES[instant.weekday()]}
    return {**features, f"{name}.hour": float(instant.hour)} if ":" in str(value) else features
