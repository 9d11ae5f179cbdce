"""The inbox of curators: what callers said that a curator should look at, what curators decided, and unanswered questions."""

from typing import Any, Literal

from pydantic import Field

from online.schemas.feedback import CorrectionScope
from online.schemas.fields import Id, Name, NativeRequest, Text, Wire
from online.schemas.predict import ReplyRef

InboxAction = Literal["approve", "merge", "reject", "reply"]
MAX_DECIDED = 200  # items of one decision
MAX_DISMISSED = 500  # predictions of one dismissal
ItemIds = Field(min_length=1, max_length=MAX_DECIDED, description="The ids of items of the inbox.")


class InboxItem(Wire):
    """One thing that a caller said.

    kind: new_reply is a correction whose text was no reply before; label names what the right class or number is.
    """

    id: str
    kind: Literal["thumb_down", "thumb_up", "correction", "new_reply", "label"]
    state: Literal["held", "accepted", "learned", "refused", "rejected", "retracted"]
    hold: Literal["review", "influence", "quarantine"] | None = Field(description="Why it is held, if it is.")
    question: str | None = Field(description="Null where it was erased, or is no text.")
    instance: Any = Field(
        None,
        description="Of a model that is no ranker, the instance that it is about, such as the 64 numbers of a drawing. Null "
        "where it was erased, or is longer than 20,000 characters.",
    )
    label: str | None = Field(None, description="The class or number that it names.")
    prediction_id: str | None
    asked_at: str | None
    answered: ReplyRef | None = Field(description="The reply or class that was given; null where there was none.")
    correction: str | None = Field(description="The text of the reply that it should have been.")
    reply: str | None = Field(description="The id of that reply, if it is in the repertoire.")
    scope: CorrectionScope | None
    reason: str | None
    comment: str | None
    caller: str | None
    user: str | None
    created_at: str
    assignee: str | None = None


class InboxQuestion(Wire):
    """A question and how many items of the group are about it."""

    text: str
    count: int = Field(description="How many items are about it.")


class InboxGroup(Wire):
    """Items whose questions mean the same, or, of a model that is no ranker, that name the same.

    id: changes when its oldest item is decided.
    """

    id: str
    label: str | None = Field(None, description="The class or number that all items name; null for a ranker.")
    questions: list[InboxQuestion] = Field(description="The most frequent first.")
    items: list[InboxItem] = Field(description="The newest first.")
    newest_at: str
    assignee: str | None = Field(description="Who looks after it, if the same caller looks after all items.")


class InboxAddition(Wire):
    """The replies and questions that were added at once. replies: the texts of the first ones; of examples without a new reply, those that got them."""

    replies: list[str]
    reply_count: int = Field(description="How many replies were new.")
    example_count: int = Field(description="How many example questions were added.")


class InboxDecision(Wire):
    """A decision of a curator; with add, an addition by a caller without the scope `curate`.

    reply: the text that was taught. questions: with add, the first examples.
    """

    id: str
    action: Literal["approve", "merge", "reject", "reply", "dismiss", "add"]
    by: str
    at: str
    reason: str | None
    reply: str | None
    questions: list[str]
    items: list[InboxItem]
    added: InboxAddition | None = Field(None, description="With add.")


class InboxAnswer(Wire):
    """The inbox: groups of open items, or decisions."""

    groups: list[InboxGroup]
    decisions: list[InboxDecision] = Field(description="With state=done, the newest decisions, newest first.")
    group_count: int = Field(description="How many groups are open, in all.")
    found_count: int = Field(description="How many of them fit what was asked for.")
    item_count: int
    assignees: list[str] = Field(description="Callers to whom items can be assigned: yourself first.")


class InboxCount(Wire):
    """The numbers of open groups and items of an inbox."""

    groups: int
    items: int
    mine: int = Field(description="Of the groups, those with an item that is assigned to you.")


class DecideRequest(NativeRequest):
    """A decision about items of the inbox."""

    ids: list[Name] = ItemIds
    action: InboxAction = Field(
        description="approve: accept what is held, and leave what is learned. merge: an existing reply is the right one. "
        "reject: held items are never learned, learned ones are un-learned. reply: this text is the right reply. Models "
        "that are no rankers have approve and reject only."
    )
    id: Id | None = Field(
        None, description="An idempotency key: the same decision with the same id has no second effect."
    )
    reply: Id | None = Field(None, description="With merge: the id of the reply.")
    text: Text | None = Field(None, description="With reply: the text.")
    scope: CorrectionScope | None = Field(None, description="With merge and reply: how far the correction reaches.")
    reason: Text | None = Field(None, max_length=500, description="With reject: the reason that the callers read.")


class SkippedItem(Wire):
    """An item that was left alone. gone: withdrawn, or its prediction is no longer kept."""

    id: str
    reason: Literal["gone"] = "gone"


class DecideAnswer(Wire):
    """A decision that was carried out."""

    decision: str = Field(description="The id with which it can be undone.")
    action: str
    closed: int = Field(description="How many items it closed.")
    offset: int | None = Field(
        description="A version that has learned this offset has all of it; null: nothing changed."
    )
    skipped: list[SkippedItem]


class UndoRequest(NativeRequest):
    """The decision to undo."""

    decision: Name


class UndoAnswer(Wire):
    """A decision that was undone."""

    decision: str
    by: str
    offset: int | None


class AssignRequest(NativeRequest):
    """The items to assign, and the caller who looks after them."""

    ids: list[Name] = ItemIds
    assignee: Name | None = Field(description='The id of a caller, such as key:anna; "me"; null for nobody.')


class AssignAnswer(Wire):
    """Items that were assigned."""

    ids: list[str]
    assignee: str | None


class DismissRequest(NativeRequest):
    """Questions that need no reply: spam, or not our topic."""

    predictions: list[Name] = Field(
        min_length=1, max_length=MAX_DISMISSED, description="Of each question, the id of one prediction at least."
    )
    id: Id | None = Field(None, description="An idempotency key.")


class UnansweredQuestion(Wire):
    """A question that got no reply."""

    text: str
    predictions: list[str] = Field(description="The ids of the predictions, newest first.")
    asked_at: str


class UnansweredCluster(Wire):
    """Questions of similar meaning."""

    asked: int
    questions: list[UnansweredQuestion]
    inbox_group: str | None = Field(
        description="The id of an open group of the inbox with a reply that somebody suggests for one of these questions."
    )
    suggestions: int = Field(description="How many items of that group suggest a reply.")


class UnansweredAnswer(Wire):
    """Unanswered questions by meaning."""

    clusters: list[UnansweredCluster]
