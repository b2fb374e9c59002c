"""`sluice attach`: prints the statement with which DuckDB attaches the lake.

It uses a role that may only read the lake's metadata, whatever role gateways use. So settings and objects that
database owners define for its sessions run without superuser rights.
"""

from __future__ import annotations

from catalog.bootstrap import CLIENT_DATABASE
from catalog.errors import SluiceError, SqlState
from catalog.postgres.embedded import EmbeddedPostgres
from catalog.postgres.own_settings import READER_ROLE
from gateway.backend.dsn import endpoint
from gateway.server.data_directory import DataDirectory


def attach_statement(directory: DataDirectory, catalog: str | None) -> str:
    """The statement with which DuckDB, with its extensions ducklake and postgres loaded, attaches the lake."""
    dsn = catalog
    if dsn is None:
        if not (directory.catalog / "cluster").exists():
            raise SluiceError(SqlState.IO_ERROR, f"there is no lake in {directory.root}")
        dsn = EmbeddedPostgres(directory.catalog).url(CLIENT_DATABASE)
    address, database = endpoint(dsn)
    parameters = f"dbname={database} host={address.host} port={address.port} user={READER_ROLE}"
    return f"ATTACH 'ducklake:postgres:{parameters}' AS lake (METADATA_SCHEMA 'pg_ducklake', READ_ONLY);"
