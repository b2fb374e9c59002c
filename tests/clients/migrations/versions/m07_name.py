"""A column that is filled from another, and required from then on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m07"
down_revision = "m06"


def upgrade() -> None:
    op.add_column("customer", sa.Column("name", sa.Text))
    op.execute("UPDATE customer SET name = initcap(split_part(email, '@', 1))")
    op.alter_column("customer", "name", nullable=False)


def downgrade() -> None:
    op.drop_column("customer", "name")
