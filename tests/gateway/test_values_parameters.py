"""Bind parameters as text: PostgreSQL reads the same value from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from catalog.datatypes import BY_ARRAY_OID, BY_OID
from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from gateway.values import decode_parameter
from tests.gateway.reference import SAMPLES, array_query, values_query
from tests.gateway.test_values_receive import binaries


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn, autocommit=True, prepare_threshold=None) as opened:
        yield opened


@pytest.mark.parametrize("query", [values_query, array_query], ids=["scalars", "arrays"])
@pytest.mark.parametrize("type_name", sorted(SAMPLES))
def test_binary_becomes_the_text_of_the_same_value(
    connection: psycopg.Connection, query: Callable[[str], str], type_name: str
) -> None:
    type_oid, _, values = binaries(connection, query(type_name))
    values = values[:60]
    kind = (BY_OID.get(type_oid) or BY_ARRAY_OID[type_oid]).name + ("[]" if type_oid in BY_ARRAY_OID else "")
    texts = [decode_parameter(type_oid, 1, value) for value in values]
    with connection.cursor(binary=True) as cursor:
        cursor.execute(
            f"SELECT v::{kind} FROM unnest(%s::text[]) WITH ORDINALITY AS t(v, n) ORDER BY n".encode(), [texts]
        )
        result = cursor.pgresult
        assert result is not None
        assert [result.get_value(row, 0) for row in range(result.ntuples)] == values


def test_text_is_passed_on() -> None:
    assert decode_parameter(1082, 0, b" epoch ") == " epoch "
    assert decode_parameter(999999, 0, "ü".encode()) == "ü"
    assert decode_parameter(23, 0, None) is None
    assert decode_parameter(23, 1, None) is None


@pytest.mark.parametrize(
    ("type_oid", "code", "data", "sqlstate"),
    [
        (23, 1, b"abc", "22P03"),
        (1082, 1, b"", "22P03"),
        (1700, 1, bytes(7), "22P03"),
        (1007, 1, bytes(12), "22P03"),
        (25, 1, b"\xff", "22021"),
        (25, 0, b"\xc3", "22021"),
        (25, 0, b"a\0b", "22021"),
        (3802, 1, b"\x02{}", "XX000"),
        (600, 1, bytes(16), "0A000"),
        (23, 2, bytes(4), "22023"),
    ],
)
def test_what_is_malformed_is_refused(type_oid: int, code: int, data: bytes, sqlstate: str) -> None:
    with pytest.raises(SluiceError) as raised:
        decode_parameter(type_oid, code, data)
    assert raised.value.sqlstate == sqlstate
