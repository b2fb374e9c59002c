"""SET CONSTRAINTS: which constraints are checked at COMMIT, in place of at the end of each statement.

The backend reports errors of the statement. Its modes are kept as a setting at the backend, so that savepoints and the
transaction's end restore them; `"all"` stands for every constraint that is not named since. The gateway's own
constraint triggers at the backend publish at COMMIT and must stay deferred. So the backend never gets ALL IMMEDIATE,
and clients cannot guess the triggers' names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from catalog.constraints import Exclusion, ForeignKey, Key
from catalog.errors import SluiceError
from gateway.backend.arrays import text_array
from gateway.backend.own_statement import Statement
from gateway.session.backend_setting import kept
from gateway.session.pending_constraints import forget_pending
from gateway.wire.messages.backend import CommandComplete

if TYPE_CHECKING:
    from gateway.session.session_context import Sent, SessionContext
    from planner.syntax.statements import ConstraintModes

NAME: Final = "sluice.constraints"
# The expression that asks the backend for the modes, beside a statement's other questions.
ASKED: Final = f"coalesce(pg_sluice.backend_setting('{NAME}', true), '')"
_OWN_PREFIX: Final = "pg_sluice_"
_THOSE: Final = """
FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[]))
    AS given (namespace, name)
JOIN pg_catalog.pg_constraint k ON k.conname OPERATOR(pg_catalog.=) given.name AND k.condeferrable
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) k.connamespace
WHERE n.nspname OPERATOR(pg_catalog.=) given.namespace OR given.namespace OPERATOR(pg_catalog.=) ''
    AND n.nspname OPERATOR(pg_catalog.=) ANY (pg_catalog.current_schemas(true))
"""
_NAMED: Final = f"SELECT k.oid::bigint {_THOSE}"
_ADD: Final = f"""
SELECT pg_catalog.set_config(
    '{NAME}', ({kept(NAME, "{}")}::pg_catalog.jsonb
    OPERATOR(pg_catalog.||) (SELECT coalesce(pg_catalog.jsonb_object_agg(k.oid::pg_catalog.text,
        $3::pg_catalog.bool), '{{}}') {_THOSE}))::pg_catalog.text, true)
"""
_OF_BACKEND: Final = """
SELECT pg_catalog.string_agg(pg_catalog.format('%I.%I', n.nspname, k.conname), ', ')
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) k.connamespace
WHERE k.condeferrable AND (n.oid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()
    OR k.contype OPERATOR(pg_catalog.=) 't' AND n.nspname OPERATOR(pg_catalog.<>) 'pg_sluice'
        AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'))
"""
# Run after a statement that may have executed SET CONSTRAINTS inside of a function.
KEEP_OWN: Final = Statement("SET CONSTRAINTS pg_sluice.pg_sluice_publish DEFERRED")


async def relay_modes(session: SessionContext, sent: Sent, modes: ConstraintModes) -> bool:
    """Execute SET CONSTRAINTS as a simple query; False if the backend has refused it."""
    if await prepare_modes(session, modes):
        await keep_modes(session, modes)
        session.client.send(CommandComplete("SET CONSTRAINTS"))
        return True
    good = await session.relay_query(sent.raw, sent.offset)
    if good and session.transaction.open:
        await keep_modes(session, modes)
    return good


async def prepare_modes(session: SessionContext, modes: ConstraintModes) -> bool:
    """Check the constraints that become immediate; return whether the statement must not reach the backend."""
    names = () if modes.names is None else modes.names
    for _, name in names:
        if name.startswith(_OWN_PREFIX):
            raise SluiceError("42704", f'constraint "{name}" does not exist')
    if modes.deferred or not session.transaction.open:
        return False
    transaction = session.transaction
    async with transaction.deferred.opened():
        if modes.names is None:
            await transaction.validate_now(None)
        elif transaction.deferred.pending:
            await transaction.validate_now(await _named(session, modes), [name for _, name in modes.names])
        else:
            await transaction.validate_now(await _named(session, modes))
    if transaction.late.tables:
        await transaction.late.fire(modes)
    return modes.names is None


async def stands_beside(session: SessionContext, modes: ConstraintModes) -> bool:
    """Whether it names the same constraints with and without the transaction's deferred changes
    (gateway.transaction.transactional_ddl). Constraints that deferred changes make have new OIDs each time. Called
    outside of a window.
    """
    if modes.names is None:
        return True
    deferred = session.transaction.deferred
    if deferred.sets_modes:
        return False
    await deferred.open()
    within = await _named(session, modes)
    await deferred.close()
    return within == await _named(session, modes)


async def keep_modes(session: SessionContext, modes: ConstraintModes) -> None:
    """Record modes after the backend has executed SET CONSTRAINTS in a block. In a window the statement is deferred
    itself; so are its modes if they follow a deferred one.
    """
    deferred = session.transaction.deferred
    if not modes.deferred:
        await forget_pending(session, None if modes.names is None else await _named(session, modes))
    if modes.names is not None and deferred.is_open:
        await deferred.defer_modes(Statement(modes.sql), Statement(_ADD, (*_arrays(modes), str(modes.deferred))))
        return
    if modes.names is None:
        text = json.dumps({"all": modes.deferred})
        if not modes.deferred:
            [listing] = await session.backend.run(Statement(_OF_BACKEND))
            if (listed := listing.rows[0][0]) is not None:
                await session.backend.run(Statement(f"SET CONSTRAINTS {listed.decode()} IMMEDIATE"))
    else:
        [before] = await session.backend.run(Statement(f"SELECT {ASKED}"))
        named = {str(oid): modes.deferred for oid in await _named(session, modes)}
        text = json.dumps({**modes_from(before.rows[0][0]), **named})
    setting = Statement("SELECT pg_catalog.set_config($1, $2, true)", (NAME, text))
    await session.backend.run(setting)
    if deferred.sets_modes:
        await deferred.defer_modes(setting)


async def _named(session: SessionContext, modes: ConstraintModes) -> frozenset[int]:
    [found] = await session.backend.run(Statement(_NAMED, _arrays(modes)))
    return frozenset(int(oid) for (oid,) in found.rows if oid is not None)


def _arrays(modes: ConstraintModes) -> tuple[str, str]:
    """The schemas, with nothing for none, and the names."""
    listed = modes.names or ()
    return text_array(namespace or "" for namespace, _ in listed), text_array(name for _, name in listed)


def modes_from(answer: bytes | None) -> Mapping[str, bool]:
    """The modes, from the backend's answer to `ASKED`."""
    modes: dict[str, bool] = json.loads(answer) if answer else {}
    return modes


def deferred_now(constraints: Iterable[Key | Exclusion | ForeignKey], modes: Mapping[str, bool]) -> frozenset[int]:
    """The constraints, by OID, that are checked at COMMIT."""
    every = modes.get("all")
    return frozenset(
        each.oid
        for each in constraints
        if each.deferrable and modes.get(str(each.oid), each.deferred if every is None else every)
    )
