"""ANALYZE of more rows than a sample has: sizes are exact, the rest is as close to the truth as PostgreSQL's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gateway.execution.maintenance.analyze import SAMPLE_ROWS, distinct
from tests.maintenance.conftest import connect
from tests.servers import Server

pytestmark = pytest.mark.turns(together=True)

_ROWS = 100_000


def test_a_table_larger_than_the_sample(lake: Server) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE item AS SELECT g AS id, g % 1000 AS thousand,"
            " CASE WHEN g % 10 <> 0 THEN g % 3 = 0 END AS flag, (g / 7)::text AS sevens, NULL::numeric AS nothing"
            f" FROM generate_series(1, {_ROWS}) g".encode()
        )
        connection.execute("DELETE FROM item WHERE id <= 1000")
        connection.execute("ANALYZE item")
        row = connection.execute("SELECT reltuples, relpages FROM pg_class WHERE oid = 'item'::regclass").fetchone()
        assert row is not None
        assert row[0] == _ROWS - 1000
        ((bytes_,),) = connection.execute(
            "SELECT bytes FROM pg_sluice.table_sizes WHERE relation = 'item'::regclass"
        ).fetchall()
        assert 0 < row[1] <= bytes_ / 8192 + 1
        found = {
            name: rest
            for name, *rest in connection.execute(
                "SELECT attname, null_frac, n_distinct, correlation, cardinality(most_common_freqs),"
                " cardinality(histogram_bounds::text::text[]) FROM pg_stats"
                " WHERE tablename = 'item' AND schemaname = current_schema()"
            ).fetchall()
        }
        assert set(found) == {"id", "thousand", "flag", "sevens", "nothing"}
        assert found["id"][:2] == [0, -1]
        assert found["id"][2] > 0.99
        assert found["id"][4] == 101
        assert found["thousand"][1] == pytest.approx(1000, rel=0.02)
        assert found["flag"][0] == pytest.approx(0.1, abs=0.02)
        assert found["flag"][1] == 2
        assert found["flag"][3] == 2
        assert found["sevens"][1] == pytest.approx(-1 / 7, rel=0.2)
        assert found["nothing"][0] == 1
        # A table that has become empty keeps what was known of its columns, as in PostgreSQL.
        connection.execute("TRUNCATE item")
        connection.execute("ANALYZE item")
        assert connection.execute("SELECT reltuples FROM pg_class WHERE oid = 'item'::regclass").fetchone() == (0,)


@pytest.mark.parametrize(("values", "rows", "wanted"), [([], 10, 0.0), (["a"] * 4, 4, -0.25), (["a"] * 40, 40, 1.0)])
def test_distinct_values(values: list[str], rows: int, wanted: float) -> None:
    assert distinct(pa.array(values, pa.string()), rows) == wanted


def test_distinct_values_of_a_sample() -> None:
    """By Haas and Stokes: between what was seen and all rows; and all rows where each was seen once."""
    random = np.random.default_rng(1)
    unique = pa.array(random.choice(10**6, SAMPLE_ROWS, replace=False)).cast(pa.string())
    assert distinct(unique, 10**6) == -1
    many = pa.array(random.integers(0, 20_000, SAMPLE_ROWS)).cast(pa.string())
    assert distinct(many, 10**6) == pytest.approx(20_000, rel=0.1)
