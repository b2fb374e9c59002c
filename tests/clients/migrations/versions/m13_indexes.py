"""Indexes: of several columns, with more columns, partial, over an expression, unique."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m13"
down_revision = "m12"


def upgrade() -> None:
    op.create_index("ix_product_title_price", "product", ["title", sa.text("price DESC NULLS LAST")])
    op.create_index("ix_purchase_sku", "purchase", ["sku"], postgresql_include=["quantity"])
    op.create_index("ix_large", "purchase", ["quantity"], postgresql_where=sa.text("quantity > 15"))
    op.create_index("ix_customer_lower", "customer", [sa.text("lower(name)")])
    op.create_index("uq_customer_phone", "customer", ["phone"], unique=True)


def downgrade() -> None:
    op.drop_index("uq_customer_phone", "customer")
    op.drop_index("ix_customer_lower", "customer")
    op.drop_index("ix_large", "purchase")
    op.drop_index("ix_purchase_sku", "purchase")
    op.drop_index("ix_product_title_price", "product")
