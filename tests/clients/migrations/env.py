"""Alembic's environment: the models, and the server that `sqlalchemy.url` names. Each migration is a transaction."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context

from tests.clients.migrations.models import metadata

engine = sa.create_engine(context.config.get_main_option("sqlalchemy.url") or "")
with engine.connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transaction_per_migration=True,
        include_schemas=True,
        include_name=lambda name, kind, _: kind != "schema" or name in {None, "archive"},
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
