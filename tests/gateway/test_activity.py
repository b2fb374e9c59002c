"""pg_stat_activity shows the statements of clients, not those of the gateway at their backends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import psycopg
import pytest

from tests.servers import Server

pytestmark = pytest.mark.turns

_SHOWN = "SELECT state, query, query_start FROM pg_stat_activity WHERE pid = %s"
_TABLE = "CREATE TABLE shown (n integer PRIMARY KEY, t text)"
_TEXTS = (
    "SELECT n, t FROM shown /* one /* in another */ */",
    "SELECT n, '*/' || t AS \"/*\", '/*/**/*' FROM shown -- to the end\n",
    "SELECT count(*), E'\\\\x01', '\x01', '\x01\x02' FROM shown",
    "SELECT 'grüße, 世界' FROM shown",
    "INSERT INTO shown VALUES (1, 'a') ON CONFLICT DO NOTHING",
    "INSERT INTO shown SELECT g, 'b' FROM generate_series(2, 5) g ON CONFLICT (n) DO UPDATE SET t = 'c'",
    "UPDATE shown SET t = upper(t) WHERE n = 1",
    "DELETE FROM shown WHERE n > 100",
    "ALTER TABLE shown ALTER t SET DEFAULT 'x'; SELECT n FROM shown",
    "SELECT 1",
    "MERGE INTO shown USING (VALUES (1), (9)) v (i) ON n = i WHEN MATCHED THEN DELETE",
    "VACUUM shown",
    "TRUNCATE shown",
    "BEGIN",
    "DECLARE c CURSOR FOR SELECT n FROM shown",
    "FETCH 1 FROM c",
    "EXPLAIN SELECT * FROM shown",
    "SELECT 1 / count(*) FROM shown",
    "SELECT n FROM shown",
    "ROLLBACK",
    "SELECT n FROM no_such_table",
)


@pytest.fixture
def shown(target: Server) -> Iterator[Server]:
    target.psql("-qc", _TABLE)
    yield target
    target.psql("-qc", "DROP TABLE shown")


def _row(watch: psycopg.Connection, client: psycopg.Connection) -> tuple[str, str, datetime]:
    row = watch.execute(_SHOWN, (client.info.backend_pid,)).fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize("extended", [False, True])
def test_the_last_statement_of_a_session_is_shown(shown: Server, extended: bool) -> None:
    with (
        psycopg.connect(shown.url, autocommit=True) as client,
        psycopg.connect(shown.url, autocommit=True) as watch,
    ):
        for text in _TEXTS:
            if extended and ";" in text:
                continue
            before = datetime.now().astimezone()
            with suppress(psycopg.Error):
                client.cursor(binary=extended).execute(text.encode())
            state, query, start = _row(watch, client)
            assert query == text
            assert state in ("idle", "idle in transaction", "idle in transaction (aborted)")
            assert abs((start - before).total_seconds()) < 5


def test_prepared_statements_are_shown(shown: Server) -> None:
    with (
        psycopg.connect(shown.url, autocommit=True) as client,
        psycopg.connect(shown.url, autocommit=True) as watch,
    ):
        one, other = "SELECT n, t FROM shown WHERE n = $1", "UPDATE shown SET t = $2 WHERE n = $1"
        client.pgconn.prepare(b"one", one.encode())
        client.pgconn.prepare(b"other", other.encode())
        for _ in range(2):
            client.pgconn.exec_prepared(b"one", [b"1"])
            assert _row(watch, client)[1] == one
            client.pgconn.exec_prepared(b"other", [b"1", b"x"])
            assert _row(watch, client)[1] == other
        client.execute("PREPARE third AS SELECT count(*) FROM shown")
        client.execute("EXECUTE third", prepare=False)
        assert _row(watch, client)[1] == "EXECUTE third"


def test_a_long_text_is_cut(shown: Server) -> None:
    text = f"SELECT n, '{'ü' * 2000}' FROM shown"
    with (
        psycopg.connect(shown.url, autocommit=True) as client,
        psycopg.connect(shown.url, autocommit=True) as watch,
    ):
        client.execute(text.encode())
        query = _row(watch, client)[1]
        assert text.startswith(query)
        assert len(query.encode()) > 930


def test_other_encodings(shown: Server) -> None:
    with (
        psycopg.connect(shown.url, autocommit=True, client_encoding="LATIN1") as client,
        psycopg.connect(shown.url, autocommit=True) as watch,
    ):
        client.execute("SELECT n, '*/' FROM shown WHERE t = 'a'")
        assert _row(watch, client)[1] == "SELECT n, '*/' FROM shown WHERE t = 'a'"
        assert client.execute("SELECT count(*), 'é' FROM shown").fetchone() == (0, "é")


def test_a_running_statement_is_active(shown: Server) -> None:
    text = "SELECT count(*) FROM shown a JOIN shown b ON a.n % 7 <= b.n % 5"
    rows = 4_000 if shown.name == "postgres" else 30_000
    with (
        psycopg.connect(shown.url, autocommit=True) as client,
        psycopg.connect(shown.url, autocommit=True) as watch,
    ):
        client.execute("INSERT INTO shown SELECT g FROM generate_series(1, %s) g", (rows,))
        before = datetime.now().astimezone()
        working = threading.Thread(target=client.execute, args=(text,))
        working.start()
        seen = set()
        while working.is_alive():
            state, query, start = _row(watch, client)
            seen.add((state, query, abs((start - before).total_seconds()) < 0.5))
            time.sleep(0.05)
        working.join()
        assert ("active", text, True) in seen


def test_a_waiting_statement_is_shown(shown: Server) -> None:
    with (
        psycopg.connect(shown.url, autocommit=True) as client,
        psycopg.connect(shown.url) as holder,
        psycopg.connect(shown.url, autocommit=True) as watch,
    ):
        client.execute("INSERT INTO shown VALUES (1, 'a')")
        holder.execute("UPDATE shown SET t = 'b' WHERE n = 1")
        text = "UPDATE shown SET t = 'c' WHERE n = 1"
        working = threading.Thread(target=client.execute, args=(text,))
        working.start()
        time.sleep(1)
        state, query, _ = _row(watch, client)
        holder.commit()
        working.join()
        assert (state, query) == ("active", text)


def test_texts_are_hidden_from_other_roles(shown: Server) -> None:
    """PostgreSQL shows them to the same role and to members of pg_read_all_stats, as the client is."""
    text = "SELECT n, t FROM shown"
    with psycopg.connect(shown.url, autocommit=True) as administrator:
        administrator.execute("CREATE ROLE author LOGIN; CREATE ROLE curious LOGIN; GRANT SELECT ON shown TO author")
        try:
            with (
                psycopg.connect(replace(shown, user="author").url, autocommit=True) as client,
                psycopg.connect(replace(shown, user="author").url, autocommit=True) as same,
                psycopg.connect(replace(shown, user="curious").url, autocommit=True) as other,
            ):
                client.execute(text)
                assert _row(administrator, client)[1] == text
                assert _row(same, client)[1] == text
                assert _row(other, client)[1] == "<insufficient privilege>"
        finally:
            administrator.execute("REVOKE SELECT ON shown FROM author; DROP ROLE author, curious")
