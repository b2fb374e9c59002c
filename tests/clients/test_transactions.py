"""Transactions as drivers and mappers use them: the same on PostgreSQL and on the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.orm import DeclarativeBase, Mapped, Session

from tests.servers import Server


def _insert_two_of_which_one_is_wrong(connection: psycopg.Connection) -> None:
    with connection.transaction():
        connection.execute("INSERT INTO entry VALUES (%s)", [2])
        connection.execute("INSERT INTO entry VALUES (%s)", [-1])


def _delete_and_fail(connection: psycopg.Connection) -> None:
    with connection.pipeline(), connection.transaction():
        connection.execute("DELETE FROM entry")
        connection.execute("SELECT 1 / 0")


def test_psycopg_nests_blocks(target: Server, target_schema: str) -> None:
    with psycopg.connect(target.url, options=f"-csearch_path={target_schema}") as connection:
        connection.execute("CREATE TABLE entry (n integer CHECK (n > 0))")
        connection.commit()
        with connection.transaction():
            connection.execute("INSERT INTO entry VALUES (%s)", [1])
            with pytest.raises(psycopg.errors.CheckViolation):
                _insert_two_of_which_one_is_wrong(connection)
            with connection.transaction(force_rollback=True):
                connection.execute("DELETE FROM entry")
                assert connection.execute("SELECT count(*) FROM entry").fetchone() == (0,)
            connection.execute("INSERT INTO entry VALUES (%s)", [3])
        assert connection.execute("SELECT n FROM entry ORDER BY n").fetchall() == [(1,), (3,)]
        connection.execute("DELETE FROM entry")
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (2,)


def test_psycopg_pipelines(target: Server, target_schema: str) -> None:
    with psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as connection:
        connection.execute("CREATE TABLE entry (n integer)")
        with connection.pipeline(), connection.transaction():
            for number in range(3):
                connection.execute("INSERT INTO entry VALUES (%s)", [number])
        with pytest.raises(psycopg.errors.DivisionByZero):
            _delete_and_fail(connection)
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (3,)


@pytest.mark.parametrize("level", ["read_committed", "repeatable_read", "serializable"])
async def test_asyncpg_levels(
    target: Server, target_schema: str, level: Literal["read_committed", "repeatable_read", "serializable"]
) -> None:
    one = await asyncpg.connect(target.url, server_settings={"search_path": target_schema})
    other = await asyncpg.connect(target.url, server_settings={"search_path": target_schema})
    try:
        await one.execute("CREATE TABLE entry (n integer)")
        async with one.transaction(isolation=level):
            assert await one.fetchval("SHOW transaction_isolation") == level.replace("_", " ")
            assert await one.fetchval("SELECT count(*) FROM entry") == 0
            await other.execute("INSERT INTO entry VALUES (1)")
            assert await one.fetchval("SELECT count(*) FROM entry") == (1 if level == "read_committed" else 0)
        assert await one.fetchval("SELECT count(*) FROM entry") == 1
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            async with one.transaction(readonly=True):
                await one.execute("UPDATE entry SET n = 2")
        async with one.transaction():
            assert [row["n"] async for row in one.cursor("SELECT n FROM entry", prefetch=1)] == [1]
    finally:
        await one.close()
        await other.close()


async def test_asyncpg_asks_for_the_level_by_one_prepared_statement(target: Server) -> None:
    """Which it keeps: what it was told once is not what holds later."""
    connection = await asyncpg.connect(target.url)
    try:
        shows = [
            await connection.prepare(f"SHOW {what}")
            for what in ("transaction_isolation", "TRANSACTION ISOLATION LEVEL")
        ]
        for level in ("read committed", "serializable", "repeatable read", "read committed", "serializable"):
            await connection.execute(f"BEGIN ISOLATION LEVEL {level}")
            for show in shows:
                assert [dict(row) for row in await show.fetch()] == [{"transaction_isolation": level}]
                assert show.get_statusmsg() == "SHOW"
            await connection.execute("COMMIT AND CHAIN")
            assert await shows[0].fetchval() == level
            await connection.execute("ROLLBACK")
            assert await shows[0].fetchval() == "read committed"
    finally:
        await connection.close()


class Base(DeclarativeBase):
    """Models of this file; their schema is named when the engine is made."""

    metadata = sa.MetaData(schema="bank")


class Account(Base):
    """A model without constraints but NOT NULL and CHECK; its key is the mapper's alone."""

    __table__ = sa.Table(
        "account",
        Base.metadata,
        sa.Column("id", sa.Integer, sa.Identity(), nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("balance", sa.Integer, sa.CheckConstraint("balance >= 0", name="solvent")),
    )
    id: Mapped[int]
    owner: Mapped[str]
    balance: Mapped[int]
    __mapper_args__ = {"primary_key": [__table__.c.id]}  # noqa: RUF012  as SQLAlchemy wants it


@pytest.fixture
def engine(target: Server, target_schema: str) -> Iterator[sa.Engine]:
    """With SQLAlchemy's default: a transaction around everything."""
    url = target.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url).execution_options(schema_translate_map={"bank": target_schema})
    Base.metadata.create_all(engine)
    yield engine
    Base.metadata.drop_all(engine)
    engine.dispose()


def _overdraw(session: Session, account: Account) -> None:
    with session.begin_nested():
        account.balance = -1
        session.flush()


def test_sqlalchemys_unit_of_work(engine: sa.Engine) -> None:
    with Session(engine) as session:
        session.add_all([Account(owner="ann", balance=10), Account(owner="bob", balance=20)])
        session.commit()
        ann, bob = session.scalars(sa.select(Account).order_by(Account.owner)).all()
        ann.balance -= 5
        bob.balance += 5
        session.flush()
        assert session.scalar(sa.select(sa.func.sum(Account.balance))) == 30
        with pytest.raises(exc.IntegrityError, match="solvent"):
            _overdraw(session, ann)
        assert ann.balance == 5
        with session.begin_nested() as nested:
            session.delete(bob)
            session.flush()
            assert session.scalar(sa.select(sa.func.count()).select_from(Account)) == 1
            nested.rollback()
        session.add(Account(owner="cid", balance=1))
        session.commit()
        assert session.execute(sa.select(Account.owner, Account.balance).order_by(Account.owner)).all() == [
            ("ann", 5), ("bob", 25), ("cid", 1),
        ]  # fmt: skip
        session.execute(sa.delete(Account))
        session.rollback()
        assert session.scalar(sa.select(sa.func.count()).select_from(Account)) == 3


def test_sqlalchemys_isolation_levels(engine: sa.Engine) -> None:
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        assert connection.get_isolation_level() == "REPEATABLE READ"
        count = sa.select(sa.func.count()).select_from(Account)
        assert connection.scalar(count) == 0
        with engine.begin() as other:
            other.execute(sa.insert(Account), {"owner": "dan", "balance": 1})
        assert connection.scalar(count) == 0
        connection.rollback()
        assert connection.scalar(count) == 1
