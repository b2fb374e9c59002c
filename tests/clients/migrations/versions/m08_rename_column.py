"""A column by another name."""

from __future__ import annotations

from alembic import op

revision = "m08"
down_revision = "m07"


def upgrade() -> None:
    op.alter_column("purchase", "amount", new_column_name="quantity")


def downgrade() -> None:
    op.alter_column("purchase", "quantity", new_column_name="amount")
