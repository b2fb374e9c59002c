"""Rows move to a table of their own, in another schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m22"
down_revision = "m21"


def upgrade() -> None:
    op.execute("CREATE SCHEMA archive")
    op.create_table(
        "sale",
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("sku", sa.String(12), nullable=False),
        sa.Column("moved", sa.Date, server_default=sa.text("'2026-01-01'")),
        schema="archive",
    )
    op.execute("INSERT INTO archive.sale (id, sku) SELECT id, sku FROM sale WHERE customer_id = 3")
    op.execute("DELETE FROM sale WHERE id IN (SELECT id FROM archive.sale)")
    op.execute("REFRESH MATERIALIZED VIEW sold_once")


def downgrade() -> None:
    op.execute("INSERT INTO sale (customer_id, sku, quantity) SELECT 3, sku, 30 FROM archive.sale")
    op.drop_table("sale", schema="archive")
    op.execute("DROP SCHEMA archive")
