"""A key over two columns."""

from __future__ import annotations

from alembic import op

revision = "m12"
down_revision = "m11"


def upgrade() -> None:
    op.create_unique_constraint("once_for_each", "purchase", ["customer_id", "sku"])


def downgrade() -> None:
    op.drop_constraint("once_for_each", "purchase", type_="unique")
