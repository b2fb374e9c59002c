"""The catalog: which tables exist, which files hold their rows, and the commit that publishes both at once.

Modules, bottom first: `errors` (SQLSTATEs), `datatypes` (PostgreSQL types and their lake forms), `model` (immutable
descriptions of tables and files), `postgres.embedded` (the supervised PostgreSQL), `bootstrap` (the contents of a
catalog database), `store` (reads, over asyncpg) and `publish` (the arguments of the commit).
"""
