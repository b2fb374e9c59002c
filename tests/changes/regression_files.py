"""PostgreSQL's regression files, statement by statement on PostgreSQL and on Sluice: the differences in their answers.

By hand, where PostgreSQL's sources are: `python -m tests.changes.regression_files GATEWAY_URL POSTGRES_URL
alter_table.sql foreign_key.sql --block 12`. Both databases lose the objects in their schema `public`.

psql's own commands are left out, and statements that Sluice refuses with 0A000 are executed on neither side. With
`--block`, so many statements at a time are a transaction, each in a savepoint, and the schema changes in it are
deferred; statements that cannot be in a block are then left out. OIDs and locks differ by their nature; plans are not
compared.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from psycopg import pq

from planner.syntax.lexer import tokens
from planner.syntax.statements import split

_OPTIONS: Final = "-c datestyle=Postgres,MDY -c timezone=America/Los_Angeles"
_COPY_IN: Final = re.compile(r"copy\b.*\bfrom\s+stdin", re.IGNORECASE | re.DOTALL)
# What stands for the semicolon in psql, with where the answer is to go.
_SENT: Final = re.compile(r"\\(gset|gexec|gx|g|crosstabview)\b.*$")
_VARIABLE: Final = re.compile(r""":'|:"|(?<!:):[a-z]\w*\b""")
_OUTSIDE: Final = re.compile(
    r"(begin|start|commit|end|rollback|abort|savepoint|release|prepare transaction|set transaction|set session"
    r"|vacuum|cluster)\b|.*\b(concurrently|tablespace|create database|drop database|alter system)\b",
    re.IGNORECASE | re.DOTALL,
)
_REFUSED: Final = "is not supported on lake tables"
_FIELDS: Final = (
    pq.DiagnosticField.SQLSTATE,
    pq.DiagnosticField.MESSAGE_PRIMARY,
    pq.DiagnosticField.MESSAGE_DETAIL,
    pq.DiagnosticField.MESSAGE_HINT,
    pq.DiagnosticField.STATEMENT_POSITION,
)


@dataclass(frozen=True)
class Step:
    """A statement, and the rows of COPY that come behind it."""

    sql: str
    rows: str = ""


@dataclass
class Answer:
    """`lines` are notices in an order of their own, then rows (sorted but where ORDER BY says how), tags and errors."""

    lines: list[str] = field(default_factory=list)
    error: str = ""


def steps(text: str) -> Iterator[Step]:
    """The statements of a file."""
    lines = iter(text.split("\n"))
    pending = ""
    for line in lines:
        if line.startswith("\\") and not list(tokens(pending)):
            continue
        pending += _SENT.sub(";", line) + "\n"
        last = [token.text for token in tokens(pending) if token.depth == 0][-1:]
        found = split(pending + "SELECT") if last == [";"] else ()
        if not found or found[-1].text != "SELECT":  # in the body of a function
            continue
        pending = ""
        for statement in found[:-1]:
            if _COPY_IN.match(statement.text):
                yield Step(statement.text, "".join(f"{row}\n" for row in iter(lambda: next(lines, "\\."), "\\.")))
            elif not _VARIABLE.search(re.sub(r"'[^']*'|\$\$.*?\$\$", "", statement.text, flags=re.DOTALL)):
                yield Step(statement.text)


class Side:
    """One server's connection."""

    def __init__(self, url: str) -> None:
        self._connection = pq.PGconn.connect(f"{url}?options={quote(_OPTIONS)}".encode())
        assert self._connection.status == pq.ConnStatus.OK, self._connection.error_message
        self._notices: list[str] = []
        self._connection.notice_handler = lambda result: self._notices.append(_said(result))

    @property
    def in_block(self) -> bool:
        return self._connection.transaction_status != pq.TransactionStatus.IDLE

    def run(self, step: Step) -> Answer:
        self._notices.clear()
        answer = Answer()
        self._connection.send_query(step.sql.encode())
        while (result := self._connection.get_result()) is not None:
            answer.lines += self._taken(result, step, answer)
        answer.lines[:0] = sorted(self._notices)
        return answer

    def _taken(self, result: pq.abc.PGresult, step: Step, answer: Answer) -> list[str]:
        match result.status:
            case pq.ExecStatus.TUPLES_OK:
                names = "|".join((result.fname(column) or b"").decode() for column in range(result.nfields))
                rows = [
                    "|".join((result.get_value(row, column) or b"").decode() for column in range(result.nfields))
                    for row in range(result.ntuples)
                ]
                return [names, *(rows if "order by" in step.sql.lower() else sorted(rows))]
            case pq.ExecStatus.COPY_IN:
                self._connection.put_copy_data(step.rows.encode())
                self._connection.put_copy_end()
                return []
            case pq.ExecStatus.COPY_OUT:
                return list(iter(lambda: bytes(self._connection.get_copy_data(0)[1]).decode(), ""))
            case pq.ExecStatus.FATAL_ERROR:
                answer.error = _said(result)
                return [f"ERROR {answer.error}"]
            case _:
                return [(result.command_status or b"").decode()]

    def close(self) -> None:
        self._connection.finish()


def _said(result: pq.abc.PGresult) -> str:
    return " ".join((result.error_field(each) or b"").decode() for each in _FIELDS)


@dataclass
class Comparison:
    """Of one file. `different` has a statement with what PostgreSQL (<) and Sluice (>) alone say."""

    gateway: Side
    postgres: Side
    block: int = 0
    compared: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)
    _in_block: int = 0

    def run(self, text: str) -> None:
        for step in steps(text):
            if not self.block:
                self._compare(step)
            elif not _OUTSIDE.match(step.sql):
                self._compare_in_block(step)
        if self.gateway.in_block:
            self._both(Step("COMMIT" if self.block else "ROLLBACK"))

    def _compare(self, step: Step) -> None:
        answer = self.gateway.run(step)
        if not self._is_refused(answer):
            self._judge(step, answer)
        elif self.postgres.in_block:  # which has failed on the other side
            self.postgres.run(Step("SELECT 1 / 0"))

    def _compare_in_block(self, step: Step) -> None:
        if not self.gateway.in_block:
            self._both(Step("BEGIN"))
            self._in_block = 0
        self._both(Step("SAVEPOINT regression"))
        answer = self.gateway.run(step)
        good = not self._is_refused(answer) and self._judge(step, answer) and not answer.error
        if not good:
            self._both(Step("ROLLBACK TO regression"))
        self._both(Step("RELEASE regression"))
        self._in_block += 1
        if self._in_block == self.block:
            self._both(Step("COMMIT"))

    def _is_refused(self, answer: Answer) -> bool:
        refused = answer.error.startswith("0A000") and _REFUSED in answer.error
        if refused:
            self.refused[re.sub('"[^"]*"', '""', answer.error)] += 1
        return refused

    def _both(self, step: Step) -> None:
        self._judge(step, self.gateway.run(step))

    def _judge(self, step: Step, answer: Answer) -> bool:
        """Carry it out on PostgreSQL too; whether it is good there."""
        wanted = self.postgres.run(step)
        self.compared += 1
        shown = step.sql.lower().startswith("explain") and not wanted.error
        if not shown and answer.lines != wanted.lines:
            ours = [f"> {line}" for line in answer.lines if line not in wanted.lines]
            theirs = [f"< {line}" for line in wanted.lines if line not in answer.lines]
            self.different.append("\n".join((step.sql, *theirs, *ours)))
        return not wanted.error


def by_hand() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway")
    parser.add_argument("postgres")
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--block", type=int, default=0)
    arguments = parser.parse_args()
    for file in arguments.files:
        sides = Side(arguments.gateway), Side(arguments.postgres)
        for side in sides:
            side.run(Step("DROP SCHEMA IF EXISTS public CASCADE"))
            side.run(Step("CREATE SCHEMA public"))
        comparison = Comparison(*sides, arguments.block)
        comparison.run(file.read_text())
        for side in sides:
            side.close()
        print(*(f"{each}\n" for each in comparison.different), sep="\n")
        print(*(f"refused {times} times: {what}" for what, times in comparison.refused.items()), sep="\n")
        print(f"{file.name}: {comparison.compared} compared, {len(comparison.different)} different", flush=True)


if __name__ == "__main__":
    by_hand()
