"""The settings of Django's own tests.

The database is the server's own and is kept: a lake has one database. The second database that Django's tests ask for
is SQLite's, in memory, as Django's manual allows.
"""

from __future__ import annotations

import os
from typing import Final

from django.contrib.postgres.operations import CreateExtension
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.features import DatabaseFeatures
from django.db.backends.signals import connection_created

DATABASES: Final = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ.get("PGHOST"),
        "PORT": os.environ.get("PGPORT"),
        "USER": os.environ.get("PGUSER"),
        "NAME": os.environ.get("PGDATABASE"),
        "OPTIONS": {"options": "-c search_path=django_tests"},
        "TEST": {"NAME": os.environ.get("PGDATABASE")},
    },
    "other": {"ENGINE": "django.db.backends.sqlite3"},
}
SECRET_KEY: Final = "of tests"
PASSWORD_HASHERS: Final = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD: Final = "django.db.models.AutoField"
USE_TZ: Final = False
TEST_RUNNER: Final = "tests.suites.django_runner.ReportingRunner"


def _add_collation(connection: BaseDatabaseWrapper, **_: object) -> None:
    """The models of both databases are the same."""
    if connection.vendor == "sqlite":
        connection.connection.create_collation("POSIX", lambda one, other: (one > other) - (one < other))


def _make_nothing(*_: object) -> None:
    """Instead of CREATE EXTENSION."""


# The embedded PostgreSQL has no collations of ICU and no extensions. Models name collations when they are imported.
DatabaseFeatures.test_collations = {"deterministic": "C", "non_default": "POSIX", "virtual": "POSIX"}
CreateExtension.database_forwards = _make_nothing
CreateExtension.database_backwards = _make_nothing
connection_created.connect(_add_collation)
