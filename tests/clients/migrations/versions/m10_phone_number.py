"""Another type, by an expression."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m10"
down_revision = "m09"


def upgrade() -> None:
    op.execute("UPDATE customer SET phone = '00' || id WHERE id < 3")
    op.alter_column(
        "customer", "phone", type_=sa.BigInteger, existing_comment="as it is dialled", postgresql_using="phone::bigint"
    )


def downgrade() -> None:
    op.alter_column(
        "customer",
        "phone",
        type_=sa.Text,
        existing_comment="as it is dialled",
        postgresql_using="lpad(phone::text, 3, '0')",
    )
    op.execute("UPDATE customer SET phone = NULL")
