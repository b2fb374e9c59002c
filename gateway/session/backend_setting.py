"""SQL that reads a setting which the gateway keeps at a client's backend.

NULLIF would use the client's operator `=`; a regular expression would take longer than the statement around it.
"""

from __future__ import annotations


def kept(name: str, otherwise: str) -> str:
    """The setting's text, or `otherwise` if it is empty."""
    setting = f"pg_sluice.backend_setting('{name}', true)"
    return f"CASE WHEN pg_catalog.length({setting}) OPERATOR(pg_catalog.>) 0 THEN {setting} ELSE '{otherwise}' END"
