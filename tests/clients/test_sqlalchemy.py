"""The story through SQLAlchemy 2's stock PostgreSQL dialect: Core, ORM, and reflection of what it created."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from tests.clients import story
from tests.servers import Server

# As Alembic's and most applications' models are written: every type by SQLAlchemy's own name.
TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    "id": sa.Integer(), "small": sa.SmallInteger(), "big": sa.BigInteger(), "price": sa.Numeric(12, 2),
    "exact": sa.Numeric(), "ratio": sa.REAL(), "measure": sa.Double(), "name": sa.Text(), "code": sa.String(8),
    "flag": sa.CHAR(3), "raw": sa.LargeBinary(), "active": sa.Boolean(), "day": sa.Date(), "clock": sa.Time(),
    "moment": sa.DateTime(), "instant": sa.DateTime(timezone=True), "span": sa.Interval(), "tag": sa.Uuid(),
    "doc": sa.JSON(), "info": pg.JSONB(), "numbers": sa.ARRAY(sa.Integer()), "words": sa.ARRAY(sa.Text()),
}  # fmt: skip


def reading_table(metadata: sa.MetaData) -> sa.Table:
    columns: list[sa.schema.SchemaItem] = []
    for name, type_ in TYPES.items():
        extra: list[sa.schema.SchemaItem] = [sa.Identity(start=100)] if name == "id" else []
        default = sa.true() if name == "active" else None
        columns.append(sa.Column(name, type_, *extra, nullable=name not in {"id", "name"}, server_default=default))
    return sa.Table("reading", metadata, *columns, sa.CheckConstraint("price >= 0", name="price_is_not_negative"))


def label_table(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "label",
        metadata,
        sa.Column("code", sa.String(8), nullable=False),
        sa.Column("title", sa.Text, nullable=False, comment="what people call it"),
        comment="names of codes",
    )


@pytest.fixture
def engine(target: Server) -> Iterator[sa.Engine]:
    url = target.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    yield engine
    engine.dispose()


def rows_for_core() -> list[dict[str, Any]]:
    """JSON's null and SQL's NULL differ; the story's None is SQL's."""
    rows = [dict(zip(TYPES, row, strict=True)) for row in story.ROWS]
    for row in rows:
        for name in ("doc", "info"):
            row[name] = sa.null() if row[name] is None else row[name]
    return rows


def test_core(engine: sa.Engine, target_schema: str) -> None:
    metadata = sa.MetaData(schema=target_schema)
    reading, label = reading_table(metadata), label_table(metadata)
    metadata.create_all(engine)
    metadata.create_all(engine)  # sees that they are there
    with engine.connect() as connection:
        connection.execute(sa.insert(label), [dict(zip(("code", "title"), row, strict=True)) for row in story.LABELS])
        for row in rows_for_core():
            connection.execute(sa.insert(reading).values(row))
        found = connection.execute(sa.select(reading).order_by(reading.c.id)).all()
        story.check_rows(story.EVERYTHING, [tuple(row) for row in found])

        ids = sa.select(reading.c.id).where(reading.c.price > Decimal("5.5"), reading.c.day < date(2025, 1, 1))
        assert connection.scalars(ids.order_by(reading.c.id)).all() == [1, 6]
        joined = sa.select(reading.c.id, label.c.title).join(label, label.c.code == reading.c.code)
        assert connection.execute(joined.order_by(reading.c.id)).all() == [(1, "kelvin"), (4, "kilo"), (5, "kelvin")]
        assert connection.scalars(sa.select(reading.c.id).where(reading.c.id.in_([2, 5, 77]))).all()
        page = sa.select(reading.c.id).order_by(reading.c.id.desc()).limit(2).offset(1)
        assert connection.scalars(page).all() == [5, 4]
        groups = sa.select(reading.c.active, sa.func.count()).group_by(reading.c.active)
        assert dict([tuple(row) for row in connection.execute(groups)]) == {True: 2, False: 2, None: 2}

        new = (
            sa.insert(reading).values(name="hundredth", price=Decimal("7.1")).returning(reading.c.id, reading.c.active)
        )
        assert connection.execute(new).one() == (100, True)
        many = sa.insert(reading).returning(reading.c.id, sort_by_parameter_order=True)
        assert len(connection.scalars(many, [{"name": f"more {n}"} for n in range(20)]).all()) == 20
        change = sa.update(reading).where(reading.c.id.in_([1, 3])).values(price=reading.c.price + Decimal("0.25"))
        changed = connection.execute(change.returning(reading.c.id, reading.c.price)).all()
        assert sorted(changed) == [(1, Decimal("20.24")), (3, None)]
        assert connection.execute(sa.delete(reading).where(reading.c.name.like("more %"))).rowcount == 20
        gone = sa.delete(reading).where(reading.c.code == label.c.code, label.c.title == "kilo")
        assert connection.execute(gone).rowcount == 1

        with pytest.raises(exc.IntegrityError, match="price_is_not_negative"):
            connection.execute(sa.insert(reading).values(name="x", price=-1))
        with pytest.raises(exc.DataError):
            connection.execute(sa.insert(reading).values(name="x", code="far too long"))
        assert connection.scalar(sa.select(sa.func.count()).select_from(reading)) == 6
    metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names(schema=target_schema) == []


def test_reflection(engine: sa.Engine, target_schema: str) -> None:
    """Two inspections agree: of what SQLAlchemy made, and of a copy made from that inspection."""
    metadata = sa.MetaData(schema=target_schema)
    reading_table(metadata)
    label_table(metadata)
    metadata.create_all(engine)
    with engine.connect() as connection:
        connection.execute(
            sa.text(f"CREATE VIEW {target_schema}.names AS SELECT id, name FROM {target_schema}.reading")
        )
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names(schema=target_schema)) == ["label", "reading"]
    assert inspector.get_view_names(schema=target_schema) == ["names"]
    assert inspector.has_table("names", schema=target_schema)
    assert "SELECT" in inspector.get_view_definition("names", schema=target_schema)
    columns = {column["name"]: column for column in inspector.get_columns("reading", schema=target_schema)}
    assert {name: str(column["type"].compile(engine.dialect)) for name, column in columns.items()} == {
        name: str(type_.compile(engine.dialect)) for name, type_ in TYPES.items()
    }
    assert [name for name, column in columns.items() if not column["nullable"]] == ["id", "name"]
    assert columns["id"]["identity"]["start"] == 100
    assert columns["active"]["default"] == "true"
    checks = inspector.get_check_constraints("reading", schema=target_schema)
    assert [check["name"] for check in checks] == ["price_is_not_negative"]
    assert inspector.get_table_comment("label", schema=target_schema) == {"text": "names of codes"}
    assert inspector.get_columns("label", schema=target_schema)[1]["comment"] == "what people call it"
    for table in ("reading", "label"):
        assert inspector.get_pk_constraint(table, schema=target_schema)["constrained_columns"] == []
        assert inspector.get_indexes(table, schema=target_schema) == []
        assert inspector.get_foreign_keys(table, schema=target_schema) == []
    copy = sa.Table("reading", sa.MetaData(), autoload_with=engine, schema=target_schema)
    with engine.connect() as connection:
        connection.execute(sa.insert(copy), [{"name": "through the reflected table"}])
        assert connection.execute(sa.select(copy.c.id, copy.c.active)).all() == [(100, True)]


class Base(DeclarativeBase):
    """Models of this file. The schema is named when the engine is made."""

    metadata = sa.MetaData(schema="story")


class Measurement(Base):
    """A mapped class with a column of every kind."""

    __table__ = sa.Table(
        "measurement",
        Base.metadata,
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("price", sa.Numeric(12, 2)),
        sa.Column("taken", sa.DateTime(timezone=True), nullable=False),
        sa.Column("clock", sa.Time),
        sa.Column("span", sa.Interval),
        sa.Column("tag", sa.Uuid),
        sa.Column("info", pg.JSONB),
        sa.Column("words", pg.ARRAY(sa.Text)),
    )
    id: Mapped[int]
    name: Mapped[str]
    price: Mapped[Decimal | None]
    taken: Mapped[datetime]
    clock: Mapped[time | None]
    span: Mapped[timedelta | None]
    tag: Mapped[UUID | None]
    info: Mapped[dict[str, Any] | None]
    words: Mapped[list[str] | None]


class Station(Base):
    """A parent, whose children go with it."""

    __tablename__ = "station"
    id: Mapped[int] = mapped_column(sa.Integer, primary_key=True)
    code: Mapped[str] = mapped_column(sa.String(8), unique=True)
    sensors: Mapped[list[Sensor]] = relationship(back_populates="station", cascade="all, delete", passive_deletes=True)


class Sensor(Base):
    """A child."""

    __tablename__ = "sensor"
    __table_args__ = (sa.UniqueConstraint("station_id", "name", name="one_name_each"),)
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    name: Mapped[str] = mapped_column(sa.Text)
    station_id: Mapped[int] = mapped_column(sa.ForeignKey("story.station.id", ondelete="CASCADE"))
    station: Mapped[Station] = relationship(back_populates="sensors")


def test_orm_with_keys(engine: sa.Engine, target_schema: str) -> None:
    """Serial keys, references, a unit of work that cascades, upserts, and reflection of all that."""
    engine = engine.execution_options(schema_translate_map={"story": target_schema}, isolation_level="READ COMMITTED")
    tables = [Base.metadata.tables[name] for name in ("story.station", "story.sensor")]
    Base.metadata.create_all(engine, tables)
    with Session(engine) as session:
        session.add(Station(code="north", sensors=[Sensor(name="a"), Sensor(name="b")]))
        session.add(Station(code="south", sensors=[Sensor(name="a")]))
        session.commit()
        session.add(Station(code="north"))
        with pytest.raises(exc.IntegrityError, match="station_code_key"):
            session.commit()
        session.rollback()
        session.add(Sensor(name="lost", station_id=99))
        with pytest.raises(exc.IntegrityError, match="sensor_station_id_fkey"):
            session.flush()
        session.rollback()
        station = session.scalars(sa.select(Station).where(Station.code == "north")).one()
        assert sorted(sensor.name for sensor in station.sensors) == ["a", "b"]
        session.delete(station)
        session.commit()
        assert session.scalars(sa.select(Sensor.name)).all() == ["a"]
        put = pg.insert(Station).values(code="south")
        put = put.on_conflict_do_update(index_elements=["code"], set_={"code": sa.func.upper(put.excluded.code)})
        assert session.scalar(put.returning(Station.code)) == "SOUTH"
        session.commit()
    inspector = sa.inspect(engine)
    assert inspector.get_pk_constraint("sensor", schema=target_schema)["constrained_columns"] == ["id"]
    [unique] = inspector.get_unique_constraints("sensor", schema=target_schema)
    assert (unique["name"], unique["column_names"]) == ("one_name_each", ["station_id", "name"])
    [reference] = inspector.get_foreign_keys("sensor", schema=target_schema)
    assert (reference["referred_table"], reference["options"]) == ("station", {"ondelete": "CASCADE"})
    Base.metadata.drop_all(engine, tables)


def test_orm(engine: sa.Engine, target_schema: str) -> None:
    engine = engine.execution_options(schema_translate_map={"story": target_schema})
    Base.metadata.create_all(engine, [Measurement.__table__])
    taken = datetime(2024, 2, 29, 1, 2, 3, 456_789, tzinfo=UTC)
    with Session(engine) as session:
        first = Measurement(
            name="first", price=Decimal("1.50"), taken=taken, clock=time(4, 5), span=timedelta(minutes=90),
            tag=UUID(int=7), info={"deep": {"er": [1, 2]}}, words=["a", "b"],
        )  # fmt: skip
        session.add_all([first, *(Measurement(name=f"number {n}", taken=taken) for n in range(2, 6))])
        session.commit()
        assert first.id is not None
        identity = first.id
    with Session(engine) as session:
        again = session.get_one(Measurement, identity)
        assert (again.name, again.price, again.taken, again.clock) == ("first", Decimal("1.50"), taken, time(4, 5))
        assert (again.span, again.tag, again.info) == (timedelta(minutes=90), UUID(int=7), {"deep": {"er": [1, 2]}})
        assert again.words == ["a", "b"]
        again.name = "changed"
        again.words = [*again.words, "c"]
        session.commit()
        names = session.scalars(sa.select(Measurement.name).order_by(Measurement.name)).all()
        assert names == ["changed", "number 2", "number 3", "number 4", "number 5"]
        session.delete(session.scalars(sa.select(Measurement).where(Measurement.name == "number 3")).one())
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Measurement)) == 4
        session.execute(sa.update(Measurement).where(Measurement.price.is_(None)).values(price=9))
        session.commit()
        assert set(session.scalars(sa.select(Measurement.price))) == {Decimal("1.50"), Decimal("9.00")}
    Base.metadata.drop_all(engine, [Measurement.__table__])
