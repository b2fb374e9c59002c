"""Implements `sluice.as_of`: the session reads lake tables as of a snapshot, and may not change them.

PostgreSQL keeps the setting (SET, SET LOCAL, savepoints, roles, start-up options); each statement asks the backend for
it. Names, types and views are resolved as of today, because only today's shadows exist. A table whose columns have
changed since is read only if the statement's result cannot depend on that; otherwise it is refused.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from catalog.model import Table, TableVersion
from catalog.snapshots import PastTable, ducklake_types, snapshot_of_number, snapshot_of_time, tables_at
from catalog.store import table_from_description
from gateway.backend.own_statement import Statement
from gateway.session.offload import offloaded
from planner.syntax.statements import Statement as SourceStatement
from planner.syntax.statements import setting
from planner.tree.nodes import parse
from planner.tree.references import selected_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.transaction.own_changes import OwnChange

NAME: Final = "sluice.as_of"
# Defines the setting, so that SHOW works. A role's or the client's own value stays.
DEFINE: Final = Statement(
    f"SELECT pg_catalog.set_config('{NAME}', coalesce(pg_sluice.backend_setting('{NAME}', true), ''), false)"
)


# The expression that asks the backend for the setting, beside a statement's other questions.
UNDERSTOOD: Final = f"pg_sluice.named_snapshot(pg_sluice.backend_setting('{NAME}', true))"


async def snapshot_of(session: SessionContext, understood: str) -> int:
    """The snapshot that the setting names; 22023 if it names none."""
    store = session.gateway.store
    if understood.startswith("!"):
        raise SluiceError(
            SqlState.INVALID_PARAMETER_VALUE,
            f'invalid value for parameter "{NAME}": "{understood[1:]}"',
            hint="It takes the number of a snapshot, or a time.",
        )
    if not understood.startswith("@"):
        return await snapshot_of_number(store, int(understood))
    text = understood[1:]
    try:
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(text.partition(".")[0]))
    except (ValueError, OverflowError):
        # Before year 1, after 9999, or infinite: no snapshot is near.
        instant = datetime(1, 1, 1, tzinfo=UTC) if text.startswith("-") else datetime(9999, 12, 31, tzinfo=UTC)
    return await snapshot_of_time(store, instant)


async def check_setting(session: SessionContext, statement: SourceStatement) -> None:
    """Before SET: raise 22023 for a value that names no snapshot."""
    value = setting(statement, NAME)
    if value is None:
        return
    [result] = await session.backend.run(
        Statement("SELECT pg_sluice.named_snapshot($1::pg_catalog.text)", (value,)), sync=session.simple
    )
    understood = result.rows[0][0]
    assert understood is not None
    if understood:
        await session.reading.choose(await snapshot_of(session, understood.decode()))


async def past_versions(
    session: SessionContext, analysis: Analysis, lake: Sequence[int], understood: str, own: Sequence[OwnChange] | None
) -> dict[int, TableVersion]:
    """The versions of a statement's tables at the snapshot, without the transaction's own changes.

    Raises 42P01 for a table that did not exist, and 0A000 for one whose columns the statement cannot use.
    """
    snapshot = await snapshot_of(session, understood)
    await session.reading.choose(snapshot)
    store = session.gateway.store
    now = {oid: version.table for oid, version in (await store.versions(lake)).items()}
    rows = await store.versions_at(lake, snapshot)
    for each in own or ():
        if each.description is not None:
            now[each.oid] = table_from_description(each.description)
    past = await tables_at(store, lake, snapshot)
    types = await ducklake_types(
        store, ((column.type_oid, column.typmod) for table in now.values() for column in table.columns)
    )
    read = await offloaded(session, analysis.tree.size, lambda: selected_columns(parse(analysis.tree)))
    found = {}
    for oid, table in now.items():
        then = past.get(oid)
        if then is None:
            raise SluiceError(
                SqlState.UNDEFINED_TABLE,
                f'relation "{table.name}" did not exist at snapshot {snapshot}',
                hint="A relation of that name was made later.",
            )
        then_table = _as_it_was(table, then, types, read.get(oid, frozenset()), snapshot)
        found[oid] = replace(rows[oid], table=then_table)
    return found


def _as_it_was(
    table: Table, then: PastTable, types: Mapping[tuple[int, int], str], read: frozenset[int], snapshot: int
) -> Table:
    """The table with its columns of that time. Raises if a name or a star of the statement may have meant other
    columns.
    """

    def refusal(why: str) -> SluiceError:
        return SluiceError(
            SqlState.FEATURE_NOT_SUPPORTED, f'table "{table.name}" cannot be read as of snapshot {snapshot}: {why}'
        )

    if (then.schema, then.name) != (table.schema, table.name):
        raise refusal(f'it was called "{then.schema}"."{then.name}" then')
    now = {column.column_id: column for column in table.columns}
    for column_id, (name, ducklake) in then.columns.items():
        column = now.get(column_id)
        if column is None:
            raise refusal(f'its column "{name}" was dropped since')
        if column.name != name:
            raise refusal(f'its column "{column.name}" was called "{name}" then')
        if types[column.type_oid, column.typmod] != ducklake:
            raise refusal(f'its column "{name}" was of another type then')
    for column in table.columns:
        if column.column_id not in then.columns and (column.attnum in read or 0 in read):
            raise refusal(f'its column "{column.name}" was added later')
    columns = tuple(column for column in table.columns if column.column_id in then.columns)
    return replace(table, columns=columns, populated=then.populated)
