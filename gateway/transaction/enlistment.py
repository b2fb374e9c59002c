"""Records the tables that a transaction uses, each in its schema version at first use.

1. An operation on a table whose schema has changed since then fails with 40001, and the transaction with it.
2. COMMIT requires that all changes since then are forward-compatible (catalog/schema/compatibility.py).
3. Another change dooms the transaction: its next operation on the lake fails at once.
4. Changes of a table before its first use do not matter.
5. A single statement outside of a block is executed again (gateway/protocol/schema_retry.py), unseen by its client.

The catalog's log of schema steps tells what has changed, whichever gateway made the change. Every analysis reports the
log's end. So without changes there are no further questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from catalog.schema.compatibility import SchemaStep, forbidding_step
from catalog.store import Store, steps_from_json
from gateway.backend import catalog_calls
from gateway.backend.analysis import SchemaMark
from gateway.backend.connection import Result
from gateway.backend.own_statement import Statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog.model import Table

# Classes of errors that a change of schema causes in a statement that was right before: names that are gone, types that
# are others. A syntax error is in the statement itself.
_NAMING_CLASSES: Final = ("42", "3F")
_WHOLE_KINDS: Final = frozenset({"drop table", "replace view"})


class SchemaChangedError(SluiceError):
    """The schema of a table is not the one that the transaction, or the statement's analysis, has used.

    `stale`: only the analysis is out of date; analysing the statement again is enough.
    """

    def __init__(self, table: str, steps: Sequence[SchemaStep], *, stale: bool = False) -> None:
        # These kinds need no detail.
        whole = next((step for step in steps if step.kind in _WHOLE_KINDS), None)
        last = steps[-1].description if steps and whole is None else None
        what = f'the schema of table "{table}" has changed' if whole is None else whole.description
        super().__init__(
            SqlState.SERIALIZATION_FAILURE,
            f"could not serialize access: {what} meanwhile",
            detail=None if last is None else f"{last[0].upper()}{last[1:]}.",
            hint="The transaction might succeed if retried.",
        )
        self.stale = stale


_NO_SHADOW: Final = 0


@dataclass(frozen=True, slots=True)
class Enlisted:
    """A table at its first use by the transaction; for a view, `oid` is None."""

    oid: int
    name: str
    version: int


class Enlistment:
    """One transaction's tables, by their DuckLake IDs; `clear` when it ends."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tables: dict[int, Enlisted] = {}
        self._judged_step = 0
        self._doom: SchemaChangedError | None = None
        self._altered: frozenset[int] = frozenset()

    def clear(self) -> None:
        """The transaction has ended."""
        self._tables = {}
        self._judged_step = 0
        self._doom = None
        self._altered = frozenset()

    def alter(self, table_ids: frozenset[int]) -> None:
        """The transaction has changed the schemas of these tables, unpublished; a concurrent change of one dooms it."""
        self._altered = table_ids

    def alters(self, table_id: int) -> bool:
        """Whether the transaction has changed the table's schema."""
        return table_id in self._altered

    @property
    def any(self) -> bool:
        """Whether a table is enlisted."""
        return bool(self._tables)

    @property
    def oids(self) -> frozenset[int]:
        """The shadows of its tables, dropped ones included."""
        return frozenset(table.oid for table in self._tables.values())

    async def use(
        self,
        oids: Iterable[int],
        found: Mapping[int, Table],
        analysed_at: SchemaMark,
        now: SchemaMark,
        *,
        in_block: bool,
    ) -> None:
        """Record the use of these tables in the versions found; in a block they are enlisted.

        Raises SchemaChangedError if one has changed since its enlistment, or since the statement's analysis. Raises
        too if the transaction is doomed, by the log up to `now`.
        """
        await self.judge(now)
        mark = analysed_at
        known = {table.oid: table for table in self._tables.values()}
        for oid in oids:
            table, enlisted = found.get(oid), known.get(oid)
            if enlisted is not None:
                await self._judge_version(enlisted, self._id_of(oid), table)
            if table is None or table.schema_version > mark.step or mark.own != now.own:
                raise SchemaChangedError(str(oid) if table is None else table.name, [], stale=True)
            if in_block and enlisted is None:
                self._enlist(table.table_id, Enlisted(oid, table.name, table.schema_version), mark)

    async def _judge_version(self, enlisted: Enlisted, table_id: int, found: Table | None) -> None:
        """Check an operation on an enlisted table: only steps that it cannot see may have happened since."""
        if found is None or found.schema_version != enlisted.version:
            steps = (await self._steps()).get(table_id, [])
            unseen = found is not None and all(step.rule.unseen for step in steps)
            if not unseen or self._forbidding(table_id, steps) is not None:
                raise self._doomed(enlisted, steps)

    async def meet(self, table: Table, mark: SchemaMark) -> None:
        """Enlist a table that the statement changes without naming it, in its present version."""
        enlisted = self._tables.get(table.table_id)
        if enlisted is None:
            self._enlist(table.table_id, Enlisted(table.oid, table.name, table.schema_version), mark)
        else:
            await self._judge_version(enlisted, table.table_id, table)

    async def use_views(
        self, views: Mapping[int, str], analysed_at: SchemaMark, now: SchemaMark, *, in_block: bool
    ) -> None:
        """Record the use of views, given by OID, whose queries are part of the analysis. Views have IDs below 0."""
        for oid, name in views.items():
            enlisted = self._tables.get(-oid)
            since = analysed_at.step if enlisted is None else enlisted.version
            steps = (await self._store.steps_since({-oid: since})).get(-oid) if now.step > since else None
            if steps:
                raise SchemaChangedError(name, steps, stale=True) if enlisted is None else self._doomed(enlisted, steps)
            if in_block and enlisted is None:
                self._enlist(-oid, Enlisted(_NO_SHADOW, name, analysed_at.step), analysed_at)

    def _enlist(self, table_id: int, enlisted: Enlisted, mark: SchemaMark) -> None:
        self._judged_step = min(self._judged_step, mark.step) if self._tables else mark.step
        self._tables[table_id] = enlisted

    def confirm(self, table: Table, schema_version: int) -> None:
        """Check that later knowledge of a table has the version that the statement uses; if not, the statement runs
        again.
        """
        if schema_version != table.schema_version:
            raise SchemaChangedError(table.name, [], stale=True)

    def confirm_all(self, tables: Sequence[Table], answers: Sequence[Result]) -> None:
        """`confirm_held` for each table, by as many of the answers."""
        for table, answer in zip(tables, answers, strict=False):
            self.confirm_held(table, answer)

    def confirm_held(self, table: Table, held: Result) -> None:
        """`confirm` by the answer to `hold_schema` for that table."""
        self.confirm(table, int(held.rows[0][1] or 0) if held.rows else -1)

    async def judge(self, mark: SchemaMark) -> None:
        """Raise if a step up to `mark` dooms the transaction."""
        if self._doom is not None:
            raise self._doom
        if self._tables and mark.step > self._judged_step:
            self._check(await self._steps())
            self._judged_step = mark.step

    async def hear(self) -> bool:
        """Handle the message of a schema change during other work: whether it dooms the transaction."""
        tables = self._tables
        if not tables:
            return False
        steps = await self._steps()
        if self._tables is not tables:
            return False  # the transaction has ended meanwhile
        try:
            self._check(steps)
        except SchemaChangedError:
            return True
        return False

    @property
    def doom(self) -> SchemaChangedError | None:
        """The error that dooms the transaction."""
        return self._doom

    async def disturbed(self) -> dict[int, str]:
        """For a transaction that changes a schema: `judge` by all steps. Returns its tables with changed schemas
        beside which it can still commit: OID → name.
        """
        if self._doom is not None:
            raise self._doom
        steps = await self._steps()
        self._check(steps)
        return {self._tables[table_id].oid: self._tables[table_id].name for table_id in steps}

    async def refuse_changed(self, oid: int) -> None:
        """Refuse a change of one of these tables by the transaction."""
        table_id = self._id_of(oid)
        raise self._doomed(self._tables[table_id], (await self._steps()).get(table_id, []))

    async def cause(self, error: SluiceError) -> SluiceError:
        """The reason why analysis failed: for a missing name, the schema change that removed it."""
        if error.sqlstate[:2] in _NAMING_CLASSES and error.sqlstate != SqlState.SYNTAX_ERROR:
            for table_id, steps in (await self._steps()).items():
                return self._doomed(self._tables[table_id], steps)
        return error

    def holding(self, checked: Iterable[int]) -> list[Statement]:
        """The question to the backend before COMMIT of a writing transaction; `decide` reads the answer.

        `checked` are the tables in which keys were looked up; they are locked too.
        """
        if not self._tables:
            return []
        return [catalog_calls.hold_steps_since(self.versions, checked)]

    @property
    def versions(self) -> dict[str, int]:
        """The versions of its tables at their first use, by their DuckLake IDs."""
        return {str(table_id): table.version for table_id, table in self._tables.items()}

    def decide(self, answer: bytes | None) -> None:
        """Raise if COMMIT must not follow."""
        if self._doom is not None:
            raise self._doom
        assert answer is not None
        self._check(steps_from_json(answer.decode()))

    async def decide_reading(self) -> None:
        """Raise if the COMMIT of a read-only transaction must not follow."""
        if self._doom is not None:
            raise self._doom
        self._check(await self._steps())

    def _id_of(self, oid: int) -> int:
        return next(table_id for table_id, table in self._tables.items() if table.oid == oid)

    async def _steps(self) -> dict[int, list[SchemaStep]]:
        if not self._tables:
            return {}
        return await self._store.steps_since({table_id: table.version for table_id, table in self._tables.items()})

    def _check(self, steps: Mapping[int, list[SchemaStep]]) -> None:
        for table_id, taken in steps.items():
            forbidding = self._forbidding(table_id, taken)
            if forbidding is not None:
                raise self._doomed(self._tables[table_id], [forbidding])

    def _forbidding(self, table_id: int, taken: Sequence[SchemaStep]) -> SchemaStep | None:
        """The step beside which the transaction cannot commit."""
        return taken[0] if taken and self.alters(table_id) else forbidding_step(taken)

    def _doomed(self, table: Enlisted, steps: Sequence[SchemaStep]) -> SchemaChangedError:
        """The error of a doomed transaction; neither it nor a savepoint can continue."""
        self._doom = SchemaChangedError(table.name, steps)
        return self._doom
