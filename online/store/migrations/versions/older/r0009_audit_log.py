"""The audit log, with triggers that refuse to change it.

Revision ID: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

REFUSAL = "the audit log is append-only"
TRIGGERS = {
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
        "audit",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("at", "actor", "address", "action")),
        *(sa.Column(name, sa.String(), nullable=True) for name in ("model", "target")),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("details", "digest")),
        sa.PrimaryKeyConstraint("id"),
    )
    for statement in TRIGGERS[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("audit")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_refuse_change")
