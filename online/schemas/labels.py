"""The names of classes that numbers stand for: 1, 1.0 and +1 are one class, whichever door they come through.

    JSON, Parquet, own code   a number        --name_label--> "1"      a text is a name as it is
    CSV, Vowpal Wabbit        a cell or word  --name_cell---> "1"      where it is written as a number

`NUMBER` is what a number looks like in a text: ASCII digits, and neither `1_0` nor `nan`, `inf` or `0x1f`.
"""

import math
import re
from decimal import Decimal

NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
WHOLE_NUMBER = re.compile(r"[+-]?\d{1,400}", re.ASCII)
BOOLEANS = {"true": "True", "TRUE": "True", "True": "True", "false": "False", "FALSE": "False", "False": "False"}
EXACT_FLOATS = 1e22  # below it, a whole float is written with all its digits


def parse_number_text(text: str) -> float | None:
    """Return the finite number that a text is written as, or None for any other text."""
    if NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def name_label(label: object) -> str:
    """Return the name of a class that a value of JSON, of a Parquet file or of a program stands for.

    A text is the name itself, a whole number is named by its digits (1.0 is "1", -0.0 is "0"), any other number as
    Python writes it, and a truth value is True or False.
    """
    if isinstance(label, Decimal):
        label = float(label)
    if isinstance(label, float) and label.is_integer() and abs(label) < EXACT_FLOATS:
        return str(int(label))
    return str(label)


def name_cell(text: str) -> str:
    """Return the name of a class that a cell of a CSV or a word stands for: a number as `name_label` writes it."""
    if WHOLE_NUMBER.fullmatch(text):
        return str(int(text))
    number = parse_number_text(text)
    return BOOLEANS.get(text, text) if number is None else name_label(number)
