"""Make a PostgreSQL database Sluice's catalog.

Contract: `bootstrap` may be repeated and killed, because it is one transaction. It refuses, with a message of one line,
a catalog that another version of Sluice or another lake has made.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict
from importlib.resources import files
from typing import Final

import asyncpg

from catalog.connection import connect
from catalog.datatypes import (
    CARRIED_TYPE,
    DATATYPES,
    ENUMERATION,
    EQUAL_BY_NUMBERS,
    EQUAL_BY_TEXT,
    EQUAL_NUMBERS,
    EQUAL_TEXTS,
)
from catalog.errors import SluiceError, SqlState
from catalog.indexes import SIDECAR_ROWS_MIN
from catalog.maintenance.maintenance_settings import SETTINGS
from catalog.postgres.embedded import MAJOR
from catalog.postgres.own_settings import GATEWAY_ROLE, SAFE_SETTINGS
from catalog.schema.compatibility import COMPATIBILITY
from catalog.schema.states import STEPS
from catalog.schema.synchronisation import Settings

# Raised whenever catalog/sql changes in a way that an existing catalog does not fit.
CATALOG_VERSION: Final = "31"
DUCKLAKE_VERSION: Final = "1.0"
# The files of catalog/sql, in the order in which they run.
_FILES: Final = (
    "roles.sql",
    "ducklake.sql",
    "sluice.sql",
    "hot_rows.sql",
    "backends.sql",
    "words.sql",
    "types.sql",
    "triggers.sql",
    "layout.sql",
    "partitions.sql",
    "ddl.sql",
    "staging.sql",
    "scans.sql",
    "publish.sql",
    "keys.sql",
    "exclusions.sql",
    "obligations.sql",
    "versions.sql",
    "enlistment.sql",
    "commit_locks.sql",
    "schema_changes.sql",
    "indexes.sql",
    "explain.sql",
    "materialized_views.sql",
    "attention.sql",
    "row_locks.sql",
    "table_locks.sql",
    "as_of.sql",
    "gateways.sql",
    "maintenance.sql",
    "synchronisation.sql",
    "reflection.sql",
    "isolation.sql",
    "rights.sql",
    "superuser.sql",
    "autovacuum.sql",
    "event_triggers.sql",
)
_MAY: Final = """
SELECT rolsuper OR (rolname = $1 AND pg_catalog.to_regnamespace('pg_sluice') IS NOT NULL)
FROM pg_catalog.pg_roles WHERE rolname = current_user
"""
_MAY_NOT_CONNECT: Final = (
    "SELECT NOT pg_catalog.has_database_privilege(rolname, $2, 'CONNECT') FROM pg_catalog.pg_roles WHERE rolname = $1"
)
_IS_EMPTY: Final = "SELECT pg_catalog.to_regnamespace('pg_sluice') IS NULL"
# Sluice has no table yet. This one is PostgreSQL's, shared by the whole cluster, and hardly ever changes. The owner of
# a database has no right on it; the mode stops nothing but VACUUM, ANALYZE and itself.
_ONE_AT_A_TIME: Final = "LOCK TABLE pg_catalog.pg_tablespace IN SHARE UPDATE EXCLUSIVE MODE"
CLIENT_ROLE: Final = "sluice"
CLIENT_DATABASE: Final = "sluice"


async def create_client_database(dsn: str) -> None:
    """Create the role and the database that clients of an embedded catalog use by default. Safe to repeat.

    The role is no superuser: the SQL of a superuser could reach the gateway's metadata. It administers other roles, so
    it may use the last connections of each gateway, and may grant this to others.
    """
    connection = await connect(dsn, SAFE_SETTINGS)
    try:
        if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", CLIENT_ROLE):
            async with connection.transaction():
                await connection.execute(f"CREATE ROLE {CLIENT_ROLE} LOGIN CREATEROLE IN ROLE pg_monitor")
                await connection.execute(f"GRANT pg_use_reserved_connections TO {CLIENT_ROLE} WITH ADMIN OPTION")
        if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", CLIENT_DATABASE):
            await connection.execute(f"CREATE DATABASE {CLIENT_DATABASE} OWNER {CLIENT_ROLE}")
        # What its owner may take from everybody, and with it from gateways.
        await connection.execute(f"ALTER DATABASE {CLIENT_DATABASE} WITH ALLOW_CONNECTIONS true")
        if await connection.fetchval(_MAY_NOT_CONNECT, GATEWAY_ROLE, CLIENT_DATABASE):
            await connection.execute(f"GRANT CONNECT ON DATABASE {CLIENT_DATABASE} TO {GATEWAY_ROLE}")
    finally:
        await connection.close()


async def bootstrap(dsn: str, data_path: str) -> str:
    """Make the database that `dsn` names a catalog for the lake at `data_path`; return the nonce of mock
    authentication.

    As in PostgreSQL, the salt of a missing role is made of this nonce. `data_path` is the root of the lake's files,
    with a trailing slash, as DuckDB is to see it.
    """
    connection = await connect(dsn, SAFE_SETTINGS)
    try:
        major = connection.get_server_version().major
        if major != MAJOR:
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW,
                f"the catalog is PostgreSQL {major}; this Sluice needs PostgreSQL {MAJOR}",
            )
        if not await connection.fetchval(_MAY, GATEWAY_ROLE):
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW,
                f"the gateway's own role in the catalog must be {GATEWAY_ROLE}, or a superuser to make the catalog",
            )
        if await connection.fetchval(_IS_EMPTY):
            async with connection.transaction():
                await connection.execute(_ONE_AT_A_TIME)
                if await connection.fetchval(_IS_EMPTY):
                    await _create(connection, data_path)
        settings: dict[str, str] = {
            row["name"]: row["value"] for row in await connection.fetch("SELECT name, value FROM pg_sluice.setting")
        }
        if settings["catalog_version"] != CATALOG_VERSION:
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW,
                f"the catalog is of version {settings['catalog_version']}; this Sluice needs {CATALOG_VERSION}",
            )
        recorded = await connection.fetchval("SELECT value FROM pg_ducklake.ducklake_metadata WHERE key = 'data_path'")
        if recorded != data_path:
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW, f"the catalog is that of the lake at {recorded}, not of {data_path}"
            )
        return settings["mock_authentication_nonce"]
    finally:
        await connection.close()


async def _create(connection: asyncpg.Connection, data_path: str) -> None:
    # Functions may call what a later file defines.
    await connection.execute("SET LOCAL allow_system_table_mods = on; SET LOCAL check_function_bodies = off")
    for name in _FILES:
        await connection.execute((files("catalog") / "sql" / name).read_text())
    await connection.executemany(
        "INSERT INTO pg_sluice.datatype VALUES ($1, $2, $3)",
        [(row.oid, row.array_oid, row.ducklake) for row in (*DATATYPES, ENUMERATION, CARRIED_TYPE)],
    )
    await connection.executemany(
        "INSERT INTO pg_sluice.equal_by_text VALUES ($1::text::regtype, $2)",
        [(name, EQUAL_TEXTS) for name in EQUAL_BY_TEXT] + [(name, EQUAL_NUMBERS) for name in EQUAL_BY_NUMBERS],
    )
    await connection.executemany(
        "INSERT INTO pg_sluice.change_kind VALUES ($1)", [(rule.kind,) for rule in COMPATIBILITY]
    )
    await connection.executemany(
        "INSERT INTO pg_sluice.element_step VALUES ($1, $2, $3, $4)",
        [(step.element, step.before, step.after, step.kind) for step in STEPS],
    )
    await connection.executemany(
        "INSERT INTO pg_sluice.maintenance_setting VALUES ($1, $2::text::regtype, $3, $4)", SETTINGS
    )
    for name, *_ in SETTINGS:
        await connection.execute(f'GRANT SET ON PARAMETER "{name}" TO PUBLIC')  # for ALTER DATABASE … SET by its owner
    await connection.executemany(
        "INSERT INTO pg_sluice.setting VALUES ($1, $2)",
        [
            ("catalog_version", CATALOG_VERSION),
            ("mock_authentication_nonce", secrets.token_hex(32)),
            ("channel", secrets.token_hex(16)),
            ("sidecar_rows_min", str(SIDECAR_ROWS_MIN)),
            *((name, str(value)) for name, value in asdict(Settings()).items()),
        ],
    )
    await connection.executemany(
        "INSERT INTO pg_ducklake.ducklake_metadata (key, value) VALUES ($1, $2)",
        [("version", DUCKLAKE_VERSION), ("created_by", "Sluice"), ("data_path", data_path), ("encrypted", "false")],
    )
    # DuckDB's default schema is `main`; snapshot 0 holds it and PostgreSQL's default one.
    await connection.execute(
        """
        INSERT INTO pg_ducklake.ducklake_snapshot VALUES (nextval('pg_sluice.snapshot_id'), now(),
            nextval('pg_sluice.schema_version'), 3, 0);
        INSERT INTO pg_ducklake.ducklake_schema
            SELECT nextval('pg_sluice.catalog_id'), gen_random_uuid(), 0, NULL, name, name || '/', true
            FROM unnest(ARRAY['main', 'public']) AS name;
        INSERT INTO pg_ducklake.ducklake_snapshot_changes
            VALUES (0, 'created_schema:"main",created_schema:"public"', NULL, NULL, NULL);
        """
    )
    # Sluice asks for the analysed tree of a statement at level LOG: the session needs it, the server's log does not.
    # The log of the embedded catalog leaves it out by settings of the server (catalog/postgres/embedded.py), so no
    # setting that clients would see is needed there.
    if await connection.fetchval("SHOW log_min_messages") not in ("fatal", "panic"):
        database = await connection.fetchval("SELECT quote_ident(current_database())")
        await connection.execute(f"ALTER DATABASE {database} SET log_min_messages = 'fatal'")
