"""Prepared statements over lake tables are executed by their last analysis: what makes it wrong meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from catalog.datatypes import INT4
from tests.servers import Server

Connection = psycopg.Connection[tuple[object, ...]]

_PREPARED = {
    "read": "SELECT name FROM kept WHERE id = $1",
    "count": "SELECT count(*) FROM kept WHERE n >= $1",
    "put": "INSERT INTO kept VALUES ($1, 1, 'put')",
    "upsert": "INSERT INTO kept VALUES ($1, 1, 'upsert') ON CONFLICT (id) DO UPDATE SET n = kept.n + 1",
    "change": "UPDATE kept SET n = n + 1 WHERE id = $1",
    "remove": "DELETE FROM kept WHERE id = $1",
}


@pytest.fixture
def other(target: Server, target_schema: str) -> Iterator[Connection]:
    """The session that changes what others use; the table is its role's."""
    with psycopg.connect(target.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {target_schema}".encode())
        connection.execute("CREATE TABLE kept (id integer PRIMARY KEY, n integer, name text)")
        connection.execute("INSERT INTO kept SELECT g, g, 'row ' || g FROM generate_series(1, 20) g")
        yield connection


@pytest.fixture
def role(other: Connection, target_schema: str) -> Iterator[str]:
    """A role that may do all with the table."""
    name = f"{target_schema}_other"
    other.execute(f"CREATE ROLE {name}".encode())
    other.execute(f"GRANT {name} TO CURRENT_USER WITH SET TRUE".encode())
    other.execute(f"GRANT USAGE ON SCHEMA {target_schema} TO {name}".encode())
    other.execute(f"GRANT ALL ON kept TO {name}".encode())
    yield name
    other.execute(f"DROP OWNED BY {name}".encode())
    other.execute(f"DROP ROLE {name}".encode())


class Statements:
    """A session with prepared statements, each of which was executed several times."""

    def __init__(self, session: Connection, *names: str) -> None:
        self.session = session
        self._number = 100
        for name in names or _PREPARED:
            result = session.pgconn.prepare(name.encode(), _PREPARED[name].encode(), [INT4])
            assert result.status == ExecStatus.COMMAND_OK, result.error_message
        for _ in range(3):
            for name in names or _PREPARED:
                self.run(name, self.fresh() if name in {"put", "upsert"} else 20)

    def fresh(self) -> int:
        self._number += 1
        return self._number

    def run(self, name: str, *values: object) -> list[str]:
        """The first column of the answer, or its tag."""
        result = self.session.pgconn.exec_prepared(name.encode(), [str(value).encode() for value in values])
        if result.status == ExecStatus.TUPLES_OK:
            return [(result.get_value(row, 0) or b"").decode() for row in range(result.ntuples)]
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)
        return [(result.command_status or b"").decode()]


@pytest.fixture
def session(target: Server, target_schema: str, other: Connection) -> Iterator[Connection]:
    with psycopg.connect(target.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {target_schema}".encode())
        yield connection


_RIGHTS = {"read": "SELECT", "count": "SELECT", "put": "INSERT", "change": "UPDATE", "remove": "DELETE"}


@pytest.mark.parametrize("name", _RIGHTS)
def test_rights_are_revoked(session: Connection, other: Connection, role: str, name: str) -> None:
    session.execute(f"SET ROLE {role}".encode())
    statements = Statements(session)
    other.execute(f"REVOKE {_RIGHTS[name]} ON kept FROM {role}".encode())
    for _ in range(2):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            statements.run(name, 3)
    other.execute(f"GRANT {_RIGHTS[name]} ON kept TO {role}".encode())
    statements.run(name, 77)
    session.execute("RESET ROLE")


def test_rights_on_columns(session: Connection, other: Connection, role: str) -> None:
    session.execute(f"SET ROLE {role}".encode())
    statements = Statements(session)
    other.execute(f"REVOKE ALL ON kept FROM {role}".encode())
    other.execute(f"GRANT SELECT (id, n), UPDATE (name) ON kept TO {role}".encode())
    assert statements.run("count", 18)
    for name in ("read", "change", "upsert"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            statements.run(name, 3)
    session.execute("RESET ROLE")


def test_the_role_changes(session: Connection, role: str) -> None:
    statements = Statements(session)
    session.execute("CREATE TABLE secret (LIKE kept)")
    session.execute("ALTER TABLE kept RENAME TO open")
    session.execute("ALTER TABLE secret RENAME TO kept")
    assert statements.run("read", 3) == []
    for _ in range(2):
        statements.run("count", 1)
    session.execute(f"SET ROLE {role}".encode())
    for name in _RIGHTS:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            statements.run(name, 3)
    session.execute("RESET ROLE")
    assert statements.run("count", 0) == ["0"]


@pytest.mark.parametrize("forced", [False, True])
def test_policies_are_made(session: Connection, other: Connection, role: str, forced: bool) -> None:
    session.execute(f"SET ROLE {role}".encode())
    statements = Statements(session)
    other.execute("ALTER TABLE kept ENABLE ROW LEVEL SECURITY")
    assert statements.run("read", 3) == []
    other.execute("CREATE POLICY few ON kept USING (id < 5)")
    if forced:
        other.execute("ALTER TABLE kept FORCE ROW LEVEL SECURITY")
    assert (statements.run("read", 3), statements.run("read", 6)) == (["row 3"], [])
    assert statements.run("count", 1) == ["4"]
    assert statements.run("change", 6) == ["UPDATE 0"]
    assert statements.run("remove", 6) == ["DELETE 0"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        statements.run("put", 500)
    other.execute("ALTER POLICY few ON kept USING (id < 3)")
    assert (statements.run("read", 2), statements.run("read", 3)) == (["row 2"], [])
    other.execute("ALTER TABLE kept DISABLE ROW LEVEL SECURITY")
    assert statements.run("read", 6) == ["row 6"]
    session.execute("RESET ROLE")


def test_the_table_is_another(session: Connection, other: Connection) -> None:
    statements = Statements(session)
    other.execute("ALTER TABLE kept RENAME TO was")
    for name in _PREPARED:
        with pytest.raises(psycopg.errors.UndefinedTable):
            statements.run(name, 3)
    other.execute("CREATE TABLE kept (id integer PRIMARY KEY, n integer, name text)")
    other.execute("INSERT INTO kept VALUES (3, 0, 'another')")
    assert statements.run("read", 3) == ["another"]
    assert statements.run("change", 3) == ["UPDATE 1"]
    assert statements.run("put", 4) == ["INSERT 0 1"]
    assert statements.run("upsert", 3) == ["INSERT 0 1"]
    assert other.execute("SELECT id, n FROM kept ORDER BY id").fetchall() == [(3, 2), (4, 1)]
    other.execute("DROP TABLE kept")
    for name in _PREPARED:
        with pytest.raises(psycopg.errors.UndefinedTable):
            statements.run(name, 3)


def test_columns_change(session: Connection, other: Connection) -> None:
    statements = Statements(session)
    other.execute("ALTER TABLE kept ADD COLUMN more integer DEFAULT 7, ALTER n SET DEFAULT 5")
    for name in ("read", "change", "remove", "put", "upsert"):
        statements.run(name, statements.fresh() if name in {"put", "upsert"} else 9)
    assert other.execute("SELECT DISTINCT more FROM kept").fetchall() == [(7,)]
    other.execute("ALTER TABLE kept ADD CHECK (n < 3) NOT VALID")
    with pytest.raises(psycopg.errors.CheckViolation):
        statements.run("change", 2)
    other.execute("ALTER TABLE kept ALTER name TYPE varchar(50)")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan must not change result type"):
        statements.run("read", 3)
    other.execute("ALTER TABLE kept DROP COLUMN n CASCADE")
    for name in ("count", "change"):
        with pytest.raises(psycopg.errors.UndefinedColumn):
            statements.run(name, 3)


def test_triggers_are_made(session: Connection, other: Connection) -> None:
    statements = Statements(session)
    other.execute(
        "CREATE FUNCTION marks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := -1; RETURN NEW; END $$"
    )
    other.execute("CREATE TRIGGER marks BEFORE INSERT OR UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION marks()")
    for name, value in (("change", 3), ("put", 400), ("upsert", 4), ("upsert", 401)):
        statements.run(name, value)
    assert other.execute("SELECT id FROM kept WHERE n = -1 ORDER BY id").fetchall() == [(3,), (4,), (400,), (401,)]
    other.execute("DROP TRIGGER marks ON kept")
    statements.run("change", 5)
    assert other.execute("SELECT n FROM kept WHERE id = 5").fetchall() == [(6,)]


def test_a_table_that_refers_to_it(session: Connection, other: Connection) -> None:
    statements = Statements(session)
    other.execute("CREATE TABLE child (id integer REFERENCES kept ON DELETE CASCADE)")
    other.execute("INSERT INTO child VALUES (3), (4)")
    assert statements.run("remove", 3) == ["DELETE 1"]
    assert other.execute("SELECT id FROM child").fetchall() == [(4,)]
    other.execute("ALTER TABLE child DROP CONSTRAINT child_id_fkey, ADD FOREIGN KEY (id) REFERENCES kept")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        statements.run("remove", 4)


def test_search_path_and_schemas(session: Connection, other: Connection, target_schema: str) -> None:
    statements = Statements(session)
    beside = f"{target_schema}_beside"
    other.execute(f"CREATE SCHEMA {beside}".encode())
    try:
        other.execute(f"CREATE TABLE {beside}.kept (LIKE kept INCLUDING ALL)".encode())
        session.execute(f"SET search_path = {beside}, {target_schema}".encode())
        assert statements.run("read", 3) == []
        statements.run("put", 3)
        assert statements.run("read", 3) == ["put"]
        session.execute(f"SELECT set_config('search_path', '{target_schema}', false)".encode())
        assert statements.run("read", 3) == ["row 3"]
        with session.transaction():
            session.execute(f"SET LOCAL search_path = {beside}".encode())
            assert statements.run("read", 3) == ["put"]
        assert statements.run("read", 3) == ["row 3"]
    finally:
        session.execute("DEALLOCATE ALL")
        other.execute(f"DROP SCHEMA {beside} CASCADE".encode())


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_in_a_block(session: Connection, other: Connection, isolation: str) -> None:
    """Another session commits rows between two executions."""
    statements = Statements(session, "count", "change", "read")
    session.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
    before = statements.run("count", 1)
    other.execute("INSERT INTO kept VALUES (900, 1, 'other')")
    assert (statements.run("count", 1) != before) == (isolation == "READ COMMITTED")
    assert statements.run("change", 3) == ["UPDATE 1"]
    assert statements.run("read", 3) == ["row 3"]
    session.execute("ROLLBACK")
    assert statements.run("count", 1) != before


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (["x"], psycopg.errors.InvalidTextRepresentation),
        ([""], psycopg.errors.InvalidTextRepresentation),
        (["2147483648"], psycopg.errors.NumericValueOutOfRange),
        (["-2147483649"], psycopg.errors.NumericValueOutOfRange),
        ([], psycopg.errors.ProtocolViolation),
        (["1", "2"], psycopg.errors.ProtocolViolation),
    ],
)
def test_parameters_that_are_wrong(session: Connection, values: list[str], error: type[psycopg.Error]) -> None:
    statements = Statements(session, "read", "change")
    for name in ("read", "change"):
        with pytest.raises(error):
            statements.run(name, *values)
        assert statements.run("read", " 0x3 ") == ["row 3"]


def test_the_statement_is_another(session: Connection) -> None:
    """Its name is given to another one, by SQL or the protocol."""
    statements = Statements(session, "read")
    session.execute("DEALLOCATE read")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        statements.run("read", 3)
    session.execute("PREPARE read AS SELECT n FROM kept WHERE id = $1")
    assert statements.run("read", 3) == ["3"]
    session.execute("DEALLOCATE ALL")
    session.pgconn.prepare(b"read", b"SELECT 'none' FROM kept WHERE id = $1", [INT4])
    assert statements.run("read", 3) == ["none"]
