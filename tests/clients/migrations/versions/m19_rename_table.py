"""A table by another name, and its index too."""

from __future__ import annotations

from alembic import op

revision = "m19"
down_revision = "m18"


def upgrade() -> None:
    op.rename_table("purchase", "sale")
    op.execute("ALTER INDEX ix_purchase_customer_id RENAME TO ix_sale_customer_id")
    op.execute("ALTER INDEX ix_purchase_sku RENAME TO ix_sale_sku")
    op.execute("ALTER TABLE sale RENAME CONSTRAINT purchase_of_product TO sale_of_product")


def downgrade() -> None:
    op.execute("ALTER TABLE sale RENAME CONSTRAINT sale_of_product TO purchase_of_product")
    op.execute("ALTER INDEX ix_sale_sku RENAME TO ix_purchase_sku")
    op.execute("ALTER INDEX ix_sale_customer_id RENAME TO ix_purchase_customer_id")
    op.rename_table("sale", "purchase")
