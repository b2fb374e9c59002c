"""A plug-in of pytest: SQLAlchemy's set-up does not CREATE EXTENSION, as the embedded PostgreSQL has none to create.

Tests that need one are told by SQLAlchemy itself that it is missing, on either server.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before SQLAlchemy's own plug-in connects."""
    from sqlalchemy.dialects.postgresql import provision  # noqa: PLC0415  # must come after SQLAlchemy's rewriting

    unknown: Any = provision
    unknown._extensions.clear()
