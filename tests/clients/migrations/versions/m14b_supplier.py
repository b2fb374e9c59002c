"""The other branch: suppliers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m14b"
down_revision = "m13"


def upgrade() -> None:
    op.create_table(
        "supplier",
        sa.Column("id", sa.Uuid, server_default=sa.text("gen_random_uuid()"), primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        comment="who sells to us",
    )
    op.execute("INSERT INTO supplier (name) VALUES ('Smith'), ('Jones')")


def downgrade() -> None:
    op.drop_table("supplier")
