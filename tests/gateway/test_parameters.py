"""Parameters of every spelling mean in a lake query what they mean in PostgreSQL."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import psycopg
import pytest

from catalog.datatypes import INT2, INT4, INT8, TEXT, VARCHAR
from gateway.backend.bind_parameters import plain_parameters
from planner.spark.plan import Parameter
from tests.servers import Server

_TABLE = "CREATE TABLE parameters_here (k bigint, t text)"
_ROWS = "INSERT INTO parameters_here VALUES (0, ''), (5, 'five'), (-7, '-7'), (16, 'é'), (1000, ' 5')"


@pytest.fixture(scope="module")
def servers(oracle: Server, gateway: Server) -> Iterator[tuple[Server, Server]]:
    for server in (oracle, gateway):
        server.psql("-qc", _TABLE, "-c", _ROWS)
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", "DROP TABLE parameters_here")


@pytest.mark.parametrize("engine", ["auto", "spark"])
@pytest.mark.parametrize(
    ("type_oid", "value", "form"),
    [
        *(
            (INT8, text, 0)
            for text in (b"5", b" 5 ", b"+5", b"005", b"-0", b"0x10", b"1_000", b"-7", b"", b"5.0", b"x")
        ),
        (INT4, struct.pack("!i", -7), 1),
        (INT8, struct.pack("!q", 1000), 1),
        (INT2, struct.pack("!h", 5), 1),
        (INT2, struct.pack("!i", 5), 1),
        (INT2, b"99999", 0),
        (INT4, None, 0),
    ],
)
def test_numbers(servers: tuple[Server, Server], engine: str, type_oid: int, value: bytes | None, form: int) -> None:
    answers = []
    for server in servers:
        with psycopg.connect(server.url, autocommit=True, options=f"-c sluice.engine={engine}") as connection:
            sql = b"SELECT k, t, $1 FROM parameters_here WHERE k = $1"
            result = connection.pgconn.exec_params(sql, [value], [type_oid], [form])
            rows = [[result.get_value(row, column) for column in range(3)] for row in range(result.ntuples)]
            answers.append((rows, result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY)))
    assert answers[1] == answers[0]


@pytest.mark.parametrize("value", ["", "five", "é", " 5"])
@pytest.mark.parametrize("form", [0, 1])
def test_texts(servers: tuple[Server, Server], value: str, form: int) -> None:
    for server in servers:
        with psycopg.connect(server.url, autocommit=True) as connection:
            sql = b"SELECT count(*) FROM parameters_here WHERE t = $1"
            result = connection.pgconn.exec_params(sql, [value.encode()], [TEXT], [form])
            assert result.get_value(0, 0) == b"1"


def test_what_takes_no_question() -> None:
    assert plain_parameters((INT4, TEXT, VARCHAR), (b"17", b"a", None), (0,)) == (
        Parameter(INT4, "17"),
        Parameter(TEXT, "a"),
        Parameter(VARCHAR, None),
    )
    assert plain_parameters((INT8,), (struct.pack("!q", -2),), (1,)) == (Parameter(INT8, "-2"),)
    assert plain_parameters((INT4,), (b"+17",), ()) is None
    assert plain_parameters((1082,), (b"2024-01-01",), ()) is None
    assert plain_parameters((TEXT,), (b"x" * 100_000,), ()) is None
