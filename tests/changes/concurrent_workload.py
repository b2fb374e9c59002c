"""Random schema and row changes by overlapping transactions, compared with a serial run on PostgreSQL.

Blocks are SERIALIZABLE, so a serial order exists: that of the commits. There is one exception: a transaction that read
a table, or wrote rows, before the change of its schema that was committed first (IEP-110 lets it commit); then an
earlier place since its beginning must do. Each statement is waited for before the next one is chosen, of whichever
session, so a seed replays. No session may wait for a schema change; a session that meets a row lock gives up soon
(lock_timeout).

By hand, long: `python -m tests.changes.concurrent_workload GATEWAY_URL POSTGRES_URL --seed 1 --seeds 100`.
"""

from __future__ import annotations

import random
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import psycopg
from psycopg.pq import TransactionStatus

from tests.changes.workload import REFUSED, Outcome, Way, Workload, alike, answer, by_hand

# What a transaction may be told for the sake of another.
_RETRIED = {"40001", "40P01", "55P03"}
_OPTIONS = "-c client_min_messages=error -c timezone=UTC"
_BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE"
_LOCK_TIMEOUT = "2s"
_TRIES = 3
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
_ENDS = {"BEGIN", "COMMIT", "ROLLBACK"}

Told = tuple[str, str]


@dataclass
class Transaction:
    """Its statements and what each was told; `began` is how many had been committed before it began."""

    began: int
    alone: bool
    told: list[Told] = field(default_factory=list)

    @property
    def statements(self) -> list[Told]:
        return self.told if self.alone else [(_BEGIN, "BEGIN"), *self.told]


@dataclass
class Session:
    name: str
    connection: psycopg.Connection
    workload: Workload
    transaction: Transaction | None = None

    @property
    def status(self) -> TransactionStatus:
        return self.connection.info.transaction_status

    def choose(self, model: Model) -> str:
        """Most often what can be done: blocks that fail early meet nobody."""
        if self.status is TransactionStatus.INERROR:
            return self.workload.statement(self.status)
        self.workload.look(self.connection)
        before = [] if self.transaction is None else self.transaction.told
        for _ in range(_TRIES):
            statement = self.workload.statement(self.status)
            if statement in _ENDS or not model.refuses(before, statement):
                break
        return _BEGIN if statement == "BEGIN" else statement


class Model:
    """PostgreSQL, which carries out one transaction after another."""

    def __init__(self, connection: psycopg.Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self.history: list[Transaction] = []

    def answer(self, statement: str) -> Told:
        return answer(self._connection, statement)

    def difference(self, statements: list[Told]) -> str | None:
        """Carry these out; where PostgreSQL says something else, what."""
        for statement, told in statements:
            expected, words = self.answer(statement)
            if not alike(statement, told, expected):
                return f"{statement}\n  gateway    {told}\n  PostgreSQL {expected} {words}"
        return None

    def refuses(self, before: list[Told], statement: str) -> bool:
        """Whether it gives an error after these, whatever they give."""
        self._connection.execute("BEGIN")
        for earlier, _ in before:
            self.answer(earlier)
        told, _ = self.answer(statement)
        self._connection.execute("ROLLBACK")
        return told[:1].isdigit()

    def undone(self, statements: list[Told]) -> str | None:
        """The same, undone: of what was not committed."""
        self._connection.execute("BEGIN")
        try:
            return self.difference(statements)
        finally:
            self._connection.execute("ROLLBACK")

    def commit(self, transaction: Transaction) -> str | None:
        """Put it last, or at the last place since its beginning where all are told what they were; else say why not."""
        found = self.difference(transaction.statements)
        if found is None:
            self.history.append(transaction)
            return None
        for place in range(len(self.history) - 1, transaction.began - 1, -1):
            order = [*self.history[:place], transaction, *self.history[place:]]
            if self._repeats(order):
                self.history = order
                return None
        return found

    def _repeats(self, order: list[Transaction]) -> bool:
        self._connection.execute("ROLLBACK")
        self._connection.execute(f"DROP SCHEMA {self._schema} CASCADE; CREATE SCHEMA {self._schema}".encode())
        return all(self.difference(transaction.statements) is None for transaction in order)


@dataclass
class Run:
    """The sessions and the model; `step` chooses a session and carries out its next statement."""

    model: Model
    sessions: list[Session]
    chance: random.Random
    outcome: Outcome = field(default_factory=Outcome)

    def _others_open(self, session: Session) -> bool:
        return any(other.transaction is not None for other in self.sessions if other is not session)

    def step(self) -> str | None:
        """What was wrong, if anything was."""
        session = self.chance.choice(self.sessions)
        try:
            statement = session.choose(self.model)
        except psycopg.Error as error:  # what it looks with is an operation too
            self.outcome.story.append(f"{session.name}: {error.sqlstate} {error}")
            wrong = self._given_up(session, str(error.sqlstate))
            return wrong if error.sqlstate in _RETRIED else f"{error.sqlstate} where it looks at what there is"
        way = self.chance.choice((Way.SIMPLE, Way.PREPARED))
        told, words = answer(session.connection, statement, way)
        self.outcome.story.append(f"{session.name}: {statement};  -- {way.value}: {told} {words}")
        self.outcome.done[told.split(" ")[0]] += 1
        if told == REFUSED:
            self.outcome.refused[words] += 1
        if told == REFUSED or told in _RETRIED:
            return self._given_up(session, told)
        if statement == _BEGIN:
            session.transaction = Transaction(len(self.model.history), alone=False)
            return None
        if session.transaction is None:
            return self._by_itself(statement, told)
        session.transaction.told.append((statement, told))
        if session.status is TransactionStatus.IDLE:
            return self._ended(session)
        return None

    def _given_up(self, session: Session, told: str) -> str | None:
        """A transaction that failed for another's sake, of which there must be one; or what the gateway refuses."""
        began = len(self.model.history) if session.transaction is None else session.transaction.began
        reason = began < len(self.model.history) or self._others_open(session)
        session.transaction = None
        session.connection.execute("ROLLBACK")
        return None if reason or told == REFUSED else f"{told} though there was no other"

    def _by_itself(self, statement: str, told: str) -> str | None:
        transaction = Transaction(len(self.model.history), alone=True, told=[(statement, told)])
        if told[:1].isdigit():
            return self.model.undone(transaction.told)
        return self.model.commit(transaction)

    def _ended(self, session: Session) -> str | None:
        transaction, session.transaction = session.transaction, None
        assert transaction is not None
        statement, told = transaction.told[-1]
        if told == "COMMIT":
            return self.model.commit(transaction)
        found = self.model.undone(transaction.told[:-1])
        if statement == "COMMIT" and told != "ROLLBACK" and found is None:
            # What fails at COMMIT fails in PostgreSQL at a statement, for there nobody else is beside it.
            return f"COMMIT: {told}, though all of it can be done"
        if told == "ROLLBACK" and transaction.began == len(self.model.history):
            return found
        return None

    def compare(self) -> list[str]:
        """The tables of both, when all have ended."""
        for session in self.sessions:
            session.connection.execute("ROLLBACK")
        session = self.sessions[0]
        tables, found = answer(session.connection, _TABLES), self.model.answer(_TABLES)
        if found != tables:
            return [f"tables: gateway {tables}, PostgreSQL {found}"]
        different = []
        session.workload.look(session.connection)
        for table in session.workload.columns:
            rows = f"SELECT * FROM {table}"
            ours, model = answer(session.connection, rows), self.model.answer(rows)
            if ours != model:
                different.append(f"{table}\n  gateway    {ours}\n  PostgreSQL {model}")
        return different


def run(
    gateway: str,
    postgres: str,
    schema: str,
    seed: int,
    statements: int,
    *,
    sessions: int = 3,
    make: type[Workload] = Workload,
) -> Outcome:
    """Carry out so many, until something is wrong. The schema is there, empty, on both."""
    options = f"{_OPTIONS} -c search_path={schema}"
    with ExitStack() as stack:
        connections = [
            stack.enter_context(
                closing(psycopg.connect(gateway, autocommit=True, options=f"{options} -c lock_timeout={_LOCK_TIMEOUT}"))
            )
            for _ in range(sessions)
        ]
        model = stack.enter_context(closing(psycopg.connect(postgres, autocommit=True, options=options)))
        chance = random.Random(seed)
        work = Run(
            Model(model, schema),
            [
                Session(f"s{number}", connection, make(chance, numbered=False))
                for number, connection in enumerate(connections, 1)
            ],
            chance,
        )
        for number in range(statements):
            wrong = work.step()
            if wrong is not None:
                work.outcome.different.append(f"seed {seed}, statement {number}: {wrong}")
                return work.outcome
        work.outcome.different += work.compare()
        return work.outcome


if __name__ == "__main__":
    by_hand(__doc__, "concurrent", run)
