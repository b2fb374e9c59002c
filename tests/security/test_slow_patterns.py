"""No regular expression occupies Spark: Java's search cannot be stopped, and could take years over one text.

PostgreSQL computes what Java would be too slow for.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server

_SECONDS_MAX = 60
_LENGTH = 100_000
_TEXTS = ("a", "<", " ", "ab", "a1", "1", "a b ", '"', "é")
_PATTERNS = (
    ".*.*.*.*.*.*x", "a.*b.*c.*d", "(error|fail).*x", "^.*a.*b$", "[a-z]*1", "a[a-z]*1", "<[^>]*>", "x.*?1", r"\s+$",
    r"^\s*\w+\s*=", r"(\w+)\s(\w+)", "^(.*) (.*)$", "(.*)-(.*)$", "(a|b)*c", '"name":"([^"]*)"', r"(\d+)-(\d+)$",
    "a?b?a?b?c", "a{1,200}b", "[ab]{5,100}c", r"\w+@\w+", "a.b.*c|d.*e", "^a*a*$", "(ab)*c", ".*x.*y$", "(a|ab)(c|bcd)",
    "a+b+c+$", "^[^b]*b[^b]*b", r"\S+\s+\S+",
)  # fmt: skip
_FORMS = ("t ~ '{}'", "regexp_replace(t, '{}', '', 'g')", "substring(t FROM '{}')", "regexp_count(t, '{}')")


@pytest.fixture(scope="module")
def connection(gateway: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE long_texts (id integer, t text)")
        rows = [(number, text * (_LENGTH // len(text)) + " x") for number, text in enumerate(_TEXTS)]
        connection.cursor().executemany("INSERT INTO long_texts VALUES (%s, %s)", rows)
        connection.execute("SET sluice.engine = 'spark'")
        connection.execute(f"SET statement_timeout = '{_SECONDS_MAX}s'")
        yield connection
        connection.execute("DROP TABLE long_texts")


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_each_ends(connection: psycopg.Connection, pattern: str) -> None:
    expressions = ", ".join(f"md5(({form.format(pattern)})::text)" for form in _FORMS)
    found = connection.execute(f"SELECT {expressions} FROM long_texts ORDER BY id".encode()).fetchall()
    # Without a table, PostgreSQL computes.
    texts = ", ".join(
        f"({number}, repeat('{text}', {_LENGTH // len(text)}) || ' x')" for number, text in enumerate(_TEXTS)
    )
    wanted = f"SELECT {expressions} FROM (VALUES {texts}) AS texts (id, t) ORDER BY id"
    assert found == connection.execute(wanted.encode()).fetchall()


def test_spaces_around_numbers(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        connection.execute("SELECT (t || ' y')::integer, (t || ' y')::boolean FROM long_texts WHERE id = 2")
