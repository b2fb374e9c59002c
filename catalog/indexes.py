"""Indexes of lake tables for readers and writers. Pure data; the catalog's side is catalog/sql/indexes.sql.

An index is over *keys*: columns, or expressions as PostgreSQL's node text. With a predicate it is over some rows only.
It consists of sidecars (storage/indexes/sidecars.py), one for each data file of `SIDECAR_ROWS_MIN` rows or more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Reading a smaller file whole takes about as long as a lookup.
SIDECAR_ROWS_MIN: Final = 16_384


@dataclass(frozen=True, slots=True)
class IndexKey:
    """A key: the column `attnum`, 0 for an expression. `plain`: values that differ in their bytes differ."""

    attnum: int
    type_oid: int
    typmod: int
    plain: bool


@dataclass(frozen=True, slots=True)
class IndexForm:
    """The keys of an index. `expressions` are those of the keys with attnum 0, in order; `attnums` are all columns that
    it depends on."""

    method: str
    keys: tuple[IndexKey, ...]
    expressions: str | None
    predicate: str | None
    attnums: frozenset[int]

    @property
    def is_computed(self) -> bool:
        """Whether building it takes more than reading columns."""
        return self.expressions is not None or self.predicate is not None


@dataclass(frozen=True, slots=True)
class Index:
    """An index that readers may use. `unused` says why it has no sidecars, if it can have none."""

    oid: int
    index_id: int
    name: str
    form: IndexForm
    unused: str | None

    @property
    def is_used(self) -> bool:
        """Whether it has sidecars."""
        return self.unused is None


@dataclass(frozen=True, slots=True)
class ComputedKey:
    """A UNIQUE index over expressions, or over some rows only. `labels` are its keys as PostgreSQL's errors spell them.

    With `nulls_distinct`, a row with a NULL in any of them has no key. If the index is not `public`, only new rows
    satisfy it.
    """

    oid: int
    index_id: int | None
    name: str
    labels: tuple[str, ...]
    form: IndexForm
    nulls_distinct: bool
    public: bool = True

    def is_over(self, other: ComputedKey) -> bool:
        """Whether both demand the same, whatever their names."""
        return self.form == other.form and self.nulls_distinct == other.nulls_distinct


def form_from_json(form: Mapping[str, Any]) -> IndexForm:
    """Read the result of `pg_sluice.index_form`."""
    return IndexForm(
        method=form["method"],
        keys=tuple(IndexKey(key["attnum"], key["type"], key["typmod"], key["plain"]) for key in form["keys"]),
        expressions=form["expressions"],
        predicate=form["predicate"],
        attnums=frozenset(int(attnum) for attnum in form["columns"] or ()),
    )


def index_from_json(index: Mapping[str, Any]) -> Index:
    """Read one of the `indexes` in the result of `pg_sluice.describe`."""
    form = form_from_json(index["form"])
    return Index(index["oid"], index["index_id"], index["name"], form, index["unused"])


def index_from_row(index_id: int, oid: int, name: str, form: str) -> Index:
    """Read a row of pg_sluice.lake_index that is not unused."""
    return Index(oid, index_id, name, form_from_json(json.loads(form)), None)


def computed_key_from_json(key: Mapping[str, Any]) -> ComputedKey:
    """Read one of the `computed_keys` in the result of `pg_sluice.describe`."""
    return ComputedKey(
        oid=key["oid"],
        index_id=key["index_id"],
        name=key["name"],
        labels=tuple(key["labels"]),
        form=form_from_json(key["form"]),
        nulls_distinct=key["nulls_distinct"],
        public=key["public"],
    )
