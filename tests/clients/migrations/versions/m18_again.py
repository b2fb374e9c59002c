"""A column is dropped, and another gets its name; and one of an enumeration."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m18"
down_revision = "m17"


def upgrade() -> None:
    op.drop_column("customer", "phone")
    op.add_column("customer", sa.Column("phone", sa.String(20), server_default="none"))
    op.execute("UPDATE customer SET phone = '07' WHERE id = 1")
    kind = sa.Enum("private", "business", name="customer_kind")
    kind.create(op.get_bind())
    op.add_column("customer", sa.Column("kind", kind, server_default="private", nullable=False))
    op.execute("UPDATE customer SET kind = 'business' WHERE name = 'Bob'")


def downgrade() -> None:
    op.drop_column("customer", "kind")
    op.execute("DROP TYPE customer_kind")
    op.drop_column("customer", "phone")
    op.add_column("customer", sa.Column("phone", sa.BigInteger, comment="as it is dialled"))
    op.create_index("uq_customer_phone", "customer", ["phone"], unique=True)
