"""The protocol's FunctionCall (PQfn): functions of users are refused; PostgreSQL's own work as there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from gateway.wire.messages import backend, frontend
from gateway.wire.messages.layout import Message
from tests.gateway.wire import Wire
from tests.servers import Server

_MADE = """
CREATE TABLE {0}.t (n integer PRIMARY KEY);
INSERT INTO {0}.t SELECT n FROM generate_series(1, 9) n;
CREATE FUNCTION {0}.counted() RETURNS bigint LANGUAGE plpgsql AS
    'BEGIN RETURN (SELECT count(*) FROM {0}.t); END';
CREATE FUNCTION {0}.written() RETURNS void LANGUAGE plpgsql AS
    'BEGIN INSERT INTO {0}.t VALUES (10); END';
CREATE DOMAIN {0}.known AS integer CHECK ({0}.counted() = 9 AND value > 0);
"""


@pytest.fixture
def made(gateway: Server, schema: str) -> Iterator[tuple[Wire, str]]:
    gateway.psql("-qc", _MADE.format(schema))
    wire = Wire(gateway)
    yield wire, schema
    wire.close()


def _oid(wire: Wire, of: str, kind: str = "regprocedure") -> int:
    [row] = [each for each in wire.query(f"SELECT '{of}'::{kind}::oid") if isinstance(each, backend.DataRow)]
    return int(row.values[0] or b"0")


def _called(wire: Wire, oid: int, *arguments: bytes) -> tuple[list[bytes | None], list[str]]:
    """The values that a call gives, and the SQLSTATEs of its errors."""
    answers = wire.ask(frontend.FunctionCall(oid, (), arguments, 0))
    return [each.value for each in answers if isinstance(each, backend.FunctionCallResponse)], _states(answers)


def _states(answers: Sequence[Message]) -> list[str]:
    return [each.to_error().sqlstate for each in answers if isinstance(each, backend.ErrorResponse)]


@pytest.mark.parametrize("begin", ["", "BEGIN"])
@pytest.mark.parametrize("function", ["counted()", "written()"])
def test_functions_of_users(made: tuple[Wire, str], function: str, begin: str) -> None:
    """They would find the empty shadow, or write it."""
    wire, schema = made
    oid = _oid(wire, f"{schema}.{function}")
    wire.query(begin)
    assert _called(wire, oid) == ([], ["0A000"])
    assert _states(wire.query("SELECT 1")) == (["25P02"] if begin else [])
    wire.query("ROLLBACK")
    [row] = [each for each in wire.query(f"SELECT count(*) FROM {schema}.t") if isinstance(each, backend.DataRow)]
    assert row.values == (b"9",)


def test_the_check_of_a_domain(made: tuple[Wire, str]) -> None:
    """PostgreSQL's own function runs it."""
    wire, schema = made
    domain = _oid(wire, f"{schema}.known", "regtype")
    oid = _oid(wire, "domain_in(cstring,oid,integer)")
    assert _called(wire, oid, b"1", str(domain).encode(), b"-1") == ([], ["0A000"])


def test_of_postgresql(made: tuple[Wire, str]) -> None:
    """Large objects, as drivers use them."""
    wire, _ = made
    create, opened = _oid(wire, "lo_creat(integer)"), _oid(wire, "lo_open(oid,integer)")
    write, unlink = _oid(wire, "lowrite(integer,bytea)"), _oid(wire, "lo_unlink(oid)")
    wire.query("BEGIN")
    [number], _ = _called(wire, create, b"-1")
    assert number is not None
    [descriptor], _ = _called(wire, opened, number, str(0x60000).encode())
    assert descriptor is not None
    assert _called(wire, write, descriptor, b"abc") == ([b"3"], [])
    assert _called(wire, unlink, number) == ([b"1"], [])
    wire.query("COMMIT")
