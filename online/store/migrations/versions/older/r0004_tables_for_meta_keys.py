"""What the keys of the table meta encoded, as tables: refusals, tallies, and the encoder of each model.

    refused/MODEL/RECIPE/OFFSET               refusal(model, recipe, offset, reason)
    counts/FORMAT/MODEL                       tally(model, format, counts)
    encoder/MODEL, encoder_since/MODEL,       encoder(model, sha256, tuned_until, adaptation)
    adaptation/MODEL

Revision ID: 0004
"""

from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

META = sa.table("meta", sa.column("key", sa.String), sa.column("value", sa.String))
PREFIXES = ("refused/", "counts/", "encoder/", "encoder_since/", "adaptation/")


def upgrade() -> None:
    refusals = op.create_table(
        "refusal",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("recipe", sa.String(), nullable=False),
        sa.Column("offset", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("model", "recipe", "offset"),
    )
    tallies = op.create_table(
        "tally",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("format", sa.Integer(), nullable=False),
        sa.Column("counts", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("model"),
    )
    encoders = op.create_table(
        "encoder",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("tuned_until", sa.Integer(), nullable=False),
        sa.Column("adaptation", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("model"),
    )
    connection = op.get_bind()
    values = dict(connection.execute(sa.select(META.c.key, META.c.value)).all())
    op.bulk_insert(refusals, [refusal(key, value) for key, value in values.items() if key.startswith("refused/")])
    op.bulk_insert(tallies, newest_tallies(values))
    op.bulk_insert(encoders, encoder_rows(values))
    for prefix in PREFIXES:
        connection.execute(sa.delete(META).where(META.c.key.startswith(prefix, autoescape=True)))


def refusal(key: str, reason: str) -> dict[str, Any]:
    _, model, recipe, offset = key.split("/")
    return {"model": model, "recipe": recipe, "offset": int(offset), "reason": reason}


def newest_tallies(values: dict[str, str]) -> list[dict[str, Any]]:
    """One for each model, of its newest format."""
    found: dict[str, dict[str, Any]] = {}
    for key in sorted(key for key in values if key.startswith("counts/")):
        _, format, model = key.split("/")
        found[model] = {"model": model, "format": int(format), "counts": values[key]}
    return list(found.values())


def encoder_rows(values: dict[str, str]) -> list[dict[str, Any]]:
    rows: defaultdict[str, dict[str, Any]] = defaultdict(lambda: {"sha256": "", "tuned_until": 0, "adaptation": None})
    for key, value in values.items():
        kind, _, model = key.partition("/")
        if kind == "encoder":
            rows[model]["sha256"] = value
        elif kind == "encoder_since":
            rows[model]["tuned_until"] = int(value)
        elif kind == "adaptation":
            rows[model]["adaptation"] = value
    return [{"model": model, **row} for model, row in rows.items()]


def downgrade() -> None:
    connection = op.get_bind()
    refusals = connection.execute(sa.text('SELECT model, recipe, "offset", reason FROM refusal'))
    rows = [{"key": f"refused/{model}/{recipe}/{at}", "value": reason} for model, recipe, at, reason in refusals]
    for model, format, counts in connection.execute(sa.text("SELECT model, format, counts FROM tally")):
        rows.append({"key": f"counts/{format}/{model}", "value": counts})
    query = sa.text("SELECT model, sha256, tuned_until, adaptation FROM encoder")
    for model, sha256, tuned_until, adaptation in connection.execute(query):
        if sha256:
            rows.append({"key": f"encoder/{model}", "value": sha256})
            rows.append({"key": f"encoder_since/{model}", "value": str(tuned_until)})
        if adaptation is not None:
            rows.append({"key": f"adaptation/{model}", "value": adaptation})
    op.bulk_insert(META, rows)
    for table in ("refusal", "tally", "encoder"):
        op.drop_table(table)
