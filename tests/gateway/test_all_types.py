"""Every type of PostgreSQL, and an array of it, as a column: the list of cases is pg_type."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator
from typing import Any, Final

import asyncpg
import psycopg
import pytest
from psycopg import errors
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

from tests.servers import GatewayProcess, Server
from tests.witness import Witness

pytestmark = pytest.mark.turns

# Two literals of each type; of ranges and of whatever is not here, `_literals` makes them.
_LITERALS: Final = {
    "bool": ("t", "f"),
    "bytea": (r"\x00ff", r"\x"),
    "char": ("a", "b"),
    "bpchar": ("x", ""),
    "name": ("a name", "other"),
    "json": ('{"a": 1}', "2"),
    "jsonb": ('{"a": 1}', "2"),
    "jsonpath": ("$.a[*]", "$.b"),
    "point": ("(1.5,2)", "(0,0)"),
    "lseg": ("[(0,0),(1,1)]", "[(0,0),(2,2)]"),
    "path": ("((0,0),(1,1))", "[(0,0),(1,1)]"),
    "box": ("(2,2),(0,0)", "(1,1),(0,0)"),
    "polygon": ("((0,0),(1,1),(2,0))", "((0,0),(1,1))"),
    "line": ("{1,2,3}", "{1,0,0}"),
    "circle": ("<(1,2),3>", "<(0,0),1>"),
    "macaddr": ("08:00:2b:01:02:03", "00:00:00:00:00:01"),
    "macaddr8": ("08:00:2b:01:02:03:04:05", "00:00:00:00:00:00:00:01"),
    "cidr": ("10.0.0.0/8", "::/0"),
    "inet": ("10.1.2.3/8", "::1"),
    "aclitem": ("sluice=r/sluice", "=w/sluice"),
    "date": ("2024-02-29", "infinity"),
    "time": ("10:00:00.5", "24:00"),
    "timestamp": ("2024-02-29 10:00", "-infinity"),
    "timestamptz": ("2024-02-29 10:00+00", "infinity"),
    "interval": ("1 mon -2 days 03:00", "0"),
    "timetz": ("10:00+02", "11:00-05:30"),
    "bit": ("1", "0"),
    "varbit": ("10101", ""),
    "uuid": ("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"),
    "pg_lsn": ("16/B374D848", "0/0"),
    "tsvector": ("'a':1 'cat':2", "b"),
    "tsquery": ("'a' & 'b'", "'c'"),
    "gtsvector": None,
    "txid_snapshot": ("10:20:10,14", "1:1:"),
    "pg_snapshot": ("10:20:10,14", "1:1:"),
    "tid": ("(1,2)", "(0,1)"),
    "int2vector": ("1 2", ""),
    "oidvector": ("1 2", ""),
    "refcursor": ("a", "b"),
    "regproc": ("now", "version"),
    "regprocedure": ("sum(integer)", "now()"),
    "regoper": ("||/", "|/"),
    "regoperator": ("+(integer,integer)", "*(integer,integer)"),
    "regclass": ("pg_class", "pg_type"),
    "regcollation": ('"C"', '"POSIX"'),
    "regtype": ("integer", "text"),
    "regrole": ("pg_monitor", "pg_read_all_data"),
    "regnamespace": ("pg_catalog", "pg_toast"),
    "regdatabase": ("postgres", "template1"),
    "regconfig": ("simple", "english"),
    "regdictionary": ("simple", "english_stem"),
    "money": ("1.5", "-2"),
}
_BY_CATEGORY: Final = {"N": ("1", "2"), "S": ("some text", "")}
_SUBTYPES: Final = {"int4range": "[1,2)", "int8range": "[3,4)", "numrange": "[1.0,2.50)", "daterange": "[2024-01-01,)",
                    "tsrange": "[2024-01-01 10:00,)", "tstzrange": "[2024-01-01 10:00+00,)"}  # fmt: skip
# What cannot be given as a literal: PostgreSQL makes these itself, and the one that is tested has no libxml.
_WITHOUT_LITERALS: Final = frozenset({
    "gtsvector", "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary", "xml",
})  # fmt: skip
_TYPES: Final = """
SELECT t.typname, t.typcategory, t.typarray::regtype::text, format_type(t.oid, -1), t.typsend <> 0
FROM pg_type t
WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'r', 'm') AND t.typcategory <> 'A'
    OR t.typname IN ('int2vector', 'oidvector')
ORDER BY t.typname
"""


def _literals(name: str, category: str) -> tuple[str, str]:
    if name in _SUBTYPES:
        return _SUBTYPES[name], "empty"
    if name.endswith("multirange"):
        subtype = name.replace("multirange", "range")
        return "{" + _SUBTYPES[{"nummultirange": "numrange"}.get(name, subtype)] + "}", "{}"
    found = _LITERALS.get(name) or _BY_CATEGORY.get(category)
    return found or ("1", "2")


@pytest.fixture(scope="module")
def types(oracle: Server) -> Iterator[list[tuple[str, str, str, str, bool]]]:
    with psycopg.connect(oracle.url, autocommit=True) as connection:
        yield [row for row in connection.execute(_TYPES) if row[0] not in _WITHOUT_LITERALS]


def _told(server: Server, schema: str, types: list[tuple[str, str, str, str, bool]]) -> list[object]:
    """What becomes of a value of each type, alone and in an array."""
    told: list[object] = []
    with psycopg.connect(server.url, autocommit=True, options=f"-c search_path={schema},public") as connection:
        for name, category, array, sql_name, has_binary in types:
            one, two = _literals(name, category)
            connection.execute(f"CREATE TABLE kept (id integer PRIMARY KEY, v {sql_name}, vs {array})")
            put = f"INSERT INTO kept VALUES (%s, %s::text::{sql_name}, ARRAY[%s::text::{sql_name}, NULL])"
            values = [(1, one, two), (2, two, one), (3, None, one)]
            try:
                for row in values:
                    connection.execute(put, row)
            except psycopg.Error:  # no cast from text
                for number, *pair in values:
                    texts = [None if text is None else text.replace("'", "''") for text in pair]
                    literals = ["NULL" if text is None else f"'{text}'::{sql_name}" for text in texts]
                    connection.execute(
                        f"INSERT INTO kept VALUES ({number}, {literals[0]}, ARRAY[{literals[1]}, NULL])"
                        " ON CONFLICT DO NOTHING"
                    )
            connection.execute("UPDATE kept SET v = (SELECT v FROM kept WHERE id = 2) WHERE id = 1")
            connection.execute("UPDATE kept SET id = 4, vs = vs || v WHERE id = 2")
            connection.execute("DELETE FROM kept WHERE v IS NULL")
            told += [name, connection.execute("SELECT id, v IS NULL FROM kept ORDER BY id").fetchall()]
            found = connection.pgconn.exec_(b"SELECT v, vs FROM kept ORDER BY id")
            told.append([[found.get_value(row, place) for place in range(2)] for row in range(found.ntuples)])
            told.append([found.ftype(0), found.ftype(1), found.fmod(0)])
            if has_binary:
                raw = connection.pgconn.exec_params(b"SELECT v, vs FROM kept ORDER BY id", [], result_format=1)
                told.append([[raw.get_value(row, place) for place in range(2)] for row in range(raw.ntuples)])
                told.append(raw.error_message)
            connection.execute("DROP TABLE kept")
    return told


def test_every_type(oracle: Server, gateway: Server, schema: str, types: list[tuple[str, str, str, str, bool]]) -> None:
    with psycopg.connect(oracle.url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
        wanted = _told(oracle, schema, types)
        connection.execute(f'DROP SCHEMA "{schema}"'.encode())
    assert len(types) > 60
    assert _told(gateway, schema, types) == wanted


_CREATE: Final = """
CREATE TYPE address AS (street text, zip integer);
CREATE TABLE kept (id integer PRIMARY KEY, r int4range, m int8multirange, i inet, a address, many address[], t timetz);
"""
_CLEAN: Final = "DROP TABLE kept; DROP TYPE address"


def _by_psycopg(server: Server, schema: str) -> list[object]:
    with psycopg.connect(server.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute(_CREATE)
        cursor = connection.cursor(binary=True)
        cursor.execute(
            "INSERT INTO kept (id, r, m, i) VALUES (%b, %b, %b, %b)",
            (1, Range(1, 5), Multirange([Range(1, 2), Range(7, None)]), ipaddress.ip_interface("10.0.0.1/8")),
        )
        with cursor.copy("COPY kept (id, r, i) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "int4range", "inet"])
            copy.write_row((2, Range(empty=True), ipaddress.ip_address("::1")))
        with cursor.copy("COPY (SELECT * FROM kept ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
            copied = b"".join(bytes(part) for part in copy)
        found: list[object] = [copied, *cursor.execute("SELECT id, r, m, i FROM kept ORDER BY id").fetchall()]
        found += cursor.execute("SELECT id FROM kept WHERE r && %b", (Range(2, 3),)).fetchall()
        found += cursor.execute("SELECT id FROM kept WHERE i = %b", (ipaddress.ip_address("::1"),)).fetchall()
        connection.execute(_CLEAN)
        return found


async def _by_asyncpg(server: Server, schema: str) -> list[Any]:
    connection = await asyncpg.connect(server.url, server_settings={"search_path": schema})
    try:
        await connection.execute(_CREATE)
        await connection.execute(
            "INSERT INTO kept VALUES ($1, $2, $3, $4, $5, $6)",
            *(1, asyncpg.Range(1, 5), [asyncpg.Range(1, 2)], "10.0.0.1", ("x", 5), [("y", 6), None]),
        )
        await connection.copy_records_to_table("kept", records=[(2, asyncpg.Range(3, 4))], columns=["id", "r"])
        found = [tuple(row) for row in await connection.fetch("SELECT * FROM kept ORDER BY id")]
        found += [tuple(row) for row in await connection.fetch("SELECT id FROM kept WHERE a = $1::address", ("x", 5))]
        async with connection.transaction():
            found += [tuple(row) async for row in connection.cursor("SELECT id, r, a FROM kept ORDER BY id")]
        await connection.execute(_CLEAN)
        return found
    finally:
        await connection.close()


def test_drivers_decode_values(oracle: Server, gateway: Server, schema: str) -> None:
    with psycopg.connect(oracle.url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
        wanted = [_by_psycopg(oracle, schema), asyncio.run(_by_asyncpg(oracle, schema))]
        connection.execute(f'DROP SCHEMA "{schema}"'.encode())
    assert [_by_psycopg(gateway, schema), asyncio.run(_by_asyncpg(gateway, schema))] == wanted


def test_others_read_texts(gateway: Server, gateway_process: GatewayProcess, schema: str) -> None:
    witness = Witness(gateway_process.data_dir)
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute(_CREATE)
        connection.execute("SET intervalstyle = iso_8601")
        connection.execute("INSERT INTO kept VALUES (1, '[1,4]', NULL, '::1', '(x,1)', '{}', '10:00+02')")
        found = witness.table(f"{schema}.kept", witness.snapshot())
        assert found == [(1, "[1,5)", None, "::1", "(x,1)", "{}", "10:00:00+02")]
    witness.close()


def test_files_are_read_beyond_the_limit(gateway: Server, schema: str) -> None:
    """Columns of such types are given out by Spark; what computes with them needs copies."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute(_CREATE)
        connection.execute("INSERT INTO kept (id, r) SELECT g, int4range(g, g + 1) FROM generate_series(1, 50000) g")
        connection.execute("SET sluice.load_limit = '1kB'")
        found = connection.execute("SELECT r, id FROM kept WHERE id % 2 = 0 ORDER BY id").fetchall()
        assert len(found) == 25_000
        assert found[-1] == (Range(50_000, 50_001), 50_000)
        grouped = connection.execute("SELECT r, count(*) FROM kept GROUP BY r").fetchall()
        assert len(grouped) == 50_000
        with connection.cursor().copy("COPY kept (r) TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 50_000
        with pytest.raises(errors.FeatureNotSupported, match="on lake tables") as refused:
            connection.execute("SELECT id FROM kept WHERE r && '[5,7)'")
        assert "sluice.load_limit" in (refused.value.diag.message_hint or "")


def test_changes_of_types_in_texts(gateway: Server, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        connection.execute("CREATE TYPE felt AS (m mood, at date)")
        connection.execute("CREATE TABLE day (f felt)")
        connection.execute("INSERT INTO day VALUES ('(ok,2026-11-27)')")
        connection.execute("ALTER TYPE felt ADD ATTRIBUTE x integer")
        connection.execute("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'")
        assert connection.execute("SELECT f::text FROM day").fetchall() == [("(fine,2026-11-27,)",)]
        with pytest.raises(errors.FeatureNotSupported, match="rows of a relation"):
            connection.execute("CREATE TABLE other (d day)")
        connection.execute("ALTER TYPE mood ADD VALUE 'new'")
        connection.execute("INSERT INTO day VALUES ('(new,,7)')")
        assert connection.execute("SELECT (f).m, (f).x FROM day").fetchall() == [("fine", None), ("new", 7)]


def test_reading_runs_no_code_of_others(gateway: Server, schema: str) -> None:
    """A domain inside of a composite type has a CHECK, which PostgreSQL has rows keep when they are written alone."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute(
            "CREATE FUNCTION told(integer) RETURNS boolean LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE NOTICE 'told by %', current_user; RETURN true; END $$"
        )
        connection.execute("CREATE DOMAIN small AS integer CHECK (told(VALUE))")
        connection.execute("CREATE TYPE pair AS (a small, b integer)")
        connection.execute("CREATE TABLE kept (id integer, p pair)")
        connection.execute("INSERT INTO kept VALUES (1, '(1,2)')")
        connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO PUBLIC; GRANT SELECT ON kept TO PUBLIC'.encode())
        connection.execute("CREATE ROLE reader_of_checks; GRANT reader_of_checks TO CURRENT_USER")
        connection.execute("SET ROLE reader_of_checks")
        notices: list[str | None] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        found = connection.execute("SELECT p FROM kept").fetchall()
        assert [str(each) for each in found] == ["('(1,2)',)"]
        assert not any("reader_of_checks" in (notice or "") for notice in notices)
        connection.execute("RESET ROLE")
        connection.execute("DROP TABLE kept; DROP TYPE pair; DROP DOMAIN small; DROP ROLE reader_of_checks")
