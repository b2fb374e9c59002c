"""Statements over temporary tables are not asked about again: what changes their meaning meanwhile, in every way."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from catalog.datatypes import INT4
from tests.servers import Server

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def session(target: Server, target_schema: str) -> Iterator[Connection]:
    """The session whose temporary tables these are."""
    with psycopg.connect(target.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {target_schema}".encode())
        yield connection


@pytest.fixture
def role(other: Connection, target_schema: str) -> Iterator[str]:
    """A role that the session may become."""
    name = f"{target_schema}_other"
    other.execute(f"CREATE ROLE {name}".encode())
    other.execute(f"GRANT {name} TO CURRENT_USER WITH SET TRUE".encode())
    other.execute(f"GRANT USAGE ON SCHEMA {target_schema} TO {name}".encode())
    yield name
    other.execute(f"DROP OWNED BY {name}".encode())
    other.execute(f"DROP ROLE {name}".encode())


@pytest.fixture
def other(target: Server, target_schema: str) -> Iterator[Connection]:
    """Another session of the same role."""
    with psycopg.connect(target.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {target_schema}".encode())
        yield connection


class Statements:
    """An INSERT, as text and prepared, and a prepared query, repeated until nothing is asked about them."""

    def __init__(self, session: Connection) -> None:
        self.session = session
        self.number = 100
        for name, sql in (
            ("insert_u", "INSERT INTO u VALUES ($1, 'mine')"),
            ("read_u", "SELECT what FROM u WHERE id = $1"),
        ):
            # psycopg would prepare it anew after each change of a schema.
            result = session.pgconn.prepare(name.encode(), sql.encode(), [INT4])
            assert result.status == ExecStatus.COMMAND_OK, result.error_message

    def _executed(self, name: str, value: int) -> PGresult:
        result = self.session.pgconn.exec_prepared(name.encode(), [str(value).encode()])
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise error_from_result(result)
        return result

    def insert(self) -> None:
        self.number += 2
        self.session.execute(f"INSERT INTO u VALUES ({self.number}, 'mine')".encode())
        self._executed("insert_u", self.number + 1)

    def read(self) -> list[str]:
        result = self._executed("read_u", 7)
        return [(result.get_value(row, 0) or b"").decode() for row in range(result.ntuples)]

    def repeat(self) -> None:
        for _ in range(3):
            self.insert()
            assert self.read() == []


def _make_lake(other: Connection) -> None:
    other.execute("CREATE TABLE u (id integer, what text)")
    other.execute("INSERT INTO u VALUES (7, 'lake')")


_MADE = "CREATE TEMPORARY TABLE u (id integer, what text)"


@pytest.mark.parametrize(
    "gone",
    [
        "DROP TABLE pg_temp.u",
        "DISCARD TEMPORARY",
        "ALTER TABLE pg_temp.u RENAME TO v",
        "DO $$ BEGIN DROP TABLE pg_temp.u; END $$",
        "SELECT drops()",
        "SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', false)",
    ],
)
@pytest.mark.parametrize("hides", [False, True])
def test_a_temporary_table_goes(session: Connection, other: Connection, gone: str, hides: bool) -> None:
    """Behind it is a table of the lake, which was there before, or was made meanwhile."""
    other.execute("CREATE FUNCTION drops() RETURNS void LANGUAGE plpgsql AS $$ BEGIN DROP TABLE pg_temp.u; END $$")
    if hides:
        _make_lake(other)
    session.execute(_MADE)
    statements = Statements(session)
    statements.repeat()
    if not hides:
        _make_lake(other)
    statements.insert()
    session.execute(gone.encode())
    assert statements.read() == ["lake"]
    statements.insert()
    assert other.execute("SELECT count(*) FROM u").fetchall() == [(3,)]
    if "search_path" not in gone:  # and anew
        other.execute("DROP TABLE u")
        session.execute(_MADE)
        statements.repeat()


def test_search_path_of_a_block(session: Connection, other: Connection, target_schema: str) -> None:
    """It comes back with the block's end, and a savepoint's."""
    session.execute(_MADE)
    statements = Statements(session)
    statements.repeat()
    _make_lake(other)
    with session.transaction(force_rollback=True):
        session.execute(f"SET LOCAL search_path = {target_schema}, pg_temp".encode())
        assert statements.read() == ["lake"]
        statements.insert()
    statements.repeat()
    with session.transaction():
        statements.repeat()
        session.execute("SAVEPOINT s")
        session.execute(f"SET search_path = {target_schema}, pg_temp".encode())
        assert statements.read() == ["lake"]
        session.execute("ROLLBACK TO s")
        statements.repeat()
    assert other.execute("SELECT count(*) FROM u").fetchall() == [(1,)]


@pytest.mark.parametrize("end", ["COMMIT", "COMMIT AND CHAIN", "ROLLBACK", "ROLLBACK TO s"])
def test_a_table_of_the_block(session: Connection, other: Connection, end: str) -> None:
    """It goes with the transaction that made it."""
    session.execute("BEGIN")
    session.execute("SAVEPOINT s")
    session.execute(f"{_MADE} ON COMMIT DROP".encode())
    statements = Statements(session)
    statements.repeat()
    _make_lake(other)
    statements.repeat()
    session.execute(end.encode())
    assert statements.read() == ["lake"]
    statements.insert()
    session.execute("COMMIT")
    assert other.execute("SELECT count(*) FROM u").fetchall() == [(3,)]


def test_a_table_of_the_block_alone(session: Connection) -> None:
    with session.transaction():
        session.execute(f"{_MADE} ON COMMIT DROP".encode())
        statements = Statements(session)
        statements.repeat()
    with pytest.raises(psycopg.errors.UndefinedTable):
        statements.insert()
    with pytest.raises(psycopg.errors.UndefinedTable):
        statements.read()


def test_a_table_of_a_pipeline(session: Connection, other: Connection) -> None:
    """It goes with Sync."""
    _make_lake(other)
    with session.pipeline() as pipeline:
        session.execute(f"{_MADE} ON COMMIT DROP".encode())
        for number in range(3):
            session.execute("INSERT INTO u VALUES (%s, 'mine')", (number,), prepare=True)
        pipeline.sync()
        session.execute("INSERT INTO u VALUES (%s, 'mine')", (9,), prepare=True)
    assert other.execute("SELECT id FROM u ORDER BY id").fetchall() == [(7,), (9,)]


def test_dropped_by_another_session(session: Connection, other: Connection, role: str) -> None:
    """With all else that the role owns."""
    session.execute(f"SET ROLE {role}".encode())
    session.execute(_MADE)
    statements = Statements(session)
    statements.repeat()
    other.execute(f"DROP OWNED BY {role}".encode())
    _make_lake(other)
    other.execute(f"GRANT ALL ON u TO {role}".encode())
    session.execute("RESET ROLE")
    assert statements.read() == ["lake"]
    statements.insert()
    assert other.execute("SELECT count(*) FROM u").fetchall() == [(3,)]


_COUNTS = "CREATE FUNCTION counts() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM counted'"
_TRIGGER = """
CREATE FUNCTION counts_before() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.what := (SELECT count(*) FROM counted)::text; RETURN NEW; END $$
"""


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (["CREATE TRIGGER t BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION counts_before()"], "3"),
        (["ALTER TABLE u ADD COLUMN n bigint DEFAULT counts()", "ALTER TABLE u ALTER what SET DEFAULT ''"], "3"),
        (["ALTER TABLE u ADD CHECK (counts() < 3)"], None),
        (["CREATE UNIQUE INDEX ON u ((pinned(id)))"], "mine"),
    ],
)
def test_functions_that_read_the_lake(
    session: Connection, other: Connection, changes: list[str], found: str | None
) -> None:
    """A trigger, a default, a CHECK, an index of a temporary table."""
    other.execute("CREATE TABLE counted (id integer)")
    other.execute("INSERT INTO counted VALUES (1), (2), (3)")
    for sql in (_COUNTS, _TRIGGER, "CREATE FUNCTION pinned(i integer) RETURNS integer IMMUTABLE RETURN i", _MADE):
        session.execute(sql.encode())
    statements = Statements(session)
    statements.repeat()
    session.execute("DELETE FROM u")
    for sql in changes:
        session.execute(sql.encode())
    if found is None:
        with pytest.raises(psycopg.errors.CheckViolation):
            statements.insert()
        return
    statements.insert()
    column = "n::text" if "DEFAULT" in changes[0] else "what"
    assert session.execute(f"SELECT DISTINCT {column} FROM u".encode()).fetchall() == [(found,)]


def test_a_rule(gateway: Server, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as session:
        session.execute(f"SET search_path = {schema}".encode())
        session.execute(_MADE)
        session.execute("CREATE TABLE counted (id integer)")
        statements = Statements(session)
        statements.repeat()
        session.execute("CREATE RULE r AS ON INSERT TO u DO ALSO INSERT INTO counted VALUES (NEW.id)")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="rule"):
            statements.insert()


def test_a_domain_of_another_session(session: Connection, other: Connection) -> None:
    """It gets a CHECK that reads the lake."""
    other.execute("CREATE TABLE counted (id integer)")
    other.execute("INSERT INTO counted VALUES (1), (2), (3)")
    other.execute("CREATE FUNCTION few(i integer) RETURNS boolean LANGUAGE sql AS 'SELECT count(*) < i FROM counted'")
    other.execute("CREATE DOMAIN number AS integer")
    session.execute("CREATE TEMPORARY TABLE u (id number, what text)")
    statements = Statements(session)
    statements.repeat()
    session.execute("DELETE FROM u")
    other.execute("ALTER DOMAIN number ADD CHECK (few(VALUE))")
    statements.insert()
    with pytest.raises(psycopg.errors.CheckViolation):
        session.execute("INSERT INTO u VALUES (3, 'mine')")
    with pytest.raises(psycopg.errors.CheckViolation):
        session.execute("INSERT INTO u VALUES (%s, 'mine')", (2,), prepare=True)


def test_another_role(session: Connection, role: str) -> None:
    """Between two executions the session becomes another role, which has no right, gets and loses one."""
    session.execute(_MADE)
    statements = Statements(session)
    statements.repeat()
    session.execute(f"SET ROLE {role}".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        statements.insert()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        statements.read()
    session.execute("RESET ROLE")
    session.execute(f"GRANT SELECT ON u TO {role}".encode())
    session.execute(f"SET ROLE {role}".encode())
    for _ in range(3):
        assert statements.read() == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        statements.insert()
    session.execute("RESET ROLE")
    session.execute(f"REVOKE ALL ON u FROM {role}".encode())
    statements.repeat()
    session.execute("DROP TABLE u")


def test_a_column_changes(session: Connection) -> None:
    """PostgreSQL's own error, as for any prepared statement."""
    session.execute(_MADE)
    statements = Statements(session)
    statements.repeat()
    session.execute("TRUNCATE u")
    session.execute("ALTER TABLE u ALTER what TYPE varchar(2)")
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        statements.insert()
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan must not change result type"):
        statements.read()


def test_hidden_since(gateway: Server, schema: str) -> None:
    """PostgreSQL does not look again, and would read the empty shadow (docs/transactions.md)."""
    with psycopg.connect(gateway.url, autocommit=True) as session:
        session.execute(f"SET search_path = {schema}".encode())
        session.execute("CREATE TEMPORARY TABLE first (id integer)")
        _make_lake(session)
        statements = Statements(session)
        session.execute("PREPARE reads AS SELECT what FROM u WHERE id = 7")
        assert statements.read() == ["lake"]
        session.execute(_MADE)
        session.execute("INSERT INTO u VALUES (7, 'mine')")
        assert (statements.read(), statements.read()) == (["mine"], ["mine"])
        assert session.execute("EXECUTE reads").fetchall() == [("mine",)]
        statements.insert()
        assert session.execute(f"SELECT count(*) FROM {schema}.u".encode()).fetchall() == [(1,)]
        session.execute("DROP TABLE pg_temp.u")
        assert statements.read() == ["lake"]
        with session.transaction(force_rollback=True):
            session.execute(_MADE)
            assert (statements.read(), statements.read()) == ([], [])
        assert statements.read() == ["lake"]
        session.execute("CREATE TEMPORARY TABLE u (id integer, what integer)")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan must not change result type"):
            statements.read()
