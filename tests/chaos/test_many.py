"""Four gateways over one PostgreSQL: random schema and row changes through all of them, beside faults.

Gateways are killed, paused and cut off, and PostgreSQL is restarted. Afterwards every client's model and the lake
agree. `SLUICE_CHAOS_SECONDS` makes it longer; `SLUICE_CHAOS_SEED` repeats its random choices.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
import pytest

from catalog.postgres.embedded import EmbeddedPostgres
from tests.proxy import Proxy
from tests.servers import GatewayProcess, Server, open_directory, run_sluice, start_oracle
from tests.witness import Witness

pytestmark = pytest.mark.soak

_SECONDS = float(os.environ.get("SLUICE_CHAOS_SECONDS", "30"))
_SEED = int(os.environ.get("SLUICE_CHAOS_SEED", "0")) or random.randrange(1, 1 << 30)
_GATEWAYS = 4
_CLIENTS = 4
# What a client may meet, and what it says of its statement: that it was not carried out.
_NOT_DONE = {"40001", "40P01", "57P03", "55P03"}
_SETTLED_SECONDS = 1.0


@dataclass
class Model:
    """A client's own table as it must be: columns beside `id`, and rows."""

    columns: list[str] = field(default_factory=list)
    rows: dict[int, dict[str, int | None]] = field(default_factory=dict)

    def copy(self) -> Model:
        return Model(list(self.columns), {key: dict(row) for key, row in self.rows.items()})


@dataclass
class Client:
    number: int
    servers: list[Server]
    model: Model = field(default_factory=Model)
    serial: int = 0
    done: int = 0
    unknown: int = 0
    failure: str | None = None
    connection: psycopg.Connection | None = None
    refused: str = ""
    history: list[str] = field(default_factory=list)

    @property
    def table(self) -> str:
        return f"own_{self.number}"

    def work(self, closed: threading.Event, chance: random.Random) -> None:
        try:
            while not closed.is_set() and self.failure is None:
                if self.connection is None or self.connection.closed or chance.random() < 0.1:
                    self._reconnect(chance)
                    continue
                sql, after = self._choose(chance)
                try:
                    self.connection.execute(sql.encode())
                except psycopg.Error as error:
                    self._note(f"{sql}: {error.sqlstate}")
                    if error.sqlstate in _NOT_DONE and not self.connection.closed:
                        continue
                    if error.sqlstate not in {None, "57P01", "57P02", "57P03"}:
                        self.failure = f"{sql}: {error.sqlstate} {error}"
                        return
                    self.unknown += 1
                    self._resolve(sql, after, chance)
                else:
                    self._note(sql)
                    self.model = after
                    self.done += 1
        except (AssertionError, psycopg.Error) as error:
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            if self.connection is not None:
                self.connection.close()

    def _note(self, what: str) -> None:
        """For who wants to know how it came to that."""
        port = self.connection.info.port if self.connection is not None and not self.connection.closed else 0
        self.history.append(f"{time.monotonic():.2f} {port} {what}")

    def _choose(self, chance: random.Random) -> tuple[str, Model]:
        after, kind = self.model.copy(), chance.random()
        self.serial += 1
        if kind < 0.15 and len(after.columns) < 5:
            column = f"c{self.serial}"
            after.columns.append(column)
            for row in after.rows.values():
                row[column] = 7
            return f"ALTER TABLE {self.table} ADD COLUMN {column} integer DEFAULT 7", after
        if kind < 0.25 and after.columns:
            column = chance.choice(after.columns)
            after.columns.remove(column)
            for row in after.rows.values():
                del row[column]
            return f"ALTER TABLE {self.table} DROP COLUMN {column}", after
        if kind < 0.35 and after.columns:
            column, name = chance.choice(after.columns), f"r{self.serial}"
            after.columns[after.columns.index(column)] = name
            for row in after.rows.values():
                row[name] = row.pop(column)
            return f"ALTER TABLE {self.table} RENAME COLUMN {column} TO {name}", after
        if kind < 0.42:
            return f"ALTER TABLE {self.table} ADD CONSTRAINT k{self.serial} CHECK (id > 0)", after
        if kind < 0.5 and after.rows:
            key = chance.choice(list(after.rows))
            del after.rows[key]
            return f"DELETE FROM {self.table} WHERE id = {key}", after
        if kind < 0.6 and after.rows and after.columns:
            column, key = chance.choice(after.columns), chance.choice(list(after.rows))
            after.rows[key][column] = self.serial
            return f"UPDATE {self.table} SET {column} = {self.serial} WHERE id = {key}", after
        after.rows[self.serial] = dict.fromkeys(after.columns, self.serial)
        names = ", ".join(("id", *after.columns))
        values = ", ".join(str(self.serial) for _ in range(1 + len(after.columns)))
        return f"INSERT INTO {self.table} ({names}) VALUES ({values})", after

    def _reconnect(self, chance: random.Random) -> None:
        if self.connection is not None:
            self.connection.close()
        try:
            self.connection = psycopg.connect(chance.choice(self.servers).url, autocommit=True, connect_timeout=10)
        except psycopg.OperationalError as error:
            self.connection, self.refused = None, str(error)
            time.sleep(0.05)

    def _resolve(self, sql: str, after: Model, chance: random.Random) -> None:
        """The answer was lost: all of the statement is there, or none of it."""
        time.sleep(_SETTLED_SECONDS)
        found = self.look(chance)
        assert found in (self.model, after), f"{sql}: {self.model} or {after}, not {found}"
        self._note(f"it was {'' if found == after else 'not '}done")
        self.model = found

    def look(self, chance: random.Random, seconds: float = 90.0) -> Model:
        """The table as any gateway shows it."""
        deadline = time.monotonic() + seconds
        while True:
            self._reconnect(chance)
            try:
                assert self.connection is not None or time.monotonic() < deadline, f"no gateway answers: {self.refused}"
                if self.connection is not None:
                    return read(self.connection, self.table)
            except psycopg.Error:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def read(connection: psycopg.Connection, table: str) -> Model:
    cursor = connection.execute(f"SELECT * FROM {table}".encode())
    assert cursor.description is not None
    columns = [column.name for column in cursor.description[1:]]
    return Model(columns, {row[0]: dict(zip(columns, row[1:], strict=True)) for row in cursor.fetchall()})


@dataclass
class Cluster:
    gateways: list[GatewayProcess]
    proxy: Proxy
    postgres: EmbeddedPostgres
    catalog: str
    blows: list[str] = field(default_factory=list)

    def blow(self, chance: random.Random) -> None:
        """One of them, and what heals it."""
        gateway, seconds = chance.choice(self.gateways), chance.uniform(0.5, 5.0)
        kind = chance.choice(("kill", "pause", "cut", "sever", "postgres", "restart"))
        self.blows.append(kind)
        if kind == "kill":
            gateway.kill()
            gateway.start()
        elif kind == "restart":
            gateway.stop()
            gateway.start()
        elif kind == "pause":
            gateway.process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            gateway.process.send_signal(signal.SIGCONT)
        elif kind == "postgres":
            asyncio.run(self.postgres.stop())
            asyncio.run(self.postgres.start())
        else:
            self.proxy.cut()
            if kind == "sever":
                self.proxy.drop()
            time.sleep(seconds)
            self.proxy.heal()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with open_directory("many") as directory:
        postgres, server = start_oracle(directory)
        try:
            server.superuser.psql("-qc", "CREATE DATABASE shared OWNER sluice", "-d", "postgres")
            with Proxy(server.host, server.port) as proxy:
                gateways = []
                try:
                    for number in range(_GATEWAYS):
                        port = proxy.port if number == 0 else server.port
                        dsn = f"postgresql://postgres@127.0.0.1:{port}/shared"
                        arguments = ("--catalog", dsn, "--data-path", str(directory / "lake"), "--spark", "local[1]")
                        gateway = GatewayProcess(directory / str(number), arguments=arguments, user="sluice")
                        gateways.append(gateway.start())
                    yield Cluster(
                        gateways, proxy, postgres, f"postgresql://postgres@{server.host}:{server.port}/shared"
                    )
                finally:
                    proxy.heal()
                    for gateway in gateways:
                        if gateway.process.poll() is None:
                            gateway.process.send_signal(signal.SIGCONT)
                            gateway.kill()
        finally:
            asyncio.run(postgres.stop())


@pytest.mark.timeout(600 + 4 * _SECONDS)
def test_models_and_lake_agree(cluster: Cluster) -> None:
    chance = random.Random(_SEED)
    print(f"SLUICE_CHAOS_SEED={_SEED}")
    servers = [gateway.server for gateway in cluster.gateways]
    clients = [Client(number, servers) for number in range(_CLIENTS)]
    for client in clients:
        servers[0].psql("-qc", f"CREATE TABLE {client.table} (id integer)")
    closed = threading.Event()
    threads = [
        threading.Thread(target=client.work, args=(closed, random.Random(_SEED + client.number)), daemon=True)
        for client in clients
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and not any(client.failure for client in clients):
        time.sleep(chance.uniform(0.2, 2.0))
        cluster.blow(chance)
    closed.set()
    for thread in threads:
        thread.join(180)
        assert not thread.is_alive(), f"a client is stuck after {cluster.blows}"
    assert not [client.failure for client in clients if client.failure], (_SEED, cluster.blows, clients[0].failure)
    assert all(client.done for client in clients), [client.done for client in clients]
    for gateway in cluster.gateways:
        for client in clients:
            own = Client(client.number, [gateway.server])
            try:
                found = own.look(chance)
            except AssertionError:
                print(gateway.output)
                raise
            assert own.connection is not None
            own.connection.close()
            assert found == client.model, (_SEED, cluster.blows, gateway.port, "\n".join(client.history))
    for gateway in cluster.gateways:
        assert "Traceback" not in gateway.output, gateway.output
        gateway.stop()
    with cluster.gateways[1]:  # who comes next looks after what is left
        checked = run_sluice("check", "--catalog", cluster.catalog)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    witness = Witness(cluster.gateways[1].data_dir, "--catalog", cluster.catalog)
    try:
        for client in clients:
            columns = client.model.columns
            listed = ", ".join(["id", *columns])
            rows = witness.rows(f"SELECT {listed} FROM {witness.lake}.public.{client.table} ORDER BY id")
            expected = [(key, *(row[name] for name in columns)) for key, row in sorted(client.model.rows.items())]
            assert rows == expected, (_SEED, cluster.blows)
    finally:
        witness.close()
    print([client.done for client in clients], [client.unknown for client in clients], cluster.blows)
