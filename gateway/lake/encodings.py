"""In which encoding a client's texts are.

Lake tables are in UTF-8, and so is what is computed on them: where PostgreSQL does not convert texts, others are
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import unsupported

if TYPE_CHECKING:
    from gateway.exchange import Exchange

_UTF8: Final = "UTF8"
# Encodings of which PostgreSQL converts nothing, where the database is in UTF-8.
UNCHANGED: Final = (_UTF8, "SQL_ASCII")


def client_encoding(session: Exchange) -> str:
    """What texts the backend takes and gives."""
    return session.backend.parameters.get("client_encoding", _UTF8)


def check_encoding(session: Exchange, what: str) -> None:
    """0A000 where the backend's texts are not in UTF-8."""
    client = client_encoding(session)
    if client not in UNCHANGED:
        raise unsupported(f"{what} while client_encoding is {client}")
