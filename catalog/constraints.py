"""Keys and references of lake tables: what PRIMARY KEY, UNIQUE and FOREIGN KEY demand. Pure data, from the shadow's own
constraints; who enforces them is `gateway.execution.dispatch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Action(StrEnum):
    """What a FOREIGN KEY does when the row that it refers to goes or gets another key (pg_constraint.confdeltype)."""

    NO_ACTION = "a"
    RESTRICT = "r"
    CASCADE = "c"
    SET_NULL = "n"
    SET_DEFAULT = "d"


@dataclass(frozen=True, slots=True)
class Key:
    """A PRIMARY KEY or UNIQUE constraint over the columns `attnums`, in its own order.

    With `nulls_distinct` a row with a NULL in any of them has no key. One that is not
    `public` is kept by new rows only.
    """

    oid: int
    name: str
    attnums: tuple[int, ...]
    nulls_distinct: bool
    deferrable: bool
    deferred: bool
    public: bool = True

    def is_over(self, other: Key) -> bool:
        """Whether both demand the same, whatever their names."""
        return self.attnums == other.attnums and self.nulls_distinct == other.nulls_distinct


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """The columns `attnums` of the table `child` refer to `parent_attnums`, a key of the table `parent` (OIDs).

    A row with a NULL among them refers to nothing. `set_attnums` are the columns that ON DELETE SET NULL or SET DEFAULT
    sets. One that is not `public` is kept by new rows only.
    """

    oid: int
    name: str
    child: int
    attnums: tuple[int, ...]
    parent: int
    parent_attnums: tuple[int, ...]
    on_delete: Action
    on_update: Action
    deferrable: bool
    deferred: bool
    set_attnums: tuple[int, ...]
    public: bool = True


def key_from_json(key: Mapping[str, Any]) -> Key:
    """One of the `keys` in what `pg_sluice.describe` returns."""
    return Key(
        oid=key["oid"],
        name=key["name"],
        attnums=tuple(key["attnums"]),
        nulls_distinct=key["nulls_distinct"],
        deferrable=key["deferrable"],
        deferred=key["deferred"],
        public=key["public"],
    )


def foreign_key_from_json(foreign_key: Mapping[str, Any]) -> ForeignKey:
    """One of the `foreign_keys` in what `pg_sluice.describe` returns, or what `pg_sluice.referring` does."""
    attnums = tuple(foreign_key["attnums"])
    return ForeignKey(
        oid=foreign_key["oid"],
        name=foreign_key["name"],
        child=foreign_key["child"],
        attnums=attnums,
        parent=foreign_key["parent"],
        parent_attnums=tuple(foreign_key["parent_attnums"]),
        on_delete=Action(foreign_key["on_delete"]),
        on_update=Action(foreign_key["on_update"]),
        deferrable=foreign_key["deferrable"],
        deferred=foreign_key["deferred"],
        set_attnums=tuple(foreign_key["set_attnums"] or attnums),
        public=foreign_key["public"],
    )
