"""The first table, with a key that numbers itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m01"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "customer",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("email", sa.String(40), nullable=False, unique=True),
        sa.Column("joined", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("customer")
