"""Two sides that run scripts: plain PostgreSQL, and two gateways on one lake; the code that each has run, and its
roles."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from tests.security.identities.objects import OWNER, ROLES
from tests.security.identities.script import Script
from tests.security.identities.statements import PATHS
from tests.security.identities.step import Step
from tests.security.identities.witness import MAKE, Record, Witness
from tests.servers import GatewayProcess, Server, open_directory, start_oracle

_REFUSED: Final = "0A000"
_STATEMENT_SECONDS: Final = 120
# A connection that ended, and what a gateway that hears nothing says.
_BROKEN: Final = ("57P01", "57P03")


@dataclass
class Run:
    """What a side has run of a script: by the step's place, -1 for the schema that was made."""

    told: dict[int, set[Record]] = field(default_factory=dict)
    # Statements by kind and outcome: "done", or the SQLSTATE.
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)
    paths: Counter[str] = field(default_factory=Counter)
    # The steps with a refused statement.
    refused: set[int] = field(default_factory=set)

    @property
    def done(self) -> int:
        """How many statements were carried out."""
        return sum(count for (_, outcome), count in self.outcomes.items() if outcome == "done")

    @property
    def records(self) -> set[Record]:
        return {record for told in self.told.values() for record in told}


@dataclass
class Side:
    """Servers of one catalog; `admin` owns the database, `witness` reads what was told."""

    servers: tuple[Server, ...]
    witness: Witness
    admin: psycopg.Connection[Any]

    def run(self, script: Script) -> Run:
        found = Run()
        schema = script.world.schema
        self.witness.told()
        self.admin.execute(f"CREATE SCHEMA {schema}".encode())
        self.admin.execute(f"GRANT CREATE ON SCHEMA {schema} TO {', '.join(ROLES)}".encode())
        # Whoever runs users' code by mistake can.
        self.admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC".encode())
        with ExitStack() as stack:
            sessions = _Sessions(self.servers, stack)
            try:
                for asked in script.world.made:
                    _carry_out(sessions, Step(asked.role, "making", (asked.sql,)), found, schema)
                found.told[-1] = self.witness.told()
                for place, step in enumerate(script.steps):
                    before = _refusals(found)
                    _carry_out(sessions, step, found, schema)
                    found.told[place] = self.witness.told()
                    if _refusals(found) > before:
                        found.refused.add(place)
                sessions.close()
            finally:
                sessions.close()
                self.admin.execute(f"SET client_min_messages = error; DROP SCHEMA {schema} CASCADE".encode())
        found.told[len(script.steps)] = self.witness.told()
        return found


@dataclass
class _Sessions:
    """One for each role and place, opened when it is needed."""

    servers: tuple[Server, ...]
    stack: ExitStack
    open: dict[tuple[str, int], psycopg.Connection[Any]] = field(default_factory=dict)

    def of(self, role: str, place: int) -> psycopg.Connection[Any]:
        place %= len(self.servers)
        connection = self.open.get((role, place))
        if connection is None or connection.closed:
            server = self.servers[place]
            url = server.url.replace(f"://{server.user}@", f"://{role}@")
            options = f"-cstatement_timeout={_STATEMENT_SECONDS}s -clock_timeout=20s"
            connection = self.stack.enter_context(psycopg.connect(url, autocommit=True, options=options))
            self.open[role, place] = connection
        return connection

    def close(self) -> None:
        for connection in self.open.values():
            connection.close()


def _refusals(found: Run) -> int:
    return sum(count for (_, outcome), count in found.outcomes.items() if outcome == _REFUSED)


def _carry_out(sessions: _Sessions, step: Step, found: Run, schema: str) -> None:
    connection = sessions.of(step.role, step.place)
    for statement in step.statements:
        try:
            if step.kind.startswith("SELECT") and statement.startswith("SELECT"):
                _count_path(connection, statement, found)
            _send(connection, statement, step)
        except psycopg.Error as error:
            found.outcomes[step.kind, error.sqlstate or "?"] += 1
            found.messages.append(
                f"{error.sqlstate} {step.kind}: {statement[:150]} -> {str(error).splitlines()[0][:150]}"
            )
            if connection.closed:
                return
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute(b"ROLLBACK")
                break
        else:
            found.outcomes[step.kind, "done"] += 1
    if not connection.closed:
        # What functions of the script's leave behind, which would have all of these functions refused.
        connection.execute(b"CLOSE ALL")
        connection.execute(b"RESET search_path")


def _count_path(connection: psycopg.Connection[Any], query: str, found: Run) -> None:
    [plan, *_] = connection.execute(f"EXPLAIN {query}".encode()).fetchall()
    name = str(plan[0]).split("  (")[0]
    found.paths[PATHS.get(name, name)] += 1


def _send(connection: psycopg.Connection[Any], statement: str, step: Step) -> None:
    if step.rows and statement.startswith("COPY"):
        with connection.cursor().copy(statement.encode()) as copy:
            copy.write(step.rows)
    elif statement.startswith("COPY"):
        with connection.cursor().copy(statement.encode()) as copy:
            list(copy)
    else:
        connection.execute(statement.encode(), step.values or None)


def _opened(servers: tuple[Server, ...], stack: ExitStack, catalog_url: str) -> Side:
    admin = stack.enter_context(psycopg.connect(servers[0].url, autocommit=True))
    admin.execute(MAKE.encode())
    for role in ROLES:
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
    admin.execute(f"GRANT MAINTAIN ON ALL TABLES IN SCHEMA witness TO {OWNER}".encode())
    superuser = stack.enter_context(psycopg.connect(catalog_url, autocommit=True))
    return Side(servers, Witness(superuser), admin)


@contextmanager
def over_urls(oracle: str, catalog: str, *gateways: str) -> Iterator[tuple[Side, Side]]:
    """Servers that somebody has started, by `HOST:PORT`, and the superuser's URL of the catalog; each used once."""
    with ExitStack() as stack:
        postgres = _server("postgres", oracle)
        yield (
            _opened((postgres,), stack, postgres.superuser.url),
            _opened(tuple(_server("gateway", each) for each in gateways), stack, catalog),
        )


def _server(name: str, place: str) -> Server:
    host, _, port = place.rpartition(":")
    return Server(name, host, int(port))


@contextmanager
def started(environment: dict[str, str] | None = None) -> Iterator[tuple[Side, Side]]:
    """Plain PostgreSQL, and two gateways on one data directory, which find this in their environment."""
    with ExitStack() as stack:
        postgres, oracle = start_oracle(stack.enter_context(open_directory("oracle")))
        stack.callback(lambda: asyncio.run(postgres.stop()))
        data = stack.enter_context(open_directory("identities")) / "data"
        # Spark begins with the queries of the one, PostgreSQL with those of the other.
        by_spark = GatewayProcess(data, arguments=("--engine", "spark"), environment=environment or {})
        one = stack.enter_context(by_spark)
        other = stack.enter_context(GatewayProcess(data, environment=environment or {}))
        yield (
            _opened((oracle,), stack, oracle.superuser.url),
            _opened((one.server, other.server), stack, one.catalog_url),
        )
