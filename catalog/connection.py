"""A connection of the gateway to the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import asyncpg

from catalog.errors import SluiceError, SqlState
from catalog.postgres.own_settings import OWN_SETTINGS
from catalog.postgres.pool import UNREACHABLE


async def connect(
    dsn: str, settings: Mapping[str, str] = OWN_SETTINGS, *, statement_cache_size: int = 100
) -> asyncpg.Connection:
    """Open a connection of the gateway. Raises 57P03, with a message of one line, if the catalog cannot be reached."""
    try:
        return await asyncpg.connect(dsn, server_settings=dict(settings), statement_cache_size=statement_cache_size)
    except (*UNREACHABLE, ValueError, asyncpg.PostgresError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        place = urlsplit(dsn).netloc.rpartition("@")[2] or "its Unix socket"  # without the password
        raise SluiceError(SqlState.CANNOT_CONNECT_NOW, f"cannot reach the catalog at {place}: {reason}") from error
