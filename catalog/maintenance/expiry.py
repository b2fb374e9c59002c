"""Expiry: remove snapshots that are older than the retention and unread, and the files that only they had.

It may be killed and repeated. One transaction removes snapshots and notes the names of their files; then the noted
files are removed, and then the notes (catalog/sql/maintenance.sql).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from catalog.notifications import About
from catalog.postgres.pool import Pool

_EXPIRE: Final = "SELECT pg_sluice.expire_snapshots($1::text::interval)"
_NOW: Final = "SELECT clock_timestamp()"
_BEHIND: Final = "SELECT EXISTS (SELECT FROM pg_sluice.reader WHERE refreshed <= $1)"
_SCHEDULED: Final = "SELECT path FROM pg_ducklake.ducklake_files_scheduled_for_deletion LIMIT 1000"
_DONE: Final = "DELETE FROM pg_ducklake.ducklake_files_scheduled_for_deletion WHERE path = ANY ($1)"
# The time to wait for other gateways' pins. For one that does not answer, its last report counts.
_ANSWER_SECONDS_MAX: Final = 2.0
_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Expired:
    """The snapshots and files that were removed."""

    snapshots: int
    files: int


async def expire(pool: Pool, retention: str, remove: Callable[[Sequence[str]], Awaitable[None]]) -> Expired:
    """Remove what is older than `retention`, an interval; `remove` removes files by their path below the data path."""
    await _ask_readers(pool)
    snapshots: int = await pool.fetchval(_EXPIRE, retention)
    files = 0
    while paths := [row["path"] for row in await pool.fetch(_SCHEDULED)]:
        await remove(paths)
        await pool.execute(_DONE, paths)
        files += len(paths)
    return Expired(snapshots, files)


async def _ask_readers(pool: Pool) -> None:
    """Wait a little until each gateway has reported the oldest snapshot that it reads."""
    asked = await pool.fetchval(_NOW)
    await pool.execute(About.READERS.say)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS_MAX):
            while await pool.fetchval(_BEHIND, asked):  # noqa: ASYNC110  it happens in another process
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        return
