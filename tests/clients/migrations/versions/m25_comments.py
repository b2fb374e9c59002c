"""Comments, and a unique index that becomes a constraint."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m25"
down_revision = "m24"


def upgrade() -> None:
    op.create_table_comment("sale", "what was sold")
    op.alter_column("sale", "quantity", comment="pieces", existing_type=sa.BigInteger)
    op.create_index("sale_ticket_key", "sale", ["ticket"], unique=True)
    op.execute("ALTER TABLE sale ADD CONSTRAINT sale_ticket_key UNIQUE USING INDEX sale_ticket_key")


def downgrade() -> None:
    op.drop_constraint("sale_ticket_key", "sale", type_="unique")
    op.alter_column("sale", "quantity", comment=None, existing_comment="pieces", existing_type=sa.BigInteger)
    op.drop_table_comment("sale", existing_comment="what was sold")
