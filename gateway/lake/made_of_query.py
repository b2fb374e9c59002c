"""What is made of a query (CREATE TABLE AS, CREATE MATERIALIZED VIEW), without its rows. In a block nobody waits.

PostgreSQL would hold the locks of what the query names until the block ends, and what the block has deferred
(gateway/deferred.py) is there in a window alone. So the statement is tried in one, and undone: its errors and notices
are PostgreSQL's, and the columns are known by it. Then it is made for good outside of any: a table of these columns
alone, a view by the same text. Where that is not the same (the query needs what the block has changed, names are taken
or given otherwise), what was deferred is settled, and the statement carried out as it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.analysis import SAVEPOINT, UNDO
from gateway.backend import BackendLostError, Statement
from planner.nodes import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.exchange import Exchange
    from gateway.messages.backend import NoticeResponse
    from planner.nodes import Node
    from planner.statements import TableAs

# What is there of that name where CREATE would put it: its columns, and of a view what it is defined by.
_LOOK: Final = """
SELECT c.oid::pg_catalog.int8, coalesce((
    SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
        pg_catalog.quote_ident(a.attname), pg_catalog.format_type(a.atttypid, a.atttypmod),
        (SELECT pg_catalog.format('%I.%I', n.nspname, o.collname)
         FROM pg_catalog.pg_collation o JOIN pg_catalog.pg_namespace n ON n.oid = o.collnamespace
         WHERE o.oid = a.attcollation AND o.oid <> t.typcollation),
        a.atttypid::pg_catalog.int8, a.atttypmod, a.attcollation::pg_catalog.int8) ORDER BY a.attnum)
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = c.oid AND a.attnum > 0), '[]')::pg_catalog.text, CASE c.relkind WHEN 'm' THEN (
    SELECT pg_catalog.json_build_array(pg_catalog.pg_get_viewdef(c.oid), pg_catalog.json_agg(
        pg_catalog.json_build_array(d.refclassid::pg_catalog.int8, d.refobjid::pg_catalog.int8, d.refobjsubid)
        ORDER BY d.refclassid, d.refobjid, d.refobjsubid))
    FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d
        ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid AND d.refobjid <> c.oid
    WHERE r.ev_class = c.oid) END::pg_catalog.text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = $2::pg_catalog.name AND CASE WHEN $3::pg_catalog.bool THEN n.oid = pg_catalog.pg_my_temp_schema()
    ELSE n.nspname = coalesce($1::pg_catalog.name, pg_catalog.current_schema()) END
"""
# Classes of what PostgreSQL says where a name is not there, or is taken.
_NAMING: Final = frozenset({"0A", "2B", "3F", "42"})


@dataclass(frozen=True, slots=True)
class Made:
    """Its OID (None where IF NOT EXISTS has found another in its place), and what PostgreSQL has said."""

    oid: int | None
    notices: list[NoticeResponse]


async def make(
    session: Exchange, target: Node, parts: TableAs, statement: Statement, *, if_not_exists: bool, in_block: bool
) -> Made:
    """Make what `statement` makes, which is `parts` without data. `in_block`: in the client's own, where the window is
    open afterwards if anything is deferred."""
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
    await deferred.open()
    [_, created, wanted, *_] = await run(SAVEPOINT, statement, look, *UNDO)
    oid = await _made_outside(session, name_of(target.relname), look, wanted.rows, _spelled(parts, statement))
    if oid is None:
        await deferred.settle()
        [_, made] = await run(statement, look)
        oid = _oid(made.rows)
    await deferred.see()
    return Made(oid, created.notices)


def _place(target: Node) -> tuple[str | None, str, str]:
    schema = None if (named := target.fields.get("schemaname")) is None else name_of(named)
    return schema, name_of(target.relname), str(target.relpersistence == "t" or schema == "pg_temp")


def _oid(rows: list[tuple[bytes | None, ...]]) -> int:
    return int(rows[0][0] or 0)


def _spelled(parts: TableAs, statement: Statement) -> Callable[[tuple[bytes | None, ...]], Statement]:
    """From what was looked at to what makes the same, naming no more than that needs."""

    def spelled(found: tuple[bytes | None, ...]) -> Statement:
        _, columns, view = found
        if view is not None:
            return statement
        nulls = (
            f"NULL::{kind}{f' COLLATE {collation}' if collation else ''} AS {name}"
            for name, kind, collation, *_ in json.loads(columns or b"")
        )
        return Statement(f"{parts.head} SELECT {', '.join(nulls)} WITH NO DATA")

    return spelled


async def _made_outside(
    session: Exchange,
    name: str,
    look: Statement,
    wanted: list[tuple[bytes | None, ...]],
    spelled: Callable[[tuple[bytes | None, ...]], Statement],
) -> int | None:
    """Make it outside of any window; None, with nothing done, where it would not be what is `wanted`, or where what was
    deferred would meet it."""
    deferred, run = session.transaction.deferred, session.backend.run
    if deferred.may_mean(name):
        return None
    await deferred.close()
    await run(SAVEPOINT)
    try:
        [_, made] = await run(spelled(wanted[0]), look)
        is_same = [row[1:] for row in made.rows] == [row[1:] for row in wanted]
        if is_same and deferred.pending:
            await deferred.open()
            [seen] = await run(look)
            is_same = seen.rows == made.rows
            await deferred.close()
    except BackendLostError:
        raise
    except SluiceError as error:
        if error.sqlstate[:2] not in _NAMING and error.sqlstate != SqlState.SERIALIZATION_FAILURE:
            raise
        await deferred.abandon()
        is_same = False
    if not is_same:
        await run(*UNDO)
        return None
    await run(Statement("RELEASE SAVEPOINT pg_sluice"))
    return _oid(made.rows)
