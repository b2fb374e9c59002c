"""The embedded PostgreSQL below folders that its user may pass or not, and with paths too long for a socket."""

from __future__ import annotations

import os
import stat

import asyncpg
import pytest

from catalog.postgres.embedded import EmbeddedPostgres
from tests.servers import open_directory, wait_until_gone

_SHORT = "data"
_LONG = "d" * 100


async def _answer(postgres: EmbeddedPostgres, question: str) -> str:
    connection = await asyncpg.connect(postgres.dsn)
    try:
        return str(await connection.fetchval(question))
    finally:
        await connection.close()


@pytest.mark.parametrize("name", [_SHORT, _LONG], ids=["short", "long"])
@pytest.mark.parametrize("mode", [0o755, 0o700], ids=["open", "closed"])
async def test_it_is_made_started_found_and_started_again(mode: int, name: str) -> None:
    with open_directory("closed") as above:
        above.chmod(mode)
        first = EmbeddedPostgres(above / name)
        await first.start()
        try:
            assert stat.S_IMODE(first.socket_directory.stat().st_mode) == 0o700
            known = str(first.cluster) if mode == 0o755 or os.geteuid() != 0 else "/proc/self/cwd"
            assert await _answer(first, "SHOW data_directory") == known
            outlived = first.process_id
            assert outlived is not None
            # One that has lost its gateway is ended by the next, which knows it by where it is at home.
            second = EmbeddedPostgres(above / name)
            await second.start()
            try:
                assert second.process_id not in {None, outlived}
                assert await _answer(second, "SELECT 'here'") == "here"
            finally:
                await second.stop()
        finally:
            await first.stop()
        wait_until_gone({outlived})


async def test_a_program_at_home_elsewhere_is_left_alone() -> None:
    """Its number may stand in postmaster.pid by chance."""
    with open_directory("others") as above:
        other = EmbeddedPostgres(above / "other")
        await other.start()
        try:
            mine = EmbeddedPostgres(above / "mine")
            await mine.start()
            await mine.stop()
            (mine.cluster / "postmaster.pid").write_text(f"{other.process_id}\n")
            await mine._end_orphan()
            assert await _answer(other, "SELECT 'still here'") == "still here"
        finally:
            await other.stop()
