"""Functions that PostgreSQL runs beside statements: refusals of what they do with the lake.

Their permitted effects are in golden sessions (functions-beside.sql).
"""

from __future__ import annotations

import pytest

from tests.servers import Server, sqlstate_of

_MADE = """
CREATE TABLE city (name text PRIMARY KEY);
INSERT INTO city VALUES ('Bern'), ('Chur');
CREATE VIEW place AS SELECT name FROM city;
CREATE FUNCTION cities() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM city); END $$;
CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := cities(); RETURN NEW; END $$;
CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', cities(); RETURN NEW; END $$;
CREATE FUNCTION doubles() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := 2 * NEW.n; RETURN NEW; END $$;
CREATE TRIGGER place_trigger INSTEAD OF INSERT ON place FOR EACH ROW EXECUTE FUNCTION tells();
CREATE DOMAIN known AS bigint CHECK (cities() >= 0);
CREATE TEMP TABLE noted (n bigint, m integer);
INSERT INTO noted VALUES (1, 1);
CREATE TEMP TABLE counted (n bigint);
CREATE TRIGGER counted_trigger BEFORE INSERT OR UPDATE ON counted FOR EACH ROW EXECUTE FUNCTION counts();
CREATE TEMP TABLE checked (n bigint CHECK (cities() >= n));
CREATE TEMP TABLE held (n known);
CREATE TEMP TABLE parent (n integer PRIMARY KEY);
CREATE TEMP TABLE child (n integer REFERENCES parent ON DELETE SET NULL);
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1);
CREATE TRIGGER child_trigger BEFORE UPDATE ON child FOR EACH ROW EXECUTE FUNCTION tells();
CREATE FUNCTION adds() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO visit VALUES (1); RETURN 1; END $$;
CREATE FUNCTION visits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := adds(); RETURN NEW; END $$;
CREATE TABLE visit (n integer, m integer);
INSERT INTO visit VALUES (7);
CREATE VIEW visited AS SELECT n FROM visit OFFSET 0;
CREATE TRIGGER visited_trigger INSTEAD OF INSERT ON visited FOR EACH ROW EXECUTE FUNCTION visits();
CREATE TEMP TABLE seen (n bigint);
CREATE TRIGGER seen_trigger BEFORE INSERT ON seen FOR EACH ROW EXECUTE FUNCTION visits();
CREATE FUNCTION sees() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO noted VALUES (2); RETURN 2; END $$;
CREATE FUNCTION grows(bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN sees() > 0; END $$;
CREATE TABLE ruled (id integer PRIMARY KEY, k bigint CHECK (grows(k)));
CREATE TABLE referring (id integer REFERENCES ruled ON UPDATE CASCADE);
CREATE TEMP TABLE doubled (n bigint);
CREATE TRIGGER doubled_trigger BEFORE INSERT ON doubled FOR EACH ROW EXECUTE FUNCTION doubles();
"""


@pytest.mark.parametrize(
    "statement",
    [
        "COPY counted FROM STDIN",
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON doubled DEFERRABLE FOR EACH ROW EXECUTE FUNCTION tells()",
    ],
)
def test_one_that_reads_a_lake_table_is_refused(gateway: Server, schema: str, statement: str) -> None:
    state, _ = sqlstate_of(gateway, f"SET search_path = {schema}", _MADE, statement)
    assert state == "0A000"


def test_others_run(gateway: Server, schema: str) -> None:
    made = f"SET search_path = {schema};\n{_MADE}"
    wanted = (
        "INSERT INTO doubled VALUES (4); UPDATE noted SET n = 3; SELECT n FROM doubled UNION ALL SELECT n FROM noted"
    )
    assert gateway.psql("-qAt", sql=f"{made}\n{wanted};").stdout.split() == ["8", "3"]


@pytest.mark.parametrize("begin", ["", "BEGIN", "BEGIN; ALTER TABLE city ADD people integer"])
def test_one_that_changes_a_lake_table_is_refused_at_once(gateway: Server, schema: str, begin: str) -> None:
    """At COMMIT it would be too late: what comes before that would not have the rows, or without the values."""
    path = f"SET search_path = {schema}"
    statement = "INSERT INTO ruled VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET id = (SELECT max(id) FROM ruled)"
    state, message = sqlstate_of(gateway, path, _MADE, *filter(None, [begin]), statement)
    what = "a function that changes a table while it makes rows of another"
    assert (state, message) == ("0A000", f"{what} is not supported on lake tables")
    assert gateway.psql("-qAtc", f"{path}; SELECT * FROM visit").stdout == "7|\n"
