"""A schema change over its own connection: its error when that is lost."""

from __future__ import annotations

import asyncio

import pytest

from catalog.errors import SluiceError, SqlState
from catalog.schema.changing_elements import ChangingElement
from catalog.schema.schema_changes import Origin, SchemaChange, undo_abandoned
from catalog.schema.states import Element, State
from tests.catalog.conftest import CatalogUnderTest

_DEFINITION = "CONSTRAINT positive CHECK (n > 0)"
_TERMINATE = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%pg_sluice.schema_change%' AND pid <> pg_backend_pid()
"""


async def _adding_a_check(lake: CatalogUnderTest) -> tuple[int, ChangingElement, SchemaChange]:
    """A table, and a change of it that is in CHECK."""
    await lake.client.execute("CREATE SCHEMA s; CREATE TABLE s.t (n integer)")
    relid = await lake.superuser.fetchval("SELECT 's.t'::regclass::oid::bigint")
    check = ChangingElement(
        relid, 0, Element.CONSTRAINT, "positive", None, _DEFINITION, origin=State.ABSENT, state=State.ABSENT
    )
    change = await SchemaChange.begin(lake.steps, Origin(relid, "ALTER …", "somebody", 1), [check])
    await change.advance(check, State.CHECK)
    return relid, check, change


async def test_a_lost_connection_is_57p03_and_the_change_is_undone_by_others(lake: CatalogUnderTest) -> None:
    relid, check, change = await _adding_a_check(lake)
    await change.proceed()
    assert await lake.superuser.fetchval("SELECT state FROM pg_sluice.element") == State.CHECK
    assert [ended for (ended,) in await lake.superuser.fetch(_TERMINATE)] == [True]
    for lost in (change.proceed(), change.advance(check, State.VALIDATE), change.undo("lost")):
        with pytest.raises(SluiceError) as refused:
            await lost
        assert refused.value.sqlstate == SqlState.CANNOT_CONNECT_NOW
    await change.close()
    await undo_abandoned(lake.url, relid)
    assert await lake.superuser.fetchval("SELECT count(*) FROM pg_sluice.element") == 0
    assert await lake.superuser.fetchval("SELECT error FROM pg_sluice.schema_change") == "the gateway died"


async def test_nobody_undoes_what_is_at_work_and_only_one_what_is_not(lake: CatalogUnderTest) -> None:
    relid, _, change = await _adding_a_check(lake)
    await asyncio.gather(*(undo_abandoned(lake.url) for _ in range(3)))
    assert await lake.superuser.fetchval("SELECT state FROM pg_sluice.element") == State.CHECK
    await change.close()
    await asyncio.gather(*(undo_abandoned(lake.url, relid if number % 2 else None) for number in range(6)))
    assert await lake.superuser.fetch("SELECT FROM pg_sluice.element") == []
    steps = await lake.superuser.fetch("SELECT kind FROM pg_sluice.schema_step ORDER BY step_id")
    assert [kind for (kind,) in steps] == ["create table", "check constraint", "drop constraint"]
