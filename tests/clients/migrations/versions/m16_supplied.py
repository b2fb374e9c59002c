"""A reference that is added to rows that are there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m16"
down_revision = "m15"


def upgrade() -> None:
    op.add_column("product", sa.Column("supplier", sa.Text))
    op.execute("UPDATE product SET supplier = CASE sku WHEN 'saw' THEN 'Smith' ELSE 'Jones' END")
    op.create_foreign_key("product_supplier_fkey", "product", "supplier", ["supplier"], ["name"], onupdate="CASCADE")
    op.execute("UPDATE supplier SET name = 'Smith & Son' WHERE name = 'Smith'")


def downgrade() -> None:
    op.drop_constraint("product_supplier_fkey", "product", type_="foreignkey")
    op.drop_column("product", "supplier")
