"""Open items in groups of which a curator decides at once.

of a ranker:      items --the features of their predictions--> clusters of questions --> groups, the newest first
                        --without features: by their words--+
of other models:  items --by the name that they give--> groups of examples, the newest first
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from online.models.encoders.follow_ups import read_text
from online.models.encoders.text import TEXT_WIDTH
from online.plugins.moderation.inbox.tables import OpenItem
from online.schemas.events import is_positive
from online.serving.repertoire.question_clusters import RepeatedQuestion, cluster_questions
from online.store.database.values import ERASED, NO_TEXT, fold_text

Content = Mapping[str, Any]
MAX_QUESTIONS = 500  # different ones, the newest; the others are shown once these are decided
LISTED = 50  # groups that a list of the inbox has, unless it is asked for more
MAX_INSTANCE_CHARS = 20_000  # of JSON; a longer one is not shown, and not kept with the groups


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """items: the newest first. questions: (text, number of items), the most frequent first; of a ranker only.

    label: the class or number that all items name; None for a ranker, and for thumbs.
    """

    items: tuple[OpenItem, ...]
    questions: tuple[tuple[str, int], ...]
    label: str | None = None

    @property
    def id(self) -> str:
        """That of its oldest item, so that it stays while more is said."""
        return self.items[-1].id

    @property
    def newest_at(self) -> str:
        """When the newest item was given."""
        return self.items[0].created_at

    @property
    def assignee(self) -> str | None:
        """The caller who looks after all items; None if they differ."""
        names = {item.assignee for item in self.items}
        return names.pop() if len(names) == 1 else None


def question_of(item: OpenItem) -> str | None:
    """Return the words of its question; None where they were erased, or it is no text."""
    text = read_text(json.loads(item.question))
    return None if text is None or not text.strip() else " ".join(text.split())


def read_content(item: OpenItem) -> Content:
    """Return the feedback of an item, as it was given; empty where it was erased."""
    content: Content = {} if item.content == ERASED else json.loads(item.content)
    return content


def sort_items(items: Iterable[OpenItem]) -> list[OpenItem]:
    """Return the newest first."""
    return sorted(items, key=lambda item: (item.created_at, item.id), reverse=True)


def sort_groups(groups: Iterable[ItemGroup]) -> list[ItemGroup]:
    """Return the group with the newest item first."""
    return sorted(groups, key=lambda group: (group.newest_at, group.id), reverse=True)


def group_examples(items: Iterable[OpenItem]) -> list[ItemGroup]:
    """Group items of a model without a repertoire by the name that they give; thumbs by what they judge."""
    by_name: dict[tuple[str | None, ...], list[OpenItem]] = defaultdict(list)
    for item in sort_items(items):
        said = read_content(item)
        thumb = () if said.get("reward") is None else (item.choice, "up" if is_positive(said["reward"]) else "down")
        by_name[said.get("label"), *thumb].append(without_long_instance(item))
    return sort_groups(ItemGroup(tuple(items), (), label) for (label, *_), items in by_name.items())


def without_long_instance(item: OpenItem) -> OpenItem:
    """Return the item without an instance that is too long to be shown, such as a photo."""
    if max(len(item.question), len(item.content)) <= MAX_INSTANCE_CHARS:
        return item
    content = json.dumps({name: value for name, value in read_content(item).items() if name != "input"})
    return replace(item, question=NO_TEXT, content=content)


def index_questions(groups: Sequence[ItemGroup]) -> dict[str, str]:
    """Question, folded -> the id of the group that a link can lead to: the first one, of those that are listed."""
    return {fold_text(text): group.id for group in reversed(groups[:LISTED]) for text, _ in group.questions}


def find_suggestions(groups: Sequence[ItemGroup], texts: Iterable[str]) -> tuple[str | None, int]:
    """Return the first listed group that suggests a reply for one of these questions, and how many of its items do; (None, 0) without."""
    asked = {fold_text(text) for text in texts}
    for group in groups[:LISTED]:
        if asked.isdisjoint(fold_text(text) for text, _ in group.questions):
            continue
        suggestions = sum(read_content(item).get("correction") is not None for item in group.items)
        if suggestions:
            return group.id, suggestions
    return None, 0


def group_items(items: Iterable[OpenItem]) -> list[ItemGroup]:
    """Group items of a ranker by meaning; the group with the newest item comes first."""
    by_words: dict[str, list[OpenItem]] = defaultdict(list)
    for item in sort_items(items):
        words = question_of(item)
        key = fold_text(words) if words is not None else f"\0{item.id}"
        if key in by_words or len(by_words) < MAX_QUESTIONS:
            by_words[key].append(item)
    return sort_groups(build_group([by_words[key] for key in keys]) for keys in cluster_words(by_words))


def cluster_words(by_words: dict[str, list[OpenItem]]) -> list[list[str]]:
    """Return the keys in clusters; one without features is a cluster of its own."""
    questions, alone = list[RepeatedQuestion](), list[list[str]]()
    for key, items in by_words.items():
        features = next((item.features for item in items if len(item.features) == TEXT_WIDTH), b"")
        if features:
            questions.append(RepeatedQuestion(key, features, items[0].created_at, [item.id for item in items]))
        else:
            alone.append([key])
    return [*([question.text for question in each.questions] for each in cluster_questions(questions)), *alone]


def build_group(of_questions: Sequence[Sequence[OpenItem]]) -> ItemGroup:
    """Return a group of the items about similar questions."""
    items = sort_items(item for items in of_questions for item in items)
    counted = [(words, len(items)) for items in of_questions if (words := question_of(items[0])) is not None]
    return ItemGroup(tuple(items), tuple(sorted(counted, key=lambda each: -each[1])))
