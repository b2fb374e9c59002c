"""A column that may be NULL, with a comment."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m05"
down_revision = "m04"


def upgrade() -> None:
    op.add_column("customer", sa.Column("phone", sa.Text, comment="as it is dialled"))


def downgrade() -> None:
    op.drop_column("customer", "phone")
