"""A generated column, and a document."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "m17"
down_revision = "m16"


def upgrade() -> None:
    op.add_column("product", sa.Column("net", sa.Numeric(14, 2), sa.Computed("price / 1.2", persisted=True)))
    op.add_column("product", sa.Column("attributes", JSONB, server_default=sa.text("'{}'"), nullable=False))
    op.execute("""UPDATE product SET attributes = '{"sharp": true}' WHERE sku = 'saw'""")


def downgrade() -> None:
    op.drop_column("product", "attributes")
    op.drop_column("product", "net")
