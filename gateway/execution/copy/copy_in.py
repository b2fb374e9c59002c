"""COPY … FROM STDIN: PostgreSQL checks the statement, `CopyLoad` reads the data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING, Final

from catalog.datatypes import element_type
from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Table
from gateway.backend.copies import close_unnamed_portal, copy_in
from gateway.backend.own_names import OWN
from gateway.copy_format import CopyFormat
from gateway.execution.changes.row_changes import Changing
from gateway.execution.constraints.exclusion_check import ExclusionError
from gateway.execution.constraints.unique_check import DuplicateKeyError
from gateway.execution.copy.copy_columns import copied_columns
from gateway.execution.copy.copy_encoding import LOOK
from gateway.execution.copy.copy_load import CopyLoad
from gateway.execution.copy.recorded_data import RecordedData
from gateway.execution.reading.copy_trial import data_encoding, options_of, try_statement
from gateway.execution.reading.plan_context import session_values
from gateway.execution.schema.array_carrying import carry_arrays
from gateway.execution.shadow.shadow import qualified
from gateway.session.cancel_listener import check
from gateway.session.copy_relay import may_come, out_of_place
from gateway.session.offload import offloaded
from gateway.session.statement_analysis import analysed
from gateway.session.visibility import functions_of_rules, latest, rules, used
from gateway.statement.array_shapes import ArrayShapeError
from gateway.statement.portal import StatementPortal
from gateway.wire.framing import UnknownTypeError
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import CommandComplete
from gateway.wire.messages.copy import CopyDone, CopyFail, CopyInResponse
from gateway.wire.states import Action
from planner.plans.computable import acting_functions, functions_of_users
from planner.syntax.copy_text import copy_condition
from planner.tree.nodes import parse

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# Seconds that an error may wait while the client still sends.
_LOOK_SECONDS: Final = 0.5


class CopyInPortal(StatementPortal):
    """COPY table [(columns)] FROM STDIN [WHERE condition]."""

    async def run(self) -> None:
        session, target = self.session, self.routed.lake[0]
        async with Changing(self, "COPY FROM", target) as changing:
            version = await used(session, target, self.analysis.mark, changing.mark, read=False)
            table = version.table
            kept = await rules(session, table)
            assert self.routed.query is not None
            statement = self.routed.query.utilityStmt
            refusal = await try_statement(session, self.analysis.sql)
            columns = copied_columns(table, statement.attlist, kept.generated)
            options = options_of(self.routed, [column.name for column in columns])
            encoding = await data_encoding(session, options)
            condition = None if statement.whereClause is None else copy_condition(self.analysis.sql)
            values, _ = await session_values(session)
            form = int(options.format is CopyFormat.BINARY)
            functions = {*functions_of_rules(kept, defaults=True), *await self._functions(table, condition)}
            if options.freeze and not table.materialized:
                refusal = await self._freeze_refusal(table)
            load = CopyLoad(
                session,
                table,
                kept,
                columns,
                options,
                time_zone=values.time_zone,
                functions=functions,
                encoding=encoding,
                condition=condition,
            )
            arrays = any(element_type(column.type_oid) is not None for column in table.columns)
            data = RecordedData(copied_data(session), kept=arrays)
            async with session.timeouts.out_of_window():
                session.send_noted(CopyInResponse(bytes([form]), (form,) * len(columns)))
                await session.client.drain()
                if refusal is not None:
                    raise refusal
                while True:
                    try:
                        result = await load.run(data.pieces())
                        break
                    except ArrayShapeError as unheld:
                        if not data.is_whole:
                            raise
                        await carry_arrays(session, unheld, in_block=True)
                        version = await latest(session, target)
                        load = load.into(version.table, await rules(session, version.table))
            try:
                await changing.wrote(result, version)
            except (DuplicateKeyError, ExclusionError) as error:
                await load.tell_line(error, result)
                raise
            load.tell_skipped()
            await changing.finish()
        session.client.send(CommandComplete(f"COPY {result.row_count}"))

    async def _functions(self, table: Table, condition: str | None) -> Collection[int]:
        """The user-defined functions that a condition calls; those with lasting effects are refused."""
        if condition is None:
            return ()
        session = self.session
        sql = f"SELECT FROM ONLY {qualified(table)} WHERE ({condition}\n)"
        analysis = await analysed(session, sql, name=OWN, sync=True)
        tree = await offloaded(session, analysis.tree.size, parse, analysis.tree)
        made_by_users = functions_of_users(tree)
        if acting_functions(tree, session.gateway.builtins) - made_by_users:
            raise unsupported("COPY … WHERE with a function that leaves something behind")
        return made_by_users

    async def _freeze_refusal(self, table: Table) -> SluiceError | None:
        """FREEZE requires that the transaction has made or truncated the table; PostgreSQL knows this of the shadow.

        It changes nothing else: lake rows need no freezing, and are invisible to others before COMMIT.
        """
        backend = self.session.backend
        await self.session.transaction.deferred.empty_again(table.oid)
        if self.session.simple:
            await close_unnamed_portal(backend)
        try:
            await copy_in(backend, f"COPY {qualified(table)} FROM STDIN (FREEZE)", b"")
        except SluiceError as error:
            return error
        return None


async def copied_data(session: SessionContext) -> AsyncIterator[bytes]:
    """The payloads of the client's COPY messages until CopyDone; `LOOK` during a pause."""
    client, machine = session.client, session.machine
    now = asyncio.get_running_loop().time
    due: float | None = None  # when the data so far must be judged at the latest
    while True:
        unknown: int | None = None
        data = b""
        try:
            async with asyncio.timeout_at(due):
                data = await client.copy_data()
        except TimeoutError:
            due = None
            yield LOOK
            continue
        except UnknownTypeError as error:
            unknown = error.type
        check(session)
        if data:
            due = due or now() + _LOOK_SECONDS
            yield data
            continue
        if due is not None and client.next_type != CopyDone.type:
            due = None
            yield LOOK  # if that fails, later messages are not part of the COPY
        if unknown is not None:
            raise out_of_place(session, unknown)
        frame = await client.frame()
        kind = frontend.FRONTEND[frame.type]
        if not may_come(machine.state, kind):
            raise out_of_place(session, frame.type)
        if machine.received(kind) is Action.IGNORE:
            continue
        if frame.type == CopyDone.type:
            return
        reason = "the client went"
        if frame.type == CopyFail.type:
            reason = (await session.encoding.read(CopyFail, frame)).message
        raise SluiceError(SqlState.QUERY_CANCELED, f"COPY from stdin failed: {reason}")
