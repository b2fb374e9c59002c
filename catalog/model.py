"""Immutable descriptions of the lake at one snapshot: tables, columns, files, statistics.

`catalog.store` builds them, and every floor above reads them. Nothing here fetches or changes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from catalog.constraints import Exclusion, ForeignKey, Key
from catalog.datatypes import LakeForm, lake_form
from catalog.indexes import ComputedKey, Index


@dataclass(frozen=True, slots=True)
class Label:
    """A value of an enumeration: its OID (pg_enum.oid), its text, and whether it is usable.

    The transaction that has added it to an existing type may not use it.
    """

    oid: int
    text: str
    usable: bool = True


@dataclass(frozen=True, slots=True)
class Domain:
    """The domain of a column. `rules` are its constraints, in PostgreSQL's order: the name and node text of a CHECK, or
    neither for NOT NULL."""

    oid: int
    schema: str
    name: str
    defaulted: bool
    rules: tuple[tuple[str | None, str | None], ...]


@dataclass(frozen=True, slots=True)
class UserArray:
    """An array type of an enumeration or a domain, as the type of a column: its OID, and its elements'."""

    oid: int
    element_oid: int


@dataclass(frozen=True, slots=True)
class Carried:
    """The carried type of a column, below its domains: its OID and typmod.

    `by_number`: files hold values as OIDs, because the names of the objects may change.
    """

    oid: int
    typmod: int
    by_number: str | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a lake table.

    `type_oid` and `typmod` are its type; for a column of a `domain`, the domain's base type. `labels` are an
    enumeration's, in its order. A column of a `user_array` is an array of texts, or of the domains' base type; planners
    do not treat it as such an array. A `carried` column has the type CARRIED.

    `attnum` is its number in the shadow (pg_attribute.attnum). `column_id` is its DuckLake column ID and its Parquet
    field ID; the fields nested in its form take the IDs that follow, depth first. A column that is not `nullable`
    accepts no new NULL; one that is `not_null` has none.
    """

    attnum: int
    column_id: int
    name: str
    type_oid: int
    typmod: int
    nullable: bool
    initial_default: str | None = None
    not_null: bool = False
    labels: tuple[Label, ...] = ()
    domain: Domain | None = None
    user_array: UserArray | None = None
    carried: Carried | None = None

    @property
    def form(self) -> LakeForm:
        """The form of the column in DuckLake, Parquet and Spark."""
        return lake_form(self.type_oid, self.typmod)


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column of a table's sort key, by its attnum."""

    attnum: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column of a table's partition key, by its attnum, and DuckLake's name of what is made of its values:
    `identity`, `year`, `month`, `day`, `hour` or `bucket(N)`."""

    attnum: int
    transform: str


# The IDs of the columns of a partition key, and their transforms.
PartitionKey = tuple[tuple[int, str], ...]
# An integer, or a text; None for NULL.
PartitionValue = int | str | None


@dataclass(frozen=True, slots=True)
class Partition:
    """How the rows of a file were divided: by this key, and all of them have these values of it. Without values the
    rows are of several partitions.

    A value of `year`, `month`, `day` and `hour` is the number of these since 1970, or `infinity` or `-infinity`. One of
    `identity` is DuckDB's text of the value.
    """

    key: PartitionKey
    values: tuple[PartitionValue, ...] | None


@dataclass(frozen=True, slots=True)
class Table:
    """A lake table: its shadow's OID in PostgreSQL, its DuckLake ID, and its columns in the order of attnum.

    `path` is the folder of its files, relative to the lake's data path, with a trailing slash. `schema_version` is the
    last published step of its schema. A materialized view is a table too; it can be read when it is `populated`.
    `triggered`: it has triggers of users, disabled or not. `defers`: one of them is DEFERRABLE;
    `stilled`: one is ENABLEd as ALWAYS or REPLICA. `sort_key` has the columns by which its files are sorted,
    `partition_key` those by whose values they are divided.
    """

    oid: int
    table_id: int
    schema: str
    name: str
    path: str
    columns: tuple[Column, ...]
    keys: tuple[Key, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    computed_keys: tuple[ComputedKey, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    indexes: tuple[Index, ...] = ()
    schema_version: int = 0
    materialized: bool = False
    populated: bool = True
    triggered: bool = False
    defers: bool = False
    stilled: bool = False
    sort_key: tuple[SortColumn, ...] = ()
    partition_key: tuple[PartitionColumn, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether a constraint or index forbids pairs of rows."""
        return bool(self.keys or self.computed_keys or self.exclusions)

    @property
    def excludes(self) -> bool:
        """Whether it has an EXCLUDE constraint."""
        return bool(self.exclusions) or any(key.exclusion for key in self.keys)

    @property
    def divided_by(self) -> PartitionKey:
        """The partition key, as files have it."""
        return tuple((self.column(each.attnum).column_id, each.transform) for each in self.partition_key)

    def column(self, attnum: int) -> Column:
        """Return the column numbered `attnum`; KeyError if there is none."""
        for column in self.columns:
            if column.attnum == attnum:
                return column
        raise KeyError(attnum)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """A data file's statistics of one column. Bounds are DuckLake's texts; None if unknown."""

    value_count: int
    null_count: int
    size_bytes: int
    minimum: str | None = None
    maximum: str | None = None
    contains_nan: bool | None = None


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """The positions deleted from one data file; it replaces the delete file before it.

    `delete_file_id` is None until it is published; until then `replaces` is the ID of the published one that it
    includes. Of few positions the catalog has the `positions` themselves (ascending), and there is no file at the path;
    `base` is then the file that has those deleted before, if any.
    """

    path: str
    delete_count: int
    size_bytes: int
    footer_size: int
    delete_file_id: int | None = None
    replaces: int | None = None
    positions: tuple[int, ...] | None = None
    base: DeleteFile | None = None

    @property
    def published_id(self) -> int | None:
        """The ID of this delete file if it is published, else of the published one that it includes."""
        return self.replaces if self.delete_file_id is None else self.delete_file_id

    @property
    def file(self) -> DeleteFile | None:
        """The part that is in a file; None if the catalog has all positions."""
        return self if self.positions is None else self.base

    @property
    def new_paths(self) -> tuple[str, ...]:
        """The path of the file, if there is one that was not published before."""
        return () if self.file is None or self.file.delete_file_id is not None else (self.file.path,)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with rows of one table. Paths are relative to the table's folder.

    `statistics` maps column (field) IDs to statistics. `data_file_id` is None until it is published. So is its `place`
    among the files: rows are read in this order. `hot_rows`, if given, are the rows themselves
    (storage/parquet/hot_rows.py): the catalog has them, and there is no file at the path. A file that was written
    while the table had a partition key has a `partition`; hot rows have none.
    """

    path: str
    record_count: int
    size_bytes: int
    footer_size: int
    statistics: Mapping[int, ColumnStatistics] = field(default_factory=dict)
    data_file_id: int | None = None
    row_id_start: int | None = None
    delete_file: DeleteFile | None = None
    place: int | None = None
    hot_rows: str | None = None
    partition: Partition | None = None

    @property
    def live_count(self) -> int:
        """The number of rows that are not deleted."""
        return self.record_count - (self.delete_file.delete_count if self.delete_file else 0)


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The keys of a data file's rows, sorted, in `file`, whose path is below the data path
    (storage/indexes/sidecars.py).

    Rows that were deleted by `since_snapshot` may be missing.
    """

    index_id: int
    data_file_id: int
    file: DataFile
    since_snapshot: int


@dataclass(frozen=True)
class TableVersion:
    """A table at a snapshot: it never changes, so anything derived from it may be kept."""

    table: Table
    snapshot_id: int
    files: tuple[DataFile, ...]

    @cached_property
    def row_count(self) -> int:
        """The number of live rows: those written less those deleted."""
        return sum(file.live_count for file in self.files)

    @cached_property
    def hot_bytes(self) -> int:
        """The memory of the table's hot rows."""
        return sum(len(file.hot_rows) for file in self.files if file.hot_rows is not None)
