"""Rows that a shadow keeps behind the end of their transaction, which only a fault can leave: `sluice check` tells."""

from __future__ import annotations

import psycopg

from tests.forks import ask_sluice
from tests.servers import GatewayProcess, Server

_FLUSH = "SELECT pg_catalog.pg_stat_force_next_flush()"


def _told(process: GatewayProcess, schema: str) -> list[str]:
    checked = ask_sluice("check", "--data-dir", str(process.data_dir))
    return [line for line in checked.stdout.splitlines() if line.startswith("shadow: ") and schema in line]


def test_check_tells_of_rows(gateway: Server, gateway_process: GatewayProcess, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as client:
        client.execute(f"CREATE TABLE {schema}.left_over (a int PRIMARY KEY)".encode())
        client.execute(f"INSERT INTO {schema}.left_over SELECT generate_series(1, 10)".encode())
        read = f"DO $$BEGIN PERFORM count(*) FROM {schema}.left_over; PERFORM set_config('a.b', '1', true); END$$"
        client.execute(read.encode())
        with client.transaction():
            client.execute(f"SELECT a FROM {schema}.left_over WHERE random() < 2 AND a::text ~ '1'".encode())
            client.execute(f"UPDATE {schema}.left_over SET a = a + 10".encode())
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as superuser:
        superuser.execute(_FLUSH)
        assert not _told(gateway_process, schema)
        superuser.execute("SET session_replication_role = replica")
        superuser.execute(f"INSERT INTO {schema}.left_over VALUES (1)".encode())
        superuser.execute(_FLUSH)
        superuser.execute("SELECT 1")
        assert _told(gateway_process, schema) == [f"shadow: {schema}.left_over: the shadow has rows"]
        superuser.execute(f"DELETE FROM {schema}.left_over".encode())
        superuser.execute(_FLUSH)
        superuser.execute("SELECT 1")
        assert not _told(gateway_process, schema)
