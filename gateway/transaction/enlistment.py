"""Which tables a transaction uses, each in the version of its schema that was in force at the first use.

1. An operation on a table whose schema has changed since then fails with 40001, and the transaction with it.
2. COMMIT asks that all changes since then be forward-compatible (catalog/schema/compatibility.py).
3. A change that is not dooms the transaction: whatever it does next on the lake fails at once.
4. What happened to a table before its first use does no harm.
5. A single statement outside of a block is carried out anew (gateway/protocol/schema_retry.py); its client never hears
   of it.

What has changed is told by the catalog's log of schema steps, so it is the same whichever gateway made the change.
Every analysis brings word of how far the log goes, so as long as nothing changes anywhere nothing more is asked.
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
from gateway.backend.connection import Result, Statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog.model import Table

# Classes of errors that a change of schema causes in a statement that was right before: names that are gone, types that
# are others. A syntax error is in the statement itself.
_NAMING_CLASSES: Final = ("42", "3F")
_WHOLE_KINDS: Final = frozenset({"drop table", "replace view"})


class SchemaChangedError(SluiceError):
    """The schema of a table is not what the transaction, or the statement's analysis, took it for.

    `stale`: it was the analysis alone; to analyse the statement again is enough.
    """

    def __init__(self, table: str, steps: Sequence[SchemaStep], *, stale: bool = False) -> None:
        # What says it all by itself needs no detail.
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
    """A table as the transaction first met it; of a view, `oid` is none."""

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
        """The transaction is over."""
        self._tables = {}
        self._judged_step = 0
        self._doom = None
        self._altered = frozenset()

    def alter(self, table_ids: frozenset[int]) -> None:
        """The transaction has changed the schemas of these, unseen by others: whoever else changes them dooms it."""
        self._altered = table_ids

    def alters(self, table_id: int) -> bool:
        """Whether the transaction has changed the table's schema."""
        return table_id in self._altered

    @property
    def any(self) -> bool:
        """Whether there is a table in it."""
        return bool(self._tables)

    @property
    def oids(self) -> frozenset[int]:
        """The shadows of its tables, whether or not they are still there."""
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
        """A statement uses these tables, as they were found; in a block they are enlisted.

        Raises SchemaChangedError where one of them is not what it was, or not what it was when the statement was
        analysed; with `now` as far as the log goes, where the transaction is doomed.
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
        """An operation meets an enlisted table: it may go on where only what is unseen has happened to the schema."""
        if found is None or found.schema_version != enlisted.version:
            steps = (await self._steps()).get(table_id, [])
            unseen = found is not None and all(step.rule.unseen for step in steps)
            if not unseen or self._forbidding(table_id, steps) is not None:
                raise self._doomed(enlisted, steps)

    async def meet(self, table: Table, mark: SchemaMark) -> None:
        """A statement changes this table too, though it does not name it: in the version in which it is found."""
        enlisted = self._tables.get(table.table_id)
        if enlisted is None:
            self._enlist(table.table_id, Enlisted(table.oid, table.name, table.schema_version), mark)
        else:
            await self._judge_version(enlisted, table.table_id, table)

    async def use_views(
        self, views: Mapping[int, str], analysed_at: SchemaMark, now: SchemaMark, *, in_block: bool
    ) -> None:
        """The same of views, given by OID, whose queries are a part of the analysis. Views have IDs below 0."""
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
        """What a statement has learnt of a table later on must be of the version that it uses; else, once more."""
        if schema_version != table.schema_version:
            raise SchemaChangedError(table.name, [], stale=True)

    def confirm_held(self, table: Table, held: Result) -> None:
        """`confirm` by the answer to `hold_schema` for that table."""
        self.confirm(table, int(held.rows[0][1] or 0) if held.rows else -1)

    async def judge(self, mark: SchemaMark) -> None:
        """Raises where something has happened, as far as `mark`, that dooms the transaction."""
        if self._doom is not None:
            raise self._doom
        if self._tables and mark.step > self._judged_step:
            self._check(await self._steps())
            self._judged_step = mark.step

    async def hear(self) -> bool:
        """Word of a change, in the midst of whatever the transaction does: whether that dooms it."""
        tables = self._tables
        if not tables:
            return False
        steps = await self._steps()
        if self._tables is not tables:
            return False  # it has ended meanwhile
        try:
            self._check(steps)
        except SchemaChangedError:
            return True
        return False

    @property
    def doom(self) -> SchemaChangedError | None:
        """What dooms the transaction."""
        return self._doom

    async def disturbed(self) -> dict[int, str]:
        """The transaction changes a schema itself: `judge` by all that has happened. Those of its tables whose schemas
        have changed, though it can still commit: OID → name."""
        if self._doom is not None:
            raise self._doom
        steps = await self._steps()
        self._check(steps)
        return {self._tables[table_id].oid: self._tables[table_id].name for table_id in steps}

    async def refuse_changed(self, oid: int) -> None:
        """The transaction would change one of these itself."""
        table_id = self._id_of(oid)
        raise self._doomed(self._tables[table_id], (await self._steps()).get(table_id, []))

    async def cause(self, error: SluiceError) -> SluiceError:
        """Why a statement could not be analysed: a name that is gone is owed to the change that took it away."""
        if error.sqlstate[:2] in _NAMING_CLASSES and error.sqlstate != SqlState.SYNTAX_ERROR:
            for table_id, steps in (await self._steps()).items():
                return self._doomed(self._tables[table_id], steps)
        return error

    def holding(self, checked: Iterable[int]) -> list[Statement]:
        """What to ask the backend before COMMIT of a transaction that changes something; `decide` takes the answer.

        `checked` are the tables whose keys were looked up, which are locked as well.
        """
        if not self._tables:
            return []
        return [catalog_calls.hold_steps_since(self._versions(), checked)]

    def decide(self, answer: bytes | None) -> None:
        """Whether COMMIT may follow."""
        if self._doom is not None:
            raise self._doom
        assert answer is not None
        self._check(steps_from_json(answer.decode()))

    async def decide_reading(self) -> None:
        """Whether the COMMIT of a transaction that changed nothing may follow."""
        if self._doom is not None:
            raise self._doom
        self._check(await self._steps())

    def _versions(self) -> dict[str, int]:
        return {str(table_id): table.version for table_id, table in self._tables.items()}

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
        """The step that the transaction cannot commit beside."""
        return taken[0] if taken and self.alters(table_id) else forbidding_step(taken)

    def _doomed(self, table: Enlisted, steps: Sequence[SchemaStep]) -> SchemaChangedError:
        """Nothing but ROLLBACK helps any more, a savepoint neither."""
        self._doom = SchemaChangedError(table.name, steps)
        return self._doom
