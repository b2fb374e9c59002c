"""A view over three tables, which is replaced."""

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


def downgrade() -> None:
    op.execute("DROP VIEW turnover")
