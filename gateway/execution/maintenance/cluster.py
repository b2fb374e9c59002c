"""CLUSTER: PostgreSQL records the index at the shadow, Spark rewrites the table's files in its order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend.own_statement import Statement
from gateway.execution.maintenance.analyze import note_size
from gateway.execution.maintenance.vacuum import cancellable, take_turn
from gateway.execution.shadow.function_guard import relay_statement
from gateway.node.compaction import Compacted, Compaction, Pace
from gateway.statement.passthrough_command import refuse_in_block
from gateway.statement.portal import StatementPortal
from gateway.wire.messages.backend import CommandComplete
from storage.plan import BoundScan, RunnableInsert, RunnableQuery, Scan, column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.model import DataFile, TableVersion

# The index by which each table is clustered after the statement: of one table, or of all that the client may cluster
# (cluster.c, get_tables_to_cluster).
_CLUSTERED: Final = """
SELECT i.indrelid::pg_catalog.int8, i.indkey::pg_catalog.text, i.indoption::pg_catalog.text, i.indnkeyatts
FROM pg_catalog.pg_index i
WHERE i.indisclustered AND (i.indrelid OPERATOR(pg_catalog.=) $1::pg_catalog.oid
    OR $1::pg_catalog.oid OPERATOR(pg_catalog.=) 0)
    AND pg_catalog.has_table_privilege(i.indrelid, 'MAINTAIN')
ORDER BY i.indrelid
"""
# pg_index.indoption.
_DESCENDING: Final = 1
_NULLS_FIRST: Final = 2
_ROUNDS_MAX: Final = 5


class ClusterPortal(StatementPortal):
    """CLUSTER of one lake table, or of all that have been clustered before."""

    async def run(self) -> None:
        session = self.session
        if not self.routed.lake:
            refuse_in_block(session, "CLUSTER")
        if session.transaction.open:
            raise unsupported("CLUSTER of lake tables in a transaction block")
        await self.ask_limit()
        tag = await relay_statement(session, self.binding)
        only = self.routed.lake[0] if self.routed.lake else 0
        [found] = await session.backend.run(Statement(_CLUSTERED, (str(only),)))
        session.reading.end()
        for oid, keys, options, count in found.rows:
            attnums = [int(number) for number in (keys or b"").split()][: int(count or 0)]
            await self._cluster(int(oid or 0), attnums, [int(each) for each in (options or b"").split()])
            await note_size(session, int(oid or 0))
        session.client.send(CommandComplete(tag))

    async def _cluster(self, relid: int, attnums: Sequence[int], options: Sequence[int]) -> None:
        if 0 in attnums:
            raise unsupported("CLUSTER using an index of expressions")
        session = self.session
        order = ", ".join(
            f"{column_name(attnum)} {'DESC' if option & _DESCENDING else 'ASC'} "
            f"NULLS {'FIRST' if option & _NULLS_FIRST else 'LAST'}"
            for attnum, option in zip(attnums, options, strict=False)
        )

        async def write(version: TableVersion, _: Sequence[DataFile]) -> tuple[Sequence[DataFile], None]:
            columns = tuple(column.attnum for column in version.table.columns)
            scan = BoundScan(Scan("clustered", relid, columns), version)
            listed = ", ".join(map(column_name, columns))
            query = RunnableQuery(f"SELECT {listed} FROM clustered ORDER BY {order}", (scan,))
            table = replace(version.table, sort_key=())  # the index's order comes in its place
            result = await session.gateway.engine.insert(RunnableInsert(query, table), session.tag)
            return result.data_files, None

        turn = await take_turn(session, relid, waits=True)
        assert turn is not None
        try:
            compaction = Compaction(session.gateway, turn, Pace(float("inf")))
            for _ in range(_ROUNDS_MAX):
                reading = session.gateway.store.readers.begin()
                try:
                    version = (await session.gateway.store.versions([relid])).get(relid)
                    if version is None or not version.files:
                        return
                    result = Compacted()
                    await cancellable(session, compaction.replace(version, version.files, write, result))
                finally:
                    session.gateway.store.readers.end(reading)
                if result.gave_way is None:
                    return
        finally:
            await turn.close()
        raise SluiceError(
            SqlState.LOCK_NOT_AVAILABLE, "the table was changed by others each time that it was about to be clustered"
        )
