"""Immutable descriptions of what the lake holds at one snapshot: tables, columns, files, statistics.

Built by `catalog.store`, read by every floor above. Nothing here knows how to fetch or change anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.constraints import ForeignKey, Key
from catalog.datatypes import LakeForm, lake_form
from catalog.indexes import ComputedKey, Index


@dataclass(frozen=True, slots=True)
class Label:
    """A value of an enumeration: its OID (pg_enum.oid), its text, and whether it may be used: not by the transaction
    that has added it to a type that was there."""

    oid: int
    text: str
    usable: bool = True


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain that a column is of. `rules` are what its values keep, in PostgreSQL's order: the name and node text of
    a CHECK, or neither for NOT NULL."""

    oid: int
    schema: str
    name: str
    defaulted: bool
    rules: tuple[tuple[str | None, str | None], ...]


@dataclass(frozen=True, slots=True)
class UserArray:
    """An array type of an enumeration or a domain that a column is of: its OID, and its elements'."""

    oid: int
    element_oid: int


@dataclass(frozen=True, slots=True)
class Carried:
    """The type of a column whose values are kept as texts, below its domains: its OID and typmod.

    `by_number` is that of one whose values are kept as the OIDs that they are, for their names may change.
    """

    oid: int
    typmod: int
    by_number: str | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a lake table.

    `type_oid` and `typmod` are its type, of a `domain` those that it is over; `labels` are an enumeration's, in its
    order. Of a `user_array` it is an array of texts, or of what domains are over: planners do not take it for that.
    Of one that is `carried` it is CARRIED.

    `attnum` is its number in the shadow table (pg_attribute.attnum), `column_id` its DuckLake column ID, which
    is also its Parquet field ID; the fields nested in its form take the IDs that follow, depth first. One that is not
    `nullable` takes no NULL from now on; one that is `not_null` has none.
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
        """What the column is in DuckLake, Parquet and Spark."""
        return lake_form(self.type_oid, self.typmod)


@dataclass(frozen=True, slots=True)
class Table:
    """A lake table: its shadow's OID in PostgreSQL, its DuckLake ID, and its columns in the order of attnum.

    `path` is the folder of its files, relative to the lake's data path, with a trailing slash. `schema_version` is the
    last published step of its schema. A materialized view is a table too; it can be read when it is `populated`. It is
    `triggered` where there are triggers of users on it, disabled or not.
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
    indexes: tuple[Index, ...] = ()
    schema_version: int = 0
    materialized: bool = False
    populated: bool = True
    triggered: bool = False

    def column(self, attnum: int) -> Column:
        """The column numbered `attnum`; KeyError where there is none."""
        for column in self.columns:
            if column.attnum == attnum:
                return column
        raise KeyError(attnum)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What a data file says of one column. Bounds are DuckLake's texts; None where they are not known."""

    value_count: int
    null_count: int
    size_bytes: int
    minimum: str | None = None
    maximum: str | None = None
    contains_nan: bool | None = None


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of positions deleted from one data file; it replaces the delete file before it.

    `delete_file_id` is None until it is published; `replaces` is then the ID of the published one that it takes in.
    """

    path: str
    delete_count: int
    size_bytes: int
    footer_size: int
    delete_file_id: int | None = None
    replaces: int | None = None

    @property
    def published_id(self) -> int | None:
        """The published delete file that it is, or takes in."""
        return self.replaces if self.delete_file_id is None else self.delete_file_id


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with rows of one table. Paths are relative to the table's folder.

    `statistics` maps column (field) IDs to what is known; `data_file_id` is None until it is published, and so is its
    `place` among the files, in whose order rows are read.
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

    @property
    def live_count(self) -> int:
        """How many of its rows are not deleted."""
        return self.record_count - (self.delete_file.delete_count if self.delete_file else 0)


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The keys of a data file's rows, sorted, in `file`, whose path is below the data path
    (storage/indexes/sidecars.py).

    Rows that were deleted by `since_snapshot` may be lacking.
    """

    index_id: int
    data_file_id: int
    file: DataFile
    since_snapshot: int


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table at a snapshot: immutable for ever, so whatever is made of it may be kept."""

    table: Table
    snapshot_id: int
    files: tuple[DataFile, ...]

    @property
    def row_count(self) -> int:
        """Live rows: those written less those deleted."""
        return sum(file.live_count for file in self.files)
