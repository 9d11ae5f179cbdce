"""Open items in groups of questions that mean the same.

items --the features of their predictions--> clusters of questions --> groups, the newest first
      --without features: by their words--+
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from online.models.encoders.follow_ups import read_text
from online.models.encoders.text import TEXT_WIDTH
from online.serving.repertoire.unanswered import Question, cluster_questions
from online.store.inbox import OpenItem
from online.store.replies import fold_text

MAX_QUESTIONS = 500  # different ones, the newest; the others are shown once these are decided


@dataclass(frozen=True, slots=True)
class Group:
    """items: the newest first. questions: (text, number of items), the most frequent first."""

    items: tuple[OpenItem, ...]
    questions: tuple[tuple[str, int], ...]

    @property
    def id(self) -> str:
        """That of its oldest item, so that it stays while more is said."""
        return self.items[-1].id

    @property
    def newest_at(self) -> str:
        return self.items[0].created_at

    @property
    def assignee(self) -> str | None:
        names = {item.assignee for item in self.items}
        return names.pop() if len(names) == 1 else None


def question_of(item: OpenItem) -> str | None:
    """The words of its question; None where they were erased, or it is no text."""
    text = read_text(json.loads(item.question))
    return None if text is None or not text.strip() else " ".join(text.split())


def group_items(items: Iterable[OpenItem]) -> list[Group]:
    """Group items by meaning; the group with the newest item comes first."""
    newest_first = sorted(items, key=lambda item: (item.created_at, item.id), reverse=True)
    by_words: dict[str, list[OpenItem]] = defaultdict(list)
    for item in newest_first:
        words = question_of(item)
        key = fold_text(words) if words is not None else f"\0{item.id}"
        if key in by_words or len(by_words) < MAX_QUESTIONS:
            by_words[key].append(item)
    groups = [build_group([by_words[key] for key in keys]) for keys in cluster_words(by_words)]
    return sorted(groups, key=lambda group: (group.newest_at, group.id), reverse=True)


def cluster_words(by_words: dict[str, list[OpenItem]]) -> list[list[str]]:
    """The keys in clusters; one without features is a cluster of its own."""
    questions, alone = list[Question](), list[list[str]]()
    for key, items in by_words.items():
        features = next((item.features for item in items if len(item.features) == TEXT_WIDTH), b"")
        if features:
            questions.append(Question(key, features, items[0].created_at, [item.id for item in items]))
        else:
            alone.append([key])
    return [*([question.text for question in each.questions] for each in cluster_questions(questions)), *alone]


def build_group(of_questions: Sequence[Sequence[OpenItem]]) -> Group:
    items = sorted(
        (item for items in of_questions for item in items), key=lambda item: (item.created_at, item.id), reverse=True
    )
    counted = [(words, len(items)) for items in of_questions if (words := question_of(items[0])) is not None]
    return Group(tuple(items), tuple(sorted(counted, key=lambda each: -each[1])))
