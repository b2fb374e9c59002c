"""The owner of the database sets for it what would stop or mislead gateways that start then."""

from __future__ import annotations

from typing import Final

import psycopg
import pytest

from catalog.postgres.own_settings import SAFE_SETTINGS
from tests.servers import GatewayProcess, Server

# Clients set these back in their own sessions here, where they count as in PostgreSQL.
_OF_CLIENTS: Final = {
    "local_preload_libraries": "no_such_library",
    "search_path": "no_such_schema",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "transaction_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "1ms",
    "exit_on_error": "on",
    "array_nulls": "off",
    "debug_parallel_query": "on",  # a worker of PostgreSQL's has the database's transaction_timeout for a moment
    "default_table_access_method": "no_such_method",
    "default_tablespace": "no_such_tablespace",
}
_HOSTILE: Final = {
    **_OF_CLIENTS,
    "role": "sluice_metadata",
    "session_authorization": "sluice",
    "restrict_nonsystem_relation_kind": "view, foreign-table",
    "row_security": "off",
    "client_min_messages": "error",
    "tcp_user_timeout": "1",
    "temp_tablespaces": "no_such_tablespace",
    "quote_all_identifiers": "on",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
    "bytea_output": "escape",
    "DateStyle": "German, YMD",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Pacific/Apia",
    "extra_float_digits": "-15",
    "vacuum_cost_delay": "100",
    "application_name": "no gateway",
    "jit": "on",
    "client_encoding": "LATIN1",
}
# For these there may be one value only: locales of the machine, and what PostgreSQL was built with.
_NOT_SET: Final = frozenset({"lc_monetary", "lc_numeric", "lc_time", "default_toast_compression"})


def test_all_are_tried() -> None:
    assert set(SAFE_SETTINGS) - set(_HOSTILE) == _NOT_SET


def test_gateways_start(gateway_process: GatewayProcess, gateway: Server, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as owner:
        owner.execute(f"CREATE TABLE {schema}.t (id integer PRIMARY KEY, t text)".encode())
        try:
            for name, value in _HOSTILE.items():
                owner.execute(f"ALTER DATABASE {gateway.database} SET {name} = '{value}'".encode())
            with GatewayProcess(gateway_process.data_dir) as other:
                _use(other.server, schema)
            _use(gateway, schema)
        finally:
            owner.execute(f"ALTER DATABASE {gateway.database} RESET ALL".encode())


def _use(server: Server, schema: str) -> None:
    of_postgresql = {
        name: {"default_table_access_method": "heap", "array_nulls": "on"}.get(name, "0") for name in _OF_CLIENTS
    }
    own = {"local_preload_libraries": "", "search_path": schema, "default_tablespace": "", "TimeZone": "UTC"}
    level = {"default_transaction_isolation": "read\\ committed", "standard_conforming_strings": "on"}
    options = " ".join(f"-c{name}={value}" for name, value in {**of_postgresql, **own, **level}.items())
    with psycopg.connect(server.url, autocommit=True, options=options) as client:
        client.execute("INSERT INTO t SELECT n, 'v' FROM generate_series(1, 10) n")
        client.execute("INSERT INTO t VALUES (11, 'w')")
        client.execute("ALTER TABLE t ADD COLUMN u timestamptz DEFAULT '2026-01-01', ADD CHECK (id < 100)")
        client.execute("CREATE INDEX ON t (t)")
        client.execute("UPDATE t SET t = 'x' WHERE id = 11")
        client.execute("ANALYZE t")
        client.execute("VACUUM t")
        assert client.execute("SELECT count(*), min(u)::text FROM t").fetchall() == [(11, "01.01.2026 00:00:00 UTC")]
        client.execute("ALTER TABLE t DROP COLUMN u")
        client.execute("DELETE FROM t")


@pytest.mark.parametrize("of", ["DATABASE sluice", "ROLE sluice", "ROLE sluice IN DATABASE sluice"])
def test_views_that_may_not_be_read(gateway: Server, schema: str, of: str) -> None:
    """The gateway reads the rows of shadows through them."""
    name = "restrict_nonsystem_relation_kind"
    with psycopg.connect(gateway.url, autocommit=True) as owner:
        owner.execute(f"CREATE TABLE {schema}.t (id integer)".encode())
        owner.execute(f"ALTER {of} SET {name} = view".encode())
        try:
            with psycopg.connect(gateway.url, autocommit=True) as client:
                client.execute(f"INSERT INTO {schema}.t VALUES (1)".encode())
                assert client.execute(f"SHOW {name}".encode()).fetchone() == ("",)
            with psycopg.connect(gateway.url, autocommit=True, options=f"-c {name}=view") as client:
                assert client.execute(f"SHOW {name}".encode()).fetchone() == ("view",)
        finally:
            owner.execute(f"ALTER {of} RESET {name}".encode())
