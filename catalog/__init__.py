"""The truth: what tables exist, which files hold them, and how a commit makes both visible at once.

Floor plan, bottom first: `errors` (SQLSTATEs), `datatypes` (PostgreSQL types and their lake forms), `model`
(immutable descriptions of tables and files), `embedded` (the supervised PostgreSQL), `bootstrap` (what the
catalog database must hold), `store` (reads, over asyncpg) and `publish` (the commit's vocabulary).
"""
