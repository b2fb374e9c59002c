"""A check that is looked at in a second step."""

from __future__ import annotations

from alembic import op

revision = "m11"
down_revision = "m10"


def upgrade() -> None:
    op.create_check_constraint("quantity_is_positive", "purchase", "quantity > 0", postgresql_not_valid=True)
    op.execute("ALTER TABLE purchase VALIDATE CONSTRAINT quantity_is_positive")


def downgrade() -> None:
    op.drop_constraint("quantity_is_positive", "purchase", type_="check")
