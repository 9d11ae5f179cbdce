"""Conversations that are renamed, pinned and shared, and the turn that each question follows.

Revision ID: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

FLAGS = ("pinned", "renamed")
SHARING = ("share_id", "shared_at", "shared_turn")


def upgrade() -> None:
    """A turn of an earlier release has no parent: it follows the turn before it."""
    op.add_column("turn", sa.Column("parent", sa.String(), nullable=True))
    for name in FLAGS:
        op.add_column("conversation", sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false()))
    for name in SHARING:
        op.add_column("conversation", sa.Column(name, sa.String(), nullable=True))
    op.create_index("ix_conversation_share_id", "conversation", ["share_id"], unique=True)


def downgrade() -> None:
    op.drop_index("ix_conversation_share_id", "conversation")
    for name in (*FLAGS, *SHARING):
        op.drop_column("conversation", name)
    op.drop_column("turn", "parent")
