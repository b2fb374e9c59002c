"""Users' code does not run in a gateway's COMMIT, in ANALYZE, or in conversions of values to text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from tests.servers import Server

_OURS = ("sluice_gateway", "sluice_metadata", "sluice_shadow", "postgres")


@pytest.fixture
def owner(gateway: Server, schema: str) -> Iterator[Server]:
    """Who may make things in the schema, which nobody else has any right on."""
    name = f"{schema}_owner"
    gateway.psql("-qc", f"CREATE ROLE {name} LOGIN", "-c", f"GRANT CREATE, USAGE ON SCHEMA {schema} TO {name}")
    yield replace(gateway, user=name)
    gateway.psql(
        "-qc", f"GRANT {name} TO CURRENT_USER", "-c", f"DROP OWNED BY {name} CASCADE", "-c", f"DROP ROLE {name}"
    )


def _witnesses(gateway: Server, schema: str, owner: str, *who: str) -> None:
    """A sequence for each role that code may run as: what has been taken of it stays, whatever is undone."""
    names = ", ".join(f"'{name}'" for name in (owner, *_OURS, *who))
    gateway.psql(
        "-qc",
        f"""DO $$ DECLARE name text; BEGIN FOREACH name IN ARRAY ARRAY[{names}] LOOP
            EXECUTE format('CREATE SEQUENCE {schema}.%I', name);
            EXECUTE format('GRANT ALL ON SEQUENCE {schema}.%I TO PUBLIC', name);
        END LOOP; END $$;
        GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
        CREATE FUNCTION {schema}.note() RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN PERFORM nextval(format('{schema}.%I', current_user)::regclass); END $$""",
    )


def _ran_as(gateway: Server, schema: str) -> set[str]:
    found = gateway.query(
        f"SELECT sequencename FROM pg_sequences WHERE schemaname = '{schema}' AND last_value IS NOT NULL"
    )
    return {name for (name,) in found}


def _add_check(owner: Server, schema: str, left_behind: str) -> tuple[str, str] | None:
    """A step of a schema change runs the code, which leaves something for COMMIT: the error, if there is one."""
    with psycopg.connect(owner.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(
            f"""
            CREATE FUNCTION noting() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM {schema}.note(); RETURN NEW; END $$;
            CREATE FUNCTION leave() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {left_behind} END $$;
            CREATE FUNCTION holds(i integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
            $$ BEGIN PERFORM {schema}.leave(); RETURN true; END $$;
            CREATE DOMAIN odd AS integer CHECK ({schema}.holds(VALUE))""".encode()
        )
        connection.execute(b"CREATE TABLE t (id integer)")
        connection.execute(b"INSERT INTO t VALUES (1)")
        try:
            connection.execute(f"ALTER TABLE t ADD CHECK (id <> ALL ('{{77}}'::{schema}.odd[]))".encode())
        except psycopg.Error as error:
            return error.sqlstate or "", str(error)
    return None


def test_held_cursors_of_a_step(gateway: Server, owner: Server, schema: str) -> None:
    _witnesses(gateway, schema, owner.user)
    name = "format('held_%s', pg_backend_pid())"
    held = f"""EXECUTE format('DECLARE %I CURSOR WITH HOLD FOR SELECT {schema}.note()', {name});
               EXCEPTION WHEN duplicate_cursor THEN NULL;"""
    assert _add_check(owner, schema, held) is None
    assert _ran_as(gateway, schema) == {owner.user}


def test_deferred_triggers_of_a_step(gateway: Server, owner: Server, schema: str) -> None:
    """One could make a held cursor at COMMIT, when nobody closes it any more."""
    _witnesses(gateway, schema, owner.user)
    error = _add_check(
        owner,
        schema,
        f"""CREATE TEMPORARY TABLE later (i integer);
            CREATE CONSTRAINT TRIGGER later AFTER INSERT ON later DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION {schema}.noting();
            INSERT INTO later VALUES (1);
            EXCEPTION WHEN duplicate_table THEN NULL;""",
    )
    assert error is not None
    assert error[0] == "0A000"
    assert "a trigger that is DEFERRABLE" in error[1]
    assert not _ran_as(gateway, schema) & set(_OURS)


def test_deferred_triggers_of_lake_tables_in_a_step(gateway: Server, owner: Server, schema: str) -> None:
    """They would fire at the step's COMMIT, while nobody else can commit."""
    _witnesses(gateway, schema, owner.user)
    owner.psql(
        "-qc",
        f"""CREATE TABLE {schema}.late (i integer);
        CREATE FUNCTION {schema}.deferred() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM {schema}.note(); RETURN NEW; END $$;
        CREATE CONSTRAINT TRIGGER a AFTER INSERT ON {schema}.late DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION {schema}.deferred()""",
    )
    inserting = f"IF session_user = 'sluice_gateway' THEN INSERT INTO {schema}.late VALUES (1); END IF;"
    error = _add_check(owner, schema, inserting)
    assert error is not None
    assert error[0] == "0A000"
    assert "deferred triggers" in error[1]
    assert not _ran_as(gateway, schema) & set(_OURS)


def test_what_a_step_leaves_in_its_session(gateway: Server, owner: Server, schema: str) -> None:
    """The connection of a step takes others after it: what was left there, none of them finds."""
    gateway.psql("-qc", f"CREATE SEQUENCE {schema}.ran; CREATE SEQUENCE {schema}.found")
    gateway.psql("-qc", f"GRANT ALL ON SEQUENCE {schema}.ran, {schema}.found TO PUBLIC")
    _witnesses(gateway, schema, owner.user)
    leave = f"""
        IF session_user = 'sluice_gateway' THEN
            PERFORM nextval('{schema}.ran');
            IF current_setting('step.left', true) IS DISTINCT FROM pg_current_xact_id()::text
                    AND (current_setting('step.left', true) <> ''
                         OR current_setting('search_path') LIKE '%nowhere%'
                         OR EXISTS (SELECT FROM pg_prepared_statements WHERE name = 'step_left')
                         OR EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4712)) THEN
                PERFORM nextval('{schema}.found');
            END IF;
            IF current_setting('step.left', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
                PERFORM set_config('step.left', pg_current_xact_id()::text, false);
                PERFORM set_config('search_path', 'nowhere', false), pg_advisory_lock(4712);
                EXECUTE 'PREPARE step_left AS SELECT 1';
            END IF;
        END IF;"""
    assert _add_check(owner, schema, leave) is None
    with psycopg.connect(owner.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        for _ in range(2):
            connection.execute(f"ALTER TABLE t ADD CHECK (id <> ALL ('{{78}}'::{schema}.odd[]))".encode())
    [(ran,)] = gateway.query("SELECT coalesce(last_value, 0) FROM pg_sequences WHERE sequencename = 'ran'")
    assert int(ran) >= 3
    assert gateway.query("SELECT last_value FROM pg_sequences WHERE sequencename = 'found'") == [["NULL"]]


def test_casts_of_users_are_not_run_by_analyze(gateway: Server, owner: Server, schema: str) -> None:
    _witnesses(gateway, schema, owner.user)
    with psycopg.connect(owner.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        _make_mood(connection, schema)
        connection.execute(b"CREATE TABLE t (m mood)")
        connection.execute(b"""INSERT INTO t VALUES ('sad'), ('sad'), ('"so\\'), ('sad'), (NULL)""")
        connection.execute(b"ANALYZE t")
        found = connection.execute(
            b"SELECT most_common_vals::text, null_frac FROM pg_stats WHERE tablename = 't' AND schemaname = %s",
            [schema],
        ).fetchall()
    assert found == [("{sad}", pytest.approx(0.2))]
    assert _ran_as(gateway, schema) == set()


def test_schemas_that_are_closed_can_be_analyzed(gateway: Server, owner: Server, schema: str) -> None:
    with psycopg.connect(owner.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(b"CREATE TYPE mood AS ENUM ('sad', 'ok')")
        connection.execute(b"CREATE TABLE t (m mood)")
        connection.execute(b"INSERT INTO t VALUES ('ok'), ('sad'), ('ok')")
        connection.execute(b"ANALYZE t")
        found = connection.execute(
            b"SELECT most_common_vals::text FROM pg_stats WHERE tablename = 't' AND schemaname = %s", [schema]
        )
        assert found.fetchall() == [("{ok}",)]


def test_checks_of_domains_are_not_run_by_analyze(gateway: Server, owner: Server, schema: str) -> None:
    """As little as PostgreSQL does it: who may maintain the table would run what its owner has written."""
    maintainer = replace(gateway, user=f"{schema}_maintainer")
    gateway.psql("-qc", f"CREATE ROLE {maintainer.user} LOGIN")
    _witnesses(gateway, schema, owner.user, maintainer.user)
    with psycopg.connect(owner.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(
            f"""CREATE FUNCTION holds(i integer) RETURNS boolean LANGUAGE plpgsql AS
            $$ BEGIN PERFORM {schema}.note(); RETURN true; END $$;
            CREATE DOMAIN odd AS integer CHECK ({schema}.holds(VALUE));
            CREATE DOMAIN plain AS integer CHECK (VALUE > 0)""".encode()
        )
        connection.execute(b"CREATE TABLE t (o odd, p plain, a odd[])")
        connection.execute(b"INSERT INTO t SELECT i % 2, 1 + i % 2, '{1}' FROM generate_series(1, 9) i")
        connection.execute(f"GRANT MAINTAIN ON t TO {maintainer.user}".encode())
        with psycopg.connect(maintainer.url, autocommit=True) as other:
            other.execute(f"ANALYZE {schema}.t".encode())
        found = connection.execute(
            b"SELECT attname, n_distinct < 0, most_common_vals::text FROM pg_stats"
            b" WHERE tablename = 't' AND schemaname = %s ORDER BY attname",
            [schema],
        ).fetchall()
    assert maintainer.user not in _ran_as(gateway, schema)
    assert [(name, values) for name, _, values in found] == [("a", None), ("o", None), ("p", "{2,1}")]
    owner.psql("-qc", f"REVOKE ALL ON {schema}.t FROM {maintainer.user}")
    gateway.psql("-qc", f"DROP ROLE {maintainer.user}")


def test_casts_of_users_are_not_run_by_actions_of_keys(target: Server, target_schema: str) -> None:
    with psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as connection:
        connection.execute(b"CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN kept AS mood")
        connection.execute(b"CREATE FUNCTION always_ok(text) RETURNS mood LANGUAGE sql AS $$ SELECT 'ok'::mood $$")
        connection.execute(b"CREATE CAST (text AS mood) WITH FUNCTION always_ok(text) AS IMPLICIT")
        connection.execute(b"CREATE TABLE parent (id integer PRIMARY KEY)")
        connection.execute(
            b"CREATE TABLE t (id integer, m mood, a mood[], k kept, p integer REFERENCES parent ON UPDATE CASCADE)"
        )
        connection.execute(b"INSERT INTO parent VALUES (1)")
        connection.execute(b"INSERT INTO t VALUES (1, 'sad', '{sad,NULL}', 'sad', 1), (2, NULL, NULL, NULL, 1)")
        connection.execute(b"UPDATE parent SET id = 10")
        found = connection.execute(b"SELECT id, m::text, a::text, k::text, p FROM t ORDER BY id").fetchall()
    assert found == [(1, "sad", "{sad,NULL}", "sad", 10), (2, None, None, None, 10)]


def _make_mood(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> None:
    connection.execute(
        f"""CREATE TYPE mood AS ENUM ('sad', '"so\\', 'ok');
        CREATE FUNCTION noted(text) RETURNS mood LANGUAGE plpgsql AS
        $$ BEGIN PERFORM {schema}.note(); RETURN 'ok'::{schema}.mood; END $$;
        CREATE CAST (text AS mood) WITH FUNCTION noted(text) AS IMPLICIT""".encode()
    )
