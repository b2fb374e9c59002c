"""A reference that does something else on deletion."""

from __future__ import annotations

from alembic import op

revision = "m23"
down_revision = "m22"


def upgrade() -> None:
    op.drop_constraint("sale_of_product", "sale", type_="foreignkey")
    op.create_foreign_key("sale_of_product", "sale", "product", ["sku"], ["sku"], ondelete="RESTRICT", deferrable=True)


def downgrade() -> None:
    op.drop_constraint("sale_of_product", "sale", type_="foreignkey")
    op.create_foreign_key("sale_of_product", "sale", "product", ["sku"], ["sku"])
