"""The protocol's FunctionCall (PQfn): functions of users find no empty shadows; PostgreSQL's own work as there."""

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
CREATE FUNCTION {0}.unread() RETURNS integer LANGUAGE plpgsql AS
    'BEGIN PERFORM n / 0 FROM {0}.t; RAISE no_data_found; END';
CREATE FUNCTION {0}.emptied() RETURNS void LANGUAGE plpgsql AS 'BEGIN TRUNCATE {0}.t; END';
CREATE FUNCTION {0}.added(n integer) RETURNS integer LANGUAGE plpgsql AS
    'BEGIN RAISE NOTICE ''%'', n; RETURN n + 1; END';
CREATE FUNCTION {0}.failed(n integer) RETURNS integer LANGUAGE plpgsql AS
    'BEGIN RAISE NOTICE ''%'', n; RETURN n / 0; END';
CREATE FUNCTION {0}.beside() RETURNS bigint LANGUAGE plpgsql AS
    'BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS b (n integer); INSERT INTO b VALUES (1);
     RETURN (SELECT count(*) FROM b); END';
CREATE FUNCTION {0}.made() RETURNS void LANGUAGE plpgsql AS 'BEGIN CREATE TABLE {0}.u (n integer); END';
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


def _called(wire: Wire, oid: int, *arguments: bytes) -> tuple[list[bytes | None], list[str], list[str]]:
    """The values that a call gives, the SQLSTATEs of its errors, and the texts of its notices."""
    return _told(wire.ask(frontend.FunctionCall(oid, (), arguments, 0)))


def _told(answers: Sequence[Message]) -> tuple[list[bytes | None], list[str], list[str]]:
    return (
        [each.value for each in answers if isinstance(each, backend.FunctionCallResponse)],
        [each.to_error().sqlstate for each in answers if isinstance(each, backend.ErrorResponse)],
        [dict(each.fields)["M"] for each in answers if isinstance(each, backend.NoticeResponse)],
    )


@pytest.mark.parametrize("begin", ["", "BEGIN"])
@pytest.mark.parametrize("function", ["counted()", "written()", "unread()", "emptied()"])
def test_functions_that_use_lake_tables(made: tuple[Wire, str], function: str, begin: str) -> None:
    """They would find the empty shadow, or write it."""
    wire, schema = made
    oid = _oid(wire, f"{schema}.{function}")
    wire.query(begin)
    assert _called(wire, oid) == ([], ["0A000"], [])
    wire.query("ROLLBACK")
    [row] = [each for each in wire.query(f"SELECT count(*) FROM {schema}.t") if isinstance(each, backend.DataRow)]
    assert row.values == (b"9",)


def test_the_check_of_a_domain(made: tuple[Wire, str]) -> None:
    """PostgreSQL's own function runs it."""
    wire, schema = made
    domain = _oid(wire, f"{schema}.known", "regtype")
    oid = _oid(wire, "domain_in(cstring,oid,integer)")
    assert _called(wire, oid, b"1", str(domain).encode(), b"-1") == ([], ["0A000"], [])


@pytest.mark.parametrize("begin", ["", "BEGIN"])
def test_functions_that_use_none(made: tuple[Wire, str], begin: str) -> None:
    wire, schema = made
    added, failed, beside, table = (
        _oid(wire, f"{schema}.{each}") for each in ("added(int)", "failed(int)", "beside()", "made()")
    )
    wire.query(begin)
    assert _called(wire, added, b"3") == ([b"4"], [], ["3"])
    assert _called(wire, beside) == ([b"1"], [], [])
    assert _called(wire, beside)[:2] == ([b"2"], [])
    assert _called(wire, table) == ([b""], [], [])
    wire.query("COMMIT" if begin else "")
    assert not _told(wire.query(f"INSERT INTO {schema}.u VALUES (1)"))[1]
    wire.query(begin)
    assert _called(wire, failed, b"3") == ([], ["22012"], ["3"])
    assert _called(wire, added, b"3") == (([], ["25P02"], []) if begin else ([b"4"], [], ["3"]))
    wire.query("ROLLBACK")
    assert _called(wire, added, b"x") == ([], ["22P02"], [])


def test_of_postgresql(made: tuple[Wire, str]) -> None:
    """Large objects, as drivers use them."""
    wire, _ = made
    create, opened = _oid(wire, "lo_creat(integer)"), _oid(wire, "lo_open(oid,integer)")
    write, unlink = _oid(wire, "lowrite(integer,bytea)"), _oid(wire, "lo_unlink(oid)")
    wire.query("BEGIN")
    [number], _, _ = _called(wire, create, b"-1")
    assert number is not None
    [descriptor], _, _ = _called(wire, opened, number, str(0x60000).encode())
    assert descriptor is not None
    assert _called(wire, write, descriptor, b"abc") == ([b"3"], [], [])
    assert _called(wire, unlink, number) == ([b"1"], [], [])
    wire.query("COMMIT")
