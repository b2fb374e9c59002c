"""A sequence that numbers a column of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m21"
down_revision = "m20"


def upgrade() -> None:
    op.execute(sa.schema.CreateSequence(sa.Sequence("ticket", start=1000)))
    op.add_column("sale", sa.Column("ticket", sa.BigInteger))
    op.execute("UPDATE sale SET ticket = 100 + id")
    op.alter_column("sale", "ticket", server_default=sa.text("nextval('ticket')"), nullable=False)
    op.execute("INSERT INTO customer (email, name) VALUES ('dan@example.org', 'Dan')")
    op.execute("INSERT INTO sale (customer_id, sku) SELECT id, 'saw' FROM customer WHERE name = 'Dan'")


def downgrade() -> None:
    op.execute("DELETE FROM customer WHERE name = 'Dan'")
    op.drop_column("sale", "ticket")
    op.execute(sa.schema.DropSequence(sa.Sequence("ticket")))
