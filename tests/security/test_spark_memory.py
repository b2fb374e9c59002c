"""A statement that exhausts Spark's memory fails by itself: the process lives on, and others' statements succeed."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.servers import GatewayProcess, Server, descendants

_GREEDY = (
    "length(string_agg(repeat(v, 50000000), ''))",
    "max(length(repeat(v, 100000000)))",
    "array_length(array_agg(repeat(v, 10000000)), 1)",
)


def _jvm(process: GatewayProcess) -> set[int]:
    return {number for number, command in descendants(process.process.pid).items() if "java" in command}


class _Other:
    """A session that groups rows again and again, and notes how it fared."""

    def __init__(self, server: Server, schema: str) -> None:
        self._server, self._schema = server, schema
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._group)
        self.answers, self.failures = 0, list[str]()
        self._thread.start()

    def _group(self) -> None:
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute("SET sluice.engine = 'spark'")
            grouping = f"SELECT a % 7, count(*) FROM {self._schema}.calm GROUP BY 1"
            while not self._ended.is_set():
                try:
                    connection.execute(grouping.encode()).fetchall()
                    self.answers += 1
                except psycopg.Error as error:
                    self.failures.append(str(error))

    def end(self) -> None:
        """Stop asking."""
        self._ended.set()
        self._thread.join()


def test_others_go_on(gateway: Server, gateway_process: GatewayProcess, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {schema}.calm (a integer)".encode())
        connection.execute(f"INSERT INTO {schema}.calm SELECT generate_series(1, 50000)".encode())
        connection.execute(f"CREATE TABLE {schema}.greedy (v text)".encode())
        connection.execute(f"INSERT INTO {schema}.greedy SELECT 'abcdefghij' FROM generate_series(1, 160)".encode())
        connection.execute("SET sluice.engine = 'spark'")
        connection.execute(f"SELECT count(*) FROM {schema}.calm".encode())
        before = _jvm(gateway_process)
        other = _Other(gateway, schema)
        try:
            for expression in _GREEDY:
                with pytest.raises(psycopg.errors.OutOfMemory):
                    connection.execute(f"SELECT {expression} FROM {schema}.greedy".encode())
        finally:
            other.end()
        assert _jvm(gateway_process) == before != set()
    assert other.failures == []
    assert other.answers
