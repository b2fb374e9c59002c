"""`sluice attach`: how DuckDB is told where the lake is.

It logs in as a role that may read the lake's metadata and nothing else, whoever gateways log in as: what owners of the
database set for its sessions, or define there, runs with no rights of a superuser's.
"""

from __future__ import annotations

from catalog.bootstrap import CLIENT_DATABASE
from catalog.errors import SluiceError, SqlState
from catalog.postgres.embedded import EmbeddedPostgres
from catalog.postgres.own_settings import READER_ROLE
from gateway.backend.dsn import endpoint
from gateway.server.data_directory import DataDirectory


def attach_statement(directory: DataDirectory, catalog: str | None) -> str:
    """The statement with which DuckDB, its extensions ducklake and postgres loaded, reads the lake."""
    dsn = catalog
    if dsn is None:
        if not (directory.catalog / "cluster").exists():
            raise SluiceError(SqlState.IO_ERROR, f"there is no lake in {directory.root}")
        dsn = EmbeddedPostgres(directory.catalog).url(CLIENT_DATABASE)
    address, database = endpoint(dsn)
    parameters = f"dbname={database} host={address.host} port={address.port} user={READER_ROLE}"
    return f"ATTACH 'ducklake:postgres:{parameters}' AS lake (METADATA_SCHEMA 'pg_ducklake', READ_ONLY);"
