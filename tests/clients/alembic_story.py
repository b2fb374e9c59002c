"""Alembic with a project of 25 migrations: up, checked, one that fails, down to nothing, and up again.

Run with the URL of a database, for SQLAlchemy; prints the schema after each part. See test_alembic.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

FOLDER = Path(__file__).parent / "migrations"
url = sys.argv[1]
engine = sa.create_engine(url)


def config(*folders: str) -> Config:
    """The project, with its versions in these folders."""
    found = Config(output_buffer=sys.stdout)
    found.set_main_option("script_location", str(FOLDER))
    found.set_main_option("path_separator", "newline")
    found.set_main_option("version_locations", "\n".join(str(FOLDER / folder) for folder in folders))
    found.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return found


def show(what: str) -> None:
    """The version, and all rows of all tables but what chance and the clock put into them."""
    with engine.connect() as connection:
        print(f"-- {what}: {MigrationContext.configure(connection).get_current_heads()}")
        inspector = sa.inspect(connection)
        names = [
            *inspector.get_table_names(), *inspector.get_view_names(), *inspector.get_materialized_view_names()
        ]  # fmt: skip
        tables: list[tuple[str | None, str]] = [(None, name) for name in names]
        if "archive" in inspector.get_schema_names():
            tables += [("archive", name) for name in inspector.get_table_names("archive")]
        for schema, name in sorted(tables, key=str):
            columns = [each for each in inspector.get_columns(name, schema) if str(each["type"]) not in _BY_CHANCE]
            listed: list[sa.ColumnClause[Any]] = [sa.column(each["name"]) for each in columns]
            query = sa.select(*listed).select_from(sa.table(name, schema=schema)).order_by(*listed)
            print(schema, name, [each["name"] for each in columns])
            for row in connection.execute(query):
                print("   ", *row, sep=" | ")


_BY_CHANCE = {"UUID", "TIMESTAMP"}


def story() -> None:
    """From the first migration to the last, and back."""
    project = config("versions")
    command.upgrade(project, "head")
    show("upgraded")
    command.check(project)
    try:
        command.upgrade(config("versions", "failing"), "head")
    except sa.exc.IntegrityError as error:
        print("failed:", str(error.orig).splitlines())
    show("failed")
    command.check(project)
    command.downgrade(project, "m15")
    show("down to the branches")
    command.downgrade(project, "base")
    show("down")
    for revision in ("m03", "m12", "m14b", "m15", "m20", "head"):
        command.upgrade(project, revision)
    show("up again")
    command.check(project)


story()
