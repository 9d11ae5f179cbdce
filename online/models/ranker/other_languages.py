"""What a chat does with a question in another language than its repertoire's: it gives no reply, unless one was taught.

    question, answer --is_other_language--> the answer, or an abstention

The sentence encoder reads English. For a question in another language, similarity finds some reply, but rarely the right one.
A reply is given where the best candidate is written in another language too, or is almost certain, as after a correction of
this question or of one like it.
"""

from collections.abc import Sequence
from typing import Any

from online.models.contract import Answer, Options
from online.models.encoders.follow_ups import read_text
from online.models.encoders.language import is_other_language
from online.models.kinds import encoder_options

CERTAIN = 0.95  # chance: on the questions for tuning, other languages reached 0.82


def find_other_languages(kind: str, options: Options, instances: Sequence[Any]) -> list[bool]:
    """Whether each instance is in another language than the model's; no list for a model that does not chat in one."""
    if not encoder_options(kind, options)["language"]:
        return []
    texts = map(read_text, instances)
    return [text is not None and is_other_language(text) for text in texts]


def withhold_untaught(answers: Sequence[Answer], are_other: Sequence[bool]) -> list[Answer]:
    """The answers, without replies to questions in other languages. are_other: one per answer, or empty."""
    if not any(are_other):
        return list(answers)
    return [withhold(answer) if is_other else answer for answer, is_other in zip(answers, are_other, strict=True)]


def withhold(answer: Answer) -> Answer:
    """The answer to a question in another language: an abstention, unless its best reply suits that language."""
    best = answer.candidates[0] if answer.candidates else None
    if best is None or best.score >= CERTAIN or is_other_language(best.text or ""):
        return answer
    return Answer(None, (), abstained=True)
