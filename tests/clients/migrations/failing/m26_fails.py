"""Fails in its last step, after changes of several kinds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m26"
down_revision = "m25"


def upgrade() -> None:
    op.add_column("customer", sa.Column("half", sa.Integer))
    op.execute("UPDATE customer SET half = id / 2")
    op.create_table("left_behind", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("INSERT INTO left_behind SELECT id FROM customer")
    op.drop_column("product", "discount")
    op.create_unique_constraint("half_once", "customer", ["half"])


def downgrade() -> None:
    pass
