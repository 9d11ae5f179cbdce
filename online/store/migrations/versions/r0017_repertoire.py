"""Replies are sorted and searched by the database: their example questions, a key to sort by, and the ratings of each.

Revision ID: 0017
"""

import json
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

PAGE = 1_000
EXAMPLES = """
SELECT model, "offset", label, body FROM event WHERE source = 'repertoire' AND kind = 'label' AND NOT EXISTS (
    SELECT 1 FROM event taking_back WHERE taking_back.model = event.model AND taking_back.target_offset = event."offset")
"""
CHOICE = "SELECT choice FROM prediction WHERE prediction.id = rating.prediction_id"
UNANSWERED = """
SELECT rating.model, quarter, sum(rated), sum(good), sum(bad) FROM rating JOIN prediction ON prediction.id = prediction_id
WHERE prediction.choice IS NULL AND rated > 0 GROUP BY rating.model, quarter
"""
OF_A_WRITER = """
WHERE model = :model AND quarter = :quarter
AND writer = (SELECT min(writer) FROM usage_count WHERE model = :model AND quarter = :quarter)
"""


def upgrade() -> None:
    connection = op.get_bind()
    op.add_column("reply", sa.Column("sort_key", sa.String(), nullable=False, server_default=""))
    fill(
        "SELECT model, id, text FROM reply",
        "UPDATE reply SET sort_key = :key WHERE model = :model AND id = :id",
        lambda row: {"model": row.model, "id": row.id, "key": make_sort_key(row.text)},
    )
    op.create_table(
        "reply_example",
        sa.Column("model", sa.String(), primary_key=True),
        sa.Column("offset", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("reply", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("folded", sa.String(), nullable=False),
    )
    fill(
        EXAMPLES,
        'INSERT INTO reply_example (model, "offset", reply, text, folded) VALUES (:model, :offset, :reply, :text, :folded)',
        describe_example,
    )
    op.create_index("reply_example_by_reply", "reply_example", ["model", "reply"])
    op.add_column("rating", sa.Column("choice", sa.String()))
    connection.execute(sa.text(f"UPDATE rating SET choice = ({CHOICE})"))
    leave_out_unanswered()
    op.create_table(
        "answer_rating",
        sa.Column("model", sa.String(), primary_key=True),
        sa.Column("answer", sa.String(), primary_key=True),
        sa.Column("good", sa.Integer(), nullable=False),
        sa.Column("bad", sa.Integer(), nullable=False),
    )
    connection.execute(
        sa.text(
            "INSERT INTO answer_rating (model, answer, good, bad) SELECT model, choice, sum(good), sum(bad) FROM rating "
            "WHERE choice IS NOT NULL AND good + bad > 0 GROUP BY model, choice"
        )
    )


def leave_out_unanswered() -> None:
    """A reply that was taught where there was no answer was counted as a bad rating."""
    connection = op.get_bind()
    change = sa.text(
        f"UPDATE usage_count SET rated = rated - :rated, good = good - :good, bad = bad - :bad {OF_A_WRITER}"
    )
    for model, quarter, rated, good, bad in connection.execute(sa.text(UNANSWERED)).all():
        values = {"rated": int(rated), "good": int(good), "bad": int(bad)}
        connection.execute(change, {"model": model, "quarter": quarter, **values})
    without = "SELECT id FROM prediction WHERE choice IS NULL"
    connection.execute(
        sa.text(f"UPDATE rating SET rated = 0, good = 0, bad = 0 WHERE rated > 0 AND prediction_id IN ({without})")
    )


def fill(query: str, statement: str, describe: Callable[[Any], dict[str, Any]]) -> None:
    """Run a statement for each row of a query."""
    connection = op.get_bind()
    for rows in pages(connection.execute(sa.text(query)).all()):
        connection.execute(sa.text(statement), [describe(row) for row in rows])


def pages(rows: Any) -> Iterable[Any]:
    return (rows[start : start + PAGE] for start in range(0, len(rows), PAGE))


def describe_example(row: Any) -> dict[str, Any]:
    text = json.loads(row.body)["text"]
    return {"model": row.model, "offset": row.offset, "reply": row.label, "text": text, "folded": fold_text(text)}


def fold_text(text: str) -> str:
    return " ".join(text.casefold().split())


def make_sort_key(text: str) -> str:
    letters = unicodedata.normalize("NFKD", fold_text(text[:200]))
    return "".join(each for each in letters if not unicodedata.combining(each))[:100]


def downgrade() -> None:
    """Earlier releases counted the ratings of replies with the learning curve: they count the log again."""
    op.execute("DELETE FROM tally WHERE format = 2")
    op.drop_table("answer_rating")
    op.drop_column("rating", "choice")
    op.drop_table("reply_example")
    op.drop_column("reply", "sort_key")
