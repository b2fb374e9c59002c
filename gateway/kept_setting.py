"""What a setting says that the gateway keeps at a client's backend, as SQL.

NULLIF would be the client's operator `=`.
"""

from __future__ import annotations


def kept(name: str, otherwise: str) -> str:
    """The setting's text, or, where it has none, another."""
    return f"coalesce(pg_catalog.substring(pg_catalog.current_setting('{name}', true), '.+'), '{otherwise}')"
