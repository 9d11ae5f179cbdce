"""The tables of the core.

Revision ID: 1
"""

import sqlalchemy as sa
from alembic import op

from online.store.migrations.definitions import BYTES, FLAG, FLOAT, INTEGER, TEXT, columns, keys, where

revision = "1"
down_revision = None

HOLDER = sa.func.coalesce(sa.column("user", sa.String()), sa.column("caller", sa.String()))
REFUSAL = "the audit log is append-only"
AUDIT_TRIGGERS = {
    "sqlite": [
        f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        f"CREATE FUNCTION audit_refuse_change() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$ "
        "LANGUAGE plpgsql",
        "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()",
    ],
}


def upgrade() -> None:
    op.create_table(
        "prediction",
        *keys(TEXT, "id"),
        *columns(TEXT, "model"),
        *columns(INTEGER, "version", "learned_until"),
        *columns(TEXT, "user", nullable=True),
        *columns(TEXT, "input"),
        *columns(BYTES, "features"),
        *columns(TEXT, "choice", nullable=True),
        *columns(FLOAT, "propensity"),
        *columns(TEXT, "candidates", "created_at"),
    )
    op.create_table(
        "feedback",
        *keys(TEXT, "model", "id"),
        *columns(INTEGER, "offset"),
        *columns(TEXT, "content"),
        *columns(TEXT, "prediction_id", "input", "user", nullable=True),
        *columns(TEXT, "created_at", "status"),
        *columns(INTEGER, "version", nullable=True),
        *columns(TEXT, "learned_at", "refusal", nullable=True),
        *columns(INTEGER, "retracted_offset", nullable=True),
        *columns(TEXT, "slot", nullable=True),
        *columns(INTEGER, "slot_turn", nullable=True),
        *columns(TEXT, "caller", "about", nullable=True),
        *columns(INTEGER, "example_count", nullable=True),
        *columns(TEXT, "answer", nullable=True),
        *columns(INTEGER, "answered_until", nullable=True),
    )
    op.create_index(
        "feedback_by_holder",
        "feedback",
        ["model", HOLDER, "about", "created_at"],
    )
    op.create_index("feedback_by_offset", "feedback", ["model", "offset"])
    op.create_index(
        "feedback_by_prediction",
        "feedback",
        ["prediction_id"],
        **where("prediction_id IS NOT NULL"),
    )
    op.create_index(
        "feedback_by_slot",
        "feedback",
        ["model", "slot", "slot_turn"],
        **where("slot IS NOT NULL"),
    )
    op.create_index(
        "feedback_taken_back",
        "feedback",
        ["model", "retracted_offset"],
        **where("retracted_offset IS NOT NULL"),
    )
    op.create_index("ix_feedback_user", "feedback", ["user"])
    op.create_table(
        "event",
        *keys(TEXT, "model"),
        *keys(INTEGER, "offset"),
        *columns(TEXT, "id", "label"),
        *columns(BYTES, "features"),
        *columns(TEXT, "body", "kind", "source"),
        *columns(TEXT, "feedback_id", nullable=True),
        *columns(INTEGER, "target_offset", nullable=True),
        *columns(TEXT, "digest"),
        *columns(TEXT, "created_at", nullable=True),
        sa.UniqueConstraint("model", "id"),
    )
    op.create_index(
        "event_by_feedback",
        "event",
        ["model", "feedback_id"],
        **where("feedback_id IS NOT NULL"),
    )
    op.create_index(
        "event_by_target",
        "event",
        ["model", "target_offset"],
        **where("target_offset IS NOT NULL"),
    )
    op.create_index(
        "event_of_repertoire",
        "event",
        ["model", "label"],
        **where("source = 'repertoire'"),
    )
    op.create_index("ix_event_label", "event", ["label"])
    op.create_table(
        "reply",
        *keys(TEXT, "model", "id"),
        *columns(TEXT, "text", "folded", "sort_key"),
        *columns(INTEGER, "offset"),
        *columns(FLAG, "active"),
    )
    op.create_index("ix_reply_folded", "reply", ["folded"])
    op.create_table(
        "reply_example", *keys(TEXT, "model"), *keys(INTEGER, "offset"), *columns(TEXT, "reply", "text", "folded")
    )
    op.create_index("reply_example_by_reply", "reply_example", ["model", "reply"])
    op.create_table("label", *keys(TEXT, "model", "id"), *columns(INTEGER, "offset"), *columns(FLAG, "active"))
    op.create_table(
        "conversation",
        *keys(TEXT, "model", "id"),
        *columns(TEXT, "user", "title", "created_at", "updated_at"),
        *columns(FLAG, "pinned", "renamed"),
        *columns(TEXT, "share_id", "shared_at", "shared_turn", nullable=True),
    )
    op.create_index("ix_conversation_share_id", "conversation", ["share_id"], unique=True)
    op.create_index("ix_conversation_user", "conversation", ["user"])
    op.create_table(
        "turn",
        *keys(TEXT, "prediction_id"),
        *columns(TEXT, "model"),
        *columns(TEXT, "conversation", nullable=True),
        *columns(TEXT, "exclude"),
        *columns(TEXT, "parent", nullable=True),
    )
    op.create_index("ix_turn_conversation", "turn", ["conversation"])
    op.create_table(
        "drift",
        *keys(TEXT, "model"),
        *keys(INTEGER, "offset"),
        *keys(TEXT, "what"),
        *columns(TEXT, "label", nullable=True),
        *columns(INTEGER, "projection", nullable=True),
        *columns(INTEGER, "since"),
        *columns(FLOAT, "before", "after", "size"),
        *columns(INTEGER, "window"),
        *columns(TEXT, "noted_at"),
    )
    op.create_table("meta", *keys(TEXT, "key"), *columns(TEXT, "value"))
    op.create_table("refusal", *keys(TEXT, "model", "recipe"), *keys(INTEGER, "offset"), *columns(TEXT, "reason"))
    op.create_table("tally", *keys(TEXT, "model"), *columns(INTEGER, "format"), *columns(TEXT, "counts"))
    op.create_table(
        "encoder",
        *keys(TEXT, "model"),
        *columns(TEXT, "sha256"),
        *columns(INTEGER, "tuned_until"),
        *columns(TEXT, "adaptation", nullable=True),
    )
    op.create_table(
        "quarantine",
        *keys(TEXT, "model"),
        *keys(INTEGER, "offset"),
        *columns(INTEGER, "since"),
        *columns(INTEGER, "until", nullable=True),
        *columns(TEXT, "reason"),
        *columns(INTEGER, "rolled_back_to", nullable=True),
        *columns(TEXT, "created_at"),
        *columns(TEXT, "ended_at", "outcome", nullable=True),
    )
    op.create_table(
        "refused_candidates",
        *keys(TEXT, "model"),
        *keys(INTEGER, "since"),
        *columns(INTEGER, "until", "times"),
        *columns(TEXT, "reason", "created_at"),
    )
    op.create_table(
        "api_key",
        *keys(TEXT, "id"),
        *columns(TEXT, "name", "digest", "scopes"),
        *columns(TEXT, "models", nullable=True),
        *columns(TEXT, "created_at"),
        *columns(TEXT, "expires_at", "revoked_at", nullable=True),
    )
    op.create_index("ix_api_key_name", "api_key", ["name"])
    op.create_table("quota_use", *keys(TEXT, "holder", "kind", "hour"), *columns(INTEGER, "count"))
    op.create_index("ix_quota_use_hour", "quota_use", ["hour"])
    op.create_table(
        "held_feedback",
        *keys(TEXT, "model", "id"),
        *columns(TEXT, "content", "question", "caller"),
        *columns(TEXT, "user", nullable=True),
        *columns(TEXT, "reason", "created_at"),
        *columns(TEXT, "decision", "decided_by", "decided_at", "note", nullable=True),
    )
    op.create_index(
        "held_by_holder",
        "held_feedback",
        ["model", HOLDER],
        **where("decision IS NULL"),
    )
    op.create_index(
        "held_undecided",
        "held_feedback",
        ["model", "created_at"],
        **where("decision IS NULL"),
    )
    op.create_index("ix_held_feedback_user", "held_feedback", ["user"])
    op.create_table(
        "erasure",
        *keys(TEXT, "id"),
        *columns(TEXT, "user", nullable=True),
        *columns(TEXT, "user_digest", "step", "findings"),
        *columns(TEXT, "statement", nullable=True),
        *columns(TEXT, "created_at"),
        *columns(TEXT, "ended_at", nullable=True),
    )
    op.create_table("erasure_model", *keys(TEXT, "erasure", "model"), *columns(TEXT, "step", "counts"))
    op.create_table("erasure_item", *keys(TEXT, "erasure", "model", "kind", "key"))
    op.create_table(
        "relearning",
        *keys(TEXT, "model"),
        *keys(INTEGER, "offset"),
        *columns(INTEGER, "learned_until"),
        *columns(TEXT, "subtracted_sha256", "relearned_sha256", "ended_at"),
    )
    op.create_table(
        "audit",
        *keys(INTEGER, "id"),
        *columns(TEXT, "at", "actor", "address", "action"),
        *columns(TEXT, "model", "target", nullable=True),
        *columns(TEXT, "details", "digest"),
    )
    for statement in AUDIT_TRIGGERS[op.get_bind().dialect.name]:
        op.execute(statement)
