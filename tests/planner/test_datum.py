"""Constants and parameters: PostgreSQL writes them, the planner reads them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from catalog import datatypes as t
from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from planner.tree import datum, nodes
from planner.tree.datum import Infinite, Interval
from tests.planner.test_nodes import analysed

UTC = datetime.UTC
CONSTANTS: list[tuple[str, Any]] = [
    ("true", True), ("(-7)::int2", -7), ("2147483647", 2147483647), ("9223372036854775807", 9223372036854775807),
    ("'1.5'::float4", 1.5), ("'-1e300'::float8", -1e300), ("'häß'::text", "häß"), ("''::text", ""),
    ("'abc'::varchar", "abc"), ("'\\x00ff'::bytea", b"\x00\xff"), ("date '2024-02-29'", datetime.date(2024, 2, 29)),
    ("date 'infinity'", Infinite(True)), ("timestamp '-infinity'", Infinite(False)),
    ("timestamp '1582-10-10 01:02:03.000004'", datetime.datetime(1582, 10, 10, 1, 2, 3, 4)),
    ("timestamptz '2020-01-01 00:00+02'", datetime.datetime(2019, 12, 31, 22, tzinfo=UTC)),
    ("time '23:59:59.5'", datetime.time(23, 59, 59, 500000)),
    ("interval '1 year 2 days -3 seconds'", Interval(12, 2, -3_000_000)),
    ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("'{1,NULL,3}'::int[]", (1, None, 3)), ("'{}'::text[]", ()), ("'{a,NULL,\"b c\"}'::text[]", ("a", None, "b c")),
    ("'{1,2}'::bigint[]", (1, 2)), ("'{1.5,20000}'::numeric[]", (Decimal("1.5"), Decimal(20000))),
]  # fmt: skip
NUMERICS = ["0", "0.00", "1.10", "-0.0001", "10000", "12345678901234567890.123456789", "1e10", "-1e-10", "100000.000",
            "0.00010000", "9999", "99990000", "1" + "0" * 30]  # fmt: skip


def constant(postgres: EmbeddedPostgres, expression: str) -> Any:
    (query,) = nodes.parse(analysed(postgres, f"SELECT {expression}"))
    node = query.targetList[0].expr
    if node.type == "FUNCEXPR":  # a cast of a literal that PostgreSQL leaves to be folded
        node = node.args[0]
    assert node.type == "CONST", node
    return datum.read(node.consttype, node.constvalue)


@pytest.mark.parametrize(("expression", "expected"), [item for item in CONSTANTS if "int2" not in item[0]])
def test_constant(postgres: EmbeddedPostgres, expression: str, expected: Any) -> None:
    found = constant(postgres, expression)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("digits", NUMERICS)
def test_numeric_keeps_its_digits(postgres: EmbeddedPostgres, digits: str) -> None:
    with psycopg.connect(postgres.dsn) as connection:
        (text,) = connection.execute(f"SELECT '{digits}'::numeric::text").fetchone() or ("",)
    assert format(constant(postgres, f"'{digits}'::numeric"), "f") == text


@pytest.mark.parametrize("expression", ["'NaN'::numeric", "'{{1,2},{3,4}}'::int[]", "'[2:3]={1,2}'::int[]",
                                        "date '4713-01-01 BC'", "time '24:00'", "'{}'::jsonb"])  # fmt: skip
def test_refused(postgres: EmbeddedPostgres, expression: str) -> None:
    with pytest.raises(SluiceError) as caught:
        constant(postgres, expression)
    assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize(
    ("type_oid", "text", "expected"),
    [
        (t.BOOL, "t", True), (t.INT8, "-5", -5), (t.NUMERIC, "1.50", Decimal("1.50")), (t.BYTEA, "\\xff", b"\xff"),
        (t.DATE, "2024-02-29", datetime.date(2024, 2, 29)), (t.DATE, "infinity", Infinite(True)),
        (t.TIMESTAMP, "2020-01-01 10:00:00.5", datetime.datetime(2020, 1, 1, 10, 0, 0, 500000)),
        (t.TIMESTAMPTZ, "2020-01-01 10:00:00+02", datetime.datetime(2020, 1, 1, 8, tzinfo=UTC)),
        (t.INTERVAL, "1 year 2 mons -3 days +04:05:06.7", Interval(14, -3, 14_706_700_000)),
        (t.INTERVAL, "-00:00:00.000001", Interval(0, 0, -1)), (t.TEXT, "", ""),
    ],
)  # fmt: skip
def test_parameter(type_oid: int, text: str, expected: Any) -> None:
    assert datum.read_text(type_oid, text) == expected


@pytest.mark.parametrize(("type_oid", "text"), [(t.NUMERIC, "NaN"), (t.DATE, "0044-03-15 BC"), (t.JSONB, "{}"),
                                                (t.BOOL, "maybe"), (t.INTERVAL, "soon")])  # fmt: skip
def test_refused_parameter(type_oid: int, text: str) -> None:
    with pytest.raises(SluiceError) as caught:
        datum.read_text(type_oid, text)
    assert caught.value.sqlstate == "0A000"
