"""Executes a case on PostgreSQL and on the gateway: what each statement answers, and what the tables hold then."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, cast

import psycopg

from tests.answers.shrink import shrunk
from tests.answers.tree import reductions
from tests.functions.bodies import Call, Case
from tests.functions.generate import Generator

_SCHEMA: Final = f"functions_{os.getpid()}"  # runs beside each other
_LOOKS: Final = (
    "SELECT * FROM parent ORDER BY id",
    "SELECT * FROM child ORDER BY id",
    "SELECT log::text FROM log ORDER BY 1",
)
REFUSED: Final = "0A000"
_PORTAL: Final = re.compile(r"<unnamed portal \d+>")
_EVALUATED: Final = ("PL/pgSQL assignment", "PL/pgSQL expression")
_TOO_DEEP: Final = "54001"
_MANY_ALIKE: Final = 50
# A case that PostgreSQL does not end in time, either, shows nothing.
_ENDLESS: Final = "57014"


@dataclass
class Outcome:
    """What a server said to each statement, line by line."""

    lines: list[str] = field(default_factory=list)
    refused: str | None = None


class Side:
    """One server."""

    def __init__(self, url: str, options: str = "") -> None:
        self._url, self._options = url, f"{options} -c statement_timeout=60s -c client_min_messages=notice"
        self._connection = self._connect()
        self._said: list[str] = []

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect(self._url, autocommit=True, options=self._options)
        connection.add_notice_handler(self._notice)
        return connection

    def _notice(self, told: psycopg.errors.Diagnostic) -> None:
        if not (told.message_primary or "").startswith("change "):  # how far a schema change is
            self._said.append(f"{told.severity}: {told.message_primary}")

    def close(self) -> None:
        if not self._connection.closed:
            self._connection.rollback()
            self._connection.execute(
                f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE".encode()
            )
            self._connection.close()

    def run(self, case: Case) -> Outcome:
        """Execute it in a schema of its own, from the start."""
        if self._connection.closed:
            self._connection = self._connect()
        outcome = Outcome()
        execute = self._connection.execute
        if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            execute("ROLLBACK")
        setup = f"DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE; CREATE SCHEMA {_SCHEMA}; SET search_path = {_SCHEMA}"
        setup += "; DROP TABLE IF EXISTS pg_temp.scratch; RESET app.said"
        execute(f"SET client_min_messages = warning; {setup}".encode())
        try:
            execute(case.setup().encode())
        except psycopg.Error as error:
            outcome.lines.append(f"setup: {_told(error)}")
            return outcome
        execute("SET client_min_messages = notice")
        for call in (*case.calls, *map(Call, _LOOKS)):
            parameters = call.parameters if isinstance(call, Call) else ()
            self._said.clear()
            try:
                cursor = execute(call.sql().encode(), parameters or None)
                rows = [str(row) for row in cursor.fetchall()] if cursor.description else []
                answer = [cursor.statusmessage or "", *rows]
            except psycopg.Error as error:
                answer = _told(error)
                if error.sqlstate == _TOO_DEEP:
                    self._said.clear()
                if error.sqlstate == REFUSED and outcome.refused is None:
                    outcome.refused = answer[0]
            outcome.lines += [f"> {call.sql()}", *_counted(self._said), *answer]
            if self._connection.closed:
                break
        if not self._connection.closed and self._connection.info.transaction_status:
            execute("ROLLBACK")
        return outcome


def _counted(said: list[str]) -> Iterator[str]:
    """The notices; of many alike, one. A trigger that fires itself repeats them until PostgreSQL's stack is full, which
    its code may catch, and how deep that is differs."""
    for notice, alike in groupby(said):
        count = len(list(alike))
        yield from [notice] * count if count < _MANY_ALIKE else [f"{notice}, many times"]


def _told(error: psycopg.Error) -> list[str]:
    told = error.diag
    # Whether PL/pgSQL evaluates an expression by itself depends on whether its plan is new.
    context = [line for line in (told.context or "").split("\n") if not line.startswith(_EVALUATED)]
    if error.sqlstate == _TOO_DEEP:  # how deep that is differs, and so do the notices until then
        context = []
    more = (told.message_detail, told.constraint_name, told.table_name, *context)
    message = _PORTAL.sub("<unnamed portal>", told.message_primary or str(error))
    return [f"{error.sqlstate}: {message}", *(f"  {each}" for each in more if each)]


@dataclass
class Pair:
    """PostgreSQL and a gateway."""

    oracle: Side
    sluice: Side
    shrink_seconds: float = 60.0
    same: int = 0
    refused: dict[str, list[str]] = field(default_factory=dict)  # the message → how to ask again
    differences: list[str] = field(default_factory=list)

    def ask(self, seed: str, first: int, count: int) -> None:
        """Those of the numbers."""
        for number in range(first, first + count):
            self._ask(case_of(seed, number), f"--seed {seed} --first {number} --functions 1")

    def _ask(self, case: Case, where: str) -> None:
        wanted, answer = self.oracle.run(case), self.sluice.run(case)
        if answer.refused and not wanted.refused:
            self.refused.setdefault(answer.refused, []).append(where)
        elif wanted.lines == answer.lines or any(line.startswith(_ENDLESS) for line in wanted.lines):
            self.same += 1
        else:
            small = shrunk(case, _simpler, self._differs, self.shrink_seconds)
            again = self.oracle.run(small), self.sluice.run(small)
            if again[0].lines == again[1].lines:
                small, again, where = case, (wanted, answer), f"{where} (it differed only once)"
            self.differences.append(_shown(small, where, again[0].lines, again[1].lines))

    def _differs(self, case: Case) -> bool:
        wanted, answer = self.oracle.run(case), self.sluice.run(case)
        return wanted.lines != answer.lines and not answer.refused


def _shown(case: Case, where: str, wanted: list[str], answer: list[str]) -> str:
    """The case, and what differs first in the answers."""
    same = next((n for n, (one, two) in enumerate(zip(wanted, answer, strict=False)) if one != two), len(wanted) - 1)
    last = max((n for n in range(same + 1) if wanted[n].startswith("> ")), default=0)
    shown = [f"--- {where}", f"{case.setup()};", *(f"{each.sql()};" for each in case.calls)]
    shown += ["-- After", *wanted[last : last + 1]]
    shown += ["-- PostgreSQL:", *(f"--   {each}" for each in wanted[max(same - 1, last + 1) : same + 6])]
    shown += ["-- Sluice:", *(f"--   {each}" for each in answer[max(same - 1, last + 1) : same + 6])]
    return "\n".join(shown)


def _simpler(case: Case) -> Iterator[Case]:
    for each in reductions(case):
        yield cast(Case, each)


def case_of(seed: str, number: int) -> Case:
    return Generator(random.Random(f"function {seed} {number}")).case()
