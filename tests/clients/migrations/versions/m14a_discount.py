"""One branch: a discount."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m14a"
down_revision = "m13"


def upgrade() -> None:
    op.add_column("product", sa.Column("discount", sa.Double, server_default=sa.text("0")))
    op.execute("UPDATE product SET discount = 0.1 WHERE sku = 'saw'")


def downgrade() -> None:
    op.drop_column("product", "discount")
