"""What a setting says that the gateway keeps at a client's backend, as SQL.

NULLIF would be the client's operator `=`; a regular expression would take longer than the statement around it.
"""

from __future__ import annotations


def kept(name: str, otherwise: str) -> str:
    """The setting's text, or, where it has none, another."""
    setting = f"pg_sluice.backend_setting('{name}', true)"
    return f"CASE WHEN pg_catalog.length({setting}) OPERATOR(pg_catalog.>) 0 THEN {setting} ELSE '{otherwise}' END"
