"""Reads host, port and database of a catalog's URI."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from catalog.errors import SluiceError, SqlState
from catalog.postgres.embedded import PORT, SUPERUSER


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the catalog's PostgreSQL: a socket's folder or a host, and the port."""

    host: str
    port: int


def in_url(host: str) -> str:
    """A host as it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def endpoint(dsn: str) -> tuple[Address, str]:
    """Host, port and database of a postgresql:// URI."""
    parts = urlsplit(dsn)
    if parts.scheme not in ("postgresql", "postgres"):
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, "--catalog takes a postgresql:// URI")
    query = parse_qs(parts.query)
    host = parts.hostname or query.get("host", ["localhost"])[0]
    port = parts.port or int(query.get("port", [str(PORT)])[0])
    database = unquote(parts.path.lstrip("/")) or unquote(parts.username or SUPERUSER)
    return Address(host, port), database
