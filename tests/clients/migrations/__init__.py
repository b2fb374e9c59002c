"""A project of migrations as Alembic lays it out: models, environment, and one file for each version."""
