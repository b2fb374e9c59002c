"""Clients in other encodings than UTF-8: PostgreSQL and the gateway get the same bytes, and return the same bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from gateway.wire.messages import backend, frontend
from gateway.wire.messages.backend import DataRow
from gateway.wire.messages.copy import CopyData, CopyDone, CopyFail
from gateway.wire.messages.layout import Message
from tests.gateway.wire import assert_same_answers, wire
from tests.servers import Server

Asked = Sequence[Message]

_TABLE: Final = "CREATE TABLE t (id int PRIMARY KEY, s text, v varchar(3), c char(4), j jsonb, a text[], b bytea)"
_LATIN: Final = "SET client_encoding = 'LATIN1'"
# A character that LATIN1 lacks.
_FOREIGN: Final = r"U&'\0416'"


@pytest.fixture(scope="module")
def both(oracle: Server, gateway: Server) -> tuple[Server, Server]:
    return oracle, gateway


def as_held(text: str | bytes, encoding: str) -> str:
    """A text of another encoding, as messages hold it."""
    raw = text.encode(encoding) if isinstance(text, str) else text
    return raw.decode("utf-8", "surrogateescape")


def asked(sql: str | bytes, encoding: str = "latin-1") -> Asked:
    return (frontend.Query(as_held(sql, encoding)),)


def bound(
    sql: str | bytes,
    *values: str | bytes | None,
    encoding: str = "latin-1",
    binary: bool = False,
    results: int = 0,
    name: str = "",
) -> Asked:
    """A statement of the extended protocol; with `binary`, parameters are in binary format."""
    given = tuple(value.encode(encoding) if isinstance(value, str) else value for value in values)
    held = as_held(name, encoding)
    return (
        frontend.Parse(held, as_held(sql, encoding)),
        frontend.Describe(b"S", held),
        frontend.Bind(held, held, (int(binary),), given, (results,)),
        frontend.Describe(b"P", held),
        frontend.Execute(held),
        frontend.Sync(),
    )


def loaded(sql: str, data: bytes) -> Asked:
    return (*asked(sql), CopyData(data), CopyDone())


def compare(both: tuple[Server, Server], statements: Sequence[Asked | str]) -> None:
    """In a schema of its own, with a table `t`, a client that begins in UTF-8."""
    begin = ["CREATE SCHEMA encodings", "SET search_path = encodings", _TABLE]
    end = ["SET client_min_messages = warning", "ROLLBACK", "DROP SCHEMA encodings CASCADE"]
    script = [asked(each) if isinstance(each, str) else each for each in (*begin, *statements, *end)]
    assert_same_answers(both, script)


def integer(number: int) -> bytes:
    return struct.pack("!i", number)


def text_array(*values: bytes) -> bytes:
    head = struct.pack("!iiIii", 1, 0, 25, len(values), 1)
    return head + b"".join(integer(len(value)) + value for value in values)


def copied(*rows: Sequence[bytes | None]) -> bytes:
    """The data of a COPY in binary."""
    parts = [b"PGCOPY\n\xff\r\n\0" + bytes(8)]
    for row in rows:
        parts.append(struct.pack("!h", len(row)))
        parts += [integer(-1) if value is None else integer(len(value)) + value for value in row]
    return b"".join((*parts, b"\xff\xff"))


def test_statements_and_rows(both: tuple[Server, Server]) -> None:
    compare(both, [
        _LATIN,
        "INSERT INTO t VALUES (1, 'é', 'öä', 'ü', '{\"k\": \"ß\"}', ARRAY['à', 'b'], 'é')",
        "SELECT * FROM t",
        "SELECT s AS \"é\", length(s), octet_length(s) FROM t WHERE s = 'é'",
        "UPDATE t SET s = s || 'è' WHERE s = 'é' RETURNING *",
        "INSERT INTO t VALUES (2, 'ab') ON CONFLICT (id) DO UPDATE SET s = 'no'",
        "INSERT INTO t VALUES (2, 'ab') ON CONFLICT (id) DO UPDATE SET s = 'ñ' RETURNING s, a",
        ("MERGE INTO t USING (VALUES (5, 'ç')) AS n (id, s) ON t.id = n.id"
        " WHEN NOT MATCHED THEN INSERT (id, s) VALUES (n.id, n.s)"),
        "WITH x AS (INSERT INTO t VALUES (7, 'û') RETURNING s) SELECT s || 'î' FROM x",
        "SELECT row_to_json(t) FROM t ORDER BY id",
        "SELECT 'a'; SELECT s FROM t WHERE s = 'ç'; SELECT 'é'",
        "CREATE TABLE \"ü\" AS SELECT s, 'ï' AS \"ô\" FROM t",
        "ALTER TABLE \"ü\" ADD COLUMN x text DEFAULT 'å'",
        "SELECT * FROM \"ü\" ORDER BY 1",
        "CREATE VIEW \"vé\" AS SELECT 'é' AS \"è\", \"ô\" FROM \"ü\"",
        "SELECT * FROM \"vé\"",
        "PREPARE \"pé\" (text) AS SELECT s FROM t WHERE s = $1",
        "EXECUTE \"pé\" ('ç')",
        "CREATE TEMP TABLE \"tmp é\" AS SELECT s FROM t WHERE id < 6",
        "SELECT * FROM \"tmp é\" ORDER BY 1",
        "DELETE FROM t WHERE s = 'éè' RETURNING s",
        "VACUUM \"ü\"",
        "SET client_encoding = 'UTF8'",
        "SELECT * FROM t ORDER BY id",
    ])  # fmt: skip


def test_errors_and_notices(both: tuple[Server, Server]) -> None:
    compare(both, [
        _LATIN,
        "CREATE TABLE \"é\" (\"ö\" int PRIMARY KEY, b text NOT NULL, CONSTRAINT \"ü\" CHECK (b <> 'ä'))",
        "CREATE TABLE IF NOT EXISTS \"é\" (x int)",
        "INSERT INTO \"é\" VALUES (1, 'ä')", "INSERT INTO \"é\" VALUES (1, 'x'), (1, 'y')",
        "INSERT INTO \"é\" VALUES (1, NULL)", "INSERT INTO t (id, v) VALUES (2, 'äöüß')",
        "INSERT INTO \"é\" VALUES (1, 'ö')",
        "CREATE TABLE r (x int REFERENCES \"é\")", "INSERT INTO r VALUES (5)",
        "SELECT s::int FROM t", "SELECT b::int FROM \"é\"", "SELECT 'é'::int FROM t", "SELECT x FROM \"è\"",
        "SELECT \"è\" FROM t", "SELECT 1; SELECT é é é", "SELECT s FROM t; SELECT \"è\" FROM t",
        "DO $$ BEGIN RAISE NOTICE 'é'; END $$",
        ("CREATE FUNCTION fé() RETURNS text LANGUAGE plpgsql STABLE AS"
        " $$ BEGIN RAISE NOTICE 'in é'; RETURN 'ö'; END $$"),
        "SELECT fé(), b FROM \"é\"",
        f"CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN RAISE NOTICE {_FOREIGN}; END $$",
        "SELECT f(), b FROM \"é\"",
        f"DO $$ BEGIN RAISE EXCEPTION {_FOREIGN}; END $$",
        r'CREATE TABLE U&"\0416" (x int CHECK (x > 0))',
        r'INSERT INTO U&"\0416" VALUES (0)',
        r'SELECT x FROM U&"\0416"',
        r'SELECT x AS U&"\0416" FROM U&"\0416"',
    ])  # fmt: skip


def test_the_extended_protocol(both: tuple[Server, Server]) -> None:
    everything = "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7)"
    values = (integer(2), "é", "öä", "ü", '\x01{"ß": "ç"}', text_array(b"\xe0", b"b c"), b"\xe9\xff")
    compare(both, [
        _LATIN,
        bound(everything, "1", "é", "öä", "ü", '{"ß": "ç"}', '{à,"b c",NULL}', b"\\xe9ff"),
        bound(everything, *values, binary=True),
        bound("SELECT * FROM t ORDER BY id"),
        bound("SELECT * FROM t ORDER BY id", results=1),
        bound('SELECT s AS "é" FROM t WHERE s = $1 AND a = $2', "é", values[5], binary=True, name="ñ"),
        bound("SELECT s FROM t WHERE s = $1", "é", name="ñ"),
        bound("SELECT id FROM t WHERE id = $1", "é"),
        (frontend.Describe(b"S", as_held("ö", "latin-1")), frontend.Sync()),
        (frontend.Execute(as_held("ö", "latin-1")), frontend.Sync()),
        bound("UPDATE t SET s = $1 WHERE id = 1 RETURNING s, a", "å", results=1),
        bound("INSERT INTO t (id, s) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET s = excluded.s RETURNING s", "æ"),
        bound("WITH x AS (UPDATE t SET s = s || $1 WHERE id = 1 RETURNING s) SELECT s || $1 FROM x", "þ", results=1),
        bound("SELECT row_to_json(t) FROM t WHERE s = $1", "é"),
        bound("SELECT jsonb_path_query(j, '$.*'), array_agg(s) FROM t WHERE s = $1 GROUP BY 1", "é", results=1),
        (
            frontend.Parse("p", "SELECT s FROM t ORDER BY id"), frontend.Bind("p", "p"),
            frontend.Execute("p", 1), frontend.Execute("p", 1), frontend.Sync(),
        ),
        f"INSERT INTO t (id, s) VALUES (10, {_FOREIGN})",
        bound("SELECT s FROM t ORDER BY id"),
        bound("SELECT s FROM t ORDER BY id", results=1),
        bound("SELECT array_agg(s) FROM t", results=1),
        "BEGIN",
        bound('SELECT s AS "é" FROM t WHERE id = $1', "1", name="ê"),
        "ROLLBACK",
    ])  # fmt: skip


def test_settings_and_transactions(both: tuple[Server, Server]) -> None:
    known, foreign = "SELECT s FROM t WHERE id = 1", "SELECT s FROM t WHERE id = 2"
    compare(both, [
        asked(f"INSERT INTO t (id, s) VALUES (1, 'é'), (2, {_FOREIGN})", "utf-8"),
        "SET NAMES 'latin1'", "SHOW client_encoding", known, foreign,
        "BEGIN", known, "SAVEPOINT \"é\"", foreign, "SELECT 1", "ROLLBACK TO \"é\"", known, "COMMIT",
        "BEGIN", known, foreign, asked(b"ROLLBACK -- \xe9"),
        "BEGIN", "SET client_encoding = UTF8", foreign, "SAVEPOINT a", "SET LOCAL client_encoding = WIN1251", foreign,
        "SHOW client_encoding", "ROLLBACK TO a", foreign, "ROLLBACK", "SHOW client_encoding", known,
        "BEGIN", "SET LOCAL client_encoding = UTF8", foreign, "COMMIT", known,
        "BEGIN", known, "SET client_encoding = UTF8", foreign, "COMMIT", foreign,
        "SELECT set_config('client_encoding', 'KOI8R', false)", foreign,
        bound("SELECT id FROM t WHERE s = $1", "Ж", encoding="koi8-r"),
        "SELECT 'a'; SELECT s FROM t WHERE id = 2; SET client_encoding = 'WIN1251'", foreign,
        "BEGIN ISOLATION LEVEL REPEATABLE READ", foreign, "UPDATE t SET s = s || s WHERE id = 2", foreign, "COMMIT",
        "RESET client_encoding", foreign,
        "SET NAMES MULE_INTERNAL", "SET NAMES 'nonsense'",
        "SET client_encoding = 'UNICODE'", "SHOW client_encoding", foreign,
        "SET client_encoding = 'SQL_ASCII'", foreign, asked(b"SELECT s FROM t WHERE s = '\xe9'"),
        "SET client_encoding = 'WIN1252'", asked(b"INSERT INTO t (id, s) VALUES (3, '\x81')"),
        asked(b"INSERT INTO t (id, s) VALUES (3, '\x80') RETURNING s, octet_length(s)"),
        bound(b"SELECT $1 || s FROM t WHERE id = 1", b"\x81"),
        bound(b"SELECT $1 || s FROM t WHERE id = 1", b"\x81", binary=True),
        "DISCARD ALL", "SHOW client_encoding", "SET search_path = encodings",
    ])  # fmt: skip


@pytest.mark.turns
@pytest.mark.parametrize(
    ("encoding", "name"), [("euc_jp", "EUC_JP"), ("cp932", "SJIS"), ("gb18030", "GB18030"), ("gbk", "GBK")]
)
def test_characters_of_several_bytes(both: tuple[Server, Server], encoding: str, name: str) -> None:
    """In some of these, bytes of a character are those of a backslash or a quotation mark in ASCII."""
    compare(both, [
        f"SET client_encoding = '{name}'",
        asked("INSERT INTO t (id, s) VALUES (1, '日本表十\\n'), (2, '能' || E'\\n' || 'x')", encoding),
        asked("SELECT s, array[s] AS \"表\" FROM t ORDER BY 1", encoding),
        asked("SELECT s FROM t WHERE s LIKE '日本%'", encoding),
        bound("SELECT s, s || $1 FROM t ORDER BY 1", "表", encoding=encoding, results=1),
        loaded("COPY t (id, s) FROM STDIN (FORMAT csv)", "3,\"表\"\n4,十\n".encode(encoding)),
        "COPY (SELECT s FROM t ORDER BY id) TO STDOUT",
        asked(b"SELECT s FROM t WHERE s = '\xb0'"), asked(b"SELECT s FROM t WHERE s = '\x8f'"),
        bound("SELECT s FROM t WHERE s = $1", b"\xb0"), bound("SELECT s FROM t WHERE s = $1", b"a\n\x81"),
        "SET client_encoding = 'UTF8'",
        "SELECT id, s FROM t ORDER BY id",
    ])  # fmt: skip


_WRONG: Final = (b"\xe9", b"\xe9\xa4", b"\xf0\x28", b"\xed\xa0\x80", b"\xc0\x80", b"\xff")
_INVALID: Final[list[Asked]] = [
    *(asked(b"SELECT s FROM t WHERE s = '" + text + b"'") for text in _WRONG),
    asked(b"SELECT 1; SELECT '\xff'"),
    *(asked(f"SELECT s FROM t WHERE s = {text}") for text in (r"E'\xe9'", r"E'\u0000'", "chr(0)")),
    bound(b"SELECT s FROM t WHERE s = '\xe9'"),
    *(
        bound(sql, value, binary=binary)
        for sql in ("SELECT s FROM t WHERE s = $1", "INSERT INTO t (id, s) VALUES (1, $1)")
        for value in (b"\xff\xff", b"a\0")
        for binary in (False, True)
    ),
    bound("INSERT INTO t (id, a) VALUES (1, $1)", text_array(b"\xff\xff"), binary=True),
    bound("INSERT INTO t (id, j) VALUES (1, $1)", '{"a": "\\u0000"}'),
    (frontend.Parse(as_held(b"\xe9\xff", ""), "SELECT s FROM t"), frontend.Sync()),
    (frontend.Bind(as_held(b"\xe9\xff", ""), ""), frontend.Sync()),
    (frontend.Describe(b"S", as_held(b"\xe9\xff", "")), frontend.Sync()),
    (frontend.Execute(as_held(b"\xe9\xff", "")), frontend.Sync()),
    (frontend.Close(b"S", as_held(b"\xe9\xff", "")), frontend.Sync()),
    loaded("COPY t (id, s) FROM STDIN (FORMAT binary)", copied((integer(1), b"a\0"))),
    loaded("COPY t (id, s) FROM STDIN (FORMAT binary)", copied((integer(1), b"\xff\xff"))),
    asked("BEGIN"), *2 * [asked(b"SELECT s FROM t WHERE s = '\xff\xff'")], asked("ROLLBACK"),
]  # fmt: skip


@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII", "EUC_JP", "LATIN1"])
def test_what_is_no_text(both: tuple[Server, Server], encoding: str) -> None:
    # In SQL_ASCII, PostgreSQL takes any bytes of a COPY for texts.
    texts = [] if encoding == "SQL_ASCII" else [b"1\ta\n2\t\xff\xff\n", b"1\ta\n2\tb\0c\n"]
    copy = [loaded("COPY t (id, s) FROM STDIN", text) for text in texts]
    compare(both, [f"SET client_encoding = '{encoding}'", *_INVALID, *copy, "SELECT * FROM t"])


def test_copy(both: tuple[Server, Server]) -> None:
    columns = "id, s, a, j, v"
    texts = (b"\xe9", text_array(b"\xe0"), b'\x01{"\xe9": 1}', b"\xfc")
    compare(both, [
        _LATIN,
        loaded(f"COPY t ({columns}) FROM STDIN", '1\té\t{à,b}\t{"ß": 1}\tü\n2\tö\t\\N\t\\N\täöü\n'.encode("latin-1")),
        loaded(f"COPY t ({columns}) FROM STDIN", "3\té\t\\N\t\\N\täöüß\n".encode("latin-1")),
        loaded("COPY t (id) FROM STDIN", b"\xe9\n"),
        loaded("COPY t (id, s) FROM STDIN (FORMAT csv, QUOTE '''', NULL 'ñ')", "4,'é,è'\n5,ñ\n".encode("latin-1")),
        loaded("COPY t (id, s) FROM STDIN WHERE s <> 'é'", b"6\t\xe9\n7\t\xe8\n"),
        loaded("COPY t (id, s) FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose)", b"\xe9\t\xe9\n8\t\xe8\n"),
        loaded(f"COPY t ({columns}) FROM STDIN (FORMAT binary)", copied((integer(20), *texts))),
        loaded("COPY t (id, s) FROM STDIN (FORMAT binary)", copied((integer(21), b"plain"))),
        (*asked("COPY t FROM STDIN"), CopyFail(as_held("é", "latin-1"))),
        "COPY (SELECT * FROM t ORDER BY id) TO STDOUT",
        "COPY (SELECT s AS \"é\" FROM t ORDER BY id) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *)",
        "COPY (SELECT s, a, j, v, id FROM t ORDER BY id) TO STDOUT (FORMAT binary)",
        "COPY (SELECT s FROM t WHERE false) TO STDOUT (FORMAT binary)",
        "COPY (SELECT s FROM t ORDER BY id) TO STDOUT (ENCODING 'UTF8')",
        "COPY (SELECT row_to_json(t), s FROM t ORDER BY id) TO STDOUT",
        "COPY (SELECT row_to_json(t), s FROM t ORDER BY id) TO STDOUT (ENCODING 'UTF8')",
        "COPY (SELECT row_to_json(t), s FROM t ORDER BY id) TO STDOUT (FORMAT binary)",
        f"INSERT INTO t (id, s) VALUES (30, {_FOREIGN})",
        "COPY (SELECT s FROM t ORDER BY id) TO STDOUT",
        "COPY (SELECT s FROM t ORDER BY id) TO STDOUT (FORMAT binary)",
        "COPY (SELECT row_to_json(t), s FROM t ORDER BY id) TO STDOUT",
        "COPY (SELECT s FROM t WHERE id = 30) TO STDOUT (ENCODING 'KOI8R')",
    ])  # fmt: skip


def test_many_rows_up_to_one_that_cannot_be_said(both: tuple[Server, Server]) -> None:
    computed = "SELECT id, row_to_json(t) FROM t ORDER BY id"
    portions = tuple(frontend.Execute("", limit) for limit in (100, 100, 500))
    compare(both, [
        asked("INSERT INTO t (id, s) SELECT n, 'é' || n || E'\\n' || 'ü' FROM generate_series(1, 20000) n", "utf-8"),
        _LATIN,
        "SELECT id, s FROM t ORDER BY id", bound("SELECT s, id FROM t ORDER BY id", results=1), computed,
        f"UPDATE t SET s = {_FOREIGN} WHERE id = 19700",
        "SELECT id, s FROM t ORDER BY id", bound("SELECT s, id FROM t ORDER BY id", results=1), computed, "SELECT 1",
        "BEGIN", computed, "SELECT 1", "ROLLBACK",
        "BEGIN", "DECLARE c CURSOR FOR SELECT id, s FROM t ORDER BY id", "FETCH 1000 FROM c", "FETCH ALL FROM c",
        "SELECT 1", "ROLLBACK",
        *(
            (frontend.Parse("", sql), frontend.Bind("", ""), *portions, frontend.Sync())
            for sql in ("SELECT id, s FROM t WHERE id > 19400 ORDER BY id", computed)
        ),
    ])  # fmt: skip


_NAMES = st.sampled_from(["UTF8", "LATIN1", "WIN1252", "EUC_JP", "SJIS", "GB18030", "UHC", "SQL_ASCII"])
_BYTES = st.binary(min_size=1, max_size=12)


@pytest.fixture(scope="module")
def any_texts(both: tuple[Server, Server]) -> Iterator[tuple[Server, Server]]:
    """Both, with a table of texts."""
    for server in both:
        server.psql("-qc", "CREATE TABLE any_texts (s text)")
    yield both
    for server in both:
        server.psql("-qc", "DROP TABLE any_texts")


@settings(max_examples=25)
@given(_NAMES, _BYTES.filter(lambda text: not {0, *b"'\\"} & {*text}), _BYTES, st.booleans())
def test_any_bytes(any_texts: tuple[Server, Server], name: str, literal: bytes, value: bytes, binary: bool) -> None:
    assert_same_answers(any_texts, [
        asked(f"SET client_encoding = '{name}'"),
        asked(b"INSERT INTO any_texts VALUES ('" + literal + b"') RETURNING s"),
        bound("INSERT INTO any_texts VALUES ($1) RETURNING s", value, binary=binary),
        asked("SELECT s, s::bytea FROM any_texts ORDER BY s"),
        asked("DELETE FROM any_texts"),
    ])  # fmt: skip


@pytest.mark.turns
@pytest.mark.parametrize("name", ["latin1", "utf8", "UNICODE", "EUC_JP", "sql_ascii", "win1252"])
def test_an_encoding_from_the_start(both: tuple[Server, Server], name: str) -> None:
    answers = []
    for server in both:
        server.psql("-qc", "CREATE TABLE started AS SELECT U&'\\00e9' AS s")
        with wire(server, client_encoding=name) as connection:
            statements = (
                "SHOW client_encoding",
                "SELECT s FROM started",
                b"SELECT '\xe9' || s FROM started",
                "RESET ALL",
            )
            answers.append([connection.ask(*asked(each)) for each in statements])
        server.psql("-qc", "DROP TABLE started")
    assert answers[0] == answers[1]


def test_an_encoding_of_a_role(gateway: Server, schema: str) -> None:
    gateway.psql("-qc", f"CREATE TABLE {schema}.t AS SELECT U&'\\00e9' AS s")
    gateway.psql("-qc", f"ALTER ROLE {gateway.user} SET client_encoding = 'LATIN1'")
    try:
        with wire(gateway) as connection:
            [_, row, *_] = connection.query(f"SELECT s FROM {schema}.t")
            assert row == DataRow((b"\xe9",))
            [_, row, *_] = connection.query("SHOW client_encoding")
            assert row == DataRow((b"LATIN1",))
    finally:
        gateway.psql("-qc", f"ALTER ROLE {gateway.user} RESET client_encoding")


def test_psql(oracle: Server, gateway: Server) -> None:
    """Its output is in ASCII but for what is in hexadecimal; `\\encoding` and `\\d` are its own questions."""
    script = """
        \\encoding LATIN1
        CREATE TABLE psql_encoding (id int, s text);
        INSERT INTO psql_encoding VALUES (1, 'a' || chr(233));
        \\d psql_encoding
        SELECT id, s::bytea, length(s) FROM psql_encoding;
        \\encoding
        \\encoding UTF8
        SELECT id, s, length(s) FROM psql_encoding;
        DROP TABLE psql_encoding;
    """
    printed = [server.psql("--echo-all", sql=script, merge_output=True).stdout for server in (oracle, gateway)]
    assert printed[0] == printed[1]


@pytest.mark.turns
@pytest.mark.parametrize("binary", [False, True])
def test_psycopg(target: Server, target_schema: str, binary: bool) -> None:
    connection = psycopg.connect(target.url, client_encoding="latin1", options=f"-csearch_path={target_schema}")
    with connection, connection.cursor(binary=binary) as cursor:
        cursor.execute("CREATE TABLE t (id int, s text, j jsonb, a text[])")
        row = (1, "é", {"u": "s"}, ["à", "b"])  # psycopg takes json for UTF-8 whatever the encoding is
        cursor.execute("INSERT INTO t VALUES (%s, %b, %s, %s)", (1, "é", Jsonb(row[2]), row[3]))
        with cursor.copy("COPY t (id, s) FROM STDIN") as copy:
            copy.write_row((2, "ö"))
        assert cursor.execute("SELECT * FROM t WHERE s = %s", ("é",)).fetchone() == row
        with cursor.copy("COPY (SELECT s FROM t ORDER BY id) TO STDOUT") as copy:
            assert [each for (each,) in copy.rows()] == ["é", "ö"]


@pytest.mark.parametrize(
    "asking",
    ["current_setting('client_encoding')", "pg_client_encoding()", "(SELECT setting FROM pg_settings LIMIT 1)"],
)
def test_beside_lake_tables_nobody_asks_for_the_encoding(gateway: Server, schema: str, asking: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
        connection.execute("SET client_encoding = 'LATIN1'")
        connection.execute("SELECT current_setting('TimeZone') FROM t")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="while client_encoding is LATIN1"):
            connection.execute(f"SELECT {asking} FROM t".encode())


def test_an_encoding_that_a_pipeline_has_just_set(gateway: Server, schema: str) -> None:
    """It is told at the pipeline's end; so what was read in another is not carried out."""
    with wire(gateway, options=f"-csearch_path={schema}") as connection:
        connection.query("CREATE TABLE t AS SELECT 1 AS id")
        *setting, _ = bound("SET client_encoding = 'LATIN1'")
        answers = connection.ask(*setting, *bound("SELECT id FROM t"))
        [error] = [each for each in answers if isinstance(each, backend.ErrorResponse)]
        assert dict(error.fields)["C"] == "0A000"
        assert connection.query("SHOW client_encoding")[1] == DataRow((b"UTF8",))
