"""Validates new constraints over existing rows: PostgreSQL has checked only an empty shadow, Spark checks the lake.

Contract: `meet` runs the catalog's query for each obligation (catalog/sql/obligations.sql), and raises PostgreSQL's
error for an offending row. COMMIT checks again what other transactions have committed since.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from catalog.constraints import Exclusion, exclusion_from_json
from catalog.datatypes import known_type
from catalog.errors import SluiceError, SqlState
from catalog.model import TableVersion
from catalog.schema.schema_change_progress import Progress
from gateway.backend import catalog_calls
from gateway.backend.analysis import analyse
from gateway.backend.arrays import number_array
from gateway.backend.connection import Result
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.execution.constraints.exclusion_check import existing_conflict
from gateway.execution.constraints.unique_build import Build, planned_build, repeated
from gateway.execution.constraints.unique_check import duplicate_message
from gateway.execution.reading.error_privileges import may_see_named
from gateway.execution.reading.handed_rows import not_computed
from gateway.execution.reading.plan_context import output_settings, planned, read, runnable, session_values
from gateway.execution.reading.postgres_column import (
    Conditions,
    are_few_for_postgres,
    column_types,
    first_met,
    is_watched,
    may_be_asked,
    may_make_tables,
)
from gateway.session.cancel_listener import attending
from gateway.session.offload import offloaded
from gateway.session.visibility import latest
from gateway.statement.portal import Binding
from gateway.statement.routing import route
from gateway.transaction.validation import Validation
from gateway.values.text import text_cells
from planner.plans.constraint_keys import missing_reference, repeated_key
from planner.plans.select import plan_select
from planner.syntax.lexer import quoted
from planner.syntax.statements import condition_of
from planner.translate.row_security import past_policies
from planner.tree.nodes import Node
from storage.indexes.missing_keys import lacks_keys
from storage.indexes.repeated_keys import can_tell, repeats
from storage.plan import RunnableQuery

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext

_IS_THERE: Final = "SELECT FROM pg_catalog.{} WHERE oid OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid"
# Kinds whose errors name a column, not a constraint.
_OF_COLUMN: Final = frozenset({"dc", "dn"})
# Kinds whose columns are named as in an index's definition.
_KEYS: Final = frozenset({"p", "u", "x"})
_UNIQUE: Final = frozenset({"p", "u"})
# Those that each row meets or violates by itself, and those of them that PostgreSQL checks row by row.
_OF_ROWS: Final = frozenset({"c", "n", "dc"})
ROW_BY_ROW: Final = frozenset({"n", "c"})
_AFTER_COLUMNS: Final = 32_767


@dataclass(frozen=True, slots=True)
class Obligation:
    """A constraint to check, or, by its OID below 0, a UNIQUE index.

    `kind` is pg_constraint.contype, of a domain with `d` before it; `query` returns a row if the constraint is
    violated. `base` is the base type of a domain's column.
    """

    constraint: int
    relid: int
    kind: str
    name: str
    schema: str
    table: str
    parent: str | None
    parent_relid: int | None
    columns: tuple[str, ...]
    query: str
    exclusion: Exclusion | None = None
    base: str | None = None

    @property
    def identity(self) -> tuple[int, str, str]:
        """Identifies it, however often its change is repeated."""
        return self.relid, self.kind, self.name

    @property
    def place(self) -> tuple[int, int]:
        """The constraint together with its table: a domain's is over many tables."""
        return self.constraint, self.relid

    def is_of(self, relid: int, name: str) -> bool:
        """Whether it is the table's constraint of that name."""
        return (self.relid, self.name) == (relid, name)

    def violation(self, key: Sequence[str | None] | None, *, later: bool = False) -> SluiceError:
        """PostgreSQL's error for the offending key; None if the key is not shown. `later`: the constraint was there
        before the row.
        """
        values = ", ".join("null" if value is None else value for value in key or ())
        found = "Key" if key is None else f"Key ({', '.join(self.columns)})=({values})"
        if self.kind == "n":
            return nulls_found(self.schema, self.table, self.columns[0])
        code, message, detail = {
            "c": (
                SqlState.CHECK_VIOLATION,
                f'check constraint "{self.name}" of relation "{self.table}" is violated by some row',
                None,
            ),
            "dc": (
                SqlState.CHECK_VIOLATION,
                f'column "{self.columns[0]}" of table "{self.table}" contains values that violate the new constraint',
                None,
            ),
            "dn": (
                SqlState.NOT_NULL_VIOLATION,
                f'column "{self.columns[0]}" of table "{self.table}" contains null values',
                None,
            ),
            "f": (
                SqlState.FOREIGN_KEY_VIOLATION,
                f'insert or update on table "{self.table}" violates foreign key constraint "{self.name}"',
                f'{found} is not present in table "{self.parent}".',
            ),
        }.get(self.kind) or self._duplicate(None if key is None else found, later)
        return SluiceError(
            code,
            message,
            detail=detail,
            schema=self.schema,
            table=self.table,
            column=self.columns[0] if self.kind in _OF_COLUMN else None,
            constraint=None if self.kind in _OF_COLUMN else self.name,
        )

    def _duplicate(self, found: str | None, later: bool) -> tuple[SqlState, str, str | None]:
        if self.kind == "x":
            message = f'could not create exclusion constraint "{self.name}"'
            return SqlState.EXCLUSION_VIOLATION, *(
                (duplicate_message(self.name, exclusion=True), _conflict(found, "existing key"))
                if later
                else (message, _conflict(found, "key") or "Key conflicts exist.")
            )
        if later:
            message = duplicate_message(self.name, exclusion=False)
            return SqlState.UNIQUE_VIOLATION, message, None if found is None else f"{found} already exists."
        message = f'could not create unique index "{self.name}"'
        detail = "Duplicate keys exist." if found is None else f"{found} is duplicated."
        return SqlState.UNIQUE_VIOLATION, message, detail


def _conflict(found: str | None, other: str) -> str | None:
    return None if found is None else f"{found} conflicts with {other} {found.removeprefix('Key ')}."


def nulls_found(schema: str, table: str, column: str) -> SluiceError:
    """PostgreSQL's error for NULLs in a column that becomes NOT NULL."""
    message = f'column "{column}" of relation "{table}" contains null values'
    return SluiceError(SqlState.NOT_NULL_VIOLATION, message, schema=schema, table=table, column=column)


async def obligations(session: SessionContext) -> list[Obligation]:
    """What the session's transaction has noted and not met, in the order in which PostgreSQL would look."""
    [answer] = await session.backend.run(catalog_calls.obligations())
    return obligations_of(answer)


def obligations_of(answer: Result) -> list[Obligation]:
    """The same, of an answer to `catalog_calls.obligations`."""
    value = answer.rows[0][0]
    assert value is not None
    return [_obligation(each) for each in json.loads(value)]


def _obligation(found: dict[str, Any]) -> Obligation:
    return Obligation(
        constraint=found["constraint"],
        relid=found["relid"],
        kind=found["kind"],
        name=found["name"],
        schema=found["schema"],
        table=found["table"],
        parent=found["parent"],
        parent_relid=found["parent_relid"],
        columns=tuple(found["columns"] or ()),
        query=found["query"],
        exclusion=exclusion_from_json(found["exclusion"]) if found.get("exclusion") else None,
        base=found.get("base"),
    )


async def meet(session: SessionContext, wanted: Sequence[Obligation]) -> None:
    """Check the rows that the transaction sees, and let COMMIT check again what others have changed since."""
    for each in wanted:
        look_again_at_commit(session, each, await look(session, each, beside=wanted))
    await vouch(session, wanted)


def look_again_at_commit(session: SessionContext, met: Obligation, read_at: Mapping[int, int]) -> None:
    """Let COMMIT check again if other transactions have changed one of these tables since that snapshot of it."""

    async def again() -> None:
        if await is_there(session, met):
            await look(session, met, later=True)

    for oid, snapshot in read_at.items():
        session.transaction.validate(oid, Validation(met.constraint, snapshot, again))


async def is_there(session: SessionContext, met: Obligation) -> bool:
    """Whether the transaction still has the constraint, which a savepoint may have undone."""
    kind = "pg_class" if met.constraint < 0 else "pg_constraint"
    [result] = await session.backend.run(Statement(_IS_THERE.format(kind), (str(abs(met.constraint)),)))
    return bool(result.rows)


async def vouch(session: SessionContext, met: Sequence[Obligation]) -> None:
    """Confirm that no row violates these."""
    if met:
        listed = number_array(each.constraint for each in met)
        await session.backend.run(catalog_calls.vouch(listed))


@dataclass(frozen=True, slots=True)
class Look:
    """A prepared check: `read_at` are the tables that it reads, each with its snapshot; without rows, neither `query`
    nor `question` is set, nor `excluding`, the table of an EXCLUDE constraint. `types` are those of the key. With a
    `build`, PostgreSQL decides.

    If bytes decide about keys, `keys` asks in a thread whether a row violates the constraint; None: it cannot tell.
    """

    wanted: Obligation
    read_at: dict[int, int]
    query: RunnableQuery | None
    keys: Callable[[], bool | None] | None
    question: Conditions | None
    build: Build | None
    excluding: TableVersion | None
    types: Sequence[int]
    files: int
    rows: int


async def prepare_look(session: SessionContext, wanted: Obligation) -> Look:
    """Prepare a check by asking PostgreSQL what it needs."""
    analysis, reading, asked = await _asked(session, wanted)
    versions = reading.versions.values()
    query = question = None
    target = reading.versions[wanted.relid]
    few = await are_few_for_postgres(session, reading)
    build = None
    if few and target.files and wanted.kind in _UNIQUE and asked is not None:
        build = await planned_build(session, target, wanted.name, asked)
    if target.files and wanted.exclusion is None:
        try:
            if few and wanted.kind in _OF_ROWS and asked is not None and await may_be_asked(session, asked):
                raise not_computed()
            query = runnable(await planned(session, reading, plan_select, asked, carries=True), reading)
        except SluiceError as refusal:
            if build is None:
                question = await _question(session, wanted, asked, target, refusal)
    keys = None if query is None or asked is None else _keys(session, wanted, asked, reading, few=few)
    return Look(
        wanted,
        {oid: version.snapshot_id for oid, version in reading.versions.items()},
        query,
        keys,
        question,
        build,
        target if target.files and wanted.exclusion is not None else None,
        [column.type_oid for column in analysis.columns or ()],
        sum(len(each.files) for each in versions),
        sum(each.row_count for each in versions),
    )


async def _asked(session: SessionContext, wanted: Obligation) -> tuple[Analysis, Reading, Node | None]:
    """The query for rows that violate it, and what it reads."""
    with session.transaction.reading_newest():
        analysis = await analyse(session.backend, wanted.query, name=OWN, sync=True)
        routed = await route(session, analysis)
        # PostgreSQL has checked who may make the constraint. It requires no right to read the rows, and plans no
        # query.
        reading = await read(session, analysis, Binding(), routed.lake, explain=False, scans=False)
    # All rows must satisfy it.
    return analysis, reading, await offloaded(session, analysis.tree.size, past_policies, routed.query)


def _keys(
    session: SessionContext, wanted: Obligation, query: Node, reading: Reading, *, few: bool
) -> Callable[[], bool | None] | None:
    """What asks whether rows violate a key; None if only an engine can tell."""
    path, target = session.gateway.data_path, reading.versions[wanted.relid]
    if wanted.kind in _UNIQUE and can_tell(target):
        columns = repeated_key(query, target.table)
        return None if columns is None else partial(repeats, path, target, columns)
    if wanted.kind == "f" and few and wanted.parent_relid is not None:
        parent = reading.versions[wanted.parent_relid]
        pair = missing_reference(query, target.table, parent.table)
        return None if pair is None else partial(lacks_keys, path, target, pair[0], parent, pair[1])
    return None


async def _question(
    session: SessionContext, wanted: Obligation, query: Node | None, version: TableVersion, refusal: SluiceError
) -> Conditions:
    """The question that replaces what Spark refuses; raises the refusal if PostgreSQL cannot be asked either."""
    assert query is not None
    if (
        wanted.kind not in _OF_ROWS
        or refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED
        or not await may_be_asked(session, query)
    ):
        raise refusal
    types, watched = await column_types(session, wanted.relid), is_watched(session, query)
    if wanted.base is None:
        return Conditions(version, types, [_violated(wanted)], watched)
    # The domain itself would refuse rows with its own error.
    [column] = wanted.columns
    return Conditions(version, types | {column: wanted.base}, [_violated(wanted)], watched, column)


def _violated(wanted: Obligation) -> str:
    """The condition of rows that violate it."""
    if wanted.kind == "n":
        return f"pg_catalog.num_nulls({quoted(wanted.columns[0])}) OPERATOR(pg_catalog.>) 0"
    return condition_of(wanted.query)


async def look(
    session: SessionContext,
    wanted: Obligation,
    progress: Progress | None = None,
    *,
    later: bool = False,
    beside: Sequence[Obligation] = (),
) -> dict[int, int]:
    """Raise the violation if there is one; otherwise return the tables that were read, each with its snapshot.
    `later`: no row has violated the constraint when it was made. `beside`: what the same statement demands.
    """
    return await make_look(session, await prepare_look(session, wanted), progress, later=later, beside=beside)


async def make_look(
    session: SessionContext,
    prepared: Look,
    progress: Progress | None = None,
    *,
    later: bool = False,
    beside: Sequence[Obligation] = (),
) -> dict[int, int]:
    """`look`, as prepared. `progress`, whose step is known, is told the subject, and the end of the check."""
    question = prepared.question
    if prepared.query is None and question is None and prepared.excluding is None and prepared.build is None:
        return prepared.read_at
    if progress is not None:
        progress.begin(progress.step, prepared.files, prepared.rows, looking=True)
    if question is not None:
        if await first_met(session, question) is not None:
            raise (await _first_violated(session, prepared.wanted, beside)).violation(None)
    elif prepared.excluding is not None:
        await _look_for_conflict(session, prepared.wanted, prepared.excluding, later=later)
    elif prepared.build is None or not await _is_decided(session, prepared, prepared.build, later=later):
        async with attending(session):
            key = None if await _is_met(prepared) else await _found(session, prepared)
        if key is not None:
            wanted = await _first_violated(session, prepared.wanted, beside)
            raise wanted.violation(key if await _is_shown(session, wanted) else None, later=later)
    if progress is not None:
        progress.end()
    return prepared.read_at


async def _first_violated(session: SessionContext, found: Obligation, beside: Sequence[Obligation]) -> Obligation:
    """Which of NOT NULL and CHECK constraints PostgreSQL names: that of the first row that violates one, NOT NULL first
    and by the place of columns. `found` is violated by some row.
    """
    alike = [each for each in beside if each.relid == found.relid and each.kind in ROW_BY_ROW]
    if found not in alike or len(alike) == 1 or not await may_make_tables(session):
        return found
    try:
        async with session.transaction.deferred.opened():  # it may be of columns that the block has added
            asked = await _together(session, alike)
            place = None if asked is None else await first_met(session, asked)
    except SluiceError as refusal:
        if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
            raise
        return found
    return found if place is None else alike[place]


async def _together(session: SessionContext, alike: list[Obligation]) -> Conditions | None:
    """The conditions of rows that violate constraints of one table, which are sorted as PostgreSQL checks them; None if
    it cannot be asked.
    """
    with session.transaction.reading_newest():
        version = await latest(session, alike[0].relid)
    columns = version.table.columns
    if any(column.domain is not None for column in columns):
        return None
    trees = [tree for each in alike if (tree := (await _asked(session, each))[-1]) is not None]
    if len(trees) < len(alike) or not all([await may_be_asked(session, tree) for tree in trees]):
        return None
    places = {column.name: column.attnum for column in columns}
    alike.sort(key=lambda each: places[each.columns[0]] if each.kind == "n" else _AFTER_COLUMNS)
    watched = any(is_watched(session, tree) for tree in trees)
    types = await column_types(session, version.table.oid)
    return Conditions(version, types, [*map(_violated, alike)], watched)


async def _is_met(prepared: Look) -> bool:
    """Whether it is known without Spark that no row violates the constraint."""
    return prepared.keys is not None and await asyncio.to_thread(prepared.keys) is False


async def _is_shown(session: SessionContext, wanted: Obligation) -> bool:
    """Whether the client may see keys."""
    return await may_see_named(session, wanted.relid, wanted.columns, quoted=wanted.kind in _KEYS)


async def _is_decided(session: SessionContext, prepared: Look, build: Build, *, later: bool) -> bool:
    """Raise the violation of a key over few rows, as PostgreSQL words it. False if it cannot build such an index."""
    if await _is_met(prepared):
        return True
    try:
        detail = await repeated(session, build)
    except SluiceError as error:
        if error.sqlstate != SqlState.PROGRAM_LIMIT_EXCEEDED or prepared.query is None:
            raise
        return False
    if detail is not None:
        wanted = prepared.wanted
        found = wanted.violation(None, later=later)
        if await _is_shown(session, wanted):
            found.fields["D"] = f"{detail.removesuffix(' is duplicated.')} already exists." if later else detail
        raise found
    return True


async def _look_for_conflict(
    session: SessionContext, wanted: Obligation, version: TableVersion, *, later: bool
) -> None:
    """Raise the violation of an EXCLUDE constraint that PostgreSQL decides."""
    assert wanted.exclusion is not None
    keys = await existing_conflict(session, version, wanted.exclusion)
    if keys is None:
        return
    error = wanted.violation(None, later=later)
    if await may_see_named(session, wanted.relid, wanted.columns, quoted=True):
        error.fields["D"] = f"Key {keys[0]} conflicts with {'existing ' if later else ''}key {keys[1]}."
    raise error


async def _found(session: SessionContext, prepared: Look) -> list[str | None] | None:
    """The first row of the query, as text with the session's settings; None without rows."""
    query, types = prepared.query, prepared.types
    assert query is not None
    values, _ = await session_values(session)
    settings = output_settings(values)
    stream = await session.gateway.engine.stream(query, session.tag)
    try:
        async for batch in stream:
            if batch.num_rows:
                cells = [
                    text_cells(array.slice(0, 1), known_type(oid), settings)[0].as_py()
                    for array, oid in zip(batch.columns, types, strict=True)
                ]
                return [None if cell is None else cell.decode() for cell in cells]
        return None
    finally:
        await stream.close()
