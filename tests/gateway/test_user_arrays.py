"""Columns of arrays of enumerations and domains, as far as a transcript beside PostgreSQL's cannot show them.

That is: values in binary, the witness, and refusals. The rest is in golden/sessions/user-arrays.sql.
"""

from __future__ import annotations

import enum

import psycopg
import pytest
from psycopg import errors
from psycopg.types.enum import EnumInfo, register_enum

from tests.servers import GatewayProcess, Server
from tests.witness import Witness

_CREATE = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s "so"');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE TABLE felt (id integer PRIMARY KEY, m mood[], n positive[]);
INSERT INTO felt VALUES (1, '{ok,sad}', '{1,2}'), (2, NULL, NULL), (3, '{}', '{}');
"""
_CLEAN = "DROP TABLE felt; DROP DOMAIN positive; DROP TYPE mood"


class Mood(enum.Enum):
    SAD = "sad"
    OK = "ok"
    SO = 'it\'s "so"'


def _rows(server: Server, schema: str) -> list[object]:
    """What binary parameters make, in binary results."""
    with psycopg.connect(server.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute(_CREATE)
        info = EnumInfo.fetch(connection, "mood")
        assert info is not None
        register_enum(info, connection, Mood, mapping={mood: mood.value for mood in Mood})
        cursor = connection.cursor(binary=True)
        cursor.execute("INSERT INTO felt VALUES (%b, %b, %b)", (4, [Mood.SO, None, Mood.OK], [7]))
        with cursor.copy("COPY felt FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", info.array_oid, "int4"])
            copy.write_row((5, [Mood.SAD], None))
        found: list[object] = [cursor.execute("SELECT m, n::text, id FROM felt ORDER BY m, id").fetchall()]
        found.append(cursor.execute("SELECT id FROM felt WHERE m > %b ORDER BY id", ([Mood.OK],)).fetchall())
        raw = connection.pgconn.exec_params(b"SELECT m, n FROM felt ORDER BY id", [], result_format=1)
        sizes = [[len(raw.get_value(row, place) or b"") for place in range(2)] for row in range(raw.ntuples)]
        found += [sizes, raw.ftype(0) == info.array_oid]
        connection.execute(_CLEAN)
        return found


def test_in_binary(oracle: Server, gateway: Server, schema: str) -> None:
    with psycopg.connect(oracle.url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
        wanted = _rows(oracle, schema)
        connection.execute(f'DROP SCHEMA "{schema}"'.encode())
    assert _rows(gateway, schema) == wanted


def test_others_read_lists(gateway: Server, gateway_process: GatewayProcess, schema: str) -> None:
    witness = Witness(gateway_process.data_dir)
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute(_CREATE)
        found = witness.table(f"{schema}.felt", witness.snapshot())
        assert found == [(1, ["ok", "sad"], [1, 2]), (2, None, None), (3, [], [])]
        connection.execute("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'")
        found = witness.table(f"{schema}.felt", witness.snapshot())
        assert found == [(1, ["fine", "sad"], [1, 2]), (2, None, None), (3, [], [])]
        connection.execute("CREATE UNIQUE INDEX ON felt (m)")
        with pytest.raises(errors.UniqueViolation):
            connection.execute("INSERT INTO felt (id, m) VALUES (4, '{fine,sad}')")
    witness.close()
