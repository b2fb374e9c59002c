"""CREATE TABLE AS and CREATE MATERIALIZED VIEW, without the rows; in a block, other sessions do not wait.

PostgreSQL would hold the locks of tables that the query names until the block ends. The block's deferred changes
(gateway/transaction/transactional_ddl.py) exist only in a window. So the statement is first tried in a window and
undone: its errors and notices are PostgreSQL's, and it tells the columns. Then the object is made for good outside of
windows: a table of these columns, or a view by the same text. If the block has removed or taken the name, the object
is made under another one, and a deferred change renames it. If the result would differ (a view needs changed objects,
types have other names), the deferred changes are settled, and the unchanged statement is executed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.connection import BackendLostError
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.schema.deferred_validation import Deferral, defer
from gateway.session.visibility import latest
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from planner.syntax.lexer import quoted
from planner.syntax.statements import table_as
from planner.tree.nodes import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.wire.messages.backend import NoticeResponse
    from planner.tree.nodes import Node

Rows = list[tuple[bytes | None, ...]]

# The existing object at the name where CREATE would put it: its columns, and a view's definition.
_LOOK: Final = """
SELECT c.oid::pg_catalog.int8, coalesce((
    SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
        pg_catalog.quote_ident(a.attname), pg_catalog.format_type(a.atttypid, a.atttypmod),
        (SELECT pg_catalog.format('%I.%I', n.nspname, o.collname)
         FROM pg_catalog.pg_collation o JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) o.collnamespace
         WHERE o.oid OPERATOR(pg_catalog.=) a.attcollation AND o.oid OPERATOR(pg_catalog.<>) t.typcollation),
        a.atttypid::pg_catalog.int8, a.atttypmod, a.attcollation::pg_catalog.int8) ORDER BY a.attnum)
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid
    WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid
        AND a.attnum OPERATOR(pg_catalog.>) 0), '[]')::pg_catalog.text,
    CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'm' THEN (
    SELECT pg_catalog.json_build_array(pg_catalog.pg_get_viewdef(c.oid), pg_catalog.json_agg(
        pg_catalog.json_build_array(d.refclassid::pg_catalog.int8, d.refobjid::pg_catalog.int8, d.refobjsubid)
        ORDER BY d.refclassid, d.refobjid, d.refobjsubid))
    FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d
        ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass
            AND d.objid OPERATOR(pg_catalog.=) r.oid AND d.refobjid OPERATOR(pg_catalog.<>) c.oid
    WHERE r.ev_class OPERATOR(pg_catalog.=) c.oid) END::pg_catalog.text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.relname OPERATOR(pg_catalog.=) $2::pg_catalog.name
    AND CASE WHEN $3::pg_catalog.bool THEN n.oid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()
    ELSE n.nspname OPERATOR(pg_catalog.=) coalesce($1::pg_catalog.name, pg_catalog.current_schema()) END
"""
# Error classes of PostgreSQL for missing or existing names.
_NAMING: Final = frozenset({"0A", "2B", "3F", "42"})
_TRUE: Final = str(True)
# Bytes of a name that are kept before a suffix.
_NAME_BYTES: Final = 40


@dataclass(frozen=True, slots=True)
class Made:
    """The object's OID (None if IF NOT EXISTS has found another), and PostgreSQL's notices."""

    oid: int | None
    notices: list[NoticeResponse]


async def make(
    session: SessionContext,
    analysis: Analysis,
    statement: Statement,
    target: Node,
    *,
    if_not_exists: bool,
    in_block: bool,
) -> Made:
    """Make the object of `statement`, which is the analysed one without its data. `in_block`: in the client's block;
    the window is open afterwards if anything is deferred.
    """
    deferred, run = session.transaction.deferred, session.backend.run
    look = Statement(_LOOK, _place(target))
    if if_not_exists:
        [there] = await run(look)
        if there.rows:
            [created] = await run(statement)
            return Made(None, created.notices)
    if not in_block:
        [created, made] = await run(statement, look)
        return Made(_oid(made.rows), created.notices)
    await take_place(session, Place.WINDOW)
    [_, created, wanted, *_] = await run(TRIAL.begin, statement, look, *TRIAL.undo)
    oid = await _Making(session, analysis, statement, target, wanted.rows).make()
    if oid is None:
        await take_place(session, Place.SETTLED)
        [_, made] = await run(statement, look)
        oid = _oid(made.rows)
    await deferred.see()
    return Made(oid, created.notices)


def _place(target: Node) -> tuple[str | None, str, str]:
    """The parameters of `_LOOK`."""
    schema = None if (named := target.fields.get("schemaname")) is None else name_of(named)
    return schema, name_of(target.relname), str(target.relpersistence == "t" or schema == "pg_temp")


def _oid(rows: Rows) -> int:
    return int(rows[0][0] or 0)


class _Making:
    """Makes outside of windows the object that is `wanted`."""

    def __init__(
        self, session: SessionContext, analysis: Analysis, statement: Statement, target: Node, wanted: Rows
    ) -> None:
        self._session = session
        self._analysis = analysis
        self._statement = statement
        self._target = target
        self._schema, self._name, self._temporary = _place(target)
        self._wanted = wanted

    async def make(self) -> int | None:
        """Make it and return its OID; None, with nothing done, if the result would differ, or would conflict with
        deferred changes.
        """
        deferred = self._session.transaction.deferred
        if deferred.is_broad:
            return None
        if not deferred.names(self._name):
            oid = await self._make(self._name)
            if oid is not None:
                return oid
        is_view = self._wanted[0][2] is not None
        return None if is_view or self._temporary == _TRUE else await self._make_under_another_name()

    async def _make_under_another_name(self) -> int | None:
        """For a name that the block has removed or taken: a deferred change renames the table."""
        session, deferred = self._session, self._session.transaction.deferred
        begin = self._name.encode()[:_NAME_BYTES].decode(errors="ignore")
        other = f"{begin}_{session.backend.process_id}_{len(deferred.pending)}"
        renaming = Statement(f"ALTER TABLE {self._placed(other)} RENAME TO {quoted(self._name)}")
        oid = await self._make(other, renaming)
        if oid is not None:
            await take_place(session, Place.WINDOW)
            table = (await latest(session, oid)).table
            await session.backend.run(renaming)
            await defer(session, self._analysis, Deferral(tables=[table], renames=True, statements=[renaming]))
        return oid

    async def _make(self, name: str, *then: Statement) -> int | None:
        """Make it under that name; each window runs `then`."""
        deferred, run = self._session.transaction.deferred, self._session.backend.run
        await take_place(self._session, Place.BESIDE)
        await run(TRIAL.begin)
        try:
            oid = await self._tried(name, then)
        except BackendLostError:
            raise
        except SluiceError as error:
            if error.sqlstate[:2] not in _NAMING and error.sqlstate != SqlState.SERIALIZATION_FAILURE:
                raise
            await deferred.abandon()
            oid = None
        await run(*(TRIAL.undo if oid is None else (TRIAL.release,)))
        return oid

    async def _tried(self, name: str, then: Sequence[Statement]) -> int | None:
        deferred, run = self._session.transaction.deferred, self._session.backend.run
        [_, made] = await run(self._making(name), Statement(_LOOK, (self._schema, name, self._temporary)))
        if [row[1:] for row in made.rows] != [row[1:] for row in self._wanted]:
            return None
        if deferred.pending or then:
            await take_place(self._session, Place.WINDOW)
            *_, seen = await run(*then, Statement(_LOOK, _place(self._target)))
            await take_place(self._session, Place.BESIDE)
            if seen.rows != made.rows:
                return None
        return _oid(made.rows)

    def _making(self, name: str) -> Statement:
        """The statement that makes it under that name, and names no more than needed."""
        _, columns, view = self._wanted[0]
        if view is not None:
            return self._statement
        nulls = (
            f"NULL::{kind}{f' COLLATE {collation}' if collation else ''} AS {column}"
            for column, kind, collation, *_ in json.loads(columns or b"")
        )
        head = self._analysis.taken_apart(table_as).head_for(self._placed(name))
        return Statement(f"{head} SELECT {', '.join(nulls)} WITH NO DATA")

    def _placed(self, name: str) -> str:
        return ".".join(quoted(part) for part in (self._schema, name) if part is not None)
