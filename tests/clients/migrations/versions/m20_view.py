"""A view over two tables, which is replaced; and one that is kept."""

from __future__ import annotations

from alembic import op

revision = "m20"
down_revision = "m19"


def upgrade() -> None:
    op.execute("CREATE VIEW turnover AS SELECT sku, sum(quantity) AS sold FROM sale GROUP BY sku")
    op.execute(
        "CREATE OR REPLACE VIEW turnover AS SELECT s.sku, sum(s.quantity) AS sold, sum(s.quantity * p.price) AS earned"
        " FROM sale s JOIN product p USING (sku) GROUP BY s.sku"
    )
    op.execute("CREATE MATERIALIZED VIEW sold_once AS SELECT sku, quantity FROM sale WHERE quantity < 20")
    op.execute("CREATE INDEX ix_sold_once ON sold_once (sku)")


def downgrade() -> None:
    op.execute("DROP MATERIALIZED VIEW sold_once")
    op.execute("DROP VIEW turnover")
