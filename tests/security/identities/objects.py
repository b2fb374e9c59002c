"""A random schema: types, casts, operators, aggregates, tables and views, of several owners, all over users' code."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from tests.security.identities.code import Function, Functions

MAKER: Final = "fz_maker"  # of types and functions
OWNER: Final = "fz_owner"  # of tables
CLIENT: Final = "fz_client"  # may read and write the tables
THIRD: Final = "fz_third"  # may read them, and owns views
KEEPER: Final = "fz_keeper"  # may maintain them, and read nothing
ROLES: Final = (MAKER, OWNER, CLIENT, THIRD, KEEPER)
# Share of the things which a schema may have that it has.
_SHARE: Final = 0.7


@dataclass(frozen=True)
class Asked:
    """A statement of one role's."""

    role: str
    sql: str


@dataclass
class World:
    """What there is to use. `made` makes all of it, in order."""

    schema: str
    functions: Functions
    made: list[Asked] = field(default_factory=list)
    # Names of what a statement may call: by what they take.
    of_integer: list[str] = field(default_factory=list)
    later_values: list[str] = field(default_factory=list)
    later_conditions: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    aggregates: list[str] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)
    materialized: list[str] = field(default_factory=list)
    casts: list[tuple[str, str]] = field(default_factory=list)

    @property
    def by_code(self) -> dict[int, Function]:
        return {function.code: function for function in self.functions.made}


def make_world(chance: random.Random, schema: str, *, tricks: bool) -> World:
    world = World(schema, Functions(chance, schema, (MAKER, OWNER), tricks))
    _types(chance, world)
    _callables(chance, world)
    tables = _tables(chance, world)
    views = _views(chance, world)
    types = [each for each in world.made if each.role == MAKER]
    functions = [Asked(each.owner, each.sql) for each in world.functions.made]
    enumeration = Asked(MAKER, f"CREATE TYPE {schema}.mood AS ENUM ('sad', 'ok', 'glad')")
    world.made = [*_together([enumeration, *functions, *types]), *tables, *views]
    return world


def _together(asked: list[Asked]) -> list[Asked]:
    """What one role asks one after another, in one message: none of it is of the lake."""
    found: list[Asked] = []
    for each in asked:
        if found and found[-1].role == each.role:
            found[-1] = Asked(each.role, f"{found[-1].sql};\n{each.sql}")
        else:
            found.append(each)
    return found


def _types(chance: random.Random, world: World) -> None:
    schema, make = world.schema, world.functions.make
    check = make("CHECK of the domain", "v integer", "boolean", "true")
    inner = make("CHECK of the inner domain", "v integer", "boolean", "v IS NOT NULL OR true")
    note = world.made.append
    note(Asked(MAKER, f"CREATE DOMAIN {schema}.inner_one AS integer CHECK ({inner}(VALUE))"))
    over = chance.choice(("integer", f"{schema}.inner_one"))
    default = make("DEFAULT of the domain", "v integer", "integer", "v")
    default = f"DEFAULT {default}(5)" if chance.random() < _SHARE else ""
    note(Asked(MAKER, f"CREATE DOMAIN {schema}.amount AS {over} {default} CHECK ({check}(VALUE))"))
    for source, target, result in (
        (f"{schema}.mood", "text", "'a mood'::text"),
        (f"{schema}.mood", "integer", "3"),
        ("integer", f"{schema}.mood", f"'ok'::{schema}.mood"),
        (f"{schema}.mood", "boolean", "true"),
        ("text", f"{schema}.mood", f"'sad'::{schema}.mood"),
    ):
        if chance.random() < _SHARE:
            way = chance.choice(("AS IMPLICIT", "AS ASSIGNMENT", ""))
            function = make(f"cast of {source} to {target}", f"v {source}", target, result)
            note(Asked(MAKER, f"CREATE CAST ({source} AS {target}) WITH FUNCTION {function}({source}) {way}"))
            world.casts.append((source, target))


def _callables(chance: random.Random, world: World) -> None:
    schema, make = world.schema, world.functions.make
    for _ in range(2):
        world.of_integer.append(make("a function in statements", "v integer", "integer", "v"))
        world.conditions.append(make("a condition in statements", "v integer", "boolean", "true"))
        world.later_values.append(make("DEFAULT of later columns", "v integer", "integer", "v"))
        world.later_conditions.append(make("CHECK of later", "v integer", "boolean", "true"))
    note = world.made.append
    for place, right in enumerate((f"{schema}.mood", "integer")):
        function = make("operator", f"a integer, b {right}", "boolean", "true")
        operator = "=" * (place + 3)
        note(
            Asked(
                MAKER,
                f"CREATE OPERATOR {schema}.{operator} (FUNCTION = {function}, LEFTARG = integer, RIGHTARG = {right})",
            )
        )
        world.operators.append(f"OPERATOR({schema}.{operator})")
    step = make("transition of the aggregate", "a integer, b integer", "integer", "coalesce(a, 0) + coalesce(b, 0)")
    final = make("end of the aggregate", "a integer", "integer", "a")
    note(
        Asked(
            MAKER,
            f"CREATE AGGREGATE {schema}.total(integer) "
            f"(SFUNC = {step}, STYPE = integer, FINALFUNC = {final}, INITCOND = '0')",
        )
    )
    world.aggregates.append(f"{schema}.total")
    body = f"PERFORM witness.pass({{code}}, 1); INSERT INTO {schema}.parent VALUES (v)"
    code = 5000
    world.functions.made.append(
        Function(
            code,
            "a procedure",
            OWNER,
            f"{schema}.p",
            f"CREATE PROCEDURE {schema}.p(v integer) LANGUAGE plpgsql {chance.choice(('SECURITY DEFINER', ''))} "
            f"AS $$ BEGIN {body.format(code=code)}; END $$",
        )
    )


def _tables(chance: random.Random, world: World) -> list[Asked]:
    schema, make = world.schema, world.functions.make

    def maybe(text: str) -> str:
        return text if chance.random() < _SHARE else ""

    default = make("DEFAULT of t.n", "v integer", "integer", "v")
    column = make("CHECK of t.n", "v integer", "boolean", "true")
    row = make("CHECK of t", "v integer, w integer", "boolean", "true")
    generated = make("generated column of t", "v integer", "integer", "v", steady=True)
    key = make("index of t", "v integer", "integer", "v", steady=True)
    part = make("partial index of t", "v integer", "boolean", "v > 0", steady=True)
    counted = make("statistics of t", "v integer", "integer", "v", steady=True)
    reference = make("DEFAULT of t.p", "v integer", "integer", "v")
    action = chance.choice(("CASCADE", "SET NULL", "SET DEFAULT"))
    update = chance.choice(("CASCADE", "SET NULL", "SET DEFAULT"))
    literal = f"id <> ALL ('{{77}}'::{schema}.amount[])"
    made = [
        f"CREATE TABLE {schema}.parent (id integer PRIMARY KEY)",
        f"CREATE TABLE {schema}.t (id integer PRIMARY KEY, "
        f"n integer DEFAULT {default}(1) {maybe(f'CHECK ({column}(n))')}, "
        f"d {schema}.amount, m {schema}.mood, "
        f"p integer DEFAULT {reference}(3) REFERENCES {schema}.parent ON UPDATE {update} ON DELETE {action}"
        + maybe(f", g integer GENERATED ALWAYS AS ({generated}(7) + id) STORED")
        + maybe(f", CHECK ({row}(id, n))")
        + maybe(f", CHECK ({literal})")
        + ")",
        maybe(f"CREATE {chance.choice(('', 'UNIQUE'))} INDEX ON {schema}.t (({key}(1) + id))"),
        maybe(f"CREATE INDEX ON {schema}.t (n) WHERE {part}(id)"),
        maybe(f"CREATE INDEX ON {schema}.t (({literal}))"),
        maybe(f"CREATE STATISTICS {schema}.st ON ({counted}(id)), n FROM {schema}.t"),
        f"INSERT INTO {schema}.parent VALUES (1), (2), (3), (4), (5)",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.t, {schema}.parent TO {CLIENT}",
        f"GRANT SELECT ON {schema}.t, {schema}.parent TO {THIRD}",
        f"GRANT MAINTAIN ON {schema}.t TO {KEEPER}",
        f"INSERT INTO {schema}.t (id, d, m, p) VALUES (1, 1, 'ok', 1), (2, 2, 'sad', 2), (3, 3, 'glad', 4)",
    ]
    if chance.random() < 0.1:
        policy = make("policy of t", "v integer", "boolean", "true")
        made.append(f"ALTER TABLE {schema}.t ENABLE ROW LEVEL SECURITY")
        made.append(f"CREATE POLICY own ON {schema}.t USING ({policy}(id))")
    return [Asked(OWNER, each) for each in made if each]


def _views(chance: random.Random, world: World) -> list[Asked]:
    schema, make = world.schema, world.functions.make
    made = []
    for place in range(2):
        owner = chance.choice((OWNER, THIRD))
        value = make("column of a view", "v integer", "integer", "v")
        condition = make("condition of a view", "v integer", "boolean", "true")
        name = f"{schema}.v{place}"
        options = chance.choice(("", "WITH (security_invoker)", "WITH (security_barrier)"))
        where = f"WHERE {condition}(id)" if chance.random() < 0.5 else ""
        made.append(
            Asked(owner, f"CREATE VIEW {name} {options} AS SELECT id, n, {value}(id) AS w FROM {schema}.t {where}")
        )
        made.append(Asked(owner, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO {CLIENT}, {OWNER}, {THIRD}"))
        world.views.append(name)
    owner = chance.choice((OWNER, THIRD))
    value = make("materialized view", "v integer", "integer", "v")
    name = f"{schema}.mv"
    extra = chance.choice(("", ", m::text AS m", f", '{{5}}'::{schema}.amount[] <> '{{6}}' AS a"))
    data = chance.choice(("", "WITH NO DATA"))
    made.append(
        Asked(owner, f"CREATE MATERIALIZED VIEW {name} AS SELECT id, {value}(id) AS w {extra} FROM {schema}.t {data}")
    )
    if chance.random() < 0.5:
        made.append(Asked(owner, f"GRANT SELECT, MAINTAIN ON {name} TO {CLIENT}, {KEEPER}"))
    key = make("index of the materialized view", "v integer", "integer", "v", steady=True)
    if chance.random() < 0.5:
        made.append(Asked(owner, f"CREATE INDEX ON {name} (({key}(id)))"))
    made.append(Asked(owner, f"CREATE UNIQUE INDEX ON {name} (id)"))
    world.materialized.append(name)
    return made
