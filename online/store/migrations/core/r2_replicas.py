"""The tables of replicas: what they agree on, who they are, which of them learns, their bases, and their parts in erasures.

An index of the control events of a log.

Revision ID: 2
"""

from alembic import op

from online.store.migrations.definitions import BYTES, FLOAT, INTEGER, TEXT, columns, keys, where

revision = "2"
down_revision = "1"


def upgrade() -> None:
    op.create_table(
        "publication",
        *keys(TEXT, "model"),
        *keys(INTEGER, "version"),
        *columns(INTEGER, "parent", nullable=True),
        *columns(INTEGER, "learned_until", "taught_until", "relearned"),
        *columns(
            TEXT,
            "state_sha256",
            "weights_sha256",
            "feature_epoch",
            "metrics",
            "log_digest",
            "recipe",
            "determinism_domain",
        ),
        *columns(TEXT, "created_at", "replica"),
    )
    op.create_index("publication_by_place", "publication", ["model", "recipe", "relearned", "learned_until"])
    op.create_table("serving", *keys(TEXT, "model"), *columns(INTEGER, "revision"), *columns(TEXT, "state"))
    op.create_table(
        "replica",
        *keys(TEXT, "id"),
        *columns(TEXT, "url"),
        *columns(FLOAT, "started_at", "seen_at"),
        *columns(TEXT, "report"),
    )
    op.create_table(
        "lease", *keys(TEXT, "model"), *columns(TEXT, "holder"), *columns(INTEGER, "fence"), *columns(FLOAT, "until")
    )
    op.create_table("base", *keys(TEXT, "model", "recipe"), *columns(TEXT, "created_at", "manifest", "seal"))
    op.create_table("base_chunk", *keys(TEXT, "model", "sha256"), *keys(INTEGER, "number"), *columns(BYTES, "data"))
    op.create_table(
        "erasure_replica",
        *keys(TEXT, "erasure", "replica"),
        *columns(TEXT, "step", "findings"),
        *columns(FLOAT, "at"),
    )
    op.create_index("event_of_control", "event", ["model", "offset"], **where("kind = 'control'"))
