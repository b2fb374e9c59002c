"""Enumerations of applications: SQLAlchemy's Enum, and Alembic's operations on columns of it."""

from __future__ import annotations

import enum
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tests.servers import Server


class Status(enum.Enum):
    """Not in alphabetical order."""

    NEW = "new"
    PAID = "paid"
    CANCELLED = "cancelled"


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[Status] = mapped_column(default=Status.NEW, index=True)
    before: Mapped[Status | None]


@pytest.fixture
def engine(target: Server, target_schema: str) -> Iterator[sa.Engine]:
    url = target.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url, connect_args={"options": f"-csearch_path={target_schema}"})
    yield engine
    engine.dispose()


def test_orm(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(
            [Order(id=1), Order(id=2, status=Status.CANCELLED, before=Status.PAID), Order(id=3, status=Status.PAID)]
        )
        session.commit()
        by_status = session.scalars(sa.select(Order).order_by(Order.status.desc())).all()
        assert [(each.id, each.status) for each in by_status] == [
            (2, Status.CANCELLED), (3, Status.PAID), (1, Status.NEW),
        ]  # fmt: skip
        chosen = sa.select(Order.id).where(Order.status.in_([Status.NEW, Status.PAID])).order_by(Order.id)
        assert session.scalars(chosen).all() == [1, 3]
        assert session.scalar(sa.select(sa.func.max(Order.status))) is Status.CANCELLED
        counted = sa.select(Order.status, sa.func.count()).group_by(Order.status).order_by(Order.status)
        assert session.execute(counted).all() == [(Status.NEW, 1), (Status.PAID, 1), (Status.CANCELLED, 1)]
        by_status[2].status, by_status[2].before = Status.PAID, by_status[2].status
        session.commit()
        assert session.scalars(sa.select(Order.id).where(Order.before == Status.NEW)).all() == [1]
        session.execute(sa.delete(Order).where(Order.status == Status.CANCELLED))
        session.commit()
    reflected = sa.Table("orders", sa.MetaData(), autoload_with=engine)
    kind = reflected.c.status.type
    assert isinstance(kind, sa.Enum)
    assert (kind.name, kind.enums) == ("status", ["NEW", "PAID", "CANCELLED"])
    Base.metadata.drop_all(engine)
    with engine.connect() as connection:
        assert sa.inspect(connection).get_enums() == []  # type: ignore[attr-defined]


def test_alembic(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        op = Operations(MigrationContext.configure(connection))
        op.create_table(
            "ticket",
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("kind", sa.Enum("bug", "wish", name="kind"), nullable=False, server_default="bug"),
            sa.Column("state", sa.String(10)),
        )
        op.bulk_insert(sa.table("ticket", sa.column("id"), sa.column("state")), [
            {"id": 1, "state": "open"}, {"id": 2, "state": "shut"}, {"id": 3, "state": None},
        ])  # fmt: skip
    with engine.begin() as connection:
        op = Operations(MigrationContext.configure(connection))
        state = pg.ENUM("shut", "open", name="state")
        state.create(connection)
        op.alter_column("ticket", "state", type_=state, postgresql_using="state::state")
        op.add_column("ticket", sa.Column("was", pg.ENUM(name="state", create_type=False), server_default="open"))
        op.alter_column("ticket", "kind", server_default=None)
        op.create_index("ticket_state", "ticket", ["state"])
        op.create_check_constraint("shut_after_open", "ticket", "state IS NULL OR state <= was")
        op.execute("UPDATE ticket SET was = 'shut' WHERE state = 'shut'")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        with context.begin_transaction(), context.autocommit_block():
            context.execute("ALTER TYPE kind ADD VALUE 'praise' AFTER 'bug'")
    with engine.begin() as connection:
        connection.execute(
            sa.text("INSERT INTO ticket VALUES (4, 'praise', 'shut', 'open'), (5, 'wish', 'open', 'open')")
        )
        rows = connection.execute(
            sa.text("SELECT id, kind, state, was FROM ticket ORDER BY kind DESC, state, id")
        ).all()
        assert rows == [
            (5, "wish", "open", "open"), (4, "praise", "shut", "open"), (2, "bug", "shut", "shut"),
            (1, "bug", "open", "open"), (3, "bug", None, "open"),
        ]  # fmt: skip
    with (
        engine.connect() as connection,
        pytest.raises(exc.DataError, match='invalid input value for enum state: "ajar"'),
    ):
        connection.execute(sa.text("UPDATE ticket SET state = 'ajar'"))
    with engine.begin() as connection:  # down again
        op = Operations(MigrationContext.configure(connection))
        op.drop_constraint("shut_after_open", "ticket")
        op.drop_column("ticket", "was")
        op.alter_column("ticket", "state", type_=sa.String(10))
        op.execute("DROP TYPE state")
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT id, state FROM ticket ORDER BY state DESC, id")).all()
        assert rows == [(3, None), (2, "shut"), (4, "shut"), (1, "open"), (5, "open")]
