r"""psql's backslash commands and pg_dump see on the gateway what they would see on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.embedded import binaries
from tests.clients import story
from tests.servers import PSQL_18, PSQL_SYSTEM, Server

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
    r"\d meta.missing", r"\dt", r"\z meta.label", r"\encoding", r"\conninfo_missing",
)  # fmt: skip


@pytest.fixture(scope="module")
def servers(oracle: Server, gateway: Server) -> Iterator[tuple[Server, Server]]:
    for server in (oracle, gateway):
        for statement in OBJECTS:
            server.psql("-q", "-v", "ON_ERROR_STOP=1", "-c", statement)
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA meta CASCADE")
        server.psql("-qc", "DROP ROLE meta_reader, meta_writer")


def normalised(text: str) -> str:
    """Sizes depend on how rows are stored: on pages there, in Parquet here. Nothing else may differ."""
    text = re.sub(r" +\d+ (bytes|kB|MB)( +)?(?=\||\n)", " SIZE ", text)
    lines = text.split("\n")
    # A table's width follows its widest size.
    if "SIZE" in text:
        lines = [re.sub(r" +", " ", re.sub(r"-+", "-", line)) for line in lines]
    return "\n".join(lines)


@pytest.mark.parametrize("program", [PSQL_SYSTEM, PSQL_18], ids=["system", "18"])
@pytest.mark.parametrize("command", COMMANDS)
def test_command(servers: tuple[Server, Server], program: Path, command: str) -> None:
    said = []
    for server in servers:
        done = server.psql("-c", command, program=program, check=False)
        said.append((done.returncode, normalised(done.stdout), done.stderr))
    assert said[1] == said[0]


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
    assert dumps[1] == dumps[0]


def test_a_dump_restores(servers: tuple[Server, Server], schema: str) -> None:
    """What pg_dump wrote of the gateway's schema, psql can run on the gateway."""
    _, gateway = servers
    dump = gateway.run(binaries() / "pg_dump", "--schema-only", "--schema=meta", "--table=meta.label").stdout
    gateway.psql("-q", "-v", "ON_ERROR_STOP=1", sql=dump.replace("meta.", f"{schema}."))
    assert gateway.query(f"SELECT count(*) FROM {schema}.label") == [["0"]]
