"""Models that answer from updated solutions: the same answers as from solved ones."""

from collections.abc import Sequence

import pytest

from online.models import Example, Model, create
from online.models.updates import answer_by_updates
from tests.models.synthetic import texts

INPUT = {"input": "text"}


def examples_of(kind: str) -> Sequence[Example]:
    lessons = texts(150)
    if kind != "ranker":
        return lessons
    first = {lesson.label: lesson for lesson in reversed(lessons)}
    replies = [Example(n, "reply", each.features, label, label) for n, (label, each) in enumerate(first.items(), 1)]
    return [*replies, *(Example(1_000 + each.offset, "reward", each.features, each.label) for each in lessons)]


def answers(model: Model, lessons: Sequence[Example]) -> list[tuple[str | None, float]]:
    given = model.predict([lesson.features for lesson in lessons])
    return [(answer.choice, answer.score) for answer in given]


@pytest.mark.parametrize("kind", ["classifier", "ranker"])
def test_answers_after_every_lesson_equal_those_of_solved_weights(kind: str) -> None:
    options = {} if kind == "ranker" else INPUT
    updated, solved, lessons = create(kind, options), create(kind, options), examples_of(kind)
    answer_by_updates(updated)
    for place, lesson in enumerate(lessons):
        for model in (updated, solved):
            model.learn([lesson])
        ours, exact = (answers(model, lessons[place : place + 3]) for model in (updated, solved))
        assert [choice for choice, _ in ours] == [choice for choice, _ in exact]
        assert [score for _, score in ours] == pytest.approx([score for _, score in exact], abs=1e-5)
    assert updated.fingerprint() == solved.fingerprint()
