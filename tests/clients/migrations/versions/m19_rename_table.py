"""A table by another name, and its index too; and a label, which no one takes away but by another type."""

from __future__ import annotations

from alembic import op

revision = "m19"
down_revision = "m18"


def upgrade() -> None:
    op.rename_table("purchase", "sale")
    op.execute("ALTER INDEX ix_purchase_customer_id RENAME TO ix_sale_customer_id")
    op.execute("ALTER INDEX ix_purchase_sku RENAME TO ix_sale_sku")
    op.execute("ALTER TABLE sale RENAME CONSTRAINT purchase_of_product TO sale_of_product")
    with op.get_context().autocommit_block():
        op.execute("ALTER TYPE customer_kind ADD VALUE IF NOT EXISTS 'club'")
    op.execute("UPDATE customer SET kind = 'club' WHERE name = 'Cid'")


def downgrade() -> None:
    op.execute("ALTER TABLE sale RENAME CONSTRAINT sale_of_product TO purchase_of_product")
    op.execute("ALTER INDEX ix_sale_sku RENAME TO ix_purchase_sku")
    op.execute("ALTER INDEX ix_sale_customer_id RENAME TO ix_purchase_customer_id")
    op.rename_table("sale", "purchase")
    op.execute("ALTER TYPE customer_kind RENAME TO customer_kind_of_before")
    op.execute("CREATE TYPE customer_kind AS ENUM ('private', 'business')")
    op.alter_column("customer", "kind", server_default=None)
    op.execute(
        "ALTER TABLE customer ALTER kind TYPE customer_kind"
        " USING CASE kind WHEN 'club' THEN 'business' ELSE kind::text END::customer_kind"
    )
    op.alter_column("customer", "kind", server_default="private")
    op.execute("DROP TYPE customer_kind_of_before")
