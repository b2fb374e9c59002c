"""Row-level security: each role sees and writes the rows that PostgreSQL permits, by every kind of statement.

Nothing reveals the rows that policies hide. Whole sessions of several roles are in
tests/golden/sessions/row-security*.sql.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psycopg
import pytest

from catalog.postgres.embedded import binaries
from gateway.execution.reading.postgres_query import SMALL_ROWS
from tests.servers import GatewayProcess, Server

_ROWS = 40_000  # enough for an index to be used


@dataclass(frozen=True)
class Story:
    """A table `t` whose policy lets a role see the rows that are its own, and two roles that can log in."""

    server: Server
    schema: str
    amy: str
    ben: str

    def connect(self, user: str | None = None) -> psycopg.Connection:
        url = self.server.url if user is None else replace(self.server, user=user).url
        return psycopg.connect(url, autocommit=True, options=f"-csearch_path={self.schema}")


@pytest.fixture
def story(target: Server, target_schema: str) -> Iterator[Story]:
    amy, ben = (f"{name}_{secrets.token_hex(4)}" for name in ("amy", "ben"))
    found = Story(target, target_schema, amy, ben)
    with found.connect() as owner:
        owner.execute(
            f"""
            CREATE ROLE {amy} LOGIN; CREATE ROLE {ben} LOGIN;
            GRANT {amy}, {ben} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;
            GRANT USAGE ON SCHEMA {target_schema} TO PUBLIC;
            CREATE TABLE t (id integer PRIMARY KEY, owner text, n integer);
            INSERT INTO t VALUES (1, '{amy}', 1), (2, '{ben}', 2), (3, '{amy}', 3), (4, NULL, 4);
            CREATE POLICY own ON t USING (owner = current_user); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
            GRANT ALL ON t TO PUBLIC;
            """.encode()
        )
        yield found
        owner.execute(f"DROP TABLE t; DROP ROLE {amy}, {ben}".encode())


_ids = "SELECT id FROM t ORDER BY id"


def test_a_statement_prepared_by_one_role_and_executed_by_another(story: Story) -> None:
    seen = {story.amy: [(1,), (3,)], story.ben: [(2,)], "none": [(1,), (2,), (3,), (4,)]}
    with story.connect() as client:
        for role in (story.amy, story.ben, "none", story.amy, "none", story.ben):
            client.execute(f"SET ROLE {role}".encode())
            assert client.execute(_ids, prepare=True).fetchall() == seen[role]
            # Of parameters, in text and in binary form.
            for binary in (False, True):
                asked = client.execute("SELECT id FROM t WHERE id > %s ORDER BY id", (0,), prepare=True, binary=binary)
                assert asked.fetchall() == seen[role]
        client.execute(f"SET ROLE {story.ben}".encode())
        client.execute("SET row_security = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="would be affected by row-level security"):
            client.execute(_ids, prepare=True)


def test_statements_of_several_roles_in_one_pipeline(story: Story) -> None:
    with story.connect() as client, client.pipeline():
        asked = []
        for role in (story.amy, story.ben, "none", story.amy):
            client.execute(f"SET ROLE {role}".encode())
            asked.append(client.execute(_ids))
        assert [each.fetchall() for each in asked] == [[(1,), (3,)], [(2,)], [(1,), (2,), (3,), (4,)], [(1,), (3,)]]


def test_statements_of_several_roles_in_one_query(story: Story) -> None:
    with story.connect() as client:
        text = f"SET ROLE {story.amy}; {_ids}; SET ROLE {story.ben}; {_ids}; RESET ROLE; SELECT count(*) FROM t"
        cursor = client.execute(text.encode())
        found = []
        while True:
            if cursor.description is not None:
                found.append(cursor.fetchall())
            if not cursor.nextset():
                break
        assert found == [[(1,), (3,)], [(2,)], [(4,)]]


def test_a_policy_that_is_changed_while_others_have_prepared(story: Story) -> None:
    with story.connect() as owner, story.connect(story.ben) as ben:
        for condition, expected in (("true", 4), ("n > 2", 2), ("false", 0), ("owner = current_user", 1)):
            owner.execute(f"ALTER POLICY own ON t USING ({condition})".encode())
            assert ben.execute("SELECT count(*) FROM t", prepare=True).fetchone() == (expected,)


def test_roles_that_log_in_and_those_that_bypass(story: Story, gateway_process: GatewayProcess) -> None:
    superuser = story.server.superuser.url if story.server.name == "postgres" else gateway_process.catalog_url
    with story.connect(story.ben) as ben:
        assert ben.execute(_ids).fetchall() == [(2,)]
    with psycopg.connect(superuser, autocommit=True) as catalog:
        catalog.execute(f"ALTER ROLE {story.ben} BYPASSRLS".encode())
    with story.connect(story.ben) as ben:
        assert ben.execute(_ids).fetchall() == [(1,), (2,), (3,), (4,)]
        assert ben.execute("SELECT row_security_active('t')").fetchone() == (False,)
        assert ben.execute("UPDATE t SET owner = NULL WHERE id = 1").rowcount == 1
        ben.execute("SET row_security = off")
        assert ben.execute("SELECT count(*) FROM t").fetchone() == (4,)
        with ben.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write("5\t\\N\t5\n")
    with story.connect(story.amy) as amy:
        assert amy.execute(_ids).fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("statement", "sqlstate", "message", "detail"),
    [
        ("INSERT INTO t VALUES (9, 'x')", "42501", 'new row violates row-level security policy for table "t"', None),
        ("UPDATE t SET owner = 'x'", "42501", 'new row violates row-level security policy for table "t"', None),
        (
            "INSERT INTO t SELECT id + 9, NULL, 1 FROM t",
            "42501",
            'new row violates row-level security policy for table "t"',
            None,
        ),
        (
            "INSERT INTO t VALUES (1, current_user) ON CONFLICT (id) DO UPDATE SET n = 7",
            "42501",
            'new row violates row-level security policy (USING expression) for table "t"',
            None,
        ),
        (
            "INSERT INTO t VALUES (1, current_user)",
            "23505",
            'duplicate key value violates unique constraint "t_pkey"',
            None,
        ),
        ("UPDATE t SET id = 1", "23505", 'duplicate key value violates unique constraint "t_pkey"', None),
        ("COPY t FROM STDIN", "0A000", "COPY FROM not supported with row-level security", None),
    ],
)
def test_errors(story: Story, statement: str, sqlstate: str, message: str, detail: str | None) -> None:
    with story.connect(story.ben) as ben:
        with pytest.raises(psycopg.Error) as raised:
            ben.execute(statement.encode())
        found = raised.value.diag
        assert (found.sqlstate, found.message_primary, found.message_detail) == (sqlstate, message, detail)


def test_who_may_not_read_a_key_is_not_told_it(story: Story) -> None:
    with story.connect() as owner:
        owner.execute("ALTER TABLE t DISABLE ROW LEVEL SECURITY; REVOKE SELECT ON t FROM PUBLIC")
        with pytest.raises(psycopg.errors.UniqueViolation) as told:
            owner.execute("INSERT INTO t VALUES (1)")
        assert told.value.diag.message_detail == "Key (id)=(1) already exists."
    with story.connect(story.ben) as ben:
        with pytest.raises(psycopg.errors.UniqueViolation) as untold:
            ben.execute("INSERT INTO t VALUES (1)")
        assert untold.value.diag.message_detail is None


def test_keys_of_references_are_not_told(story: Story) -> None:
    with story.connect() as owner:
        owner.execute(
            "CREATE TABLE child (id integer, t integer REFERENCES t); INSERT INTO child VALUES (1, 2);"
            "CREATE POLICY every ON child USING (true); ALTER TABLE child ENABLE ROW LEVEL SECURITY;"
            "GRANT ALL ON child TO PUBLIC"
        )
        with pytest.raises(psycopg.errors.ForeignKeyViolation) as told:
            owner.execute("DELETE FROM t WHERE id = 2")
        assert told.value.diag.message_detail == 'Key (id)=(2) is still referenced from table "child".'
    with story.connect(story.ben) as ben:
        for statement, detail in (
            ("DELETE FROM t WHERE id = 2", 'Key is still referenced from table "child".'),
            ("INSERT INTO child VALUES (1, 99)", 'Key is not present in table "t".'),
            ("UPDATE child SET t = 98", 'Key is not present in table "t".'),
        ):
            with pytest.raises(psycopg.errors.ForeignKeyViolation) as untold:
                ben.execute(statement.encode())
            assert untold.value.diag.message_detail == detail
        ben.execute("INSERT INTO child VALUES (2, 4)")  # a row that it does not see
    with story.connect() as owner:
        owner.execute("DROP TABLE child")


def test_pg_dump_and_what_it_gives(story: Story) -> None:
    dump = story.server.run(binaries() / "pg_dump", "--table", f"{story.schema}.t", "--no-owner").stdout
    made = {line for line in dump.splitlines() if line.startswith(("CREATE POLICY", "ALTER TABLE"))}
    assert made >= {
        f"ALTER TABLE {story.schema}.t ENABLE ROW LEVEL SECURITY;",
        f"CREATE POLICY own ON {story.schema}.t USING ((owner = CURRENT_USER));",
    }
    assert f"2\t{story.ben}\t2" in dump.splitlines()
    refused = replace(story.server, user=story.ben).run(
        binaries() / "pg_dump", "--table", f"{story.schema}.t", "--data-only", check=False
    )
    assert refused.returncode != 0
    assert 'query would be affected by row-level security policy for table "t"' in refused.stderr
    assert story.amy not in refused.stdout


@pytest.fixture
def large(gateway: Server, schema: str) -> Iterator[tuple[str, str]]:
    """The owner's search path and a role; of the rows that it does not see, one has id 7 and one n 7."""
    role = f"eve_{secrets.token_hex(4)}"
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as owner:
        owner.execute(
            f"""
            CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
            CREATE TABLE t (id integer, n integer);
            INSERT INTO t SELECT id, id FROM generate_series(2, 2 * {_ROWS}, 2) id; INSERT INTO t VALUES (7, 7);
            CREATE INDEX ON t (id);
            CREATE POLICY p ON t USING (id > {_ROWS}); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
            GRANT ALL ON t TO PUBLIC;
            """.encode()
        )
        yield schema, role
        owner.execute(f"DROP TABLE t; DROP ROLE {role}".encode())


def test_explain_tells_nothing_of_hidden_rows(gateway: Server, large: tuple[str, str]) -> None:
    schema, role = large
    url = replace(gateway, user=role).url
    with psycopg.connect(url, autocommit=True, options=f"-csearch_path={schema}") as client:

        def explained(statement: str, value: int) -> list[str]:
            found = client.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {statement.format(value)}".encode()).fetchall()
            varying = rf"[\d.]+ ms|\[file:[^,\]]*|\b{value}\b|#\d+L?|plan_id=\d+"
            lines = (re.sub(varying, "*", line) for (line,) in found)
            return list(lines)

        for statement in (
            "SELECT * FROM t WHERE id = {}",
            "SELECT count(*) FROM t WHERE n = {}",
            "SELECT row_to_json(t) FROM t WHERE id = {}",
            "SELECT * FROM t WHERE id IN ({}, 1)",
            "UPDATE t SET n = 1 WHERE id = {}",
            "DELETE FROM t WHERE id = {}",
        ):
            there, not_there = explained(statement, 7), explained(statement, 9)
            assert there == not_there
            assert not any("skipped" in line and "0 skipped" not in line for line in there)


def test_an_index_finds_only_what_policies_let_through(gateway: Server, large: tuple[str, str]) -> None:
    schema, role = large
    url = replace(gateway, user=role).url
    with psycopg.connect(url, autocommit=True, options=f"-csearch_path={schema}") as client:
        asked = f"SELECT id FROM t WHERE id IN (7, 8, {_ROWS + 2}) ORDER BY id"
        assert client.execute(asked.encode()).fetchall() == [(_ROWS + 2,)]
        asked = f"SELECT min(id), max(id), count(*) FROM t WHERE id < {_ROWS + 6}"
        assert client.execute(asked.encode()).fetchone() == (_ROWS + 2, _ROWS + 4, 2)


def test_changes_by_portions_see_what_policies_let_through(gateway: Server, schema: str) -> None:
    """Conditions run over no hidden row, neither where Spark finds the rows nor where PostgreSQL changes them."""
    role, rows = f"eve_{secrets.token_hex(4)}", SMALL_ROWS + 10
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as owner:
        owner.execute(
            f"""
            CREATE ROLE {role} LOGIN; GRANT {role} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;
            GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
            CREATE TABLE t (id integer PRIMARY KEY, n integer, doc jsonb);
            INSERT INTO t SELECT id, id, '{{}}' FROM generate_series(1, {rows}) id;
            CREATE POLICY p ON t USING (id > 9); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
            CREATE VIEW v WITH (security_barrier) AS SELECT * FROM t WHERE id > 9;
            GRANT ALL ON t, v TO PUBLIC;
            """.encode()
        )
        change = "UPDATE {} SET doc = jsonb_set(doc, '{{{}}}', '1') WHERE 1 / (n - {}) >= 0"
        for relation, label, before in (
            ("t", "a", f"SET ROLE {role}"),
            ("v", "b", f"RESET ROLE; ALTER TABLE t DISABLE ROW LEVEL SECURITY; SET ROLE {role}"),
        ):
            owner.execute(before.encode())
            assert owner.execute(change.format(relation, label, 5).encode()).rowcount == rows - 9
            with pytest.raises(psycopg.errors.DivisionByZero):
                owner.execute(change.format(relation, label, 50).encode())
        owner.execute(f"RESET ROLE; ALTER TABLE t ENABLE ROW LEVEL SECURITY; SET ROLE {role}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute(f"UPDATE t SET id = id - {rows}, doc = doc || '{{}}' WHERE id = {rows}".encode())
        owner.execute("RESET ROLE; ALTER TABLE t DISABLE ROW LEVEL SECURITY")
        found = owner.execute("SELECT count(*), count(doc -> 'a'), count(doc -> 'b'), min(id) FROM t")
        assert found.fetchone() == (rows, rows - 9, rows - 9, 1)
        owner.execute(f"DROP VIEW v; DROP TABLE t; DROP ROLE {role}".encode())


def test_rows_of_the_past_are_hidden_by_the_policies_of_today(gateway: Server, schema: str) -> None:
    role = f"eve_{secrets.token_hex(4)}"
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as owner:
        owner.execute(f"CREATE ROLE {role}; GRANT {role} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE".encode())
        owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC; CREATE TABLE t (id integer, n integer)".encode())
        owner.execute("GRANT ALL ON t TO PUBLIC; INSERT INTO t VALUES (1, 1), (2, 2)")
        row = owner.execute("SELECT max(snapshot_id) FROM pg_sluice.snapshots").fetchone()
        assert row is not None
        owner.execute("CREATE POLICY p ON t USING (id = 1); ALTER TABLE t ENABLE ROW LEVEL SECURITY; DELETE FROM t")
        owner.execute(f"SET sluice.as_of = '{row[0]}'".encode())
        assert owner.execute("SELECT count(*) FROM t").fetchone() == (2,)
        owner.execute(f"SET ROLE {role}".encode())
        assert owner.execute("SELECT * FROM t WHERE 1 / (n - 2) <> 5").fetchall() == [(1, 1)]
        owner.execute("RESET ROLE; RESET sluice.as_of")
        owner.execute(f"DROP TABLE t; DROP ROLE {role}".encode())


def test_an_open_transaction_hears_of_another_policy(gateway: Server, schema: str) -> None:
    with (
        psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as owner,
        psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as other,
    ):
        owner.execute("CREATE TABLE t (id integer); INSERT INTO t VALUES (1)")
        other.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM t").fetchone() == (1,)
        owner.execute("CREATE POLICY p ON t USING (false)")
        owner.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        with pytest.raises(psycopg.errors.SerializationFailure, match='the schema of table "t" has changed') as raised:
            other.execute("SELECT count(*) FROM t")
        assert raised.value.diag.message_detail == 'The row-level security of table "t" was changed.'
        other.execute("ROLLBACK")
        assert other.execute("SELECT count(*) FROM t").fetchone() == (0,)
