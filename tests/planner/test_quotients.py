"""Quotients of numerics: PostgreSQL's digits and display scales, and short SQL."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest

from tests.planner.differential import Laboratory

# Numbers on both sides of each border of PostgreSQL's digits, which have base 10,000, with their negatives and zero.
_BORDERS = sorted(
    sign * (Decimal(10) ** exponent + step)
    for sign, exponent, step in product((1, -1), range(-6, 9), map(Decimal, ("0", "-0.000001", "0.000001")))
)
_DIVIDENDS = [*_BORDERS, Decimal(0)]
_DIVISORS = [number for number in _BORDERS if number][::7]
# With the rows whose quotients have no more digits than Spark's decimals.
_QUOTIENTS = {
    "a / b": "a = 0 OR abs(a) * 1000 > abs(b)",
    "w / b": "abs(w) * 1000 > abs(b)",
    "a / w": "a = 0 OR abs(a) * 1000 > abs(w)",
    "w / n": "true",
    "a / 7": "true",
    "a / 0.0003": "true",
    "a / -12345.678": "a = 0 OR abs(a) > 10",
    "1 / b": "true",
    "0 / w": "true",
    "b / c": "true",
    "c / b": "true",
    "c / c": "true",
    "(a / b) / c": "a = 0 OR abs(a) > abs(b) AND abs(c) BETWEEN 1 AND 1000",
    "(a / w) * 2": "a = 0 OR abs(a) * 1000 > abs(w)",
}


@pytest.fixture(scope="module")
def quotients(probes: Laboratory) -> Laboratory:
    """A table of numerics: with six digits after the point, without any, and of several scales."""
    rows = [
        f"({number}, {a:f}, {b:f}, {max(abs(int(b)), 1)}, {int(a) or 3}, {b.normalize():f})"
        for number, (a, b) in enumerate(product(_DIVIDENDS, _DIVISORS))
    ]
    probes.postgres.execute(
        "CREATE TABLE quotients (id integer, a numeric(15, 6), b numeric(15, 6), n bigint, w numeric(9, 0), c numeric)"
    )
    probes.postgres.execute(f"INSERT INTO quotients VALUES {', '.join(rows)}")
    probes.load("quotients")
    return probes


@pytest.mark.turns
@pytest.mark.parametrize("quotient", _QUOTIENTS)
def test_digits_are_postgresqls(quotients: Laboratory, quotient: str) -> None:
    sql = f"SELECT id, {quotient} FROM quotients WHERE {_QUOTIENTS[quotient]} ORDER BY id"
    assert quotients.on_spark(sql) == quotients.on_postgres(sql)


def test_average_is_short(quotients: Laboratory) -> None:
    """Spark takes longer to prepare a long expression than to compute a few thousand averages."""
    one, two = (
        len(quotients.plan(f"SELECT {averages} FROM quotients").sql) for averages in ("avg(a)", "avg(a), avg(b)")
    )
    assert two - one < 2000
