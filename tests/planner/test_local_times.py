"""Local times in zones with clock changes: PostgreSQL's meaning of those that occur twice or never."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from planner.functions.local_times import spark_zone
from planner.plans.select import plan_select
from planner.spark.plan import SessionValues
from tests.planner.differential import NOW, Laboratory, spark_session
from tests.planner.test_allow_list import same

# Half hours; a day that was left out; standard time that became another; offsets that are fixed.
ZONES = (
    "America/New_York", "Europe/Zurich", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Europe/Moscow",
    "Africa/Casablanca", "Europe/Dublin", "America/St_Johns", "Asia/Kolkata", "EST5EDT", "<+02>-02", "<-03:30>+03:30",
    "UTC",
)  # fmt: skip
QUERIES = (
    "SELECT id, extract(epoch FROM ts::timestamptz), extract(epoch FROM ts::date::timestamptz) FROM moments",
    "SELECT id, tz::timestamp, tz::date, extract(hour FROM tz), extract(dow FROM tz) FROM moments",
    "SELECT id FROM moments WHERE ts::date < tz AND ts >= tz",
    "SELECT id FROM moments WHERE tz <= ts::date OR tz > ts",
    "SELECT id, extract(epoch FROM date_trunc('day', tz)), extract(epoch FROM date_trunc('month', tz)) FROM moments",
    "SELECT id, extract(epoch FROM date_trunc('hour', tz)), extract(epoch FROM date_trunc('week', tz)) FROM moments",
    "SELECT id, extract(epoch FROM tz + interval '1 day'), extract(epoch FROM tz - interval '1 month') FROM moments",
    "SELECT id, extract(epoch FROM tz + interval '1 month -1 day 02:30') FROM moments",
    "SELECT id, extract(epoch FROM tz + interval '26:00') FROM moments",
)


@pytest.fixture(scope="module")
def moments(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """Half hours of a year and more, as local times and as moments; and a night in which Moscow changed its zone."""
    laboratory = Laboratory(postgres.dsn, spark_session(), tmp_path_factory.mktemp("moments"), "moments")
    laboratory.postgres.execute("CREATE TABLE moments (id integer, ts timestamp, tz timestamptz)")
    laboratory.postgres.execute(
        "INSERT INTO moments SELECT row_number() OVER (), t, t AT TIME ZONE 'UTC' FROM ("
        "SELECT generate_series(timestamp '2011-01-01', '2012-01-10', '30 min') UNION ALL "
        "SELECT generate_series(timestamp '2014-10-24', '2014-10-28', '10 min') UNION ALL "
        "SELECT generate_series(timestamp '2040-03-01', '2040-11-30', '02:30')) AS u (t)"
    )
    laboratory.postgres.execute("INSERT INTO moments VALUES (-1, 'infinity', '-infinity'), (-2, NULL, NULL)")
    laboratory.load("moments")
    yield laboratory
    laboratory.close()


@pytest.mark.turns
@pytest.mark.parametrize("zone", ZONES)
def test_local_times_are_resolved_as_postgresql_does(moments: Laboratory, zone: str) -> None:
    session = replace(SessionValues(NOW, NOW), time_zone=zone)
    for connection in (moments.postgres, moments.analyser):
        connection.execute(f"SET TimeZone = '{zone}'")
    moments.spark.conf.set("spark.sql.session.timeZone", spark_zone(zone))
    try:
        for sql in QUERIES:
            wanted = f"{sql}{' AND' if 'WHERE' in sql else ' WHERE'} isfinite(ts)"
            found = moments.run(plan_select(moments.tree(wanted), moments.context(session=session)))
            assert found.sqlstate is None, (sql, found.message)
            expected = moments.on_postgres(wanted)
            if not same(expected, found):
                assert set(expected.rows) - set(found.rows) == set(found.rows) - set(expected.rows), sql
            assert same(expected, found), sql
    finally:
        for connection in (moments.postgres, moments.analyser):
            connection.execute("RESET TimeZone")
        moments.spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_before_1970_is_refused(moments: Laboratory) -> None:
    session = replace(SessionValues(NOW, NOW), time_zone="Europe/Zurich")
    sql = "SELECT (ts - interval '60 years')::timestamptz FROM moments"
    moments.spark.conf.set("spark.sql.session.timeZone", "Europe/Zurich")
    try:
        assert moments.run(plan_select(moments.tree(sql), moments.context(session=session))).sqlstate == "0A000"
    finally:
        moments.spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("zone", ["CST7CDT,M4.1.0,M10.5.0", "Nowhere/City", "posixrules"])
def test_zones_that_spark_lacks_are_refused(zone: str) -> None:
    with pytest.raises(SluiceError, match="the time zone") as caught:
        spark_zone(zone)
    assert caught.value.sqlstate == "0A000"
