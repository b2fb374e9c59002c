"""Code of a table's owner that runs as the owner never takes a client's temporary object for one of the owner's."""

from __future__ import annotations

import psycopg

from tests.servers import Server


def test_a_check_that_reads_a_view_by_its_bare_name(gateway: Server, schema: str) -> None:
    role, options = f"{schema}_mallory", f"-csearch_path={schema}"
    with psycopg.connect(gateway.url, autocommit=True, options=options) as owner:
        for statement in (
            "CREATE VIEW cfg AS SELECT 100 AS top",
            (
                "CREATE FUNCTION ok(integer) RETURNS boolean LANGUAGE plpgsql AS"
                " $$ DECLARE t integer; BEGIN SELECT top INTO t FROM cfg; RETURN $1 <= t; END $$"
            ),
            "CREATE TABLE acc (id integer PRIMARY KEY, v integer CHECK (ok(v)))",
            "INSERT INTO acc VALUES (1, 1), (2, 2)",
            f"CREATE ROLE {role} LOGIN",
            f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}",
            f"GRANT SELECT ON cfg TO {role}",
            f"GRANT SELECT, UPDATE ON acc TO {role}",
            "CREATE SEQUENCE acted",
            f"GRANT ALL ON acted TO {role}",
        ):
            owner.execute(statement.encode())
        url = gateway.url.replace("//sluice@", f"//{role}@")
        with psycopg.connect(url, autocommit=True, options=options) as mallory:
            mallory.execute(
                f"""CREATE FUNCTION evil() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
                    IF current_user <> '{role}' THEN PERFORM pg_catalog.nextval('{schema}.acted'); END IF;
                    RETURN 100; END $$""".encode()
            )
            mallory.execute(
                f"CREATE TEMP VIEW cfg AS SELECT {schema}.evil() AS top; GRANT SELECT ON cfg TO PUBLIC".encode()
            )
            for statement in (
                "MERGE INTO acc a USING (VALUES (1)) x (i) ON a.id = x.i WHEN MATCHED THEN UPDATE SET v = 6",
                "UPDATE acc SET v = v + 1",
                "UPDATE acc SET v = 7 WHERE id = 1 RETURNING v",
            ):
                try:
                    mallory.execute(statement.encode())
                except psycopg.Error as error:
                    assert error.sqlstate in {"0A000", "42P01"}  # noqa: PT017  either is safe
            mallory.execute("DROP OWNED BY CURRENT_USER CASCADE")
        assert owner.execute("SELECT is_called FROM acted").fetchone() == (False,)
        for what in (f"SCHEMA {schema}", "cfg, acc", "SEQUENCE acted"):
            owner.execute(f"REVOKE ALL ON {what} FROM {role}".encode())
        owner.execute(f"DROP ROLE {role}".encode())
