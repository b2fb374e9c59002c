"""Triggers run as the role that fires them, and only as in PostgreSQL: not when rows are copied, checked or moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from tests.servers import GatewayProcess, Server

# A sequence for each role that the trigger has run as: what was taken of it stays, whatever is undone.
_NOTES = """
CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval(format('{schema}.%I', current_user)::regclass);
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;
"""
_MADE = """
CREATE TABLE p (id integer PRIMARY KEY, n integer, s text);
CREATE TABLE c (
    id integer PRIMARY KEY, p integer DEFAULT 1 REFERENCES p ON DELETE SET DEFAULT ON UPDATE CASCADE, s text);
INSERT INTO p SELECT g, g, 'p' || g FROM generate_series(1, 20) g;
INSERT INTO c SELECT g, g, 'c' || g FROM generate_series(1, 20) g;
"""
_LATE = "CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON own DEFERRABLE FOR EACH ROW EXECUTE FUNCTION notes()"


@pytest.fixture
def owner(gateway: Server, schema: str) -> Iterator[Server]:
    name = f"{schema}_owner"
    gateway.psql("-qc", f"CREATE ROLE {name} LOGIN", "-c", f"GRANT CREATE, USAGE ON SCHEMA {schema} TO {name}")
    yield replace(gateway, user=name)
    gateway.psql(
        "-qc", f"GRANT {name} TO CURRENT_USER", "-c", f"DROP OWNED BY {name} CASCADE", "-c", f"DROP ROLE {name}"
    )


@pytest.fixture
def client(gateway: Server, schema: str) -> Iterator[Server]:
    name = f"{schema}_client"
    gateway.psql("-qc", f"CREATE ROLE {name} LOGIN", "-c", f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    yield replace(gateway, user=name)
    gateway.psql(
        "-qc", f"GRANT {name} TO CURRENT_USER", "-c", f"DROP OWNED BY {name} CASCADE", "-c", f"DROP ROLE {name}"
    )


def _make(owner: Server, schema: str, triggers: str, *names: str) -> None:
    with psycopg.connect(owner.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        for name in (owner.user, *names, "sluice_gateway", "sluice_metadata", "sluice_shadow", "postgres"):
            connection.execute(f"CREATE SEQUENCE {name}; GRANT ALL ON SEQUENCE {name} TO PUBLIC".encode())
        connection.execute((_NOTES.replace("{schema}", schema) + _MADE).encode())
        connection.execute(triggers.encode())
        connection.execute(
            b"GRANT ALL ON ALL TABLES IN SCHEMA CURRENT_SCHEMA TO PUBLIC".replace(b"CURRENT_SCHEMA", schema.encode())
        )


def _ran_as(owner: Server, schema: str) -> dict[str, int]:
    found = owner.query(
        f"SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = '{schema}' AND last_value IS NOT NULL"
    )
    return {name: int(times) for name, times in found}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT p FROM p",
        "SELECT p, c FROM p JOIN c USING (id)",
        "SELECT count(*) FROM p, LATERAL (SELECT jsonb_path_query(to_jsonb(p), '$.n')) j",
        "SELECT id FROM p FOR UPDATE",
        "EXPLAIN ANALYZE SELECT p FROM p",
        "SET sluice.engine = 'postgres'; SELECT sum(n) FROM p; RESET sluice.engine",
        "CREATE TEMPORARY TABLE q AS SELECT p FROM p",
        "ALTER TABLE p ADD CHECK (n < 100)",
        "ALTER TABLE p ADD COLUMN m integer GENERATED ALWAYS AS (n * 2) STORED",
        "ALTER TABLE p ALTER COLUMN n TYPE text USING n || '!'",
        "CREATE INDEX ON p (s)",
        "CREATE UNIQUE INDEX ON p (lower(s))",
        "CREATE STATISTICS st ON n, s FROM p",
        "ANALYZE p",
        "VACUUM FULL p",
        "CLUSTER p USING p_pkey",
        "TRUNCATE c",
        "SELECT count(*) FROM p TABLESAMPLE SYSTEM (100) REPEATABLE (1)",
        "CREATE MATERIALIZED VIEW mv AS SELECT p FROM p; REFRESH MATERIALIZED VIEW mv",
        "CREATE FUNCTION looks() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM p'; SELECT looks()",
        "DO $$ BEGIN PERFORM FROM p; PERFORM FROM c; END $$",
        "COPY p TO STDOUT",
        "COPY (SELECT p FROM p) TO STDOUT",
    ],
)
def test_what_changes_no_row_fires_none(owner: Server, schema: str, statement: str) -> None:
    of = "INSERT OR UPDATE OR DELETE"
    triggers = "".join(
        f"CREATE TRIGGER r BEFORE {of} ON {table} FOR EACH ROW EXECUTE FUNCTION notes();"
        f"CREATE TRIGGER s AFTER {of} ON {table} FOR EACH STATEMENT EXECUTE FUNCTION notes();"
        for table in ("p", "c")
    )
    _make(owner, schema, triggers)
    owner.psql("-q", sql=f"SET search_path = {schema};\n{statement};\n", merge_output=True)
    assert _ran_as(owner, schema) == {}


@pytest.mark.parametrize("enabled", ["", "ALWAYS", "REPLICA"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE p SET n = n + 1 WHERE id = 3",
        "UPDATE p SET n = n + 1",
        "UPDATE p SET s = p::text",
        "UPDATE p SET id = id + 100",
        "DELETE FROM p WHERE id > 5",
        "MERGE INTO p USING c ON p.id = c.id AND c.id < 4 WHEN MATCHED THEN UPDATE SET n = 0",
        "DO $$ BEGIN UPDATE p SET n = 7 WHERE id = 2; DELETE FROM p WHERE id = 9; END $$",
    ],
)
def test_rows_that_are_put_into_shadows_fire_none(owner: Server, schema: str, statement: str, enabled: str) -> None:
    """Triggers for INSERT, of a statement that inserts nothing, nor do the actions of foreign keys."""
    triggers = "".join(
        f"CREATE TRIGGER r{when} {when} INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION notes();"
        for table in ("p", "c")
        for when in ("BEFORE", "AFTER")
    )
    if enabled:
        triggers += "".join(
            f"ALTER TABLE {table} ENABLE {enabled} TRIGGER r{when};"
            for table in ("p", "c")
            for when in ("BEFORE", "AFTER")
        )
    _make(owner, schema, triggers)
    if statement.startswith("MERGE"):
        statement += " WHEN NOT MATCHED BY SOURCE AND p.id > 15 THEN DELETE"
    owner.psql("-q", sql=f"SET search_path = {schema};\n{statement};\n")
    assert _ran_as(owner, schema) == {}


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO p VALUES (101, 1, 'x')",
        "INSERT INTO p SELECT id + 200, n, s FROM p WHERE id < 3",
        "INSERT INTO p VALUES (1, 1, 'x') ON CONFLICT (id) DO UPDATE SET n = 0",
        "UPDATE p SET n = n + 1 WHERE id = 3",
        "DELETE FROM p WHERE id = 3",
        "DELETE FROM p WHERE id = 4",
        "MERGE INTO p USING c ON p.id = c.id AND c.id < 4 WHEN MATCHED THEN UPDATE SET n = 0",
        "COPY p FROM STDIN;\n300\t1\tx\n\\.",
        "WITH gone AS (DELETE FROM c RETURNING id) INSERT INTO p SELECT id + 400 FROM gone",
        "DO $$ BEGIN UPDATE p SET n = 7 WHERE id = 2; END $$",
    ],
)
def test_triggers_run_as_who_fires_them(owner: Server, client: Server, schema: str, statement: str) -> None:
    of = "INSERT OR UPDATE OR DELETE"
    triggers = f"CREATE TRIGGER r AFTER {of} ON p FOR EACH ROW EXECUTE FUNCTION notes();"
    _make(owner, schema, triggers, client.user)
    client.psql("-q", sql=f"SET search_path = {schema};\n{statement}\n;\n")
    assert set(_ran_as(owner, schema)) == {client.user}
    owner.psql("-qc", f"ALTER FUNCTION {schema}.notes() SECURITY DEFINER")
    owner.psql("-q", sql=f"SET search_path = {schema};\nALTER SEQUENCE {client.user} RESTART;\n")
    client.psql("-q", sql=f"SET search_path = {schema};\nINSERT INTO p VALUES (999, 1, 'x');\n")
    assert owner.user in _ran_as(owner, schema)


def test_an_action_fires_as_the_referring_tables_owner(owner: Server, client: Server, schema: str) -> None:
    """As PostgreSQL's foreign keys act as the owner."""
    _make(owner, schema, "CREATE TRIGGER r AFTER UPDATE ON c FOR EACH ROW EXECUTE FUNCTION notes();", client.user)
    client.psql("-q", sql=f"SET search_path = {schema};\nDELETE FROM p WHERE id = 5;\n")
    assert set(_ran_as(owner, schema)) == {owner.user}


def test_who_may_set_the_replication_role_does_not_come_in(
    client: Server, schema: str, gateway_process: GatewayProcess
) -> None:
    """As `replica`, neither the guards of shadows nor the commit of the lake would fire."""
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as superuser:
        superuser.execute(f"GRANT SET ON PARAMETER session_replication_role TO {client.user}".encode())
        with pytest.raises(psycopg.OperationalError, match="has rights on the catalog itself"):
            psycopg.connect(client.url)
        superuser.execute(f"REVOKE SET ON PARAMETER session_replication_role FROM {client.user}".encode())
    psycopg.connect(client.url).close()


def test_a_deferred_trigger_fires_as_who_has_queued_it(owner: Server, client: Server, schema: str) -> None:
    """Whoever is the current role at COMMIT, and whatever the client sets."""
    late = "AFTER INSERT OR UPDATE ON {} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION notes();"
    triggers = f"CREATE CONSTRAINT TRIGGER r {late.format('p')} CREATE CONSTRAINT TRIGGER r {late.format('c')}"
    definer = "CREATE FUNCTION adds() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO {}.p VALUES (998, 1)';"
    _make(owner, schema, triggers + definer.format(schema), client.user)
    with psycopg.connect(client.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("SET sluice.late = '{1}'")
        connection.execute("INSERT INTO p VALUES (999, 1, 'x')")
        assert set(_ran_as(owner, schema)) == {client.user}
        connection.execute("BEGIN")
        connection.execute("SELECT adds()")
        assert set(_ran_as(owner, schema)) == {client.user}
        connection.execute("COMMIT")
        assert set(_ran_as(owner, schema)) == {client.user, owner.user}
        owner.psql("-q", sql=f"SET search_path = {schema};\nALTER SEQUENCE {owner.user} RESTART;\n")
        connection.execute("DELETE FROM p WHERE id = 5")  # an action
    assert set(_ran_as(owner, schema)) == {client.user, owner.user}
    replace(owner, user="sluice").psql("-qc", f"GRANT {owner.user} TO {client.user}")
    owner.psql("-q", sql=f"SET search_path = {schema};\nALTER SEQUENCE {owner.user} RESTART;\n")
    with psycopg.connect(client.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("BEGIN")
        connection.execute("UPDATE p SET n = 0 WHERE id = 7")
        connection.execute(f"SET ROLE {owner.user}".encode())
        connection.execute("COMMIT")
    assert set(_ran_as(owner, schema)) == {client.user}


def test_a_deferred_trigger_needs_the_schema(owner: Server, client: Server, schema: str) -> None:
    """PostgreSQL has SET CONSTRAINTS look names up as the client: without that right the transaction fails."""
    late = "AFTER UPDATE ON p DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION notes();"
    definer = f"""CREATE SCHEMA {schema}_open; GRANT USAGE ON SCHEMA {schema}_open TO PUBLIC;
        CREATE FUNCTION {schema}_open.adds() RETURNS void LANGUAGE sql SECURITY DEFINER
        AS 'UPDATE {schema}.p SET n = 0 WHERE id = 1'"""
    _make(owner, schema, f"CREATE CONSTRAINT TRIGGER r {late}", client.user)
    replace(owner, user="sluice").psql("-qc", f"GRANT CREATE ON DATABASE sluice TO {owner.user}")
    owner.psql("-qc", definer)
    replace(owner, user="sluice").psql("-qc", f"REVOKE ALL ON SCHEMA {schema} FROM {client.user}")
    with psycopg.connect(client.url, autocommit=True) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(f"SELECT {schema}_open.adds()".encode())
    assert caught.value.sqlstate == "42501"
    assert owner.query(f"SELECT count(*) FROM {schema}.p WHERE n = 0") == [["0"]]
    owner.psql("-qc", f"DROP SCHEMA {schema}_open CASCADE")


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("CREATE TRIGGER pg_sluice_note AFTER UPDATE ON p FOR EACH ROW EXECUTE FUNCTION notes()", "0A000"),
        ("ALTER TRIGGER r ON p RENAME TO pg_sluice_note", "0A000"),
        ("CREATE TRIGGER t AFTER UPDATE ON p FOR EACH ROW EXECUTE FUNCTION pg_sluice.note_update()", "42501"),
        (_LATE, "0A000"),
        (f"DO $$ BEGIN EXECUTE '{_LATE}'; END $$", "0A000"),
        ("SELECT pg_sluice.precede_late()", "42501"),
        ("CREATE TRIGGER t AFTER UPDATE ON p FOR EACH ROW EXECUTE FUNCTION pg_sluice.defer_again()", "42501"),
        ("SET CONSTRAINTS pg_sluice.pg_sluice_late IMMEDIATE", "42704"),
        ("SET session_replication_role = replica", "42501"),
        ("SET LOCAL session_replication_role = local", "42501"),
        ("SELECT set_config('session_replication_role', 'replica', false)", "42501"),
        ("DO $$ BEGIN SET session_replication_role = replica; END $$", "42501"),
        ("ALTER ROLE CURRENT_USER SET session_replication_role = replica", "42501"),
        ("SELECT pg_sluice.set_replication_role('replica', NULL)", "42501"),
        ("SELECT pg_sluice.still_triggers(NULL)", "42501"),
        ("SELECT pg_sluice.wake_triggers()", "42501"),
        ("SELECT pg_sluice.set_enabled(1, 'A')", "42501"),
        ("INSERT INTO pg_sluice.stilled VALUES (pg_backend_pid(), 1, 'A')", "42501"),
    ],
)  # fmt: skip
def test_what_would_fire_elsewhere_is_refused(owner: Server, schema: str, statement: str, sqlstate: str) -> None:
    _make(owner, schema, "CREATE TRIGGER r AFTER UPDATE ON p FOR EACH ROW EXECUTE FUNCTION notes();")
    with psycopg.connect(owner.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("CREATE TEMPORARY TABLE own (id integer)")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(statement.encode())
        assert caught.value.sqlstate == sqlstate


def test_who_may_not_make_triggers(owner: Server, client: Server, schema: str) -> None:
    _make(owner, schema, "", client.user)
    owner.psql("-qc", f"REVOKE TRIGGER ON {schema}.p FROM PUBLIC")
    with psycopg.connect(client.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TRIGGER r AFTER UPDATE ON p FOR EACH ROW EXECUTE FUNCTION notes()")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("ALTER TABLE p DISABLE TRIGGER USER")


def test_a_trigger_sees_no_rows_that_policies_hide(owner: Server, client: Server, schema: str) -> None:
    """All rows are in the shadow, and the trigger runs with the client's rights."""
    triggers = """
        CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE NOTICE 'sees % and %', (SELECT count(*) FROM p), (SELECT count(*) FROM c); RETURN NEW; END $$;
        CREATE TRIGGER r AFTER UPDATE ON p FOR EACH ROW EXECUTE FUNCTION tells();
        ALTER TABLE p ENABLE ROW LEVEL SECURITY;
        CREATE POLICY few ON p USING (id < 4);"""
    _make(owner, schema, triggers, client.user)
    sql = f"SET search_path = {schema};\nSET client_min_messages = notice;\nUPDATE p SET n = 0;\n"
    assert client.psql("-q", sql=sql, merge_output=True).stdout.count("sees 3 and 20") == 3


def test_a_check_that_writes_while_rows_are_copied(owner: Server, schema: str) -> None:
    """It runs past all triggers then: what it wrote would be in another shadow, and nowhere in the lake."""
    _make(owner, schema, "")
    with psycopg.connect(owner.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("""
            CREATE TABLE other (n integer);
            CREATE FUNCTION holds(n integer) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$;
            CREATE TABLE t (n integer CHECK (holds(n)));
            INSERT INTO t VALUES (1);
            CREATE OR REPLACE FUNCTION holds(n integer) RETURNS boolean LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO other VALUES (n); RETURN true; END $$""")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="while rows are copied"):
            connection.execute("DO $$ BEGIN PERFORM FROM t; PERFORM set_config('a.b', 'c', false); END $$")
        connection.execute("DO $$ BEGIN PERFORM FROM other; INSERT INTO other VALUES (7); END $$")
        assert connection.execute("SELECT n FROM other").fetchall() == [(7,)]
