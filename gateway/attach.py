"""`sluice attach`: how DuckDB is told where the lake is."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from catalog.bootstrap import CLIENT_DATABASE
from catalog.embedded import SUPERUSER, EmbeddedPostgres
from catalog.errors import SluiceError, SqlState
from gateway.data_directory import DataDirectory
from gateway.endpoint import endpoint


def attach_statement(directory: DataDirectory, catalog: str | None) -> str:
    """The statement with which DuckDB, its extensions ducklake and postgres loaded, reads the lake."""
    dsn = catalog
    if dsn is None:
        if not (directory.catalog / "cluster").exists():
            raise SluiceError(SqlState.IO_ERROR, f"there is no lake in {directory.root}")
        dsn = EmbeddedPostgres(directory.catalog).url(CLIENT_DATABASE)
    address, database = endpoint(dsn)
    user = urlsplit(dsn).username or SUPERUSER
    parameters = f"dbname={database} host={address.host} port={address.port} user={unquote(user)}"
    return f"ATTACH 'ducklake:postgres:{parameters}' AS lake (METADATA_SCHEMA 'pg_ducklake', READ_ONLY);"
