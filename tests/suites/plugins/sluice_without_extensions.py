"""A pytest plug-in: SQLAlchemy's set-up skips CREATE EXTENSION, because the embedded PostgreSQL has none.

SQLAlchemy itself skips tests that need one, on either server.
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
