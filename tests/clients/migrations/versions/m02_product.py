"""A key of text, a price that is checked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m02"
down_revision = "m01"


def upgrade() -> None:
    op.create_table(
        "product",
        sa.Column("sku", sa.String(12), primary_key=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("price", sa.Numeric(10, 2), nullable=False),
        sa.CheckConstraint("price >= 0", name="price_is_not_negative"),
    )


def downgrade() -> None:
    op.drop_table("product")
