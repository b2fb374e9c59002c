"""Both branches."""

from __future__ import annotations

revision = "m15"
down_revision = ("m14a", "m14b")


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
