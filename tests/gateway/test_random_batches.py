"""Random batches: what drivers pipeline, over tables of many kinds. The gateway answers each as PostgreSQL does, by the
message, and leaves the same rows."""

from __future__ import annotations

import datetime
import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pytest

from gateway.wire.messages import backend, frontend
from gateway.wire.messages.layout import Message
from tests.gateway.wire import Wire
from tests.servers import Server

_BATCHES: Final = int(os.environ.get("SLUICE_BATCHES", "20"))
_SEEDS: Final = ("batches", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}")
_INT4, _TEXT, _USERS = 23, 25, 16384
_KEYS: Final = (
    "id int PRIMARY KEY",
    "id int PRIMARY KEY",
    "id int UNIQUE",
    "id int",
    "id int UNIQUE NULLS NOT DISTINCT",
    "id int PRIMARY KEY CHECK (id < 90)",
    "id bigint PRIMARY KEY",
    "id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED",
    "id int REFERENCES parent",
    "id int PRIMARY KEY REFERENCES parent DEFERRABLE INITIALLY DEFERRED",
    "id int, EXCLUDE (id WITH =)",
)
_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "text": ("a", "b", "", "bad", "with 'quotes' and \\"),
    "text CHECK (v <> 'bad') DEFAULT 'none'": ("a", "b", "bad"),
    "varchar(3)": ("a", "abc", "abc  ", "abcd"),
    "char(3) NOT NULL": ("a", "abc"),
    "short": ("a", "abc", "abcde", "bad"),
    "mood": ("sad", "ok", "angry"),
    "numeric(5,2)": ("1", "1.005", "NaN", "1000", "-0"),
    "int NOT NULL": ("1", " 2 ", "0x1F", "x", "99999999999"),
    "jsonb": ('{"a": 1}', "[]", "{"),
    "date": ("2020-01-01", "infinity", "2020-02-30"),
    "int[]": ("{}", "{1,NULL,3}", "[0:1]={1,2}", "{1"),
    "boolean": ("t", "yes", "maybe"),
    "bytea": ("\\x00ff", "abc", "\\xzz"),
    "timestamptz": ("2020-01-01 00:00:00+02", "nope"),
    "double precision": ("1e300", "NaN", "-0", "1e400"),
    "uuid": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "x"),
}
_REST: Final = (
    "",
    "",
    ", g int GENERATED ALWAYS AS (id * 2) STORED",
    ", d text DEFAULT 'd', e int DEFAULT 1 + 1",
    ", CHECK (id <> 13)",
    ", UNIQUE (id, v)",
    ", w text GENERATED ALWAYS AS (upper('x')) VIRTUAL",
)
_STATEMENTS: Final = (
    "INSERT INTO t (id, v) VALUES ($1, $2)",
    "INSERT INTO t (id, v) VALUES ($1, $2)",
    "INSERT INTO t VALUES ($1, $2) RETURNING *",
    "INSERT INTO t (v, id) VALUES ($2, $1) RETURNING id + 1 AS next, v",
    "INSERT INTO t (id, v) VALUES ($1, DEFAULT), ($1 + 100, $2)",
    "INSERT INTO t (id, v) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    "INSERT INTO t (id, v) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id",
    "INSERT INTO t (id, v) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING id",
    "INSERT INTO t (id, v) SELECT $1, $2",
    "INSERT INTO t (id, v) SELECT $1, $2 WHERE NOT EXISTS (SELECT FROM t WHERE id = $1)",
    "INSERT INTO t (id, v) VALUES ((SELECT count(*) FROM t) + $1, $2)",
    "WITH n AS (INSERT INTO t (id, v) VALUES ($1, $2) RETURNING id) SELECT id FROM n",
    "UPDATE t SET v = $2 WHERE id = $1",
    "UPDATE t SET v = $2 WHERE id > $1 RETURNING id, v",
    "DELETE FROM t WHERE id = $1 OR v = $2",
)


@dataclass(frozen=True)
class Batch:
    """A table, and the messages that come behind it."""

    table: tuple[str, ...]
    messages: tuple[Message, ...]


def _batch(seed: str) -> Batch:
    draw = random.Random(seed)
    kind = draw.choice(list(_VALUES))
    table = [f"CREATE TABLE t ({draw.choice(_KEYS)}, v {kind}{draw.choice(_REST)})"]
    if draw.random() < 0.1:
        table += ["ALTER TABLE t ENABLE ROW LEVEL SECURITY", "ALTER TABLE t FORCE ROW LEVEL SECURITY"]
        table += ["CREATE POLICY p ON t USING (id < 60) WITH CHECK (id < 40)"]
    if draw.random() < 0.1:
        table += ["CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION changing()"]
    if draw.random() < 0.5:
        value = _VALUES[kind][0].replace("'", "''")
        table += [f"INSERT INTO t (id, v) VALUES (7, '{value}'), (23, '{value}') ON CONFLICT DO NOTHING"]
    # Outside of a block, what is deferred is looked at before the last statement is answered, not at Sync.
    in_block = "DEFERRED" in table[0] or draw.random() < 0.3
    return Batch(tuple(table), tuple(_messages(draw, kind, in_block=in_block)))


def _messages(draw: random.Random, kind: str, *, in_block: bool) -> Iterator[Message]:
    sql, name = draw.choice(_STATEMENTS), draw.choice(("", "s"))
    describes = draw.random() < 0.4
    wild, bad = draw.random() < 0.3, draw.random() < 0.4
    typed = draw.random() < 0.3
    if in_block:
        yield frontend.Query("BEGIN")
    yield frontend.Parse(name, sql, (_INT4, _TEXT) if typed and "text" in kind else (_INT4,) if typed else ())
    yield frontend.Describe(b"S", name)
    numbers = list(range(1, 40))
    draw.shuffle(numbers)
    for _ in range(draw.randrange(2, 20)):
        number = draw.randrange(1, 99) if bad and draw.random() < 0.2 else numbers.pop()
        yield _bound(draw, name, number, _value(draw, kind, bad=bad), wild=wild, binary="bigint" not in sql)
        if describes != (wild and draw.random() < 0.1):
            yield frontend.Describe(b"P", "")
        yield frontend.Execute("", draw.choice((0, 0, 1, 7)) if wild else 0)
        if wild and draw.random() < 0.15:
            yield from draw.choice(_BETWEEN)
    yield frontend.Sync()
    if in_block:
        yield frontend.Query(draw.choice(("COMMIT", "COMMIT", "ROLLBACK")))


def _other(sql: str) -> tuple[Message, ...]:
    return frontend.Parse("o", sql), frontend.Bind("o", "o"), frontend.Execute("o"), frontend.Close(b"S", "o")


_BETWEEN: Final[tuple[tuple[Message, ...], ...]] = (
    (frontend.Sync(),),
    (frontend.Flush(),),
    (frontend.Close(b"P", ""),),
    (frontend.Execute("", 0),),
    _other("SELECT count(*) FROM t"),
    _other("SAVEPOINT v"),
)


def _value(draw: random.Random, kind: str, *, bad: bool) -> bytes | None:
    values = _VALUES[kind]
    if bad and draw.random() < 0.3:
        return draw.choice((None, *(each.encode() for each in values)))
    return values[draw.randrange(2 if len(values) > 1 else 1)].encode()


def _bound(
    draw: random.Random, name: str, number: int, value: bytes | None, *, wild: bool, binary: bool
) -> frontend.Bind:
    first: bytes | None = b"%d" % number
    formats: tuple[int, ...] = ()
    results: tuple[int, ...] = draw.choice(((), (), (0,), (1,))) if wild else ()
    if wild and binary and draw.random() < 0.3:
        first, formats = struct.pack("!i", number), (1, 0)
    elif wild and draw.random() < 0.1:
        first = draw.choice((None, b"x", b" 7", b"99999999999"))
    return frontend.Bind("", name, formats, (first, value), results)


_BEFORE: Final = (
    "SET client_min_messages = warning",
    "DROP SCHEMA IF EXISTS random_batches CASCADE",
    "CREATE SCHEMA random_batches",
    "SET search_path = random_batches",
    "CREATE DOMAIN short AS varchar(4) CHECK (value <> 'bad')",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TABLE parent (id int PRIMARY KEY)",
    "INSERT INTO parent SELECT generate_series(1, 60)",
    """CREATE FUNCTION changing() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN IF NEW.id = 11 THEN RETURN NULL; END IF; NEW.id := NEW.id + 1; RETURN NEW; END $$""",
)


@dataclass
class _Pair:
    oracle: Wire
    gateway: Wire

    def query(self, sql: str) -> None:
        for each in (self.oracle, self.gateway):
            answers = each.query(sql)
            assert not any(isinstance(answer, backend.ErrorResponse) for answer in answers), (sql, answers)

    def ask(self, seed: str) -> str:
        """How the answers differ, if they do."""
        batch = _batch(seed)
        self.query("ROLLBACK; DEALLOCATE ALL; DROP TABLE IF EXISTS t")
        for sql in batch.table:
            if self.oracle_refuses(sql):
                return ""
        turns = sum(isinstance(each, frontend.Query | frontend.Sync) for each in batch.messages)
        found = []
        for each in (self.oracle, self.gateway):
            each.send(*batch.messages)
            found.append([answer for _ in range(turns) for answer in each.ask()])
            found[-1] += each.query("ROLLBACK") + each.query("SELECT * FROM t ORDER BY id, v::text")
        wanted, got = map(_comparable, found)
        if wanted == got or any(("C", "0A000") in a.fields for a in got if isinstance(a, backend.ErrorResponse)):
            return ""
        at = next((n for n, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), min(len(wanted), len(got)))
        told = [f"seed {seed}", *batch.table, *map(str, batch.messages)]
        told += [f"PostgreSQL: {each}" for each in wanted[max(0, at - 2) : at + 4]]
        told += [f"gateway:    {each}" for each in got[max(0, at - 2) : at + 4]]
        return "\n".join(told)

    def oracle_refuses(self, sql: str) -> bool:
        """Whether PostgreSQL has no such table. What the gateway refuses, the statements then meet."""
        refused = False
        for each in (self.oracle, self.gateway):
            errors = [answer for answer in each.query(sql) if isinstance(answer, backend.ErrorResponse)]
            refused |= bool(errors)
        return refused


def _comparable(answers: list[Message]) -> list[Message]:
    """Types of users have other OIDs. PostgreSQL may find what is wrong with a value when it plans, within Bind."""
    found: list[Message] = []
    for message in answers:
        match message:
            case backend.ParameterDescription(types):
                found.append(backend.ParameterDescription(tuple(min(each, _USERS) for each in types)))
            case backend.RowDescription(columns):
                known = (replace(each, type_oid=min(each.type_oid, _USERS)) for each in columns)
                found.append(backend.RowDescription(tuple(known)))
            case backend.ErrorResponse():
                while found and isinstance(found[-1], backend.BindComplete | backend.RowDescription | backend.NoData):
                    found.pop()
                found.append(message)
            case _:
                found.append(message)
    return found


@pytest.mark.parametrize("seed", _SEEDS)
def test_random_batches(oracle: Server, gateway: Server, seed: str) -> None:
    pair = _Pair(Wire(oracle), Wire(gateway))
    for sql in _BEFORE:
        pair.query(sql)
    differences = [told for number in range(_BATCHES) if (told := pair.ask(f"{seed}/{number}"))]
    pair.query("DROP SCHEMA random_batches CASCADE")
    pair.oracle.close()
    pair.gateway.close()
    assert not differences, "\n\n".join(differences)
