"""Finds the keys by which statements within functions look rows up in large tables.

No tree shows these statements. But PostgreSQL plans each of them with the values of its variables, and prints the plan
if it is asked to. So the statement first runs over a shadow without rows; the printed plans say which keys it looks
up; it runs again over the rows with these keys, until its plans name no others. PostgreSQL counts scans, too: if there
were more than its plans have, or if a plan may need any row, the whole table is copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow.compute as pc

from catalog.datatypes import FIRST_USER_OID
from catalog.errors import SluiceError
from catalog.schema.triggers import TEXT_MAX
from gateway.backend.arrays import number_array
from gateway.backend.messages_aside import PrintedPlans
from gateway.backend.own_statement import Statement
from gateway.execution.filling.guessed_keys import keys_by, pattern_of
from gateway.execution.filling.owners_code import of_owners, tables_of_owners
from gateway.execution.reading.function_tables import QUALIFIED, name_arrays
from gateway.execution.reading.function_text import TEXT
from gateway.session.offload import offloaded
from planner.plans.planned_scans import PlannedScan, PlannedStatement, planned_statement
from planner.plans.row_filter import WantedKeys
from planner.tree.named_code import named_code
from planner.tree.nodes import parse
from storage.indexes.keys import keys_of

if TYPE_CHECKING:
    import pyarrow as pa

    from catalog.model import Table, TableVersion
    from gateway.backend.connection import Result
    from gateway.session.session_context import SessionContext
    from planner.spark.plan import Parameter
    from planner.tree.builtins import Builtins
    from planner.tree.nodes import Node

# Of fewer rows all are copied.
SOUGHT_FROM: Final = 20_000
# More keys are not looked up one by one.
KEYS_MAX: Final = 1_000
# So often keys are learnt of a table: a row may name the key of the next. So often they may be others than before.
_TIMES_MAX: Final = 15
_MISSED_MAX: Final = 1
# By the client's client_min_messages, the severities that it does not get. Lower levels hide no plans.
_HIDDEN: Final[Mapping[bytes | None, Sequence[bytes]]] = {
    b"notice": (b"LOG",),
    b"warning": (b"LOG", b"NOTICE"),
    b"error": (b"LOG", b"NOTICE", b"WARNING"),
}
# A cached plan without parameters would not be printed. Of the others each execution makes its own.
_PRINT: Final = (
    Statement("DISCARD PLANS"),
    Statement(
        "SELECT pg_catalog.set_config('client_min_messages', 'log', true),"
        " pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true),"
        " pg_catalog.set_config('debug_pretty_print', 'off', true),"
        " pg_catalog.set_config('debug_print_plan', 'on', true)"
    ),
)
# Settings that hide plans. Where the statement, or a function that it names or fires, has one of them, a plan may be
# missing. A body in SQL-standard form has no text, but shows that it sets something.
_HIDING: Final = "client_min_messages|debug_print_plan"
_MAY_HIDE: Final = f"""
$1::pg_catalog.text OPERATOR(pg_catalog.~*) '{_HIDING}' OR EXISTS (
    SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) pronamespace
    WHERE p.oid OPERATOR(pg_catalog.>=) {FIRST_USER_OID} AND (p.oid OPERATOR(pg_catalog.=) ANY (ARRAY(
            SELECT tgfoid FROM pg_catalog.pg_trigger WHERE tgrelid OPERATOR(pg_catalog.=) ANY ($4::pg_catalog.oid[])))
        OR proname OPERATOR(pg_catalog.=) ANY ($2::pg_catalog.name[]) AND (pg_catalog.pg_function_is_visible(p.oid)
            OR {QUALIFIED.format(column="proname", names="$3")}))
        AND CASE WHEN prosqlbody IS NULL
            THEN pg_catalog.concat(prosrc, proconfig) OPERATOR(pg_catalog.~*) '{_HIDING}'
            ELSE pg_catalog.concat({TEXT}, proconfig) OPERATOR(pg_catalog.~*) '{_HIDING}|set_config' END)
"""
# What a function has set meanwhile stays.
_PRINT_NO_MORE: Final = Statement("SELECT pg_catalog.set_config('debug_print_plan', 'off', true)")
_RESTORED: Final = f"""
SELECT CASE WHEN pg_sluice.backend_setting('client_min_messages') OPERATOR(pg_catalog.=) 'log'
        THEN pg_catalog.set_config('client_min_messages', $5, true) END,
    CASE WHEN pg_sluice.backend_setting('plan_cache_mode') OPERATOR(pg_catalog.=) 'force_custom_plan'
        THEN pg_catalog.set_config('plan_cache_mode', $6, true) END,
    {_MAY_HIDE}
"""


class Asked(NamedTuple):
    """A statement: its text, its tree, which was made of a text of this size, and its parameters."""

    sql: str
    query: Node | None
    size: int
    parameters: Sequence[Parameter]


class SoughtKeys:
    """The tables, by OID, of which a statement's plans are to name the keys: `tables`. Those in `refused` are copied
    whole."""

    def __init__(self, session: SessionContext, asked: Asked) -> None:
        self._session = session
        self._asked = asked
        self._of_owners: dict[int, bool] = {}
        self.tables: set[int] = set()
        self.refused: set[int] = set()
        self._settings: tuple[bytes | None, bytes | None] = (None, None)
        self._printed: PrintedPlans | None = None
        self._scans: dict[int, list[PlannedScan]] = {}
        self._updated: dict[int, set[int]] = {}
        self._added: dict[int, list[WantedKeys | None]] = {}
        self._new: dict[int, int] = {}
        self._gone: dict[int, int] = {}
        self._keeps_keys: dict[int, bool] = {}
        self._times: dict[int, int] = {}
        self._missed: dict[int, int] = {}
        self._guessed: set[int] = set()  # tables of which rows are copied by guessed keys

    @property
    def sql(self) -> str:
        """The statement's text."""
        return self._asked.sql

    async def worth(self, versions: Iterable[TableVersion]) -> set[int]:
        """Of these tables, those whose rows are worth looking up, and whose plans no stranger's code can hide."""
        large = {
            each.table.oid
            for each in versions
            if each.row_count > SOUGHT_FROM and each.table.keys and each.table.oid not in self.refused
        }
        if new := large - self._of_owners.keys():
            [found] = await self._session.backend.run(await self._of_owner(new))
            self.learn_owners(new, found)
        return {oid for oid in large if self._of_owners[oid]}

    async def asking(self, oids: Collection[int]) -> tuple[set[int], Statement] | None:
        """The question, to be asked together with others, which of these tables may be searched by keys; of those of
        which statements of this role have looked rows up before. None if there are none."""
        before = {oid for oid in oids if (self._session.user, oid) in self._session.gateway.store.triggers.sought}
        return (before, await self._of_owner(before)) if before else None

    def learn_owners(self, oids: Collection[int], answer: Result) -> None:
        """Take the answer for these tables."""
        found = tables_of_owners(answer)
        self._of_owners.update({oid: oid in found for oid in oids})

    async def _of_owner(self, oids: Collection[int]) -> Statement:
        session, (_, query, size, _) = self._session, self._asked
        return of_owners(await offloaded(session, size, named_code, query, session.gateway.builtins), oids)

    def refuse(self, oids: Iterable[int]) -> None:
        """Copy all rows of these tables."""
        gone = set(oids)
        self.refused |= gone
        self.tables -= gone

    def begin(self, level: bytes | None, cache_mode: bytes | None) -> Sequence[Statement]:
        """What makes PostgreSQL print the plans of the statement that follows. The arguments are the client's
        client_min_messages and plan_cache_mode."""
        self._scans.clear()
        self._updated.clear()
        self._added.clear()
        self._keeps_keys.clear()
        if not self.tables:
            return ()
        hidden = _HIDDEN.get(level)
        if hidden is None:
            self.refuse(self.tables)
            return ()
        self._settings = level, cache_mode
        self._printed = self._session.backend.aside.plans = PrintedPlans(hidden)
        return _PRINT

    async def end(self, words: Collection[str], tables: Collection[int]) -> Sequence[Statement]:
        """What ends that, for a statement that names functions and tables by these words, and uses these tables."""
        if self._printed is None:
            return ()
        names = await name_arrays(self._session, words)
        return _PRINT_NO_MORE, Statement(_RESTORED, (self.sql, *names, number_array(tables), *self._settings))

    def __enter__(self) -> None:
        """The statement runs."""

    def __exit__(self, *_: object) -> None:
        self._session.backend.aside.plans = None

    async def expect(
        self, versions: Mapping[int, TableVersion], unread: Collection[int], copied: Mapping[int, WantedKeys]
    ) -> dict[int, WantedKeys]:
        """Seek keys in the tables of which statements of this role have looked rows up before; the keys that this one
        probably looks up, of tables of which none are `copied` yet."""
        triggers, user = self._session.gateway.store.triggers, self._session.user
        if before := [versions[oid] for oid in unread if (user, oid) in triggers.sought]:
            self.tables |= await self.worth(before)
        guessed = {}
        for oid in self.tables & set(unread) - copied.keys():
            pattern = triggers.patterns.get((user, self._asked.sql, oid))
            keys = None if pattern is None else keys_by(pattern, self._asked.parameters)
            if keys is not None:
                guessed[oid] = keys
        self._guessed |= guessed.keys()
        return guessed

    def remember(self, found: Collection[int], copied: Mapping[int, WantedKeys]) -> None:
        """The statement has looked rows of these tables up, by the keys that were `copied`."""
        triggers, user, sql = self._session.gateway.store.triggers, self._session.user, self._asked.sql
        for oid in self.tables & set(found):
            triggers.sought[user, oid] = True
            pattern = pattern_of(copied[oid], self._asked.parameters) if oid in copied else None
            if pattern is not None and len(sql) <= TEXT_MAX:
                triggers.patterns[user, sql, oid] = pattern

    async def read(self, ended: Sequence[Result], versions: Mapping[int, TableVersion]) -> None:
        """Read the printed plans; `ended` are the answers to `end`."""
        printed, self._printed = self._printed, None
        if printed is None:
            return
        tables = {oid: versions[oid].table for oid in self.tables & versions.keys()}
        builtins = self._session.gateway.builtins
        size = sum(map(len, printed.texts))
        found = None
        if printed.complete and ended[-1].rows[0][-1] == b"f":
            found = await offloaded(self._session, size, _plans, printed.texts, tables, builtins)
        if found is None:
            self.refuse(self.tables)
        for plan in found or ():
            for scan in plan.scans:
                self._scans.setdefault(scan.table_oid, []).append(scan)
            for oid, attnums in plan.updated.items():
                self._updated.setdefault(oid, set()).update(attnums)
            for oid, keys in plan.added:
                self._added.setdefault(oid, []).append(keys)

    def note(
        self, table: Table, copied: WantedKeys, rows: tuple[pa.Table, pa.Table, pa.Table], generated: Collection[int]
    ) -> None:
        """The statement found the first `rows` in a shadow, has made the second, and left the third. Blocking."""
        columns = [table.column(attnum) for attnum in copied.attnums]
        known, made, kept = [
            keys_of(columns, [each[column.name].combine_chunks() for column in columns]) for each in rows
        ]
        self._new[table.oid] = len(made) - pc.is_in(made, known).true_count
        self._gone[table.oid] = len(known) - pc.or_(pc.is_in(known, made), pc.is_in(known, kept)).true_count
        in_keys = {attnum for key in table.keys for attnum in key.attnums}
        sure = not (table.triggered or table.computed_keys or table.exclusions) and in_keys.isdisjoint(generated)
        self._keeps_keys[table.oid] = sure and in_keys.isdisjoint(self._updated.get(table.oid, ()))

    def same_keys(self, oid: int) -> bool:
        """Whether the rows that were there have the keys that they had, and no others are there."""
        return self._keeps_keys.get(oid, False) and not self._new[oid] and not self._gone[oid]

    def is_doubtful(self, oid: int, copied: WantedKeys, added: int) -> bool:
        """Whether the statement, which has added so many rows at some time, may have met rows that were not copied, by
        a key: unless all are copied that its INSERTs can meet, or what it has added is left, for the lake to check."""
        if not self._keeps_keys.get(oid):
            return True
        known = set(copied.values)
        planned = self._added.get(oid, ())
        is_copied = all(each is not None and _is_among(each, copied.attnums, known) for each in planned)
        return not (planned and is_copied) and added != self._new[oid]

    def lacks(self, oid: int, copied: WantedKeys | None, scans: int) -> bool:
        """Whether the statement may have needed rows besides those with the `copied` keys. It has scanned the shadow
        and its indexes so many times."""
        if not scans:
            return False
        planned = self._scans.get(oid, ())
        if copied is None or oid in self.refused or scans > sum(scan.counted for scan in planned):
            return True
        known = set(copied.values)
        added = [each for each in self._added.get(oid, ()) if each is not None]
        looked_up = [scan.wanted for scan in planned]
        return any(each is None or not _is_among(each, copied.attnums, known) for each in [*looked_up, *added])

    def learnt(self, oid: int, copied: WantedKeys | None, scans: int) -> WantedKeys | None:
        """The keys that the plans name; None if they do not name all rows that may be needed, or are others again and
        again, as where they come from a sequence."""
        planned = self._scans.get(oid, ())
        if not planned or scans > sum(scan.counted for scan in planned):
            return None
        added = (each for each in self._added.get(oid, ()) if each is not None and each.values)
        wanted = [*(scan.wanted for scan in planned if scan.wanted is None or scan.wanted.values), *added]
        attnums = {None if each is None else each.attnums for each in wanted}
        values = list(dict.fromkeys(value for each in wanted if each is not None for value in each.values))
        if len(attnums) != 1 or None in attnums or len(values) > KEYS_MAX:
            return None
        [first, *_] = [each for each in wanted if each is not None]
        self._times[oid] = self._times.get(oid, 0) + 1
        is_another = copied is not None and not set(copied.values).issubset(values) and oid not in self._guessed
        if oid in self._guessed:  # in vain
            self._guessed.discard(oid)
            self._session.gateway.store.triggers.patterns.pop((self._session.user, self._asked.sql, oid), None)
        self._missed[oid] = self._missed.get(oid, 0) + is_another
        if self._times[oid] > _TIMES_MAX or self._missed[oid] > _MISSED_MAX:
            return None
        return WantedKeys(first.attnums, values)


def _is_among(keys: WantedKeys, attnums: tuple[int, ...], known: set[tuple[Any, ...]]) -> bool:
    return not keys.values or (keys.attnums == attnums and known.issuperset(keys.values))


def _plans(texts: Collection[bytes], tables: Mapping[int, Table], builtins: Builtins) -> list[PlannedStatement] | None:
    """What printed plans do; None if one cannot be read, such as that of an extension."""
    try:
        plans = [parse(text.decode("utf-8", "surrogateescape")) for text in texts]
        return [planned_statement(plan, tables, builtins) for plan in plans]
    except SluiceError:
        return None
