"""Reads the inbox of one model: its open items in groups, how many there are, and what was decided.

Clustering takes longer than everything else, and is asked for often: the groups are kept until other items are open.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from online.plugins.moderation.inbox.additions import Addition, load_addition
from online.plugins.moderation.inbox.groups import ItemGroup, group_examples, group_items, read_content
from online.plugins.moderation.inbox.tables import (
    InboxDecisionRow,
    InboxOutcomeRow,
    OpenItem,
    Role,
    list_decisions,
    list_open_ids,
    load_assignees,
    load_open_items,
    load_outcomes_of,
)
from online.serving.transactions import Transactions
from online.store.callers.held_feedback import HeldFeedbackRow, load_held_of
from online.store.database.values import ERASED, NO_TEXT
from online.store.events import list_feedback_with_events
from online.store.feedback import FeedbackRow, load_feedback
from online.store.predictions import PredictionRow, load_predictions
from online.store.repertoire.replies import find_reply_by_text, load_reply_texts

MAX_OPEN = 2_000  # of each of the two kinds, the newest
OF_FEEDBACK: tuple[Role, ...] = ("held", "learned", "given", "replaced")  # roles of outcomes that name a feedback
MAX_EXAMPLES = 500  # of a model without a repertoire, the newest; the others are shown once these are decided


@dataclass(frozen=True, slots=True)
class NamedReplies:
    """The known facts about the replies that items name.

    texts: by id. proposed: item -> the id of the reply that has the text of its correction. brought: items that brought a reply.
    """

    texts: Mapping[str, str]
    proposed: Mapping[str, str]
    brought: frozenset[str]


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A decision, its items as they are now, and the text that was taught. addition: of a decision `add`."""

    row: InboxDecisionRow
    items: list[OpenItem]
    reply: str | None
    questions: list[str]
    addition: Addition | None = None


class InboxReader:
    """The inbox of one model."""

    def __init__(self, transactions: Transactions, has_repertoire: bool = True) -> None:
        self.transactions, self.name, self.has_repertoire = transactions, transactions.name, has_repertoire
        self._lock = asyncio.Lock()
        self._grouped: tuple[tuple[str, ...], list[ItemGroup]] = ((), [])

    async def load_groups(self) -> list[ItemGroup]:
        """Return the open items in groups, the newest first."""
        async with self._lock:
            known, groups = self._grouped
            ids, assignees = await self.transactions.read(self._read_ids)
            if ids != known:
                await self.transactions.copy_journal()  # their predictions may not be in the store yet
                items = await self.transactions.read(lambda connection: load_items(connection, self.name, ids))
                groups = await asyncio.to_thread(group_items if self.has_repertoire else group_examples, items)
                self._grouped = ids, groups
        return [assign(group, assignees) for group in groups]

    def _read_ids(self, connection: Connection) -> tuple[tuple[str, ...], dict[str, str]]:
        ids = list_open_ids(connection, self.name, MAX_OPEN if self.has_repertoire else MAX_EXAMPLES)
        return tuple(ids), load_assignees(connection, self.name, ids)

    async def refresh_states(self, groups: Sequence[ItemGroup]) -> tuple[list[ItemGroup], NamedReplies]:
        """Return the groups with what has become of their items by now, and the replies that these name."""

        def read(connection: Connection) -> tuple[list[ItemGroup], NamedReplies]:
            ids = [item.id for group in groups for item in group.items]
            rows = load_feedback(connection, self.name, ids)
            fresh = [
                replace(
                    group,
                    items=tuple(
                        replace(item, status=rows[item.id].status) if item.id in rows else item for item in group.items
                    ),
                )
                for group in groups
            ]
            return fresh, load_named(connection, self.name, [item for group in fresh for item in group.items])

        found: tuple[list[ItemGroup], NamedReplies] = await self.transactions.read(read)
        return found

    async def load_decisions(self, count: int) -> tuple[list[DecisionView], NamedReplies]:
        """Return the newest decisions, newest first."""

        def read(connection: Connection) -> tuple[list[DecisionView], NamedReplies]:
            views = load_views(connection, self.name, list_decisions(connection, self.name, count))
            return views, load_named(connection, self.name, [item for view in views for item in view.items])

        found: tuple[list[DecisionView], NamedReplies] = await self.transactions.read(read)
        return found


def assign(group: ItemGroup, assignees: Mapping[str, str]) -> ItemGroup:
    """Return the group with the assignees of its items."""
    return replace(group, items=tuple(replace(item, assignee=assignees.get(item.id)) for item in group.items))


def load_items(connection: Connection, model: str, ids: Sequence[str]) -> list[OpenItem]:
    """Return the open items among the ids, held ones with what is known about their predictions."""
    items = list(load_open_items(connection, model, ids).values())
    return with_predictions(connection, model, items)


def with_predictions(connection: Connection, model: str, items: Sequence[OpenItem]) -> list[OpenItem]:
    """Return the items with the predictions that they are about."""
    asked = {item.id: json.loads(item.content).get("prediction_id") for item in items if item.hold is not None}
    predictions = load_predictions(connection, model, sorted({id for id in asked.values() if id is not None}))
    return [with_prediction(item, predictions.get(asked.get(item.id) or "")) for item in items]


def with_prediction(item: OpenItem, prediction: PredictionRow | None) -> OpenItem:
    """Return the item with its prediction."""
    if prediction is None:
        return item
    return replace(
        item,
        prediction_id=prediction.id,
        features=prediction.features,
        choice=prediction.choice,
        asked_at=prediction.created_at,
    )


def load_named(connection: Connection, model: str, items: Sequence[OpenItem]) -> NamedReplies:
    """Return the texts of the replies that items name."""
    proposed = dict[str, str]()
    for item in items:
        content = read_content(item)
        if content.get("label") is not None:
            proposed[item.id] = content["label"]
        elif content.get("correction") is not None:
            reply = find_reply_by_text(connection, model, content["correction"])
            if reply is not None:
                proposed[item.id] = reply.id
    named = {*proposed.values(), *(item.choice for item in items if item.choice is not None)}
    in_force = [item.id for item in items if item.hold is None]
    brought = list_feedback_with_events(connection, model, in_force, "reply")
    return NamedReplies(load_reply_texts(connection, model, named), proposed, frozenset(brought))


def load_views(connection: Connection, model: str, rows: Sequence[InboxDecisionRow]) -> list[DecisionView]:
    """Return decisions with the items that they decided."""
    outcomes = load_outcomes_of(connection, model, [row.id for row in rows])
    ids = [outcome.item for outcome in outcomes if outcome.role in OF_FEEDBACK]
    feedback, held = load_feedback(connection, model, ids), load_held_of(connection, model, ids)
    asked = {outcome.item for outcome in outcomes if outcome.role == "question"}
    asked |= {row.prediction_id for row in feedback.values() if row.prediction_id is not None}
    predictions = load_predictions(connection, model, sorted(asked))
    views = []
    for row in rows:
        own = [outcome for outcome in outcomes if outcome.decision == row.id]
        if row.action == "add":
            views.append(DecisionView(row, [], None, [], load_addition(connection, model, own)))
            continue
        questions = [
            predictions[each.item].input for each in own if each.role == "question" and each.item in predictions
        ]
        items = list[OpenItem]()
        for each in own:
            if each.role in ("held", "learned"):
                items += decided_item(each, feedback.get(each.item), held.get(each.item), predictions)
        given = [feedback[each.item] for each in own if each.role == "given" and each.item in feedback]
        views.append(DecisionView(row, with_predictions(connection, model, items), find_taught(given), questions))
    return views


def find_taught(given: Sequence[FeedbackRow]) -> str | None:
    """Return the text that the feedback of a decision taught."""
    contents = (json.loads(row.content) for row in given if row.content != ERASED)
    return next((content["correction"] for content in contents if "correction" in content), None)


def decided_item(
    outcome: InboxOutcomeRow,
    row: FeedbackRow | None,
    held: HeldFeedbackRow | None,
    predictions: Mapping[str, PredictionRow],
) -> Iterator[OpenItem]:
    """Yield the item as it is now; nothing if it was deleted."""
    if row is not None:
        item = OpenItem(
            id=row.id,
            hold=None,
            content=row.content,
            question=row.input or NO_TEXT,
            features=b"",
            prediction_id=row.prediction_id,
            choice=None,
            asked_at=None,
            caller=row.caller,
            user=row.user,
            created_at=outcome.created_at,
            status=row.status,
        )
        prediction = predictions.get(row.prediction_id or "")
        words = item.question if prediction is None else prediction.input
        yield replace(with_prediction(item, prediction), question=words)
    elif held is not None:
        yield OpenItem(
            id=held.id,
            hold=held.reason,
            content=held.content,
            question=held.question,
            features=b"",
            prediction_id=None,
            choice=None,
            asked_at=None,
            caller=held.caller,
            user=held.user,
            created_at=outcome.created_at,
            status="rejected" if held.decision == "rejected" else "held",
        )
