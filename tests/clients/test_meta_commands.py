r"""psql's backslash commands and pg_dump see on the gateway what they would see on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from catalog.postgres.embedded import binaries
from tests.clients import story
from tests.servers import PSQL_18, PSQL_SYSTEM, GatewayProcess, Server

OBJECTS = (
    "CREATE ROLE meta_reader",
    "CREATE ROLE meta_writer LOGIN",
    "CREATE SCHEMA meta",
    "COMMENT ON SCHEMA meta IS 'what describes other things'",
    *(f"SET search_path = meta; {statement}" for statement in story.CREATE),
    "CREATE TABLE meta.numbered (n serial, half numeric(6,3) DEFAULT 0.5, at timestamptz(3) DEFAULT now())",
    'CREATE TABLE meta."odd name" ("Column 1" text COLLATE "C" NOT NULL, "x""y" varchar DEFAULT \'it\'\'s\')',
    "CREATE TABLE meta.computed (a integer CHECK (a > 0), b integer GENERATED ALWAYS AS (a * 2) STORED)",
    "CREATE VIEW meta.cheap AS SELECT id, price FROM meta.reading WHERE price < 10",
    "COMMENT ON TABLE meta.label IS 'names of codes'",
    "COMMENT ON COLUMN meta.label.title IS 'what people call it'",
    "COMMENT ON VIEW meta.cheap IS 'below ten'",
    "CREATE FUNCTION meta.twice(n integer) RETURNS integer LANGUAGE sql IMMUTABLE RETURN n * 2",
    "INSERT INTO meta.label VALUES ('k', 'kilo'), ('m', 'milli')",
)

# Not \dy: it lists the event triggers by which the catalog hears of DDL.
COMMANDS = (
    r"\d meta.*", r"\d+ meta.*", r"\d meta.reading", r"\d+ meta.reading", r"\d+ meta.label", r'\d meta."odd name"',
    r"\d+ meta.cheap", r"\d+ meta.numbered", r"\d+ meta.computed",
    r"\dt meta.*", r"\dt+ meta.*", r"\dv+ meta.*", r"\ds+ meta.*", r"\di meta.*", r"\dm meta.*", r"\dE meta.*",
    r"\dn", r"\dn+", r"\df", r"\df+ meta.*", r"\du", r"\du+", r"\dg", r"\drds", r"\drg", r"\l", r"\l+", r"\l template*",
    r"\dp meta.*", r"\ddp", r"\dT meta.*", r"\dC", r"\dd meta.*", r"\dO meta.*", r"\do meta.*", r"\da meta.*",
    r"\dx", r"\des", r"\dew", r"\det", r"\dRp", r"\dRs", r"\db", r"\dA", r"\sf meta.twice", r"\sv meta.cheap",
    r"\dd", r"\dX", r"\dP", r"\dL", r"\dF", r"\dn meta",
    r"\d meta.missing", r"\dt", r"\z meta.label", r"\encoding", r"\conninfo_missing",
)  # fmt: skip


@pytest.fixture(scope="module")
def servers(oracle: Server, gateway: Server) -> Iterator[tuple[Server, Server]]:
    for server in (oracle, gateway):
        for statement in OBJECTS:
            server.psql("-q", "-v", "ON_ERROR_STOP=1", "-c", statement)
    # Gateways may connect to the lake's database by name. So its privileges are told, though they are the usual ones.
    oracle.psql("-qc", "GRANT CONNECT ON DATABASE sluice TO PUBLIC")
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA meta CASCADE")
        server.psql("-qc", "DROP ROLE meta_reader, meta_writer")


def normalised(text: str) -> str:
    """Sizes depend on how rows are stored: on pages there, in Parquet here. Nothing else may differ."""
    text = re.sub(r" +\d+ (bytes|kB|MB)( +)?(?=\||\n)", " SIZE ", text)
    # psql 15 asks for the roles that a role is a member of in no order.
    text = re.sub(r"\{([\w,]+)\}", lambda found: "{" + ",".join(sorted(found[1].split(","))) + "}", text)
    lines = text.split("\n")
    if "=CTc/sluice" in text:
        lines = [
            line.replace("+|", "|").rstrip("+ ")
            for line in lines
            if not re.search(r"sluice_(gateway|reader)=c/sluice", line)
        ]
    # A table's width follows its widest size, or privilege.
    if "SIZE" in text or "=CTc/sluice" in text:
        lines = [re.sub(r" +", " ", re.sub(r"-+", "-", line)) for line in lines]
    return "\n".join(lines)


@pytest.mark.turns
@pytest.mark.parametrize("program", [PSQL_SYSTEM, PSQL_18], ids=["system", "18"])
@pytest.mark.parametrize("command", COMMANDS)
def test_command(servers: tuple[Server, Server], program: Path, command: str) -> None:
    said = []
    for server in servers:
        done = server.psql("-c", command, program=program, check=False)
        said.append((done.returncode, normalised(done.stdout), done.stderr))
    assert said[1] == said[0]


# The views of what there is: as many rows for each of PostgreSQL's own schemas, and none for others.
COUNTED = (
    "information_schema.schemata schema_name", "information_schema.tables table_schema",
    "information_schema.views table_schema", "information_schema.columns table_schema",
    "information_schema.routines routine_schema", "information_schema.parameters specific_schema",
    "information_schema.sequences sequence_schema", "information_schema.table_constraints table_schema",
    "information_schema.table_privileges table_schema", "information_schema.usage_privileges object_schema",
    "information_schema.data_type_privileges object_schema", "information_schema.element_types object_schema",
    "information_schema.domains domain_schema", "pg_tables schemaname", "pg_views schemaname", "pg_indexes schemaname",
    "pg_sequences schemaname", "pg_matviews schemaname", "pg_stat_all_tables schemaname",
    "pg_stat_all_indexes schemaname", "pg_statio_all_sequences schemaname", "pg_stat_user_tables schemaname",
)  # fmt: skip


@pytest.mark.parametrize("counted", COUNTED)
def test_views_leave_the_gateways_schemas_out(servers: tuple[Server, Server], counted: str) -> None:
    oracle, gateway = servers
    view, column = counted.split()
    # Not those of temporary tables, nor of tables' long values: as many as there are such tables.
    own = f"{column} ~ '^(pg|information)_' AND {column} !~ '^pg_(temp|toast)'"
    query = f"SELECT {column}, count(*) FROM {view} WHERE {own} GROUP BY 1 ORDER BY 1"
    assert gateway.query(query) == oracle.query(query)


def test_every_view_that_names_schemas_leaves_the_gateways_out(
    gateway: Server, gateway_process: GatewayProcess
) -> None:
    """Whoever looks: the superuser, past the gateway."""
    views = gateway.query(
        "SELECT format('%s.%I %I', c.relnamespace::regnamespace, c.relname, a.attname)"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.relkind = 'v' AND a.attname ~ '(schema|schema_?name)$' AND a.attnum > 0"
        " AND c.relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)"
    )
    assert len(views) > 100
    with psycopg.connect(gateway_process.catalog_url) as connection:
        for (name,) in views:
            view, column = str(name).split()
            query = f"SELECT count(*) FROM {view} WHERE {column}::text IN ('pg_sluice', 'pg_ducklake')"
            assert connection.execute(query.encode()).fetchall() == [(0,)], name


def test_views_that_were_wrapped_are_as_they_were(servers: tuple[Server, Server]) -> None:
    """Their columns, types, privileges and options."""
    described = []
    for server in servers:
        described.append(  # noqa: PERF401  two servers
            server.query(
                "SELECT c.relname, c.reloptions, c.relacl, string_agg(a.attname || ' ' || a.atttypid::regtype || ' '"
                " || a.attcollation, ',' ORDER BY a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
                " WHERE c.relkind = 'v' AND a.attnum > 0"
                " AND c.relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)"
                " GROUP BY c.oid, c.relname, c.reloptions, c.relacl ORDER BY c.oid"
            )
        )
    assert described[1] == described[0]


# What tools ask PostgreSQL's catalogs that reflect a schema.
REFLECTING = (
    (
        "SELECT c.conrelid::regclass, c.conname, c.contype, pg_get_constraintdef(c.oid) FROM pg_constraint c"
        " JOIN pg_class r ON r.oid = c.conrelid WHERE r.relnamespace = 'meta'::regnamespace ORDER BY 1, 2"
    ),
    (
        "SELECT tgrelid::regclass, tgname FROM pg_trigger t JOIN pg_class r ON r.oid = t.tgrelid"
        " WHERE r.relnamespace = 'meta'::regnamespace AND NOT tgisinternal ORDER BY 1, 2"
    ),
    (
        "SELECT table_name, constraint_name, constraint_type FROM information_schema.table_constraints"
        " WHERE table_schema = 'meta' AND constraint_name !~ '_not_null$' ORDER BY 1, 2"
    ),
    "SELECT trigger_name, event_object_table FROM information_schema.triggers ORDER BY 1, 2",
    (
        "SELECT deptype, count(*) FROM pg_depend WHERE refobjid = 'meta.label'::regclass AND classid ="
        " 'pg_constraint'::regclass GROUP BY 1 ORDER BY 1"
    ),
)


@pytest.mark.parametrize("query", REFLECTING)
def test_reflection(servers: tuple[Server, Server], query: str) -> None:
    oracle, gateway = servers
    assert gateway.query(query) == oracle.query(query)


@pytest.mark.parametrize("arguments", [["--schema-only"], ["--schema-only", "--schema=meta"]], ids=" ".join)
def test_pg_dump(servers: tuple[Server, Server], arguments: list[str]) -> None:
    dumps = []
    for server in servers:
        done = server.run(binaries() / "pg_dump", *arguments)
        # A random key guards each dump against the other's psql commands.
        dumps.append(re.sub(r"^\\(un)?restrict \w+$", "", done.stdout, flags=re.MULTILINE))
    assert "CREATE TABLE meta.reading" in dumps[0]
    # Each lake table has a view in pg_sluice: pg_dump takes tables of schemas that sort behind it by their OIDs. Other
    # tests leave such schemas.
    entries = [sorted(dump.split("\n--\n-- Name: ")) for dump in dumps]
    assert entries[1] == entries[0]


def test_a_dump_restores(servers: tuple[Server, Server], schema: str) -> None:
    """What pg_dump wrote of the gateway's schema, psql can run on the gateway."""
    _, gateway = servers
    dump = gateway.run(binaries() / "pg_dump", "--schema-only", "--schema=meta", "--table=meta.label").stdout
    gateway.psql("-q", "-v", "ON_ERROR_STOP=1", sql=dump.replace("meta.", f"{schema}."))
    assert gateway.query(f"SELECT count(*) FROM {schema}.label") == [["0"]]
