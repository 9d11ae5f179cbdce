"""Questions with answers and what those were worth, from files of JSON lines.

{"question", "answer", "reward", "taught"} --hash of the question--> lines to learn | lines to judge by
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from online.errors import BadInput

Line = TypeVar("Line", bound=BaseModel)
LIKED = 0.5  # the least reward of an answer that was liked


class RatedLine(BaseModel):
    """An answer. reward: 0 to 1; None: not rated. taught: whether a person has written it."""

    question: str
    answer: str
    reward: Annotated[float, Field(ge=0, le=1)] | None = None
    taught: bool = False


class GoldenLine(BaseModel):
    """A question whose answer is known. must_contain: a part of every right answer. wrong: a wrong answer."""

    question: Annotated[str, Field(min_length=1)]
    must_contain: Annotated[str, Field(min_length=1)]
    wrong: str = ""


@dataclass(frozen=True)
class LearningSet:
    """Lines by what is learned from them. positives: taught or liked. liked, disliked: by thumbs. skipped: number
    of lines with neither, or without a text."""

    positives: Sequence[RatedLine]
    liked: Sequence[RatedLine]
    disliked: Sequence[RatedLine]
    skipped: int


def read_lines(path: Path, kind: type[Line]) -> list[Line]:
    """Return the lines of a file. Raises BadInput."""
    return list(iterate_lines(path, kind))


def iterate_lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """Yield the lines of a file. Raises BadInput."""
    try:
        texts = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as a UTF-8 file of JSON lines: {error}") from None
    for number, text in enumerate(texts, 1):
        if text.strip():
            try:
                yield kind.model_validate(json.loads(text))
            except ValidationError as error:
                first: Any = error.errors()[0]
                place = ".".join(map(str, first["loc"])) or "the line"
                raise BadInput(f"{path}, line {number}: {place}: {first['msg']}") from None
            except ValueError:
                raise BadInput(f"{path}, line {number} is not valid JSON; correct it") from None


def is_held_out(question: str, share: float) -> bool:
    """Return whether a question is one to judge by: the same ones in every file, about `share` of them."""
    number = int.from_bytes(hashlib.sha256(question.encode()).digest()[:8], "big")
    return number < share * 2**64


def sort_lines(lines: Sequence[RatedLine]) -> LearningSet:
    """Return the lines by what is learned from them."""
    whole = [line for line in lines if line.question.strip() and line.answer.strip()]
    positives = [line for line in whole if line.taught or is_liked(line)]
    liked = [line for line in whole if is_liked(line)]
    disliked = [line for line in whole if line.reward is not None and not line.taught and not is_liked(line)]
    return LearningSet(positives, liked, disliked, len(lines) - len(positives) - len(disliked))


def is_liked(line: RatedLine) -> bool:
    """Return whether an answer has got a thumb up."""
    return line.reward is not None and line.reward >= LIKED
