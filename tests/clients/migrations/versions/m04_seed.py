"""Rows, by bulk_insert and by SQL."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m04"
down_revision = "m03"


def upgrade() -> None:
    customer = sa.table("customer", sa.column("email", sa.String))
    product = sa.table("product", sa.column("sku"), sa.column("title"), sa.column("price", sa.Numeric))
    op.bulk_insert(customer, [{"email": f"{name}@example.org"} for name in ("ann", "bob", "cid")])
    op.bulk_insert(
        product,
        [
            {"sku": "nail", "title": "A nail", "price": "0.05"},
            {"sku": "saw", "title": "A saw", "price": "19.90"},
        ],
    )
    op.execute(
        "INSERT INTO purchase (customer_id, sku, amount) SELECT c.id, p.sku, c.id * 10 FROM customer c, product p"
        " ORDER BY c.id, p.sku"
    )


def downgrade() -> None:
    op.execute("DELETE FROM purchase")
    op.execute("DELETE FROM product")
    op.execute("DELETE FROM customer")
