"""Wider types: no row is touched."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m09"
down_revision = "m08"


def upgrade() -> None:
    op.alter_column("customer", "email", type_=sa.String(120), existing_type=sa.String(40), existing_nullable=False)
    op.alter_column("purchase", "quantity", type_=sa.BigInteger, existing_type=sa.Integer, existing_nullable=False)
    op.alter_column("product", "price", type_=sa.Numeric(14, 2), existing_type=sa.Numeric(10, 2))


def downgrade() -> None:
    op.alter_column("product", "price", type_=sa.Numeric(10, 2), existing_type=sa.Numeric(14, 2))
    op.alter_column("purchase", "quantity", type_=sa.Integer, existing_type=sa.BigInteger, existing_nullable=False)
    op.alter_column("customer", "email", type_=sa.String(40), existing_type=sa.String(120), existing_nullable=False)
