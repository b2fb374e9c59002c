"""The CONTEXT of errors leaves out Sluice's own functions, and has the client's."""

from __future__ import annotations

import time

import psycopg
import pytest

from gateway.backend.error_context import without_own_context
from gateway.wire.framing import Frame
from gateway.wire.messages.backend import ErrorResponse
from tests.servers import Server

_FIELDS = (("S", "ERROR"), ("C", "0A000"), ("M", "function pg_sluice.refuse"))
_OWN = (
    "PL/pgSQL function pg_sluice.refuse(text) line 3 at RAISE\n"
    "SQL statement \"SELECT pg_sluice.refuse(format('column \"%s\"', n),\n  'SQL')\"\n"
    "PL/pgSQL function pg_sluice.on_ddl() line 55 at PERFORM"
)
_CLIENTS = 'SQL statement "CREATE TABLE t ()\nINHERITS (s)"\nPL/pgSQL function public.f() line 1 at SQL statement'
# Of this thread; others get the interpreter in between.
_SECONDS_MAX = 0.3
_INNER = "PL/pgSQL function public.g() line 2 at RAISE"


@pytest.mark.parametrize(
    ("context", "left"),
    [
        (None, None),
        (_CLIENTS, _CLIENTS),
        (_OWN, None),
        (f"{_OWN}\n{_CLIENTS}", _CLIENTS),
        (f"{_INNER}\n{_OWN}", _INNER),
        (f"{_CLIENTS}\n{_OWN}\n{_CLIENTS}", f"{_CLIENTS}\n{_CLIENTS}"),
    ],
)
def test_what_is_left(context: str | None, left: str | None) -> None:
    def error(text: str | None) -> bytes:
        return ErrorResponse((*_FIELDS, *([("W", text)] if text else []), ("R", "exec_stmt_raise"))).encode()

    assert without_own_context(Frame(ErrorResponse.type, error(context))).data == error(left)


@pytest.mark.parametrize("filler", ["x", "\n", "\nSQL ", 'SQL statement "', f"\n{_OWN}"])
def test_megabytes_in_a_statement(filler: str) -> None:
    """A statement that PostgreSQL's functions build may have any size, and what it says is not ours."""
    text = filler * (20_000_000 // len(filler))
    context = f'{_INNER}\nSQL statement "SELECT {text}"\nPL/pgSQL function inline_code_block line 1 at EXECUTE'
    error = Frame(ErrorResponse.type, ErrorResponse((*_FIELDS, ("W", f"{_OWN}\n{context}"))).encode())
    began = time.thread_time()
    left = without_own_context(error)
    assert time.thread_time() - began < _SECONDS_MAX
    if _OWN not in filler:
        assert left.data == ErrorResponse((*_FIELDS, ("W", context))).encode()


def test_refusals(gateway: Server, schema: str) -> None:
    """As if PostgreSQL itself refused what the client or its function does."""
    statement = f"CREATE TABLE {schema}.child () INHERITS ({schema}.parent)"
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {schema}.parent (n integer)".encode())
        for sql, context in (
            (statement, None),
            (
                f"DO $$ BEGIN {statement}; END $$",
                f'SQL statement "{statement}"\nPL/pgSQL function inline_code_block line 1 at SQL statement',
            ),
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="INHERITS is not supported") as raised:
                connection.execute(sql.encode())
            assert raised.value.diag.context == context
