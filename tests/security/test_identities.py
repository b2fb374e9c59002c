"""Users' code runs under the same roles as in PostgreSQL: the same script on both, and its records.

Each piece of code records its role in sequences, which no rollback undoes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import psycopg

from tests.servers import Server

_OURS: Final = ("postgres", "sluice_gateway", "sluice_metadata", "sluice_shadow")
_CODE: Final = ("domain", "default", "check", "cast", "operator", "index", "generated", "view", "immutable", "trigger")
# One for each piece of code, the role that it runs as, and the role that has logged in.
_SEQUENCES: Final = """
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT left(format('%s_%s_%s', c, u, l), 63) FROM unnest(ARRAY[{code}]) c, unnest(ARRAY[{who}]) u,
            unnest(ARRAY[{who}]) l UNION SELECT 'somebody_else' LOOP
        EXECUTE format('CREATE SEQUENCE {schema}.%I', name);
        EXECUTE format('GRANT ALL ON SEQUENCE {schema}.%I TO PUBLIC', name);
    END LOOP;
END $$
"""
_RAN: Final = b"SELECT sequencename FROM pg_sequences WHERE schemaname = %s AND last_value IS NOT NULL"
_SETTING: Final = """
CREATE FUNCTION note(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval(format('{schema}.%I', left(format('%s_%s_%s', what, current_user, session_user), 63))::regclass);
EXCEPTION WHEN undefined_table THEN
    PERFORM nextval('{schema}.somebody_else');
END $$;
CREATE FUNCTION noting(i integer, what text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN PERFORM {schema}.note(what); RETURN i; END $$;
CREATE FUNCTION steady(i integer, what text) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM {schema}.note(what); RETURN i; END $$;
CREATE FUNCTION holds(i integer, what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM {schema}.note(what); RETURN true; END $$;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE FUNCTION mood_text(mood) RETURNS text LANGUAGE plpgsql AS $$
BEGIN PERFORM {schema}.note('cast'); RETURN 'a mood'; END $$;
CREATE CAST (mood AS text) WITH FUNCTION {schema}.mood_text(mood) AS ASSIGNMENT;
CREATE FUNCTION same(a integer, b mood) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN PERFORM {schema}.note('operator'); RETURN true; END $$;
CREATE OPERATOR === (FUNCTION = {schema}.same, LEFTARG = integer, RIGHTARG = mood);
CREATE DOMAIN positive AS integer CHECK ({schema}.holds(VALUE, 'domain'));
CREATE TABLE parent (id integer PRIMARY KEY);
CREATE TABLE t (
    id integer PRIMARY KEY, n integer DEFAULT {schema}.noting(1, 'default'), d positive, m mood,
    p integer REFERENCES parent ON UPDATE CASCADE ON DELETE SET NULL,
    g integer GENERATED ALWAYS AS ({schema}.steady(7, 'generated') + id) STORED,
    CHECK ({schema}.holds(n, 'check')));
CREATE INDEX ON t (({schema}.steady(1, 'index') + id));
CREATE VIEW v AS SELECT id, {schema}.noting(id, 'view') AS w FROM t;
INSERT INTO parent VALUES (1), (2), (3);
INSERT INTO t (id, d, m, p) VALUES (1, 1, 'ok', 1), (2, 2, 'sad', 2);
GRANT USAGE ON SCHEMA {schema} TO {client};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {client};
GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO PUBLIC;
"""
# By who may write the tables, and does not own them.
_BY_CLIENT: Final = """
INSERT INTO t (id, d, m, p) VALUES (3, 3, 'ok', 1), (4, 4, 'sad', 1)
INSERT INTO t (id, n, d, m) SELECT id + 10, n, d, m FROM t
INSERT INTO t (id, d) VALUES (1, 9) ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1
UPDATE t SET n = n + 1
UPDATE t SET d = d + 1 WHERE id = 2
UPDATE t SET m = 'ok' WHERE id = 1 RETURNING m
DELETE FROM t WHERE id = 12 RETURNING id, d
MERGE INTO t USING parent ON t.id = parent.id WHEN MATCHED THEN UPDATE SET n = 5
SELECT id, m::text FROM t
SELECT id FROM t WHERE 1 === m
SELECT * FROM v
SELECT id FROM t WHERE d = ANY ('{1,2}'::positive[])
SELECT id, '{1,2}'::positive[] FROM t
EXPLAIN SELECT * FROM v
EXPLAIN UPDATE t SET d = 3
UPDATE parent SET id = id + 100 WHERE id < 3
DELETE FROM parent WHERE id = 101
BEGIN; DECLARE c CURSOR FOR SELECT * FROM v; FETCH 1 FROM c; COMMIT
BEGIN; UPDATE t SET d = d + 1; SAVEPOINT a; INSERT INTO t (id, d) VALUES (50, 5); ROLLBACK TO a; COMMIT
COPY t (id, d) TO STDOUT
CREATE TEMP TABLE taken AS SELECT id, d, m FROM t
"""
_BY_OWNER: Final = """
ALTER TABLE t ADD CONSTRAINT odd CHECK (id <> ALL ('{{77}}'::{schema}.positive[]))
CREATE INDEX again ON t ((id = ANY ('{{77}}'::{schema}.positive[])))
CREATE UNIQUE INDEX ON t (({schema}.steady(2, 'index') + id))
ALTER TABLE t ADD COLUMN e {schema}.positive DEFAULT 3
ALTER TABLE t ADD COLUMN f integer DEFAULT {schema}.noting(1, 'default')
ALTER TABLE t ALTER COLUMN n TYPE bigint USING {schema}.noting(n, 'default')
BEGIN; ALTER TABLE t ADD CHECK ({schema}.holds(id, 'check')); INSERT INTO t (id, d) VALUES (60, 1); COMMIT
CREATE TABLE alike (LIKE t INCLUDING ALL)
INSERT INTO alike (id, d) SELECT id, d FROM t
CREATE TABLE made AS SELECT id, d, m, '{{5}}'::{schema}.positive[] AS a FROM t
CREATE MATERIALIZED VIEW mv AS SELECT id, m::text AS m FROM t WHERE id <> ALL ('{{77}}'::{schema}.positive[])
REFRESH MATERIALIZED VIEW mv
ANALYZE t
VACUUM t
TRUNCATE t
"""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _who_ran_what(server: Server, schema: str) -> set[str]:
    """Run all of it; what ran as whom."""
    owner, client = f"{schema}_o", f"{schema}_c"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {owner} LOGIN; CREATE ROLE {client} LOGIN".encode())
        admin.execute(f"GRANT CREATE, USAGE ON SCHEMA {schema} TO {owner}".encode())
        admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC".encode())
        admin.execute(f"GRANT {owner}, {client} TO CURRENT_USER".encode())
        admin.execute(
            _SEQUENCES.format(schema=schema, code=_listed(_CODE), who=_listed((owner, client, *_OURS))).encode()
        )
        try:
            _run(server, schema, owner, [_SETTING.format(schema=schema, client=client)], must=True)
            _run(server, schema, client, _BY_CLIENT.strip().splitlines())
            _run(server, schema, owner, _BY_OWNER.format(schema=schema).strip().splitlines())
            rows = admin.execute(_RAN, [schema]).fetchall()
        finally:
            admin.execute(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}".encode())
            admin.execute(f"DROP OWNED BY {owner}, {client}; DROP ROLE {owner}, {client}".encode())
    return {name.replace(schema, "s") for (name,) in rows}


def _run(server: Server, schema: str, role: str, statements: list[str], *, must: bool = False) -> None:
    url = server.url.replace("://sluice@", f"://{role}@")
    with psycopg.connect(url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        for statement in statements:
            try:
                if "TO STDOUT" in statement:
                    with connection.cursor().copy(statement.encode()) as copy:
                        list(copy)
                else:
                    connection.execute(statement.encode())
            except psycopg.Error:
                if must:
                    raise
                connection.execute("ROLLBACK")


def test_no_other_identity_than_postgresqls(oracle: Server, gateway: Server, schema: str) -> None:
    with psycopg.connect(oracle.url, autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
    theirs = _who_ran_what(oracle, schema)
    oracle.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
    ours = _who_ran_what(gateway, schema)
    assert "somebody_else" not in ours
    assert len(ours) > 8, ours
    # A step of a schema change runs as the owner, over a connection that a gateway has logged in on (docs/security.md).
    steps = {name for name in ours if name.endswith("_s_o_sluice_gateway")}
    # The action of a foreign key, which is the owner's, makes the whole row anew.
    actions = {"domain_s_o_s_c", "generated_s_o_s_c"}
    assert sorted(ours - theirs - steps - actions) == []
