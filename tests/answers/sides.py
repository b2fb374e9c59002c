"""The two sides: PostgreSQL or a gateway over libpq, and the planner with Spark in this process."""

from __future__ import annotations

from typing import Protocol

import psycopg
from psycopg import pq

from planner.spark.plan import SparkQuery
from tests.answers.tables import Copied, Layout, Statement, World
from tests.planner.differential import Answer, Laboratory

SLOW = "57014"


class Side(Protocol):
    def build(self, world: World) -> Answer | None:
        """Make the world's tables anew; the first error, if there is one."""

    def ask(self, sql: str) -> Answer: ...


class Server:
    """Over libpq, in a schema of its own."""

    def __init__(self, url: str, seconds: int = 0, options: str = "", schema: str = "answers") -> None:
        """`seconds`: the oracle's limit for a statement; of a gateway 0, which has none."""
        self._schema = schema
        self._is_oracle = seconds > 0
        self._connection = psycopg.connect(url, autocommit=True, options=options)
        self.run(f"SET client_min_messages = warning; SET statement_timeout = '{seconds}s'")

    def run(self, statement: Statement) -> Answer:
        connection = self._connection.pgconn
        if isinstance(statement, Layout) and self._is_oracle:
            return Answer()
        if isinstance(statement, Copied):
            result = connection.exec_(statement.sql.encode())
            if result.status == pq.ExecStatus.COPY_IN:
                connection.put_copy_data(statement.rows.encode())
                connection.put_copy_end()
                result = connection.get_result() or result
                while connection.get_result() is not None:
                    pass
        else:
            result = connection.exec_(statement.encode())
        if result.status == pq.ExecStatus.FATAL_ERROR:
            state, message = (
                (result.error_field(each) or b"").decode()
                for each in (pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY)
            )
            return Answer(sqlstate=state, message=message)
        columns = range(result.nfields)
        rows = tuple(
            tuple(
                None if (value := result.get_value(row, column)) is None else bytes(value).decode()
                for column in columns
            )
            for row in range(result.ntuples)
        )
        return Answer(tuple(_built_in(result.ftype(column)) for column in columns), rows, message=_tag(result))

    ask = run

    def build(self, world: World) -> Answer | None:
        self.run(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")
        for statement in (f"CREATE SCHEMA {self._schema}", f"SET search_path = {self._schema}", *world.statements()):
            answer = self.run(statement)
            if answer.sqlstate:
                return answer
        return None

    def close(self) -> None:
        self._connection.close()


def _tag(result: pq.abc.PGresult) -> str:
    return (result.command_status or b"").decode()


def _built_in(oid: int) -> int:
    """An enumeration's number is each database's own."""
    return oid if oid < 16384 else 0


class Oracle(Server):
    """The laboratory's PostgreSQL, in the schema that it reads."""

    def __init__(self, laboratory: Laboratory, seconds: int = 5) -> None:
        self._is_oracle = True
        self._connection = laboratory.postgres
        self._laboratory = laboratory
        self.run(f"SET client_min_messages = warning; SET statement_timeout = '{seconds}s'")

    def build(self, world: World) -> Answer | None:
        self.run("DROP SCHEMA public CASCADE")
        self.run("CREATE SCHEMA public")
        for statement in world.statements():
            answer = self.run(statement)
            if answer.sqlstate:
                return answer
        # The planner's session here has UTC.
        self.run("SET timezone = 'UTC'")
        self._laboratory.tables.clear()
        for table in world.tables:
            self._laboratory.load(table.name)
        return None


class Planner:
    """The planner, and Spark. Its tables are those that the oracle has loaded."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory

    def build(self, world: World) -> Answer | None:
        return None

    def ask(self, sql: str) -> Answer:
        return self._plain(self._laboratory.on_spark(sql))

    def run(self, plan: SparkQuery) -> Answer:
        """What Spark answers to a plan."""
        return self._plain(self._laboratory.run(plan))

    @staticmethod
    def _plain(answer: Answer) -> Answer:
        return Answer(tuple(_built_in(oid) for oid in answer.types), answer.rows, answer.sqlstate, answer.message)
