"""Plans the effect of a decision on each item, before anything is written.

    approve   held: accepted                         learned: closed
    reject    held: rejected                         learned: retracted
    merge     held: accepted, with the reply         learned: retracted      + the curator's correction for its question
    reply     held: rejected                         learned: retracted      + the curator's correction for its question

With merge and reply, a thumb down is right: it is accepted, or stays. So is what names the right reply already.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from online.plugins.moderation.inbox.groups import question_of
from online.plugins.moderation.inbox.schemas import DecideRequest
from online.plugins.moderation.inbox.tables import OpenItem
from online.schemas.feedback import FeedbackItem
from online.store.database.values import fold_text
from online.store.repertoire.replies import ReplyRow, normalize_text


@dataclass(slots=True)
class DecisionPlan:
    """accepted: held items, with the feedback that each becomes. given: what the curator says about the questions."""

    accepted: list[tuple[OpenItem, FeedbackItem]] = field(default_factory=list)
    rejected: list[OpenItem] = field(default_factory=list)
    retracted: list[OpenItem] = field(default_factory=list)
    closed: list[OpenItem] = field(default_factory=list)
    given: list[FeedbackItem] = field(default_factory=list)

    def keep(self, item: OpenItem) -> None:
        """Accept an item, or close it if it is learned already."""
        if item.hold is None:
            self.closed.append(item)
        else:
            self.accepted.append((item, content_of(item)))

    def drop(self, item: OpenItem) -> None:
        """Reject an item, or retract it if it is learned already."""
        (self.retracted if item.hold is None else self.rejected).append(item)


def content_of(item: OpenItem) -> FeedbackItem:
    """Return the feedback of an item."""
    return FeedbackItem.model_validate_json(item.content)


def make_plan(request: DecideRequest, items: Sequence[OpenItem], reply: ReplyRow | None) -> DecisionPlan:
    """reply: that of a merge."""
    plan = DecisionPlan()
    if request.action in ("approve", "reject"):
        for item in items:
            (plan.keep if request.action == "approve" else plan.drop)(item)
        return plan
    text = reply.text if reply is not None else normalize_text(request.text or "")
    answered = set[tuple[str, str | None]]()  # questions about which the right reply is said by what stays
    for item in items:
        said = content_of(item)
        if said.reward is not None:
            plan.keep(item)
        elif names(item, said, text, reply):
            plan.keep(item)
            answered.add(topic_of(item))
        elif reply is not None and item.hold is not None:
            merged = {"correction": text, "label": None, "scope": said.scope or request.scope}
            plan.accepted.append((item, said.model_copy(update=merged)))
            answered.add(topic_of(item))
        else:
            plan.drop(item)
    plan.given = list(correct_questions(items, text, request, answered))
    return plan


def names(item: OpenItem, said: FeedbackItem, text: str, reply: ReplyRow | None) -> bool:
    """Return whether an item names the right reply."""
    if said.correction is not None:
        return fold_text(said.correction) == fold_text(text)
    return reply is not None and said.label == reply.id


def topic_of(item: OpenItem) -> tuple[str, str | None]:
    """Return what a correction is about: one for each wording of the question, and each reply that was given to it."""
    words = question_of(item)
    return fold_text(words) if words is not None else f"\0{item.id}", item.choice


def correct_questions(
    items: Iterable[OpenItem], text: str, request: DecideRequest, answered: set[tuple[str, str | None]]
) -> Iterable[FeedbackItem]:
    """Yield the curator's correction for each question that is not answered yet. Questions that were erased are passed over."""
    for item in items:
        topic = topic_of(item)
        if topic in answered or question_of(item) is None:
            continue
        answered.add(topic)
        about = (
            {"prediction_id": item.prediction_id}
            if item.prediction_id is not None
            else {"input": json.loads(item.question)}
        )
        yield FeedbackItem(**about, correction=text, scope=request.scope)
