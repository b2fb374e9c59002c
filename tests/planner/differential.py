"""The differential test's two sides: a PostgreSQL as the oracle, and a Spark that runs the planner's queries.

`Laboratory` holds both with the same tables. A query's answer on either side is its column types and its rows as
PostgreSQL's text, or the SQLSTATE of its error. Text forms of Spark's Arrow results are made here, independently of the
gateway's.
"""

from __future__ import annotations

import csv
import decimal
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from py4j import java_gateway, protocol
from pyspark.errors.exceptions.captured import capture_sql_exception
from pyspark.sql import SparkSession

from catalog import datatypes as t
from catalog.errors import SluiceError
from catalog.model import Carried, Column, Domain, Label, Table
from planner.plans.select import plan_select
from planner.spark.plan import SPARK_SETTINGS, Context, Parameter, SessionValues, SparkQuery
from planner.tree import nodes
from planner.tree.builtins import FUNCTIONS_QUERY, TYPES_QUERY, Builtins
from storage.spark.shuffled_blocks import Shuffle
from storage.spark.spark_errors import from_spark, needless

NOW = 1_700_000_000_123_456
_TREE_SETTINGS = "SET debug_print_rewritten = on; SET client_min_messages = log; SET debug_pretty_print = off"


@dataclass(frozen=True)
class Answer:
    """Rows as texts (None: NULL), with the columns' type OIDs, or an error."""

    types: tuple[int, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    sqlstate: str | None = None
    message: str | None = None


def spark_session(interpreted: bool = False) -> SparkSession:
    """A session of the tests' own on this process's Spark, with the planner's settings.

    `interpreted` leaves out code generation, which takes longer than the query where there are ten rows.
    """
    base = SparkSession.getActiveSession() or _started(_MANY_SMALL if interpreted else {})
    session = base.newSession()
    _keep_to_itself(session)
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2", **SPARK_SETTINGS}
    if interpreted:
        settings |= _INTERPRETED
    for name, value in settings.items():
        session.conf.set(name, value)
    session.sparkContext.setLogLevel("OFF")
    return session


# As the gateway has it of so few rows (storage.light).
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
# Of some hundred small queries the second compiler, concurrent marking and what listeners remember of each plan take
# more of the processor than the queries.
_MANY_SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
}


def _started(settings: Mapping[str, str]) -> SparkSession:
    own = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    builder = SparkSession.builder.master("local[2]").appName("planner")
    return builder.config(map={**own, **settings}).getOrCreate()


def _keep_to_itself(session: SparkSession) -> None:
    """PySpark makes exceptions of every JVM in the process its own, and asks its JVM about those of others: in the same
    process the storage engine has one too."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    client = gateway._gateway_client
    own, plain = capture_sql_exception(protocol.get_return_value), protocol.get_return_value

    def get_return_value(answer: Any, gateway_client: Any, *names: Any) -> Any:
        return (own if gateway_client is client else plain)(answer, gateway_client, *names)

    java_gateway.get_return_value = get_return_value


class Laboratory:
    """PostgreSQL and Spark with the same tables."""

    def __init__(self, dsn: str, spark: SparkSession, folder: Path, database: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {database}")
        own = re.sub(r"dbname=\S+", f"dbname={database}", dsn)
        self.postgres = psycopg.connect(own, autocommit=True)
        self.analyser = psycopg.connect(own, autocommit=True)
        self.analyser.execute(_TREE_SETTINGS)
        self.postgres.execute("SET timezone = 'UTC'; SET max_parallel_workers_per_gather = 0")
        self._notices: list[str] = []
        self.analyser.add_notice_handler(
            lambda notice: (
                self._notices.append(notice.message_detail or "")
                if notice.message_primary == "rewritten parse tree:"
                else None
            )
        )
        self.spark = spark
        self.folder = folder
        self.shuffled: int | None = None
        self.tables: dict[int, Table] = {}
        self.builtins = Builtins.from_rows(
            self.postgres.execute(FUNCTIONS_QUERY).fetchall(), self.postgres.execute(TYPES_QUERY).fetchall()
        )

    def close(self) -> None:
        self.postgres.close()
        self.analyser.close()

    @contextmanager
    def interpreted(self) -> Iterator[None]:
        """Meanwhile, Spark makes no code: for tests of what a query means, not of how a function is compiled."""
        before = {name: str(self.spark.conf.get(name)) for name in _INTERPRETED}
        try:
            for name, value in _INTERPRETED.items():
                self.spark.conf.set(name, value)
            yield
        finally:
            for name, known in before.items():
                self.spark.conf.set(name, known)

    # --- tables ---

    def load(self, name: str) -> None:
        """Give Spark the table as PostgreSQL has it."""
        (oid,) = self.postgres.execute("SELECT %s::regclass::oid::bigint", (name,)).fetchone() or (0,)
        columns = tuple(map(_column, self.postgres.execute(_COLUMNS, (oid,)).fetchall()))
        table = Table(oid, oid, "public", name, f"{name}/", columns)
        self.tables[oid] = table
        arrow = self._arrow(table)
        path = self.folder / f"{name}.parquet"
        pq.write_table(arrow, path)
        self.spark.read.parquet(str(path)).createOrReplaceTempView(f"lake_{oid}")

    def _arrow(self, table: Table) -> pa.Table:
        wanted = ", ".join(_EXPORTS.get(c.type_oid, "{0}").format(f'"{c.name}"') for c in table.columns)
        buffer = io.StringIO()
        with self.postgres.cursor().copy(f"COPY (SELECT {wanted} FROM {table.name}) TO STDOUT (FORMAT csv, NULL '\\N')") \
                as copy:  # fmt: skip
            for data in copy:
                buffer.write(bytes(data).decode())
        buffer.seek(0)
        rows = [row or [""] for row in csv.reader(buffer)]
        arrays: dict[str, pa.Array] = {}
        for index, column in enumerate(table.columns):
            texts = [None if row[index] == "\\N" else row[index] for row in rows]
            arrays[f"c{column.attnum}"] = _lake_array(column, texts)
        arrays["_file"] = pa.array(["file"] * len(rows), pa.string())
        arrays["_position"] = pa.array(range(len(rows)), pa.int64())
        return pa.table(arrays)

    # --- both sides ---

    def tree(self, sql: str) -> Any:
        """The rewritten tree, as PostgreSQL sends it at Parse."""
        self._notices.clear()
        result = self.analyser.pgconn.prepare(b"", sql.encode())
        if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            raise AssertionError(bytes(result.error_message).decode())
        assert len(self._notices) == 1, (sql, self._notices)
        return nodes.parse(self._notices[0])

    def context(self, parameters: Sequence[Parameter] = (), session: SessionValues | None = None) -> Context:
        return Context(self.builtins, self.tables, session or SessionValues(NOW, NOW), tuple(parameters))

    def plan(self, sql: str, parameters: Sequence[Parameter] = ()) -> SparkQuery:
        return plan_select(self.tree(sql), self.context(parameters))

    def on_postgres(self, sql: str) -> Answer:
        result = self.postgres.pgconn.exec_(sql.encode())
        if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
            return Answer(sqlstate=(result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode(),
                          message=(result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode())  # fmt: skip
        types = tuple(result.ftype(i) for i in range(result.nfields))
        rows = tuple(
            tuple(
                None if (value := result.get_value(row, column)) is None else bytes(value).decode()
                for column in range(result.nfields)
            )
            for row in range(result.ntuples)
        )
        return Answer(types, rows)

    def on_spark(self, sql: str, parameters: Sequence[Parameter] = ()) -> Answer:
        """The planner's answer; refusals come as SQLSTATE 0A000."""
        try:
            plan = self.plan(sql, parameters)
        except SluiceError as error:
            return Answer(sqlstate=error.sqlstate, message=error.message)
        return self.run(plan)

    def run(self, plan: SparkQuery) -> Answer:
        names = {scan.name: f"lake_{scan.table_oid}" for scan in plan.scans}
        if self.shuffled is not None:
            names = self._shuffled(names, Shuffle.of(self.shuffled, plan.sql))
        try:
            # Not toArrow(), whose cast fails for a NULL of a struct with a field that has none.
            frame: Any = self.spark.sql(plan.named(names))
            arrow = pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False))
        except Exception as error:  # noqa: BLE001
            java = getattr(error, "_origin", None)
            mapped = from_spark(error if java is None else protocol.Py4JJavaError("", java))
            mapped = needless(mapped) if plan.is_eager else mapped
            return Answer(sqlstate=mapped.sqlstate, message=mapped.message)
        columns = [_texts(arrow.column(index), column.type_oid) for index, column in enumerate(plan.columns)]
        rows = tuple(zip(*columns, strict=True)) if columns else ((),) * arrow.num_rows
        return Answer(tuple(column.type_oid for column in plan.columns), rows)

    def _shuffled(self, names: Mapping[str, str], shuffle: Shuffle) -> dict[str, str]:
        """Each scan by a view of its own, of the rows out of order."""
        for name, value in shuffle.settings.items():
            self.spark.conf.set(name, value)
        for scan, relation in names.items():
            self.spark.sql(shuffle.rows(relation)).createOrReplaceTempView(f"shuffled_{scan}")
        return {scan: f"shuffled_{scan}" for scan in names}


# --- from PostgreSQL to the lake ---

_COLUMNS = """
SELECT a.attnum, a.attname, coalesce(nullif(t.typbasetype, 0), t.oid)::bigint,
       CASE WHEN t.typbasetype = 0 THEN a.atttypmod ELSE t.typtypmod END, NOT a.attnotnull,
       (SELECT json_agg(json_build_array(e.oid::bigint, e.enumlabel) ORDER BY e.enumsortorder)
        FROM pg_enum e WHERE e.enumtypid = t.oid),
       CASE WHEN t.typbasetype <> 0 THEN t.oid::bigint END, t.typname,
       (SELECT json_agg(json_build_array(k.conname, k.conbin::text) ORDER BY k.conname)
        FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c')
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

_MICROSECONDS = (
    "CASE WHEN isfinite({0}) THEN (extract(epoch from {0}) * 1000000)::bigint "
    "WHEN {0} > '2000-01-01' THEN 9223372036854775807 WHEN {0} < '2000-01-01' THEN -9223372036854775807 END"
)
_EXPORTS = {
    t.DATE: "CASE WHEN isfinite({0}) THEN {0} - date '1970-01-01' WHEN {0} > '2000-01-01' THEN 2147483647 "
    "WHEN {0} < '2000-01-01' THEN -2147483647 END",
    t.TIMESTAMP: _MICROSECONDS,
    t.TIMESTAMPTZ: _MICROSECONDS,
    t.TIME: "(extract(epoch from {0}) * 1000000)::bigint",
    t.INTERVAL: "CASE WHEN {0} IS NOT NULL THEN json_build_array((extract(year from {0}) * 12 + extract(month from {0}))"
    "::int, extract(day from {0})::int, ((extract(hour from {0}) * 60 + extract(minute from {0})) * 60000000 + "
    "extract(microseconds from {0}))::bigint) END",
    t.BYTEA: "encode({0}, 'hex')",
    **{row.array_oid: "to_json({0})" for row in t.DATATYPES},
}


def _column(row: Sequence[Any]) -> Column:
    attnum, name, type_oid, typmod, nullable, labels, domain, domain_name, checks = row
    carried = None
    if not labels and t.known_type(type_oid) == t.CARRIED:
        type_oid, carried = t.CARRIED, Carried(type_oid, typmod, None)
    return Column(
        attnum, attnum, name, type_oid, typmod, nullable, labels=tuple(Label(*each) for each in labels or ()),
        domain=None if domain is None else Domain(domain, "public", domain_name, False, tuple(map(tuple, checks or ()))),
        carried=carried,
    )  # fmt: skip


def _lake_array(column: Column, texts: list[str | None]) -> pa.Array:
    oid, form = column.type_oid, column.form
    if oid in (t.INT2, t.INT4, t.INT8):
        kind = {t.INT2: pa.int16(), t.INT4: pa.int32(), t.INT8: pa.int64()}[oid]
        return pa.array([None if x is None else int(x) for x in texts], kind)
    if oid in (t.FLOAT4, t.FLOAT8):
        kind = pa.float32() if oid == t.FLOAT4 else pa.float64()
        return pa.array([None if x is None else float(x) for x in texts], kind)
    if oid == t.BOOL:
        return pa.array([None if x is None else x == "t" for x in texts], pa.bool_())
    if oid == t.BYTEA:
        return pa.array([None if x is None else bytes.fromhex(x) for x in texts], pa.binary())
    if oid == t.DATE:
        return pa.array([None if x is None else int(x) for x in texts], pa.int32()).view(pa.date32())
    if oid == t.TIMESTAMP:
        return pa.array([None if x is None else int(x) for x in texts], pa.int64()).view(pa.timestamp("us"))
    if oid == t.TIMESTAMPTZ:
        return pa.array([None if x is None else int(x) for x in texts], pa.int64()).view(pa.timestamp("us", "UTC"))
    if oid == t.TIME:
        return pa.array([None if x is None else int(x) for x in texts], pa.int64()).view(pa.time64("us"))
    if oid == t.NUMERIC and form.spark != "STRING":
        precision, scale = map(int, re.findall(r"\d+", form.spark))
        return pa.array([None if x is None else decimal.Decimal(x) for x in texts], pa.decimal128(precision, scale))
    if oid == t.INTERVAL:
        fields = [("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())]
        values = [None if x is None else dict(zip([n for n, _ in fields], json.loads(x), strict=True)) for x in texts]
        return pa.array(values, pa.struct(fields))
    element = t.element_type(oid)
    if element is not None:
        kinds = {t.INT4: pa.int32(), t.TEXT: pa.string(), t.INT8: pa.int64()}
        return pa.array([None if x is None else json.loads(x) for x in texts], pa.list_(kinds[element.oid]))
    return pa.array(texts, pa.string())


# --- from Arrow to PostgreSQL's text ---


def _texts(array: pa.ChunkedArray, oid: int) -> list[str | None]:
    whole = array.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], array.type)
    write = _writer(whole.type, oid)
    values = _physical(whole)
    return [None if value is None else write(value) for value in values]


def _physical(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_date32(kind):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        array = array.view(pa.int64())
    return list(array.to_pylist())


def _writer(kind: pa.DataType, oid: int) -> Callable[[Any], str]:
    element = t.element_type(oid)
    if element is not None:
        assert pa.types.is_list(kind), kind
        inner = _writer(kind.value_type, element.oid)
        return lambda items: "{" + ",".join("NULL" if x is None else _quoted(inner(x)) for x in items) + "}"
    expected, write = _WRITERS[t.TEXT if t.is_enumeration(oid) else oid]
    assert expected(kind), f"a column of type {oid} came as {kind}"
    if pa.types.is_time64(kind) and kind.unit == "ns":
        return lambda value: _time(value // 1000)
    return write


def _quoted(text: str) -> str:
    plain = text != "" and text.lower() != "null" and not re.search(r'[{},"\\\s]', text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _float(value: float, fixed: int, digits: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, number, exponent = decimal.Decimal(digits).as_tuple()
    text = "".join(map(str, number)).lstrip("0") or "0"
    assert isinstance(exponent, int)
    stripped = text.rstrip("0") or "0"
    exponent += len(text) - len(stripped)
    text = stripped
    if text == "0":
        return "-0" if sign else "0"
    point = len(text) + exponent  # digits before the point
    if -4 < point <= fixed:
        if exponent >= 0:
            body = text + "0" * exponent
        elif point > 0:
            body = text[:point] + "." + text[point:]
        else:
            body = "0." + "0" * -point + text
    else:
        mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
        body = f"{mantissa}e{point - 1:+03d}"
    return ("-" if sign else "") + body


def _float4(value: float) -> str:
    return _float(value, 6, str(numpy.format_float_scientific(numpy.float32(value), unique=True, trim="-")) \
        if math.isfinite(value) else "0")  # fmt: skip


def _civil(days: int) -> tuple[int, int, int]:
    """Year (astronomical), month and day, days after 1970-01-01."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def _date(days: int) -> str:
    if abs(days) == 2**31 - 1:
        return "infinity" if days > 0 else "-infinity"
    year, month, day = _civil(days)
    era = ""
    if year < 1:
        year, era = 1 - year, " BC"
    return f"{year:04d}-{month:02d}-{day:02d}{era}"


def _time(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _timestamp(microseconds: int, zone: str = "") -> str:
    if abs(microseconds) == 2**63 - 1:
        return "infinity" if microseconds > 0 else "-infinity"
    days, rest = divmod(microseconds, 86_400_000_000)
    date, _, era = _date(days).partition(" ")
    return f"{date} {_time(rest)}{zone}" + (f" {era}" if era else "")


def _interval(value: dict[str, int]) -> str:
    parts = []
    years, months = int(math.fmod(value["months"] / 12, 1e9)), 0
    years = abs(value["months"]) // 12 * (1 if value["months"] >= 0 else -1)
    months = value["months"] - years * 12
    before = False
    for number, unit in ((years, "year"), (months, "mon"), (value["days"], "day")):
        if number:
            sign = "+" if before and number > 0 else ""
            parts.append(f"{sign}{number} {unit}{'' if number == 1 else 's'}")
            before = number < 0
    time = value["microseconds"]
    if time or not parts:
        sign = "-" if time < 0 else "+" if before else ""
        parts.append(sign + _time(abs(time)))
    return " ".join(parts)


def _is(*checks: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    return lambda kind: any(check(kind) for check in checks)


_STRING = (pa.types.is_string, str)
_WRITERS: dict[int, tuple[Callable[[pa.DataType], bool], Callable[[Any], str]]] = {
    t.INT2: (pa.types.is_int16, str),
    t.INT4: (pa.types.is_int32, str),
    t.INT8: (pa.types.is_int64, str),
    t.OID: (pa.types.is_int64, str),
    t.BOOL: (pa.types.is_boolean, lambda value: "t" if value else "f"),
    t.FLOAT8: (pa.types.is_float64, lambda value: _float(value, 15, repr(value) if math.isfinite(value) else "0")),
    t.FLOAT4: (pa.types.is_float32, _float4),
    t.NUMERIC: (_is(pa.types.is_decimal, pa.types.is_string), lambda value: value if isinstance(value, str)
                else format(value, "f")),
    t.TEXT: _STRING, t.VARCHAR: _STRING, t.BPCHAR: _STRING, t.UUID: _STRING, t.JSON: _STRING, t.JSONB: _STRING,
    t.UNKNOWN: _STRING,
    t.BYTEA: (pa.types.is_binary, lambda value: "\\x" + value.hex()),
    t.DATE: (pa.types.is_date32, _date),
    t.TIME: (pa.types.is_time64, _time),
    t.TIMESTAMP: (pa.types.is_timestamp, _timestamp),
    t.TIMESTAMPTZ: (pa.types.is_timestamp, lambda value: _timestamp(value, "+00")),
    t.INTERVAL: (pa.types.is_struct, _interval),
}  # fmt: skip
