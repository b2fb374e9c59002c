"""Functions that obey the gateway alone do not obey clients, whatever they send and wherever their code runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import psycopg
import pytest

from gateway.backend.own_message import of_shadow, own, shadow_view
from gateway.wire.messages import backend, frontend
from tests.gateway.wire import Wire
from tests.servers import GatewayProcess, Server

_ROLE: Final = "'local'"
_CALL: Final = f"SELECT pg_sluice.set_replication_role({_ROLE}, '{{}}')"


@pytest.fixture
def client(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        yield connection


def _is_refused(client: psycopg.Connection, sql: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for the lake's metadata"):
        client.execute(sql.encode())


def test_a_client_that_asks_as_a_gateway_does(client: psycopg.Connection) -> None:
    for sql in (
        _CALL,
        own(_CALL),
        f"  {own(_CALL)}",
        f"SELECT 1; {own(_CALL)}",
        f"BEGIN; {own(_CALL)}; COMMIT",
        f"DO $$ BEGIN PERFORM 1; END $$; {own(_CALL)}",
        f"EXPLAIN ANALYZE {own(_CALL)}",
        f"/* a comment */ {own(_CALL)}",
        f"PREPARE p AS {own(_CALL)}",
        f"COPY ({own(_CALL)}) TO STDOUT",
        f"SELECT '{own('SELECT pg_sluice.stage(')}'",
    ):
        _is_refused(client, sql)
        client.execute("ROLLBACK")
    assert client.execute("SHOW session_replication_role").fetchone() == ("origin",)


@pytest.mark.parametrize("encoding", ["SJIS", "BIG5", "GB18030", "EUC_JP", "UHC", "LATIN1"])
def test_in_other_encodings(gateway: Server, encoding: str) -> None:
    wire = Wire(gateway, client_encoding=encoding)
    for messages in (
        [frontend.Query(own(_CALL))],
        [frontend.Parse("", own(_CALL)), frontend.Bind("", ""), frontend.Execute(""), frontend.Sync()],
        [frontend.Parse("p", f"SELECT 1 {own(_CALL)}"), frontend.Sync()],
    ):
        answers = wire.ask(*messages)
        errors = [each.to_error().sqlstate for each in answers if isinstance(each, backend.ErrorResponse)]
        assert errors == ["42501"], answers
    wire.close()


# What a message executes by its name has the text with which users' code has made it.
_FORGED: Final = own(_CALL).replace("'", "''")
_ASSEMBLED: Final = f"'{_FORGED[:5]}' || '{_FORGED[5:]}'"
_RESERVED: Final = "pg_sluice_0123456789abcdef_x"
_OPENED: Final = "DO $$ DECLARE c refcursor := '{name}'; BEGIN OPEN c FOR EXECUTE {text}; END $$"
_PREPARED: Final = "DO $$ BEGIN EXECUTE replace({text}, '*/', '*/ PREPARE {name} AS '); END $$"


def _states(answers: Sequence[object]) -> list[str]:
    return [each.to_error().sqlstate for each in answers if isinstance(each, backend.ErrorResponse)]


@pytest.mark.parametrize("named", ["", "portal"])
def test_by_a_statement_of_its_code(gateway: Server, named: str) -> None:
    wire = Wire(gateway)
    assert _states(wire.ask(frontend.Query("BEGIN"))) == []
    assert _states(wire.ask(frontend.Query(_PREPARED.format(name="p", text=_ASSEMBLED)))) == []
    answers = wire.ask(frontend.Bind(named, "p"), frontend.Execute(named), frontend.Sync())
    assert _states(answers) == ["42501"], answers
    wire.close()


def test_by_a_statement_in_place_of_a_known_one(gateway: Server) -> None:
    """The session has parsed one of that name before."""
    wire = Wire(gateway)
    for again in ("", "p2"):
        asked = [frontend.Parse("p", "SELECT 1"), frontend.Bind("", "p"), frontend.Execute(""), frontend.Sync()]
        assert _states(wire.ask(*asked)) == []
        exchanged = _PREPARED.format(name="p", text=_ASSEMBLED).replace("BEGIN ", "BEGIN DEALLOCATE p; ")
        assert _states(wire.ask(frontend.Query(exchanged))) == []
        answers = wire.ask(frontend.Bind(again, "p"), frontend.Execute(again), frontend.Sync())
        assert _states(answers) == ["42501"], answers
        wire.ask(frontend.Query("DEALLOCATE p"))
    wire.close()


def test_by_a_cursor_of_its_code(gateway: Server) -> None:
    wire = Wire(gateway)
    declared = "DO $$ BEGIN EXECUTE replace({text}, '*/', '*/ DECLARE {name} CURSOR FOR '); END $$"
    for made in (_OPENED, declared):
        for name, state in (("c", "42501"), (_RESERVED, "42939")):
            wire.ask(frontend.Query("ROLLBACK; BEGIN"))
            assert _states(wire.ask(frontend.Query(made.format(name=name, text=_ASSEMBLED)))) == []
            answers = wire.ask(frontend.Execute(name), frontend.Sync())
            assert _states(answers) == [state], answers
    wire.close()


def test_the_gateways_names_are_reserved(gateway: Server) -> None:
    wire = Wire(gateway)
    for message in (
        frontend.Parse(_RESERVED, "SELECT 1"),
        frontend.Bind(_RESERVED, ""),
        frontend.Bind("", _RESERVED),
        frontend.Describe(b"S", _RESERVED),
        frontend.Describe(b"P", _RESERVED),
        frontend.Execute(_RESERVED),
        frontend.Close(b"P", _RESERVED),
        frontend.Close(b"S", _RESERVED),
    ):
        answers = wire.ask(message, frontend.Sync())
        assert _states(answers) == ["42939"], (message, answers)
    wire.close()


def test_by_a_function_call(gateway: Server, gateway_process: GatewayProcess) -> None:
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as catalog:
        row = catalog.execute(
            "SELECT 'pg_sluice.set_replication_role(text,oid[])'::regprocedure::oid::bigint"
        ).fetchone()
    assert row is not None
    wire = Wire(gateway)
    answers = wire.ask(frontend.FunctionCall(row[0], (0,), (b"local", b"{}"), 0))
    assert [each.to_error().sqlstate for each in answers if isinstance(each, backend.ErrorResponse)] == ["0A000"]
    wire.close()


def test_code_that_runs_inside_of_the_gateways_messages(client: psycopg.Connection, schema: str) -> None:
    """A domain's CHECK, run by the action of a foreign key, may ask for what runs it, and for nothing else."""
    client.execute(
        f"""
        CREATE TABLE tried (n serial, how text, who text);
        CREATE FUNCTION try(what text) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            EXECUTE what;
            RAISE EXCEPTION '% was obeyed', what USING ERRCODE = 'raise_exception';
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END $$;
        CREATE FUNCTION look(i integer) RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM {schema}.try(format('SELECT pg_sluice.%s', call)) FROM unnest(ARRAY[
                'set_replication_role(''local'', ''{{}}'')',
                'stage(''{{}}'')', 'vouch_all()', 'conclude(1)', 'noted_updates()',
                'hold_schema(''{{}}'')', 'lock_tables(''{{}}'', ''ACCESS SHARE'', false)', 'prepare_commit(''{{}}'')',
                'as_owner(''{schema}.parent''::regclass, ''SELECT 1'')',
                'put_as_owner(''{schema}.parent''::regclass, ''{{}}'', ''{{}}'', 1, ''{{}}'')',
                'make_twin(''{schema}.parent''::regclass)', 'check_as_owner(''{schema}.parent''::regclass)']) call;
            IF EXISTS (SELECT FROM pg_sluice.setting) THEN
                RAISE EXCEPTION 'metadata was read';
            END IF;
            RETURN true;
        EXCEPTION WHEN insufficient_privilege THEN RETURN true;
        END $$;
        CREATE DOMAIN looking AS integer CHECK ({schema}.look(VALUE));
        CREATE TABLE parent (id integer PRIMARY KEY);
        CREATE TABLE child (
            id integer PRIMARY KEY, p integer REFERENCES parent ON UPDATE CASCADE ON DELETE SET NULL, d looking);
        INSERT INTO parent VALUES (1), (2);
        INSERT INTO child VALUES (1, 1, 5), (2, 2, 6);
        """.encode()
    )
    client.execute("UPDATE parent SET id = id + 10")
    client.execute("DELETE FROM parent WHERE id = 11")
    client.execute("UPDATE child SET d = d + 1")
    assert client.execute("SELECT id, p, d FROM child ORDER BY id").fetchall() == [(1, None, 6), (2, 12, 7)]


def test_what_contexts_tell_serves_nobody(client: psycopg.Connection, schema: str) -> None:
    """A domain's CHECK sees the gateway's own message around it, with its parameters: none is a secret."""
    client.execute(
        f"""
        CREATE FUNCTION look(i integer) RETURNS boolean LANGUAGE plpgsql AS $$
        DECLARE seen text;
        BEGIN
            GET DIAGNOSTICS seen = PG_CONTEXT;
            IF seen ~ 'put_as_owner' THEN
                RAISE EXCEPTION '%', seen USING DETAIL = current_query();
            END IF;
            RETURN true;
        END $$;
        CREATE DOMAIN looking AS integer CHECK ({schema}.look(VALUE));
        CREATE TABLE parent (id integer PRIMARY KEY);
        CREATE TABLE child (id integer PRIMARY KEY, p integer REFERENCES parent ON DELETE SET NULL, d looking);
        INSERT INTO parent VALUES (1);
        INSERT INTO child VALUES (1, 1, 5);
        SET log_parameter_max_length_on_error = -1;
        """.encode()
    )
    with pytest.raises(psycopg.errors.RaiseException) as raised:
        client.execute("DELETE FROM parent")
    seen, message = raised.value.diag.message_primary, raised.value.diag.message_detail
    assert seen is not None
    assert message is not None
    assert "with parameters" in seen
    assert re.search(r"[0-9A-Fa-f]{32}", seen + message) is None
    assert message.startswith("/*sluice:put_as_owner")
    _is_refused(client, message)
    assert client.execute("SELECT id, p, d FROM child").fetchall() == [(1, 1, 5)]


def test_views_of_shadows_are_empty_to_clients(client: psycopg.Connection, schema: str) -> None:
    """Also while rows are in the shadow, to code of another table's."""
    client.execute("CREATE TABLE secret (id integer, v text)")
    row = client.execute(f"SELECT '{schema}.secret'::regclass::oid::integer".encode()).fetchone()
    assert row is not None
    view = shadow_view(row[0])
    client.execute(f"CREATE VIEW around AS SELECT (kept).v FROM {view}".encode())
    client.execute("CREATE TEMP TABLE beside (n integer)")
    for sql in (
        f"SELECT count(*) FROM {view}",
        f"SELECT (kept).id FROM {view} WHERE (kept).v > ''",
        "SELECT * FROM around",
        f"SELECT 1 FROM beside WHERE EXISTS (SELECT FROM {view})",
        f"COPY (SELECT (kept).v FROM {view}) TO STDOUT",
        f"EXPLAIN SELECT (kept).v FROM {view}",
        f"INSERT INTO beside SELECT (kept).id FROM {view}",
        f"CREATE TABLE taken AS SELECT (kept).id FROM {view}",
        f"DELETE FROM {view}",
        of_shadow(row[0], f"SELECT * FROM {view}"),
    ):
        _is_refused(client, sql)
    client.execute(
        f"""
        CREATE TABLE seen (n bigint);
        CREATE FUNCTION look(i integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
        BEGIN
            IF EXISTS (SELECT FROM {view}) THEN
                RAISE EXCEPTION 'a shadow was read';
            END IF;
            RETURN i;
        END $$;
        CREATE TABLE other (id integer);
        CREATE INDEX ON other (({schema}.look(1) + id));
        """.encode()
    )
    client.execute("BEGIN; INSERT INTO secret VALUES (1, 'a'); INSERT INTO other VALUES (1); COMMIT")
    assert client.execute("SELECT v FROM secret").fetchall() == [("a",)]


def test_another_way_to_the_catalog(gateway_process: GatewayProcess, client: psycopg.Connection) -> None:
    """No gateway has entered that backend, so the comment says nothing."""
    url = gateway_process.catalog_url.replace("postgres@", "sluice@")
    with psycopg.connect(url, autocommit=True) as direct:
        for sql in (_CALL, own(_CALL), own("SELECT pg_sluice.stage('{}')")):
            _is_refused(direct, sql)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            direct.execute("SELECT pg_sluice.enter(pg_backend_pid(), 1)")
