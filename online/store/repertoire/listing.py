"""Lists the replies of a repertoire: searched, filtered, sorted and page by page, with their ratings and when they were added.

reply --words--> also those with an example question that has them
      --show, sort, after--> a page --> its example questions, counted, and the time of the event that added each
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from sqlalchemy import ColumnElement, Connection, Float, and_, case, cast, func, or_, select, true

from online.store.database.values import fold_text
from online.store.events import EVENTS
from online.store.feedback import FEEDBACK
from online.store.repertoire.examples import EXAMPLES, select_replies_with
from online.store.repertoire.replies import REPLIES
from online.store.usage.answer_ratings import ANSWER_RATINGS

Show = Literal["all", "given", "retired", "never_right"]
Sort = Literal["listed", "newest", "most_rated", "least_right", "by_text"]
Key = int | float | str

RATED_REPLIES = REPLIES.outerjoin(
    ANSWER_RATINGS, (ANSWER_RATINGS.c.model == REPLIES.c.model) & (ANSWER_RATINGS.c.answer == REPLIES.c.id)
)
RIGHT: ColumnElement[int] = func.coalesce(ANSWER_RATINGS.c.good, 0)
RATED: ColumnElement[int] = RIGHT + func.coalesce(ANSWER_RATINGS.c.bad, 0)
NEVER_RATED = 2.0  # as a share of right ratings: such replies come last
SHARE: ColumnElement[float] = case((RATED == 0, NEVER_RATED), else_=cast(RIGHT, Float) / func.nullif(RATED, 0))
NEVER_RIGHT: ColumnElement[bool] = and_(RATED > 0, RIGHT == 0)
SHOWN: dict[Show, ColumnElement[bool]] = {
    "all": true(),
    "given": REPLIES.c.active.is_(True),
    "retired": REPLIES.c.active.is_(False),
    "never_right": NEVER_RIGHT,
}


class SortColumn(NamedTuple):
    """type: of its values."""

    column: ColumnElement[Any]
    type: type
    is_descending: bool = False


LISTED = (
    SortColumn(REPLIES.c.offset, int),
    SortColumn(REPLIES.c.id, str),
)  # with them, no two replies stand at one place
SORTED: dict[Sort, tuple[SortColumn, ...]] = {
    "listed": LISTED,
    "newest": (SortColumn(REPLIES.c.offset, int, True), SortColumn(REPLIES.c.id, str)),
    "most_rated": (SortColumn(RATED, int, True), *LISTED),
    "least_right": (SortColumn(SHARE, float), SortColumn(RATED, int, True), *LISTED),
    "by_text": (SortColumn(REPLIES.c.sort_key, str), *LISTED),
}


@dataclass(frozen=True, slots=True)
class ReplyQuery:
    """words: all of them are in the text, or in one example question."""

    words: str = ""
    show: Show = "all"
    sort: Sort = "listed"


class ListedReply(NamedTuple):
    """One reply. created_at: when it was added; None where that is not known. place: its values of what the list is sorted by."""

    id: str
    text: str
    active: bool
    offset: int
    rated: int
    right: int
    examples: int
    created_at: str | None
    place: tuple[Key, ...]


class RepertoireCounts(NamedTuple):
    """The number of replies, and of those that a query finds."""

    all: int
    given: int
    retired: int
    never_right: int
    found: int


def list_replies(
    connection: Connection, model: str, query: ReplyQuery, limit: int | None = None, after: Sequence[Key] | None = None
) -> list[ListedReply]:
    """Return the replies that a query finds, in its order. after: only those behind this place. limit: None for no limit."""
    columns = SORTED[query.sort]
    keys = [each.column.label(f"key_{number}") for number, each in enumerate(columns)]
    given = (REPLIES.c.id, REPLIES.c.text, REPLIES.c.active, REPLIES.c.offset)
    found = select(*given, RATED.label("rated"), RIGHT.label("right"), *keys).select_from(RATED_REPLIES)
    found = found.where(REPLIES.c.model == model, SHOWN[query.show], has_words(model, query.words))
    if after is not None:
        found = found.where(is_behind(columns, after))
    order = [each.column.desc() if each.is_descending else each.column for each in columns]
    rows = connection.execute(found.order_by(*order).limit(limit)).all()
    offsets, ids = [row.offset for row in rows], [row.id for row in rows]
    times, counts = load_times(connection, model, offsets), count_examples(connection, model, ids)
    return [
        ListedReply(
            id=row.id,
            text=row.text,
            active=row.active,
            offset=row.offset,
            rated=row.rated,
            right=row.right,
            examples=counts.get(row.id, 0),
            created_at=times.get(row.offset),
            place=tuple(row[-len(keys) :]),
        )
        for row in rows
    ]


def has_words(model: str, words: str) -> ColumnElement[bool]:
    """Return the condition that a reply contains all words."""
    folded = fold_text(words).split()
    if not folded:
        return true()
    in_text = and_(*(REPLIES.c.folded.contains(word, autoescape=True) for word in folded))
    return or_(in_text, REPLIES.c.id.in_(select_replies_with(model, folded)))


def is_behind(columns: Sequence[SortColumn], place: Sequence[Key]) -> ColumnElement[bool]:
    """Return whether a reply stands behind a place: its first value that differs comes later."""
    same: ColumnElement[bool] = true()
    behind = list[ColumnElement[bool]]()
    for (column, _, is_descending), value in zip(columns, place, strict=True):
        behind.append(and_(same, column < value if is_descending else column > value))
        same = and_(same, column == value)
    return or_(*behind)


PAGE = 1_000  # ids in one query: SQLite takes 32,766 values


def load_times(connection: Connection, model: str, offsets: Sequence[int]) -> dict[int, str | None]:
    """Return offset -> when the event there was recorded, or the feedback that brought it along; None where that is not known."""
    joined = EVENTS.outerjoin(FEEDBACK, (FEEDBACK.c.model == EVENTS.c.model) & (FEEDBACK.c.id == EVENTS.c.feedback_id))
    at = func.coalesce(EVENTS.c.created_at, FEEDBACK.c.created_at)
    query = select(EVENTS.c.offset, at).select_from(joined).where(EVENTS.c.model == model)
    found = dict[int, str | None]()
    for start in range(0, len(offsets), PAGE):
        page = offsets[start : start + PAGE]
        found.update(tuple(row) for row in connection.execute(query.where(EVENTS.c.offset.in_(page))))
    return found


def count_examples(connection: Connection, model: str, replies: Collection[str]) -> dict[str, int]:
    """Return reply -> how many example questions it has, for those that have some."""
    query = select(EXAMPLES.c.reply, func.count()).where(EXAMPLES.c.model == model).group_by(EXAMPLES.c.reply)
    if len(replies) <= PAGE:
        query = query.where(EXAMPLES.c.reply.in_(replies))
    return dict(connection.execute(query).all())


def count_listed(connection: Connection, model: str, query: ReplyQuery) -> RepertoireCounts:
    """Return the number of replies of each kind that a search finds."""
    shown = [SHOWN[show] for show in get_args(Show)]
    conditions = [*shown, and_(SHOWN[query.show], has_words(model, query.words))]
    sums = [func.coalesce(func.sum(case((condition, 1), else_=0)), 0) for condition in conditions]
    row = connection.execute(select(*sums).select_from(RATED_REPLIES).where(REPLIES.c.model == model)).one()
    return RepertoireCounts(*map(int, row))
