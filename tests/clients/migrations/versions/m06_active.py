"""A column with a constant default."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m06"
down_revision = "m05"


def upgrade() -> None:
    op.add_column("customer", sa.Column("active", sa.Boolean, server_default=sa.true(), nullable=False))


def downgrade() -> None:
    op.drop_column("customer", "active")
