"""The example questions of replies that are in force, beside the events that teach them: to list, count and search them.

event of the repertoire, a label --> a row       its retraction --> the row is deleted
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Index, Select, delete, select
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of
from online.store.database.values import fold_text, insert_rows


class ReplyExampleRow(SQLModel, table=True):
    """One example question. offset: of its event. folded: the text for a search, without case and repeated spaces."""

    __tablename__ = "reply_example"
    __table_args__ = (Index("reply_example_by_reply", "model", "reply"),)

    model: str = Field(primary_key=True)
    offset: int = Field(primary_key=True)
    reply: str
    text: str
    folded: str


EXAMPLES = table_of(ReplyExampleRow)


def add_examples(connection: Connection, model: str, examples: Sequence[tuple[int, str, str]]) -> None:
    """examples: (offset, reply, text)."""
    rows = [
        {"model": model, "offset": offset, "reply": reply, "text": text, "folded": fold_text(text)}
        for offset, reply, text in examples
    ]
    insert_rows(connection, EXAMPLES, rows)


def delete_examples(connection: Connection, model: str, offsets: Collection[int]) -> None:
    """offsets: of events that are retracted; those that are no examples are passed over."""
    connection.execute(delete(EXAMPLES).where(EXAMPLES.c.model == model, EXAMPLES.c.offset.in_(offsets)))


def load_examples(connection: Connection, model: str) -> list[tuple[str, int, str]]:
    """Return (reply, offset, text) of the example questions of all replies, in order."""
    query = select(EXAMPLES.c.reply, EXAMPLES.c.offset, EXAMPLES.c.text).where(EXAMPLES.c.model == model)
    return [(reply, offset, text) for reply, offset, text in connection.execute(query.order_by(EXAMPLES.c.offset))]


def select_replies_with(model: str, words: Collection[str]) -> Select[str]:
    """Return the query for the replies that have an example question with all words. words: folded."""
    query = select(EXAMPLES.c.reply).where(EXAMPLES.c.model == model)
    return query.where(*(EXAMPLES.c.folded.contains(word, autoescape=True) for word in words))
