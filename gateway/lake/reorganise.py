"""Columns whose values rows that are there lack: added with a computed default, or of another type.

PostgreSQL says what the values are, Spark computes them (where it cannot, PostgreSQL: gateway.lake.computed_column),
and each data file is written anew, row for row (storage.reorganise). All of that goes on while others read and write;
what they commit meanwhile is made up for when the table is locked, just before COMMIT. The new files are staged as all
that the table has from then on.

A value is planned as an UPDATE would be: of the column itself where it is added, of a column that is added for the
while where its type changes. Columns and statements of that kind are undone as soon as they are analysed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import DataFile, Table, TableVersion
from catalog.progress import Progress
from catalog.publish import Deletion, RowChange
from catalog.store import table_from_description
from gateway.analysis import SAVEPOINT, UNDO, analyse
from gateway.arrays import number_array
from gateway.attention import attending, check
from gateway.backend import Statement
from gateway.lake.computed_column import ComputedColumns, column_types, may_be_asked
from gateway.lake.insert_query import next_values, with_rules
from gateway.lake.reading import read
from gateway.lake.shadow import qualified
from gateway.portal import Binding
from gateway.routing import route
from gateway.sequences_of_changes import OwnedSequence, owned_sequences
from gateway.visibility import latest, rules
from planner.change import plan_update
from planner.lexer import quoted
from planner.plan import SparkQuery
from storage.arrow_types import arrow_type
from storage.aside import aside
from storage.plan import FILE_COLUMN, POSITION_COLUMN, BoundScan, RunnableQuery, column_name
from storage.reorganise import Rewritten, by_new_file, live_positions, lost_since, packs, rewritten, with_deletions

if TYPE_CHECKING:
    from gateway.exchange import Exchange

_OBLIGATIONS: Final = "SELECT pg_sluice.column_obligations($1, $2::bigint::oid)"
_RECOMPUTE: Final = "SELECT pg_sluice.recompute_columns($1, $2::bigint::oid, $3::pg_catalog.jsonb)"
_VOUCH: Final = "SELECT pg_sluice.vouch_columns($1, $2::bigint::oid)"
_DEFAULTS: Final = """
SELECT a.attnum, coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), t.typdefault)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::pg_catalog.int8::pg_catalog.oid AND (d.adbin IS NOT NULL OR t.typdefault IS NOT NULL)
"""
_DRAWN: Final = """
SELECT d.refobjid::pg_catalog.int8 FROM pg_catalog.pg_attrdef f
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND d.objid = f.oid
    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
JOIN pg_catalog.pg_class s ON s.oid = d.refobjid AND s.relkind = 'S'
WHERE f.adrelid = $1::pg_catalog.int8::pg_catalog.oid AND f.adnum = ANY ($2::pg_catalog.int2[])
"""
# Rows whose new values are in memory at a time.
_ROWS_AT_ONCE: Final = 1_000_000
# Small files become one, so many at a time.
_FILES_AT_ONCE: Final = 500
_ROWS_WRITTEN: Final = 100_000


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column whose values are to be computed. With a sequence of its own (`is_numbered`), they are that one's first
    values; else, with one that they are `drawn_from` (an OID), that one's next.
    """

    attnum: int
    name: str
    type: str
    added: bool
    is_numbered: bool
    drawn_from: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A query that gives `_file`, `_position` and values, under the names c<attnum>; `targets` are whose they are.

    There is none where Spark has no such expressions; PostgreSQL is asked for `expressions`, by attnum, then and for
    rows over which Spark cannot tell. Where these `may_be_asked`: what reads the lake it cannot compute.
    """

    query: SparkQuery | None
    table: Table
    time_zone: str
    targets: Mapping[int, int]
    expressions: Mapping[int, str]
    may_be_asked: bool


@dataclass(slots=True)
class Reorganisation:
    """Of one table. `plan` while the change is in place, `catch_up` when it is undone, `publish` when it is again.

    From the change on nobody else publishes to the table (catalog/sql/ddl.sql, `number_columns`): what `publish` finds
    is what there is at COMMIT. `completed` says what has become of an old file, by its path;
    `sequences` are those that the change makes, by attnum; it `draws` from others, by OID.
    """

    session: Exchange
    relid: int
    columns: Sequence[ComputedColumn]
    old: Table
    new: Table
    plans: list[Plan] = field(default_factory=list)
    completed: dict[str, Rewritten] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    progress: Progress = field(default_factory=Progress)
    sequences: dict[int, OwnedSequence] = field(default_factory=dict)
    draws: frozenset[int] = frozenset()
    _types: dict[str, str] = field(default_factory=dict)

    @classmethod
    async def plan(cls, session: Exchange, relid: int, using: Mapping[str, str], before: Table) -> Self | None:
        """What the transaction's change of a table, which was `before`, leaves to be computed; None for nothing.

        It has been made in a savepoint, which is undone unless there is nothing. `using` are the expressions by which
        columns, by name, get another type.
        """
        columns, new = await column_obligations(session, relid)
        if not columns:
            return None
        found = cls(session, relid, columns, before, new)
        await found._find_sequences()
        added = [column for column in columns if column.added and not column.is_numbered and column.drawn_from is None]
        if added:
            assignments = ", ".join(f"{quoted(column.name)} = DEFAULT" for column in added)
            targets = {column.attnum: column.attnum for column in added}
            defaults = await found._asked(_DEFAULTS)
            expressions = {column.attnum: defaults.get(str(column.attnum), "NULL") for column in added}
            found.plans.append(await found._planned(new, assignments, targets, expressions))
        await session.backend.run(*UNDO)
        found._types = await column_types(session, relid) | {
            column_name(column.attnum): column.type for column in columns
        }
        changed = [column for column in columns if not column.added]
        if changed:
            found.plans.append(await found._planned_types(changed, using))
        return found

    async def _find_sequences(self) -> None:
        numbered = {column.attnum for column in self.columns if column.is_numbered}
        if numbered:
            owned = await owned_sequences(self.session.backend, [self.relid])
            self.sequences = {attnum: each for (_, attnum, _), each in owned.items() if attnum in numbered}
        others = [column.attnum for column in self.columns if column.added and not column.is_numbered]
        question = Statement(_DRAWN, (str(self.relid), number_array(others)))
        [answer] = await self.session.backend.run(question)
        self.draws = frozenset(int(oid or 0) for (oid,) in answer.rows)
        if self.draws & {each.oid for each in self.sequences.values()}:
            raise unsupported("a column whose default takes values of the sequence of another one added with it")

    async def _planned_types(self, changed: Sequence[ComputedColumn], using: Mapping[str, str]) -> Plan:
        """Columns of the new types beside those of the old ones, for as long as it takes to analyse what goes in."""
        session = self.session
        names = {column.attnum: f"pg_sluice_{column.attnum}" for column in changed}
        adding = ", ".join(f"ADD COLUMN {names[column.attnum]} {column.type}" for column in changed)
        await session.backend.run(SAVEPOINT, Statement(f"ALTER TABLE {qualified(self.old)} {adding}"))
        _, wider = await column_obligations(session, self.relid)
        targets = {
            next(each.attnum for each in wider.columns if each.name == names[column.attnum]): column.attnum
            for column in changed
        }
        expressions = {column.attnum: using.get(column.name) or quoted(column.name) for column in changed}
        assignments = ", ".join(f"{names[attnum]} = {expression}" for attnum, expression in expressions.items())
        try:
            return await self._planned(self.old, assignments, targets, expressions)
        except SluiceError as error:
            error.fields.pop("P", None)
            raise
        finally:
            if session.backend.status == b"T":
                await session.backend.run(*UNDO)

    async def _asked(self, question: str) -> dict[str, str]:
        """The two columns of an answer about the table."""
        [result] = await self.session.backend.run(Statement(question, (str(self.relid),)))
        return {(key or b"").decode(): (value or b"").decode() for key, value in result.rows}

    async def _planned(
        self, named: Table, assignments: str, targets: Mapping[int, int], expressions: Mapping[int, str]
    ) -> Plan:
        session, name = self.session, qualified(named)
        with session.transaction.reading_newest():
            analysis = await analyse(session.backend, f"UPDATE {name} SET {assignments}", name="pg_sluice", sync=True)
            routed = await route(session, analysis)
            reading = await read(session, analysis, Binding(), routed.lake, explain=False)
        table = reading.versions[self.relid].table
        context = with_rules(reading.context, table, await rules(session, table))
        assert routed.query is not None
        asked = await may_be_asked(session, routed.query)
        narrowed = None
        try:
            query = plan_update(routed.query, context, targets).query
        except SluiceError as refusal:
            if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED or not asked:
                raise
        else:
            listed = ", ".join([FILE_COLUMN, POSITION_COLUMN, *(column_name(attnum) for attnum in targets)])
            narrowed = replace(query, sql=f"SELECT {listed} FROM ({query.sql}) AS computed")
        return Plan(narrowed, table, context.session.time_zone, targets, expressions, asked)

    # ── computing ───────────────────────────────────────────────────────────────────────────────────────

    async def catch_up(self, files: Sequence[DataFile] | None = None) -> Sequence[DataFile]:
        """Write every file anew that is not yet, of these or of all that the session sees; returns which these are."""
        if files is None:
            with self.session.transaction.reading_newest():
                files = (await latest(self.session, self.relid)).files
        missing = [file for file in files if file.path not in self.completed]
        # Rows are numbered in the order in which they came, those of the session's own transaction last.
        missing.sort(key=lambda file: (file.data_file_id is None, file.data_file_id or 0))
        done = {each.file.path: each.file for each in self.completed.values()}.values()
        done_rows, missing_rows = (sum(file.record_count for file in each) for each in (done, missing))
        self.progress.begin("write files", len(self.completed) + len(missing), done_rows + missing_rows)
        self.progress.did(len(self.completed), done_rows)
        for group in _groups(missing, len(missing), _ROWS_AT_ONCE):
            drawn = await self._draw(group)
            values = [await self._compute(plan, group) for plan in self.plans]
            async with attending(self.session):
                for some in _groups(group, _FILES_AT_ONCE, _ROWS_WRITTEN):
                    check(self.session)
                    await self._complete(some, values, drawn)
                    self.progress.did(len(some), sum(file.record_count for file in some))
        return files

    async def _draw(self, files: Sequence[DataFile]) -> dict[int, np.ndarray]:
        """As many next values of sequences as the files have rows, by attnum. PostgreSQL never gives them again."""
        count = TableVersion(self.old, 0, tuple(files)).row_count
        drawn = {
            column.attnum: await next_values(self.session, column.drawn_from, count)
            for column in self.columns
            if column.drawn_from is not None
        }
        for attnum, sequence in self.sequences.items():
            drawn[attnum] = await self.session.transaction.deferred.numbers(sequence, count)
        return drawn

    async def _compute(self, plan: Plan, files: Sequence[DataFile]) -> dict[str, pa.Table]:
        """The new values, by the path of the file, in the order of its live rows: c<attnum> of the targets."""
        if plan.query is not None:
            try:
                async with attending(self.session):
                    return await self._compute_in_spark(plan, plan.query, files)
            except SluiceError as refusal:
                if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED or not plan.may_be_asked:
                    raise
        columns = ComputedColumns(self.session, self.old, self.new, plan.expressions, self._types)
        return {file.path: await columns.values(file) for file in files}

    async def _compute_in_spark(self, plan: Plan, query: SparkQuery, files: Sequence[DataFile]) -> dict[str, pa.Table]:
        version = TableVersion(plan.table, 0, tuple(files))
        scans = tuple(BoundScan(scan, version) for scan in query.scans)
        engine = self.session.gateway.engine
        stream = await engine.stream(RunnableQuery(query.sql, scans, plan.time_zone), self.session.tag)
        batches = []
        try:
            async for batch in stream:
                batches.append(batch)  # noqa: PERF401  closed whatever happens
        finally:
            await stream.close()
        names = [FILE_COLUMN, POSITION_COLUMN, *(column_name(target) for target in plan.targets.values())]
        if not batches:
            return {}
        return await asyncio.to_thread(_by_file, pa.Table.from_batches(batches).rename_columns(names))

    async def _complete(
        self, files: Sequence[DataFile], computed: Sequence[dict[str, pa.Table]], drawn: dict[int, np.ndarray]
    ) -> None:
        """Of `drawn`, the rows of the files are given the first, which are gone then."""
        written: list[Rewritten] = []
        try:
            await aside(partial(self._write, files, computed, drawn, written))
        finally:
            self.written.update(self.new.path + each.file.path for each in written)
        self.completed.update(zip((file.path for file in files), written, strict=True))

    def _write(
        self,
        files: Sequence[DataFile],
        computed: Sequence[dict[str, pa.Table]],
        drawn: dict[int, np.ndarray],
        written: list[Rewritten],
    ) -> None:
        """Append what becomes of the files to what is `written`. Blocking."""
        path = self.session.gateway.data_path
        for pack in packs(files):
            positions = [live_positions(path, self.old, file) for file in pack]
            counts = {file.path: len(each) for file, each in zip(pack, positions, strict=True)}
            written += rewritten(path, self.old, self.new, pack, positions, self._values(computed, drawn, counts))

    def _values(
        self, computed: Sequence[dict[str, pa.Table]], drawn: dict[int, np.ndarray], counts: Mapping[str, int]
    ) -> dict[int, pa.Array]:
        """Of each column, by attnum, those of the live rows of files; of each, by its path, there are so many."""
        values: dict[int, pa.Array] = {}
        for plan, tables in zip(self.plans, computed, strict=True):
            found = {path: tables[path] for path in counts if path in tables}
            for path, count in counts.items():
                if (made := found[path].num_rows if path in found else 0) != count:
                    raise SluiceError(SqlState.INTERNAL_ERROR, f"{made} values were computed for {count} rows")
            table = pa.concat_tables(found.values()) if found else None
            for attnum in plan.targets.values():
                kind = arrow_type(self.new.column(attnum).form)
                values[attnum] = pa.nulls(0, kind) if table is None else _one(table.column(column_name(attnum)), kind)
        for column in self.columns:
            if column.attnum in drawn:
                numbers, drawn[column.attnum] = np.split(drawn[column.attnum], [sum(counts.values())])
                values[column.attnum] = _in_type(numbers, column, self.new)
        if values.keys() != {column.attnum for column in self.columns}:
            raise SluiceError(SqlState.INTERNAL_ERROR, f"values were computed for columns {sorted(values)} alone")
        return values

    # ── publishing ──────────────────────────────────────────────────────────────────────────────────────

    async def publish(self) -> None:
        """The change is in place again: at COMMIT, the new files take the place of the old ones."""
        session = self.session
        _, new = await column_obligations(session, self.relid)
        if [column.column_id for column in new.columns] != [column.column_id for column in self.new.columns]:
            raise SluiceError(
                SqlState.SERIALIZATION_FAILURE, "could not serialize access: the table was altered meanwhile"
            )
        self.new = new
        await self._stage(await self.catch_up())
        await self._set_sequences()
        await session.backend.run(Statement(_VOUCH, (session.gateway.token, str(self.relid))))

    async def _set_sequences(self) -> None:
        for sequence in self.sequences.values():
            if sequence.is_called:
                await self.session.backend.run(sequence.taking_up())

    async def _stage(self, files: Sequence[DataFile]) -> None:
        """The new files of these, with all that is deleted of the old ones by now."""
        path, transaction = self.session.gateway.data_path, self.session.transaction
        new, deleted = [], []
        for file, sources in by_new_file((old, self.completed[old.path]) for old in files):
            new.append(file)
            lost = await asyncio.to_thread(lost_since, path, self.new, file, sources)
            deletes = await asyncio.to_thread(with_deletions, path, self.new, file, None, lost) if len(lost) else None
            if deletes is not None:
                self.written.add(self.new.path + deletes.path)
                deleted.append(Deletion(file.path, None, deletes))
        transaction.written.update(self.written)
        await transaction.stage(RowChange(self.relid, new, deleted, truncate=True))

    async def discard(self) -> None:
        """Nothing came of it."""
        await self.session.gateway.engine.remove(self.written)


def recompute(session: Exchange, relid: int, using: Iterable[str]) -> Statement:
    """After a change: columns with a USING are computed anew, even those whose files might stay."""
    return Statement(_RECOMPUTE, (session.gateway.token, str(relid), json.dumps(list(using))))


async def column_obligations(session: Exchange, relid: int) -> tuple[list[ComputedColumn], Table]:
    """The columns of a table to be computed, and the table as the transaction has made it."""
    [result] = await session.backend.run(Statement(_OBLIGATIONS, (session.gateway.token, str(relid))))
    value = result.rows[0][0]
    assert value is not None
    found = json.loads(value)
    return [_computed(each) for each in found["columns"]], table_from_description(found["table"])


def _computed(found: Mapping[str, Any]) -> ComputedColumn:
    return ComputedColumn(
        attnum=found["attnum"],
        name=found["name"],
        type=found["type"],
        added=found["added"],
        is_numbered=found["added"] and found["sequence"] is not None,
        drawn_from=found["drawn_from"] if found["added"] and not found["sequence"] else None,
    )


def _in_type(numbers: np.ndarray, column: ComputedColumn, table: Table) -> pa.Array:
    """Values of a sequence in a column of integers; 22003 where one is too large for it."""
    try:
        return pa.array(numbers).cast(arrow_type(table.column(column.attnum).form))
    except pa.ArrowInvalid:
        raise SluiceError(SqlState.NUMERIC_VALUE_OUT_OF_RANGE, f"{column.type} out of range") from None


def _groups(files: Sequence[DataFile], files_max: int, rows_max: int) -> Iterator[list[DataFile]]:
    """At most so many files at a time, and of so many rows together unless it is one."""
    group: list[DataFile] = []
    rows = 0
    for file in files:
        if group and (len(group) == files_max or rows + file.record_count > rows_max):
            yield group
            group, rows = [], 0
        group.append(file)
        rows += file.record_count
    if group:
        yield group


def _by_file(computed: pa.Table) -> dict[str, pa.Table]:
    """The rows of each file, ascending by position. Blocking."""
    computed = computed.sort_by([(FILE_COLUMN, "ascending"), (POSITION_COLUMN, "ascending")]).combine_chunks()
    runs = pc.run_end_encode(_one(computed.column(FILE_COLUMN), pa.string()))
    starts = [0, *runs.run_ends.to_pylist()]
    names = runs.values.to_pylist()
    return {
        name: computed.slice(start, end - start) for name, start, end in zip(names, starts, starts[1:], strict=False)
    }


def _one(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A column in one piece, of this type."""
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks)
    return whole if whole.type == kind else whole.cast(kind)
