"""The suites: their sources, how they run, and the excluded tests with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.suites.django_tests import DJANGO_DATABASE, django_command, django_settings
from tests.suites.java_tests import pgjdbc_command, pgjdbc_folder, pgjdbc_version
from tests.suites.node_tests import (
    files_command,
    mocha_command,
    node_postgres_folder,
    npm_version,
    postgres_js_command,
    postgres_js_folder,
)
from tests.suites.suite import Suite, libpq_settings

_SQLALCHEMY: Final = ("lib", "test", "setup.cfg", "pyproject.toml")
# As SQLAlchemy's README.unittests.rst asks.
_SQLALCHEMY_SCHEMAS: Final = (
    "CREATE SCHEMA IF NOT EXISTS test_schema",
    "CREATE SCHEMA IF NOT EXISTS test_schema_2",
)
_DJANGO_LIBRARIES: Final = ("bcrypt", "argon2-cffi", "Pillow", "docutils", "tblib", "sqlparse")
_DJANGO_SCHEMA: Final = ("DROP SCHEMA IF EXISTS django_tests CASCADE", "CREATE SCHEMA django_tests")


def _database_url(url: str) -> tuple[str, ...]:
    driver_url = url.replace("postgresql://", "postgresql+psycopg://")
    return ("--dburi", driver_url, "--maxfail=100000", "-p", "sluice_without_extensions")


def _psycopg_dsn(url: str) -> tuple[str, ...]:
    return ("--test-dsn", url, "-m", "not slow and not timing")


SUITES: Final[Mapping[str, Suite]] = {
    "asyncpg": Suite(
        "asyncpg",
        ("tests",),
        ("tests",),
        environment=libpq_settings,
        ignored={
            "tests/test_connect.py": "starts clusters of its own, by the server's programs (and needs `distro`)",
            "tests/test__sourcecode.py": "checks asyncpg's own source with flake8 and mypy",
            "tests/test__environment.py": "checks the environment of asyncpg's own continuous integration",
        },
    ),
    "psycopg": Suite(
        "psycopg",
        (),
        ("tests",),
        arguments=_psycopg_dsn,
        libraries=("psycopg-pool", "anyio", "pproxy", "dnspython"),
        repository="github.com/psycopg/psycopg",
        ignored={"tests/crdb": "for CockroachDB"},
    ),
    "sqlalchemy-suite": Suite(
        "sqlalchemy",
        _SQLALCHEMY,
        ("test/dialect/test_suite.py",),
        arguments=_database_url,
        statements=_SQLALCHEMY_SCHEMAS,
    ),
    "sqlalchemy-postgresql": Suite(
        "sqlalchemy",
        _SQLALCHEMY,
        ("test/dialect/postgresql",),
        arguments=_database_url,
        statements=_SQLALCHEMY_SCHEMAS,
    ),
    "sqlalchemy-backend": Suite(
        "sqlalchemy",
        _SQLALCHEMY,
        ("--backend-only", "test/engine", "test/sql"),
        arguments=_database_url,
        statements=_SQLALCHEMY_SCHEMAS,
    ),
    "django": Suite(
        "django",
        ("tests", "docs"),
        DJANGO_DATABASE,
        environment=django_settings,
        command=django_command,
        libraries=_DJANGO_LIBRARIES,
        statements=_DJANGO_SCHEMA,
    ),
    "django-postgres": Suite(
        "django",
        ("tests", "docs"),
        ("postgres_tests",),
        environment=django_settings,
        command=django_command,
        libraries=_DJANGO_LIBRARIES,
        statements=(
            *_DJANGO_SCHEMA,
            "CREATE DOMAIN django_tests.hstore AS text",  # stands for the extension's type in the models
            "CREATE DOMAIN django_tests.citext AS text",
        ),
        deselected={
            "postgres_tests.test_hstore": "needs the extension hstore",
            "postgres_tests.test_citext": "needs the extension citext",
            "postgres_tests.test_trigram": "needs the extension pg_trgm",
            "postgres_tests.test_unaccent": "needs the extension unaccent",
        },
    ),
    "node-postgres": Suite(
        "pg",
        (),
        (),
        environment=libpq_settings,
        command=files_command,
        repository="github.com/brianc/node-postgres",
        version=npm_version("packages/pg/package.json"),
        make_folder=node_postgres_folder,
    ),
    **{
        name: Suite(
            name,
            (),
            (name, *tests),
            environment=libpq_settings,
            command=mocha_command,
            repository="github.com/brianc/node-postgres",
            version=npm_version(f"packages/{name}/package.json"),
            make_folder=node_postgres_folder,
        )
        for name, tests in {
            "pg-pool": (),
            "pg-cursor": (),
            "pg-query-stream": ("-r", "ts-node/register/transpile-only", "test/**/*.ts"),
        }.items()
    },
    "postgres-js": Suite(
        "postgres",
        (),
        (),
        environment=libpq_settings,
        command=postgres_js_command,
        repository="github.com/porsager/postgres",
        version=npm_version("package.json"),
        make_folder=postgres_js_folder,
    ),
    "pgjdbc": Suite(
        "org.postgresql:postgresql",
        (),
        (),
        command=pgjdbc_command,
        repository="github.com/pgjdbc/pgjdbc",
        version=pgjdbc_version,
        make_folder=pgjdbc_folder,
    ),
}
