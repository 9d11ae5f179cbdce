"""The questions that are asked most, grouped by meaning.

    newest predictions --same words--> questions --the most frequent ones, near in meaning, with one reply--> groups

Questions that usually get different replies are never one group, however near they are ("Do you have a scanner?" and "Do you
have a 3D printer?"): its figures would be about neither of the replies.
The work is bounded: so many predictions are searched, and so many different questions are grouped.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from json import loads
from types import MappingProxyType

from online.models.encoders.follow_ups import read_text
from online.models.encoders.text import TEXT_WIDTH
from online.plugins.usage.questions import AskedQuestion
from online.plugins.usage.schemas import TopQuestion
from online.serving.repertoire.question_clusters import RepeatedQuestion, cluster_questions
from online.store.database.values import fold_text

MAX_PREDICTIONS = 20_000  # the newest of each kind of id, which are searched
MAX_GROUPED = 300  # different questions, the most frequent, that are grouped by meaning
MAX_VARIANTS = 5  # of a group, that are listed


@dataclass(slots=True)
class AskedText:
    """Everything about one question in the same words. replies: how often each was answered; None: no answer."""

    text: str
    newest: str
    asked_at: str
    replies: Counter[str | None] = field(default_factory=Counter)
    good: int = 0
    bad: int = 0

    def add(self, asked: AskedQuestion) -> None:
        """Add the predictions that got one of the answers."""
        self.replies[asked.choice] += asked.asked
        self.good, self.bad = self.good + asked.good, self.bad + asked.bad
        if asked.asked_at > self.asked_at:
            self.newest, self.asked_at = asked.newest, asked.asked_at

    @property
    def asked(self) -> int:
        """The number of predictions."""
        return self.replies.total()

    @property
    def usual_reply(self) -> str | None:
        """The reply that was given most often; None: it never got one."""
        return find_usual(self.replies)


def find_usual(replies: Counter[str | None]) -> str | None:
    """Return the reply that was given most often; None without any. replies: how often each was given; None: no answer."""
    return max((id for id in replies if id is not None), key=lambda id: (replies[id], id), default=None)


def collect_texts(questions: Sequence[AskedQuestion]) -> list[AskedText]:
    """Return the different texts among questions, the most frequent first. Inputs that are no texts are left out."""
    found = dict[str, AskedText]()
    for asked in questions:
        text = read_text(loads(asked.input))
        if text is None or not text.strip():
            continue
        shown = " ".join(text.split())
        found.setdefault(fold_text(text), AskedText(shown, asked.newest, asked.asked_at)).add(asked)
    return sorted(found.values(), key=lambda each: (-each.asked, each.text))


def group_by_meaning(texts: Sequence[AskedText], features: Mapping[str, bytes]) -> list[list[AskedText]]:
    """Return groups of texts with one usual reply, the one that was asked most first, and so in each.

    features: by the id of the newest prediction. A text whose features are no embedding is a group of its own.
    """
    by_id = {each.newest: each for each in texts}
    embedded = defaultdict[str | None, list[RepeatedQuestion]](list)  # by the usual reply
    for each in texts:
        if len(features.get(each.newest, b"")) == TEXT_WIDTH:
            question = RepeatedQuestion(each.text, features[each.newest], each.asked_at, [each.newest] * each.asked)
            embedded[each.usual_reply].append(question)
    clusters = [cluster for questions in embedded.values() for cluster in cluster_questions(questions)]
    groups = [[by_id[each.predictions[0]] for each in cluster.questions] for cluster in clusters]
    seen = {each.newest for group in groups for each in group}
    groups += [[each] for each in texts if each.newest not in seen]
    return sorted(groups, key=lambda group: -sum(each.asked for each in group))


def find_inbox_group(group: Sequence[AskedText], open_groups: Mapping[str, str]) -> str | None:
    """Return the open group of the inbox with the question that was asked most. open_groups: the ids, by the folded question."""
    return next((found for each in group if (found := open_groups.get(fold_text(each.text)))), None)


def describe_group(
    group: Sequence[AskedText], reply_texts: Mapping[str, str], open_groups: Mapping[str, str] = MappingProxyType({})
) -> TopQuestion:
    """reply_texts: by the id of the reply; empty for classes. open_groups: of the inbox, as in `find_inbox_group`."""
    replies = Counter[str | None]()
    for each in group:
        replies.update(each.replies)
    reply, unanswered = find_usual(replies), replies[None]
    good, bad = sum(each.good for each in group), sum(each.bad for each in group)
    newest = max(group, key=lambda each: each.asked_at)
    return TopQuestion(
        text=group[0].text,
        variants=[each.text for each in group[1 : 1 + MAX_VARIANTS]],
        variant_count=len(group) - 1,
        asked=sum(each.asked for each in group),
        unanswered=unanswered,
        good=good,
        bad=bad,
        satisfaction=good / (good + bad) if good + bad else None,
        reply=reply,
        reply_text=None if reply is None else reply_texts.get(reply),
        inbox_group=find_inbox_group(group, open_groups),
        reply_count=0 if reply is None else replies[reply],
        prediction_id=newest.newest,
        asked_at=newest.asked_at,
    )
