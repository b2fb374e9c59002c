"""Keys and references of lake tables: the demands of PRIMARY KEY, UNIQUE and FOREIGN KEY. Pure data.

They are read from the shadow's constraints. `gateway.execution.constraints` enforces them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Action(StrEnum):
    """The action of a FOREIGN KEY when the referenced row is deleted or its key changes (pg_constraint.confdeltype)."""

    NO_ACTION = "a"
    RESTRICT = "r"
    CASCADE = "c"
    SET_NULL = "n"
    SET_DEFAULT = "d"


@dataclass(frozen=True, slots=True)
class Key:
    """A PRIMARY KEY or UNIQUE constraint over the columns `attnums`, in the constraint's order; or an `exclusion`
    (EXCLUDE with equality alone), which demands the same.

    With `nulls_distinct`, a row with a NULL in any of them has no key. If the key is not `public`, only new rows
    satisfy it.
    """

    oid: int
    name: str
    attnums: tuple[int, ...]
    nulls_distinct: bool
    deferrable: bool
    deferred: bool
    public: bool = True
    exclusion: bool = False

    def is_over(self, other: Key) -> bool:
        """Whether both keys demand the same, whatever their names."""
        return self.attnums == other.attnums and self.nulls_distinct == other.nulls_distinct


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An EXCLUDE constraint that forbids other pairs of rows than equal ones, of a `table` (OIDs).

    `attnums` are the columns that decide; `told` are those of its keys, 0 for an expression. `calls`: it calls
    functions that are not PostgreSQL's own. `parts`, in JSON, are those of one that may not exist at the moment.
    """

    oid: int
    table: int
    name: str
    attnums: tuple[int, ...]
    told: tuple[int, ...]
    calls: bool
    deferrable: bool
    deferred: bool
    parts: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key: the columns `attnums` of the table `child` refer to the key `parent_attnums` of the table `parent`
    (OIDs).

    A row with a NULL among them refers to nothing. ON DELETE SET NULL and SET DEFAULT set the columns `set_attnums`. If
    the foreign key is not `public`, only new rows satisfy it.
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
    """Read one of the `keys` in the result of `pg_sluice.describe`."""
    return Key(
        oid=key["oid"],
        name=key["name"],
        attnums=tuple(key["attnums"]),
        nulls_distinct=key["nulls_distinct"],
        deferrable=key["deferrable"],
        deferred=key["deferred"],
        public=key["public"],
        exclusion=key["exclusion"],
    )


def exclusion_from_json(exclusion: Mapping[str, Any]) -> Exclusion:
    """Read one of the `exclusions` in the result of `pg_sluice.describe`."""
    return Exclusion(
        oid=exclusion["oid"],
        table=exclusion["table"],
        name=exclusion["name"],
        attnums=tuple(exclusion["attnums"]),
        told=tuple(exclusion["told"]),
        calls=exclusion["calls"],
        deferrable=exclusion["deferrable"],
        deferred=exclusion["deferred"],
        parts=json.dumps(exclusion["parts"]) if "parts" in exclusion else None,
    )


def foreign_key_from_json(foreign_key: Mapping[str, Any]) -> ForeignKey:
    """Read one of the `foreign_keys` of `pg_sluice.describe`, or one that `pg_sluice.referring` returns."""
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
