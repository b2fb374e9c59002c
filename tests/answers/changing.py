"""Execute random changes on both sides: their results, and the table afterwards, must be the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from tests.answers.asking import Asker, Difference, script, world_of
from tests.answers.changes import Change
from tests.answers.compare import Verdict, judge
from tests.answers.generate_changes import Changes, all_of, bases
from tests.answers.shrink import shrunk, simpler_statements
from tests.answers.tables import World
from tests.answers.tree import Node
from tests.planner.differential import Answer

CHANGES_PER_WORLD: Final = 20


@dataclass
class Changer:
    """Changes, one after the other, over tables that both sides have."""

    asker: Asker
    _tables: World = field(default_factory=lambda: World(()))

    def changes(self, seed: str, first: int, count: int) -> None:
        """Those with these numbers; each set of tables is changed from its first change on."""
        built, stands = -1, False
        done: list[str] = []
        for number in range(first - first % CHANGES_PER_WORLD, first + count):
            place = number // CHANGES_PER_WORLD
            if place != built:
                self._tables, built, done = world_of(f"changes {seed}", place), place, []
                stands = self.asker.build(self._tables, f"seed {seed}, tables of changes {place}")
            self.asker.go_on()
            if not stands:
                continue
            change = change_of(seed, number, self._tables)
            where = f"--seed {seed} --queries 0 --first {number} --changes 1"
            if self._change(change, where, tuple(done)):
                done.append(change.sql())

    def _both(self, sql: str) -> None:
        for side in (self.asker.oracle, self.asker.sluice):
            answer = side.ask(sql)
            assert answer.sqlstate is None, (sql, answer)

    def _tried(self, change: Node) -> tuple[Answer, Answer, Verdict, str]:
        """The change within a transaction that stays open."""
        self._both("BEGIN")
        assert isinstance(change, Change)
        said = ""
        for text in change.statements():
            said += f"{text};\n"
            wanted, answer = self.asker.oracle.ask(text), self.asker.sluice.ask(text)
            verdict = judge(wanted, answer, is_list=False)
            if verdict is Verdict.SAME and wanted.message != answer.message:
                verdict = Verdict.DIFFERENT
            if verdict is not Verdict.SAME or wanted.sqlstate:
                return wanted, answer, verdict, said.removesuffix(";\n")
        return self._looked(change, said)

    def _looked(self, change: Change, said: str) -> tuple[Answer, Answer, Verdict, str]:
        """What all rows of the tables are, on either side; the first table that differs."""
        for table in bases(change.tables(), self._tables):
            look = all_of(table)
            wanted, answer = self.asker.oracle.ask(look), self.asker.sluice.ask(look)
            verdict = judge(wanted, answer, is_list=True)
            if verdict is not Verdict.SAME:
                break
        return wanted, answer, verdict, f"{said}{look}"

    def _change(self, change: Change, where: str, done: tuple[str, ...]) -> bool:
        """Whether it is carried out, on both sides alike."""
        counts = self.asker.counts
        wanted, answer, verdict, text = self._tried(change)
        if verdict is Verdict.SAME:
            self._both("COMMIT")
            counts.same += 1
            left, right, verdict, text = self._looked(change, f"{change.sql()};\n")
            if verdict is not Verdict.SAME:
                counts.differences.append(
                    Difference(f"{where} (after COMMIT)", text, left, right, script(self._tables) + done)
                )
            return True
        self._both("ROLLBACK")
        if verdict is Verdict.REFUSED:
            counts.refused[answer.message or ""] += 1
        elif verdict is Verdict.ALIKE:
            counts.alike[wanted.sqlstate or ""] += 1
        else:
            self._keep(change, where, done, wanted, answer, text)
        return False

    def _keep(  # noqa: PLR0917
        self,
        change: Change,
        where: str,
        done: tuple[str, ...],
        wanted: Answer,
        answer: Answer,
        text: str,
    ) -> None:
        kind = (wanted.sqlstate, answer.sqlstate)

        def differs(candidate: Node) -> bool:
            left, right, verdict, _ = self._tried(candidate)
            self._both("ROLLBACK")
            return verdict is Verdict.DIFFERENT and (left.sqlstate, right.sqlstate) == kind

        if differs(change):
            start: Node = change
            small = shrunk(start, simpler_statements, differs, self.asker.shrink_seconds)
            wanted, answer, _, text = self._tried(small)
            self._both("ROLLBACK")
        else:
            where += " (it differed only once)"
        self.asker.counts.differences.append(Difference(where, text, wanted, answer, script(self._tables) + done))


def change_of(seed: str, number: int, tables: World) -> Change:
    return Changes(random.Random(f"change {seed} {number}"), tables).change(number)
