"""Partition tests, without an oracle: a query returns what its parts return, with a condition true, false and unknown.

Repeated after deletions and compaction, and for every snapshot, which must give its former answers.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from tests.answers.asking import Difference, script, world_of
from tests.answers.expressions import Apply, Expression, Ref
from tests.answers.generate import Queries
from tests.answers.queries import Select
from tests.answers.shrink import shrunk, simpler_queries
from tests.answers.sides import Side
from tests.answers.tables import World
from tests.planner.differential import Answer

_SNAPSHOT: Final = "SELECT max(snapshot_id) FROM pg_sluice.snapshots"
_PARTS: Final = ("{0}", "(NOT {0})", "({0} IS NULL)")


@dataclass(frozen=True)
class Partition:
    """A query without a condition; the last of `whole.where` is the condition that parts it."""

    whole: Select

    @property
    def condition(self) -> Expression:
        return self.whole.where[-1]

    def sql(self) -> str:
        return replace(self.whole, where=()).sql()

    def parts(self) -> list[str]:
        return [replace(self.whole, where=(Apply("bool", part, (self.condition,)),)).sql() for part in _PARTS]


def partition_of(seed: str, number: int, tables: World) -> Partition:
    """Rows of tables and joins, parted by any condition."""
    chance = random.Random(f"partition {seed} {number}")
    queries = Queries(chance, tables)
    queries.aliases, queries.spicy, queries.left = 0, False, 4
    source, scope = queries.source(None)
    refs = [each for each in scope.leaves if isinstance(each, Ref)]
    values = [chance.choice(refs) for _ in range(3)]
    return Partition(Select(queries.targets(values), source, (queries.boolean(scope, 2),)))


@dataclass
class Partitions:
    """Checks on one gateway."""

    side: Side
    differences: list[Difference]
    shrink_seconds: float = 60.0
    checked: int = 0
    refused: int = 0

    def check(self, seed: str, place: int, count: int) -> None:
        """Queries over one set of tables, in each state of a history."""
        tables = world_of(f"partitions {seed}", place)
        where = f"--partitions of seed {seed}, tables {place}"
        failed = self.side.build(tables)
        assert failed is None, (where, failed)
        chance = random.Random(f"history {seed} {place}")
        partitions = [partition_of(seed, 1000 * place + number, tables) for number in range(count)]
        then: dict[str, list[Answer]] = {}
        done: list[str] = []
        for step in (None, *_history(chance)):
            if step is not None:
                answer = self.side.ask(step)
                assert answer.sqlstate is None, (step, answer)
                done.append(step)
            snapshot = self.side.ask(_SNAPSHOT).rows[0][0]
            assert snapshot is not None
            then[snapshot] = [self._checked(each, where, (*script(tables), *done)) for each in partitions]
        for number, (snapshot, answers) in enumerate(reversed(then.items())):
            self._looked_back(snapshot, partitions, answers, where, (*script(tables), *done), parted=number % 3 == 1)

    def _checked(self, partition: Partition, where: str, setup: tuple[str, ...]) -> Answer:
        whole, parts = self._asked(partition)
        self.checked += 1
        if "0A000" in {whole.sqlstate, parts.sqlstate}:
            self.refused += 1
        elif not _same(whole, parts):
            small = self._small(partition)
            whole, parts = self._asked(small)
            text = ";\n".join((small.sql(), *small.parts()))
            self.differences.append(Difference(f"{where} (PostgreSQL here: the whole)", text, whole, parts, setup))
        return whole

    def _small(self, partition: Partition) -> Partition:
        def differs(query: object) -> bool:
            assert isinstance(query, Select)
            return bool(query.where) and not _same(*self._asked(Partition(query)))

        small = shrunk(partition.whole, simpler_queries, differs, self.shrink_seconds)  # type: ignore[arg-type]
        return Partition(small)

    def _asked(self, partition: Partition) -> tuple[Answer, Answer]:
        """The whole, and the parts' rows together."""
        whole = self.side.ask(partition.sql())
        rows: tuple[tuple[str | None, ...], ...] = ()
        for text in partition.parts():
            part = self.side.ask(text)
            if part.sqlstate:
                return whole, part
            rows += part.rows
        return whole, Answer(whole.types, rows)

    def _looked_back(
        self,
        snapshot: str,
        partitions: list[Partition],
        answers: list[Answer],
        where: str,
        setup: tuple[str, ...],
        *,
        parted: bool,
    ) -> None:
        self.side.ask(f"SET sluice.as_of = {snapshot}")
        for partition, wanted in zip(partitions, answers, strict=True):
            for answer in self._asked(partition) if parted else (self.side.ask(partition.sql()),):
                if answer.sqlstate != "0A000" and not _same(wanted, answer):
                    self.differences.append(
                        Difference(f"{where}, as of {snapshot}", partition.sql(), wanted, answer, setup)
                    )
        self.side.ask("RESET sluice.as_of")


def _same(left: Answer, right: Answer) -> bool:
    """Errors of the whole and of a part are not compared: which rows are looked at differs."""
    if left.sqlstate or right.sqlstate:
        return (left.sqlstate or right.sqlstate) != "XX000"
    return Counter(left.rows) == Counter(right.rows)


def _history(chance: random.Random) -> list[str]:
    """Changes, deletions and maintenance."""
    steps = [f"DELETE FROM t1 WHERE id % {chance.choice((3, 5))} = 1", "VACUUM FULL t1"]
    for table in chance.sample(["t1", "t2", "t3", "t4"], 2):
        steps += [
            f"UPDATE {table} SET k = NULL WHERE k = {chance.randint(1, 3)}",
            f"INSERT INTO {table} (id, k, c_int4) SELECT id + {chance.choice((500, 600))}, k, c_int4 FROM {table}",
            f"DELETE FROM {table} WHERE c_int4 > {chance.randint(2, 5)}",
            chance.choice((f"VACUUM {table}", f"VACUUM FULL {table}")),
        ]
    return steps
