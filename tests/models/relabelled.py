"""Digits whose classes are all relabelled at once, and models that receive the alarm."""

from collections.abc import Sequence

import numpy as np
from sklearn.datasets import load_digits

from online.models import Example, Model, Options

CLASSES, WIDTH, CHANGED_AT = 10, 64, 501
VECTOR: Options = {"input": "vector", "size": WIDTH}
MOVED = {str(digit): str((digit + 1) % CLASSES) for digit in range(CLASSES)}


def relabelled(count: int, seed: int = 0) -> list[Example]:
    """At most 1,797 drawn digits; from CHANGED_AT on each has the label of the next digit."""
    digits = load_digits()
    places = np.random.default_rng(seed).permutation(len(digits.data))[:count].tolist()
    return [
        Example(offset, "label", digits.data[place].tobytes(), name_digit(int(digits.target[place]), offset))
        for offset, place in enumerate(places, 1)
    ]


def name_digit(digit: int, offset: int) -> str:
    return MOVED[str(digit)] if offset >= CHANGED_AT else str(digit)


def learn_and_tell(model: Model, examples: Sequence[Example], batch: int = 1, known_after: int = 8) -> Model:
    """Learn the examples; the alarm comes `known_after` examples after the change."""
    alarm = CHANGED_AT - 1 + known_after
    for part in (examples[:alarm], examples[alarm:]):
        for start in range(0, len(part), batch):
            model.learn(part[start : start + batch])
        if part and part[-1].offset == alarm:
            model.drifted(None, CHANGED_AT)
    return model


def count_right(model: Model, examples: Sequence[Example]) -> int:
    answers = model.predict([example.features for example in examples])
    return sum(answer.choice == example.label for answer, example in zip(answers, examples, strict=True))
