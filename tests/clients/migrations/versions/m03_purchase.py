"""A table that refers to two others, one of them in cascade."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m03"
down_revision = "m02"


def upgrade() -> None:
    op.create_table(
        "purchase",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("customer_id", sa.Integer, sa.ForeignKey("customer.id", ondelete="CASCADE"), nullable=False),
        sa.Column("sku", sa.String(12), sa.ForeignKey("product.sku", name="purchase_of_product"), nullable=False),
        sa.Column("amount", sa.Integer, server_default="1", nullable=False),
    )
    op.create_index("ix_purchase_customer_id", "purchase", ["customer_id"])


def downgrade() -> None:
    op.drop_index("ix_purchase_customer_id", "purchase")
    op.drop_table("purchase")
