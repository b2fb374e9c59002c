"""Send random queries to both sides, count the verdicts, and minimise each difference."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.answers.compare import Verdict, judge
from tests.answers.generate import Queries
from tests.answers.generate_scans import scan_of
from tests.answers.queries import Query
from tests.answers.shrink import shrunk, simpler_queries
from tests.answers.sides import SLOW, Side
from tests.answers.tables import Copied, World, world
from tests.planner.differential import Answer

QUERIES_PER_WORLD: Final = 60


@dataclass
class Difference:
    """A statement with both answers, and what to build before it. `where` says how to ask for it again."""

    where: str
    statement: str
    wanted: Answer
    answer: Answer
    setup: tuple[str, ...] = ()

    def __str__(self) -> str:
        setup = "".join(f"{each};\n" for each in self.setup)
        return (
            f"--- {self.where}\n{setup}{self.statement};\n"
            f"-- PostgreSQL: {_shown(self.wanted)}\n-- Sluice: {_shown(self.answer)}\n"
        )


def _shown(answer: Answer) -> str:
    if answer.sqlstate:
        return f"{answer.sqlstate} {answer.message}"
    rows = [" | ".join("NULL" if each is None else each for each in row) for row in answer.rows[:12]]
    return f"{len(answer.rows)} rows of {answer.types}: " + "; ".join(rows)


@dataclass
class Counts:
    """What came out."""

    same: int = 0
    alike: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    differences: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        return self.kinds() + self.summary()

    def kinds(self) -> str:
        """A line for each kind of refusal and of error."""
        lines = [f"refused {times} times: {message}\n" for message, times in self.refused.most_common()]
        lines += [f"errors alike {times} times: {state}\n" for state, times in self.alike.most_common()]
        return "".join(lines)

    def summary(self, different: int | None = None) -> str:
        return (
            f"same {self.same}, refused {self.refused.total()}, errors alike {self.alike.total()}, "
            f"too slow for PostgreSQL {self.slow}, "
            f"different {len(self.differences) if different is None else different}"
        )


@dataclass
class Asker:
    """PostgreSQL and Sluice, with the same tables."""

    oracle: Side
    sluice: Side
    shrink_seconds: float = 60.0
    counts: Counts = field(default_factory=Counts)
    halted: bool = False  # by another thread
    _shown: int = 0

    def go_on(self) -> None:
        """InterruptedError once it is halted."""
        if self.halted:
            raise InterruptedError

    def start_anew(self) -> None:
        """Count from zero."""
        self.counts, self._shown = Counts(), 0

    def show(self) -> None:
        """Print the differences since the last time."""
        print(*self.counts.differences[self._shown :], sep="\n", end="", flush=True)
        self._shown = len(self.counts.differences)

    def build(self, tables: World, where: str) -> bool:
        """Whether the tables stand on both sides."""
        wanted, answer = self.oracle.build(tables), self.sluice.build(tables)
        assert wanted is None, f"PostgreSQL does not take the tables of {where}: {wanted}"
        if answer is not None:
            self.counts.differences.append(Difference(where, "-- the setup fails", Answer(), answer, script(tables)))
        return answer is None

    def queries(self, seed: str, first: int, count: int) -> None:
        """Ask the queries with these numbers, each of the tables that belong to its number."""
        self._ask("queries", query_of, seed, first, count)

    def scans(self, seed: str, first: int, count: int) -> None:
        """The same for queries that only read columns."""
        self._ask("scans", scan_of, seed, first, count)

    def _ask(self, what: str, of: Callable[[str, int, World], Query], seed: str, first: int, count: int) -> None:
        built = -1
        stands = False
        tables = World(())
        for number in range(first, first + count):
            place = number // QUERIES_PER_WORLD
            if place != built:
                tables, built = world_of(seed, place), place
                stands = self.build(tables, f"seed {seed}, tables {place}")
            if stands:
                self.query(of(seed, number, tables), tables, f"--seed {seed} --first {number} --{what} 1")

    def query(self, query: Query, tables: World, where: str) -> Verdict | None:
        """Ask both; a difference is made small, and kept."""
        self.go_on()
        wanted, answer, verdict = self.asked(query)
        if verdict is Verdict.SAME:
            self.counts.same += 1
        elif verdict is Verdict.ALIKE:
            self.counts.alike[f"{wanted.sqlstate} {_unnamed(wanted.message or '')}"] += 1
        elif verdict is Verdict.REFUSED:
            self.counts.refused[answer.message or ""] += 1
        elif verdict is None:
            self.counts.slow += 1
        else:
            self._keep(query, tables, where, wanted, answer)
        return verdict

    def asked(self, query: Query) -> tuple[Answer, Answer, Verdict | None]:
        """Both answers. What takes PostgreSQL too long Sluice is not asked."""
        text = query.sql()
        wanted = self.oracle.ask(text)
        if wanted.sqlstate == SLOW:
            return wanted, Answer(), None
        if (wanted.sqlstate or "").startswith("42"):  # the same analysis on either side
            return wanted, wanted, Verdict.ALIKE
        answer = self.sluice.ask(text)
        return wanted, answer, judge(wanted, answer, query.is_list)

    def _keep(self, query: Query, tables: World, where: str, wanted: Answer, answer: Answer) -> None:
        kind = (wanted.sqlstate, answer.sqlstate)

        def differs(candidate: Query) -> bool:
            left, right, verdict = self.asked(candidate)
            return verdict is Verdict.DIFFERENT and (left.sqlstate, right.sqlstate) == kind

        if not differs(query):
            where += " (it differed only once)"
            self.counts.differences.append(Difference(where, query.sql(), wanted, answer, script(tables)))
            return
        small = shrunk(query, simpler_queries, differs, self.shrink_seconds)

        def differs_over(candidate: World) -> bool:
            names = {each.name for each in candidate.tables}
            if any(name not in names for name in _tables_of(small)):
                return False
            built = self.oracle.build(candidate) is None and self.sluice.build(candidate) is None
            return built and differs(small)

        fewer = shrunk(tables, World.simpler, differs_over, self.shrink_seconds)
        assert differs_over(fewer) or fewer == tables
        self.build(fewer, where)
        wanted, answer, _ = self.asked(small)
        self.counts.differences.append(Difference(where, small.sql(), wanted, answer, script(fewer)))
        self.build(tables, where)


def _unnamed(message: str) -> str:
    return re.sub(r'"[^"]*"|\ba\d+\.\w+', '""', message)


def _tables_of(query: Query) -> set[str]:
    return set(re.findall(r"\bt[1-4]\b(?= AS)", query.sql()))


def world_of(seed: str, place: int) -> World:
    return world(random.Random(f"tables {seed} {place}"))


def query_of(seed: str, number: int, tables: World) -> Query:
    return Queries(random.Random(f"query {seed} {number}"), tables).statement()


def script(tables: World) -> tuple[str, ...]:
    """The statements that build the tables, to be read."""
    return tuple(f"{each.sql} -- {each.rows!r}" if isinstance(each, Copied) else each for each in tables.statements())
