"""The profile of a column of a table."""

from typing import Literal

ColumnKind = Literal["number", "category", "text", "vector", "date", "identifier", "empty"]
Reason = Literal[
    "no_value",
    "lists",
    "leading_zero",
    "decimal_commas",
    "grouped_digits",
    "units",
    "numbers",
    "mixed",
    "truth_values",
    "dates",
    "sentences",
    "names",
    "another_word",
    "counts_rows",
    "another_id",
]
Treatment = Literal["read", "left_out", "parsed", "input", "spread", "time"]
