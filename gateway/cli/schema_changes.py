"""`sluice changes`: shows running schema changes with their progress, and the last finished ones."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

from catalog.store import Store
from gateway.cli.offline_catalog import opened
from gateway.server.data_directory import DataDirectory

_CHANGES: Final = """
SELECT change_id, relation, statement, started_by, error, paused, finished IS NOT NULL AS finished, step,
       finished IS NULL AND NOT pg_sluice.lives(worker_id, worker_started) AS abandoned,
       files_done, files_total, rows_done, rows_total,
       extract(epoch FROM coalesce(finished, clock_timestamp()) - started)::float8 AS seconds
FROM pg_sluice.schema_change c
WHERE finished IS NULL OR change_id IN (
    SELECT change_id FROM pg_sluice.schema_change WHERE finished IS NOT NULL ORDER BY finished DESC LIMIT 10)
ORDER BY c.finished NULLS LAST, change_id
"""
_AGAIN_SECONDS: Final = 0.5
_BAR: Final = 20


async def show_changes(directory: DataDirectory, catalog: str | None, out: TextIO, *, watch: bool) -> None:
    """Write them. With `watch`, repeat until cancelled: a terminal shows the present state, other output only what has
    changed.
    """
    async with opened(directory, catalog) as store:
        shown = await _show(store, out, [])
        while watch:
            await asyncio.sleep(_AGAIN_SECONDS)
            shown = await _show(store, out, shown)


async def _show(store: Store, out: TextIO, before: Sequence[str]) -> list[str]:
    terminal = out.isatty()
    columns = shutil.get_terminal_size().columns if terminal else None
    lines = [change_line(dict(row), bar=terminal)[:columns] for row in await store.fetch(_CHANGES)]
    lines = lines or ["no change of a schema is at work, and none is done"]
    if terminal:
        back = f"\x1b[{len(before)}F\x1b[J" if before else ""
        out.write(back + "".join(f"{line}\n" for line in lines))
    else:
        # A new duration alone is not shown.
        known = {_untimed(line) for line in before}
        out.writelines(f"{line}\n" for line in lines if _untimed(line) not in known)
    out.flush()
    return lines


def change_line(change: Mapping[str, Any], *, bar: bool) -> str:
    """One line for a change: its subject, progress and outcome."""
    statement = " ".join(change["statement"].split())
    about = f"{change['relation']}  {statement}  by {change['started_by']}"
    if change["finished"]:
        how = f"failed: {change['error']}" if change["error"] is not None else "done"
    elif change["abandoned"]:
        how = f"left behind in {change['step']}, until the table is changed or a gateway starts"
    else:
        how = f"{'paused, ' if change['paused'] else ''}{change['step']}{_done(change, bar=bar)}"
    return f"{change['change_id']}  {how}  {about}  {change['seconds']:.1f} s"


def _done(change: Mapping[str, Any], *, bar: bool) -> str:
    if not change["files_total"]:
        return ""
    share = change["rows_done"] / change["rows_total"] if change["rows_total"] else 1.0
    filled = int(share * _BAR)
    drawn = f" [{'#' * filled}{'.' * (_BAR - filled)}]" if bar else ""
    files, rows = (f"{change[f'{what}_done']} of {change[f'{what}_total']} {what}" for what in ("files", "rows"))
    return f"{drawn} {share:.0%}, {files}, {rows}"


def _untimed(line: str) -> str:
    return line.rpartition("  ")[0]
