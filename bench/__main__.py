"""`python -m bench`: start a gateway, a PostgreSQL and a bare Spark, measure, print."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from bench import changes, gateways, indexes, maintenance, measure, migrations, neighbours, processor, small
from bench.bare_spark import BareSpark
from bench.report import Figure, Report
from bench.transactions import INSERTS, MIXED, SESSIONS, DuckLake, on_server
from tests.clients import tpch
from tests.servers import PSQL_18, GatewayProcess, Server, open_directory, start_oracle

PARTS = (
    "tpch",
    "rows",
    "copy",
    "latency",
    "small",
    "transactions",
    "changes",
    "gateways",
    "indexes",
    "processor",
    "maintenance",
    "migrations",
    "neighbours",
)
_SCHEMA = "bench"


class Bench:
    """Both servers, and what is loaded into them."""

    def __init__(
        self, directory: Path, gateway: GatewayProcess, postgres: Server, postmaster: int, options: argparse.Namespace
    ) -> None:
        self.directory = directory
        self.process = gateway
        self.gateway = gateway.server
        self.postgres = postgres
        self.postmaster = postmaster
        self.options = options
        self.report = Report()
        # Before anything is loaded: what loading left behind must not count as idle.
        self.idle_bytes = measure.resident_bytes(gateway.process.pid)
        for server in (self.gateway, self.postgres):
            server.psql("-qc", f"CREATE SCHEMA {_SCHEMA}")
            live_in(server, _SCHEMA)
        self.csv = tpch.generate(directory / "tpch", options.scale)

    def load_tpch(self) -> None:
        """The schema and all tables but lineitem on both sides; lineitem's loading is measured by `copy`."""
        for server in (self.gateway, self.postgres):
            server.psql("-q", "-v", "ON_ERROR_STOP=1", sql=tpch.SCHEMA)
            for table in tpch.TABLES:
                # Bare Spark reads files.
                copied = "-q", "-v", "ON_ERROR_STOP=1", "-c", tpch.copy_command(table, self.csv)
                server.psql(*copied, settings={"sluice.hot_rows": "0"})
        self.postgres.psql("-q", sql=tpch.ORACLE_INDEXES)

    def tpch(self) -> None:
        """The 22 queries through the gateway and on bare Spark; the first run of each warms both and is not counted."""
        tables = {table: sorted(self.process.data_dir.rglob(f"{table}-[0-9]*/*.parquet")) for table in tpch.TABLES}
        spark = BareSpark(tables)
        self.report.heading(f"TPC-H at scale {self.options.scale}, other: bare Spark on the same files")
        totals = [0.0, 0.0]
        with psycopg.connect(self.gateway.url, autocommit=True) as connection:
            for path in tpch.query_files():
                sql = path.read_text().strip().removesuffix(";")
                translated = spark.translate(sql)
                ours, other = len(connection.execute(sql.encode()).fetchall()), spark.run(translated)
                if ours != other:
                    raise AssertionError(f"{path.stem}: {ours} rows here, {other} on bare Spark")
                taken = measure.alternately(
                    self.options.repeat,
                    lambda sql=sql: connection.execute(sql.encode()).fetchall(),  # type: ignore[misc]
                    lambda translated=translated: spark.run(translated),  # type: ignore[misc]
                )
                totals = [total + one for total, one in zip(totals, taken, strict=True)]
                self.report.add(Figure(path.stem, taken[0], taken[1], "s", "Spark"))
        self.report.add(Figure("total of 22", totals[0], totals[1], "s", "Spark", ratio_max=1.10))
        spark.stop()

    def load_rows(self) -> Path:
        """A file of rows of bigint, double precision and text."""
        count = self.options.rows
        number = np.arange(count, dtype=np.int64)
        text = pa.array(number).cast(pa.string())
        table = pa.table({"n": number, "x": number * 0.25, "t": pc.binary_join_element_wise("row", text, " ")})
        file = self.directory / "wide.csv"
        pyarrow.csv.write_csv(table, file)
        for server in (self.gateway, self.postgres):
            server.psql("-qc", "CREATE TABLE wide (n bigint, x double precision, t text)")
            server.psql("-q", "-c", f"\\copy wide from '{file}' with (format csv, header)")
        return file

    def rows(self) -> None:
        """All rows of a table out, and what the gateway's memory does meanwhile."""
        self.load_rows()
        self.report.heading(f"{self.options.rows} rows of 3 columns out, other: PostgreSQL 18")
        process_id = self.process.process.pid
        measure.forget_peak(process_id)
        everything = "SELECT * FROM wide"
        for name, arguments in (
            ("psql, SELECT", ["-c", everything]),
            ("psql, SELECT in chunks", ["-v", "FETCH_COUNT=10000", "-c", everything]),
            ("psql, COPY text", ["-c", "COPY wide TO STDOUT"]),
            ("psql, COPY binary", ["-c", "COPY wide TO STDOUT (FORMAT binary)"]),
        ):
            taken = measure.alternately(
                self.options.repeat,
                lambda arguments=arguments: psql_to_nowhere(self.gateway, *arguments),  # type: ignore[misc]
                lambda arguments=arguments: psql_to_nowhere(self.postgres, *arguments),  # type: ignore[misc]
            )
            self.report.add(Figure(name, taken[0], taken[1], "s", "PostgreSQL", ratio_max=1.0))
        ours, other = asyncio.run(self._asyncpg_rows(everything))
        self.report.add(Figure("asyncpg, fetch", ours, other, "s", "PostgreSQL", ratio_max=1.0))
        over_idle = (measure.peak_bytes(process_id) - self.idle_bytes) / 2**20
        self.report.add(Figure("gateway's peak memory over idle", over_idle, None, "MB", ours_max=300))

    async def _asyncpg_rows(self, sql: str) -> tuple[float, float]:
        medians = []
        for server in (self.gateway, self.postgres):
            connection = await asyncpg.connect(server.url)
            taken = []
            for _ in range(self.options.repeat):
                begin = time.perf_counter()
                assert len(await connection.fetch(sql)) == self.options.rows
                taken.append(time.perf_counter() - begin)
            medians.append(sorted(taken)[len(taken) // 2])
            await connection.close()
        return medians[0], medians[1]

    def copy(self) -> None:
        r"""`\copy` of lineitem into an empty table."""
        self.report.heading(f"COPY in of lineitem at scale {self.options.scale}, other: PostgreSQL 18")

        def load(server: Server) -> None:
            server.psql("-q", "-v", "ON_ERROR_STOP=1", "-c", tpch.copy_command("lineitem", self.csv))

        taken: list[list[float]] = [[], []]
        for _ in range(self.options.repeat):
            for each, server in zip(taken, (self.gateway, self.postgres), strict=True):
                server.psql("-qc", "CREATE SCHEMA fresh")
                live_in(server, "fresh")
                server.psql("-q", sql=tpch.SCHEMA)
                each.append(measure.seconds(lambda server=server: load(server)))  # type: ignore[misc]
                live_in(server, _SCHEMA)
                server.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA fresh CASCADE")
        ours, other = (sorted(each)[len(each) // 2] for each in taken)
        self.report.add(Figure(r"psql, \copy", ours, other, "s", "PostgreSQL", ratio_max=1.0))

    def latency(self) -> None:
        """Small statements, one after another on one connection."""
        self.report.heading("small statements, other: PostgreSQL 18")
        for server in (self.gateway, self.postgres):
            server.psql("-q", sql="CREATE TABLE small (n integer, t text); INSERT INTO small VALUES (1, 'one');")
        statements: tuple[tuple[str, str, list[object], int], ...] = (
            ("SELECT 1", "SELECT 1", [], 2000),
            ("point SELECT", "SELECT * FROM orders WHERE o_orderkey = $1", [7], 100),
            ("INSERT of 1 row", "INSERT INTO small VALUES ($1, $2)", [2, "two"], 200),
            ("UPDATE of 1 row", "UPDATE small SET t = t || '!' WHERE n = $1", [1], 50),
        )
        for name, sql, arguments, times in statements:

            def the_same(_: int, given: list[object] = arguments) -> list[object]:
                return given

            ours, other = (
                asyncio.run(small.latencies(server, sql, the_same, times)) for server in (self.gateway, self.postgres)
            )
            for label, mine, theirs in zip(("p50", "p99"), ours, other, strict=True):
                self.report.add(Figure(f"{name}, {label}", mine * 1e3, theirs * 1e3, "ms", "PostgreSQL"))

    def small(self) -> None:
        """Small statements over few rows and over many."""
        small.run(self.report, self.gateway, self.postgres, self.options.keyed)

    def transactions(self) -> None:
        """Sessions that commit side by side."""
        (self.directory / "duck").mkdir()
        duck = DuckLake(self.postgres, self.directory / "duck")
        seconds = self.options.seconds
        try:
            for load in (INSERTS, MIXED):
                self.report.heading(f"transactions a second ({load}), more is better")
                for sessions in SESSIONS:
                    ours, other = (
                        asyncio.run(on_server(server, load, sessions, seconds))
                        for server in (self.gateway, self.postgres)
                    )
                    theirs = duck.run(load, sessions, seconds)
                    self.report.add(Figure(f"{sessions} sessions", ours, other, "/s", "PostgreSQL"))
                    self.report.add(Figure(f"{sessions} sessions", ours, theirs, "/s", "DuckDB"))
        finally:
            duck.close()

    def migrations(self) -> None:
        """The migrations of Alembic and Django."""
        migrations.run(self.report, self.gateway, self.postgres, self.options.repeat)

    def neighbours(self) -> None:
        """What one client can do to another's time."""
        neighbours.run(self.report, self.gateway)

    def gateways(self) -> None:
        """Changes of schemas by the number of gateways, and the check before each statement."""
        gateways.run(self.report, self.directory, 10)

    def changes(self) -> None:
        """Changes of schemas, and what writers notice of them."""
        servers = (self.gateway, self.postgres)
        self.report.heading("changes that touch no rows, other: PostgreSQL 18")
        ours, other = (measure.percentiles(asyncio.run(changes.metadata(server, 25))) for server in servers)
        for label, mine, theirs, most in zip(("p50", "p99"), ours, other, (50, None), strict=True):
            self.report.add(Figure(label, mine * 1e3, theirs * 1e3, "ms", "PostgreSQL", ours_max=most))
        for server in servers:
            server.psql("-qc", "ALTER TABLE orders ADD PRIMARY KEY (o_orderkey)")
            # Without the NOT NULLs of lineitem, which are among the changes.
            server.psql("-qc", "CREATE TABLE altered AS SELECT * FROM lineitem")
        self.report.heading(f"changes over lineitem at scale {self.options.scale}, other: PostgreSQL 18")
        here, there = (asyncio.run(changes.over_rows(server, "altered")) for server in servers)
        for (name, *_), mine, theirs in zip(changes.CHANGES, here, there, strict=True):
            self.report.add(Figure(name, mine, theirs, "s", "PostgreSQL"))
        sessions = f"{changes.READERS} sessions that read and {changes.WRITERS} that insert rows"
        self.report.heading(f"{sessions} meanwhile, other: PostgreSQL 18")
        for name, change, back in changes.BESIDE:
            self.beside("before", None, "")
            self.beside(f"while {name}", change, back)
        self.beside("after", None, "")

    def beside(self, name: str, change: str | None, back: str) -> None:
        """What others notice of a change."""
        seconds = self.options.seconds
        ours, other = (
            asyncio.run(changes.beside(server, "altered", change, back, seconds))
            for server in (self.gateway, self.postgres)
        )
        for what, sessions in (("reads", changes.READERS), ("writes", changes.WRITERS)):
            mine, theirs = getattr(ours, what), getattr(other, what)
            rate, other_rate = changes.rate(mine, sessions), changes.rate(theirs, sessions)
            self.report.add(Figure(f"{what} {name}", rate, other_rate, "/s"))
            self.report.add(
                Figure(f"{what} {name}, p99", measure.percentiles(mine)[1], measure.percentiles(theirs)[1], "s")
            )
        self.report.add(Figure(f"errors {name}", len(ours.errors), len(other.errors), ""))

    def indexes(self) -> None:
        """Indexes being made, and looks at a few rows before and after."""
        servers = (self.gateway, self.postgres)
        for server in servers:
            server.psql("-qc", "CREATE TABLE indexed AS SELECT * FROM lineitem")
        [[rows]] = self.postgres.query("SELECT count(*) FROM indexed")
        for when in ("before", "after"):
            if when == "after":
                self.report.heading(f"indexes over {rows} rows of lineitem, other: PostgreSQL 18")
                ours, other = (asyncio.run(indexes.make(server, "indexed")) for server in servers)
                for (name, _), mine, theirs in zip(indexes.INDEXES, ours, other, strict=True):
                    self.report.add(Figure(name, mine, theirs, "s", "PostgreSQL"))
                    self.report.add(Figure(f"{name}, rows a second", int(rows) / mine, int(rows) / theirs, "/s"))
            self.report.heading(f"looks at a few rows, {when}, other: PostgreSQL 18")
            for name, sql in (("one order", indexes.POINT), ("a thousand orders", indexes.RANGE)):
                times = [asyncio.run(indexes.look(server, "indexed", sql, 30)) for server in servers]
                mine, theirs = (measure.percentiles(each)[0] for each in times)
                self.report.add(Figure(f"{name}, p50", mine * 1e3, theirs * 1e3, "ms", "PostgreSQL"))

    def processor(self) -> None:
        """What indexes and keys cost of the processor."""
        table = "measured"
        for server in (self.gateway, self.postgres):
            server.psql("-qc", f"CREATE TABLE {table} AS SELECT * FROM lineitem")
        [[rows]] = self.postgres.query(f"SELECT count(*) FROM {table}")
        self.report.heading(f"indexes and keys over {rows} rows of lineitem, in turns, other: PostgreSQL 18")
        ours, other = (self.gateway, self.process.process.pid), (self.postgres, self.postmaster)
        processor.run(self.report, ours, other, table, self.options.repeat)

    def maintenance(self) -> None:
        """What VACUUM takes, and what it is good for."""
        self.report.heading(f"compaction of lineitem at scale {self.options.scale} in {maintenance.FILES} files")
        # Nothing is to be cleaned up but by what is measured.
        self.gateway.psql("-qc", f"ALTER DATABASE {self.gateway.database} SET sluice.maintenance_interval = '0'")
        rows = maintenance.scatter(self.gateway)
        self.report.add(Figure("scan before", maintenance.scan_seconds(self.gateway, self.options.repeat), None, "s"))
        taken = maintenance.vacuum_seconds(self.gateway, "VACUUM scattered")
        self.report.add(Figure("VACUUM", taken, None, "s"))
        self.report.add(Figure("rows written anew", rows / taken, None, "/s"))
        self.report.add(Figure("scan after", maintenance.scan_seconds(self.gateway, self.options.repeat), None, "s"))
        taken = maintenance.vacuum_seconds(self.gateway, "CLUSTER scattered USING scattered_order")
        self.report.add(Figure("CLUSTER", taken, None, "s"))
        self.report.add(Figure("ANALYZE", maintenance.vacuum_seconds(self.gateway, "ANALYZE scattered"), None, "s"))


def live_in(server: Server, schema: str) -> None:
    """Let sessions to come find tables in this schema."""
    server.psql("-qc", f"ALTER ROLE CURRENT_USER SET search_path = {schema}")


def psql_to_nowhere(server: Server, *arguments: str) -> None:
    """psql with its output thrown away."""
    command = [str(PSQL_18), "--no-psqlrc", "-At", "-v", "ON_ERROR_STOP=1", server.url, *arguments]
    with Path(os.devnull).open("wb") as nowhere:
        subprocess.run(command, stdout=nowhere, check=True)


def main() -> None:
    """Parse the command line and run the parts."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}; all by default"
    )
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H's scale factor")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows to read out")
    parser.add_argument("--keyed", type=int, default=6_000_000, help="rows of the larger table of small statements")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the median counts")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long sessions commit")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    with ExitStack() as stack:
        directory = stack.enter_context(open_directory("bench"))
        postgres, oracle = start_oracle(directory)
        stack.callback(lambda: asyncio.run(postgres.stop()))
        gateway = stack.enter_context(GatewayProcess(directory / "gateway", maintenance=True))
        assert postgres.process_id is not None
        bench = Bench(directory, gateway, oracle, postgres.process_id, options)
        if {"tpch", "latency", "changes", "indexes", "processor", "maintenance"} & set(options.parts):
            bench.load_tpch()
        for part in PARTS:
            if part in options.parts:
                getattr(bench, part)()


if __name__ == "__main__":
    main()
