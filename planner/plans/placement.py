"""Placement: which engine begins with a query. One table, total over the setting and the kind of query, checked at
import.

Where a query only reads columns (`planner.plans.stored_scan`), nothing is computed: the gateway takes them from the
files. Nor is it where a change sets constants in few rows (`planner.plans.constant_change`). PostgreSQL computes
queries that need few rows, over copies of them in the shadows: with its own meaning, and in less time than Spark needs
to begin. Spark computes queries that need many. A query that may not be computed over copies, or not twice, goes to
Spark first. If Spark refuses, PostgreSQL takes it if possible (`planner.plans.computable`).
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple

from catalog.datatypes import FIRST_USER_OID
from planner.plans.computable import is_computable
from planner.translate.row_security import restricted_tables
from planner.tree.builtins import Builtins
from planner.tree.references import functions


class Engine(StrEnum):
    """The values of `sluice.engine`."""

    AUTO = "auto"
    POSTGRES = "postgres"
    SPARK = "spark"


class Place(Enum):
    """The engine that begins. PostgreSQL and Spark get what the other refuses."""

    POSTGRES = "PostgreSQL"
    SPARK = "Spark"
    GATEWAY = "the gateway"


class Kind(Enum):
    """The kinds of query that placement distinguishes."""

    FEW = "few rows"
    MANY = "many rows"
    STORED = "columns as files store them"
    CONSTANTS = "constants for few rows"
    ACTING = "functions that may do more than compute"
    PAST = "rows as of an earlier moment"
    FOLLOWED = "a change after which each row is followed without a key"
    POLICIES = "policies on rows"
    COPIES_TOLD = "what tells a copy of a row from the row"


class Placement(NamedTuple):
    """A place, and the reason."""

    place: Place
    why: str


PLACEMENTS: Final[dict[tuple[Engine, Kind], Placement]] = {
    (Engine.AUTO, Kind.FEW): Placement(Place.POSTGRES, "few rows"),
    (Engine.AUTO, Kind.MANY): Placement(Place.SPARK, "more rows than sluice.small_rows, or large ones"),
    (Engine.AUTO, Kind.STORED): Placement(Place.GATEWAY, Kind.STORED.value),
    (Engine.AUTO, Kind.CONSTANTS): Placement(Place.GATEWAY, Kind.CONSTANTS.value),
    (Engine.AUTO, Kind.ACTING): Placement(Place.SPARK, Kind.ACTING.value),
    (Engine.AUTO, Kind.COPIES_TOLD): Placement(Place.SPARK, Kind.COPIES_TOLD.value),
    (Engine.AUTO, Kind.PAST): Placement(Place.SPARK, Kind.PAST.value),
    (Engine.AUTO, Kind.FOLLOWED): Placement(Place.SPARK, Kind.FOLLOWED.value),
    (Engine.AUTO, Kind.POLICIES): Placement(Place.SPARK, Kind.POLICIES.value),
    (Engine.POSTGRES, Kind.FEW): Placement(Place.POSTGRES, "sluice.engine"),
    (Engine.POSTGRES, Kind.MANY): Placement(Place.POSTGRES, "sluice.engine"),
    (Engine.POSTGRES, Kind.STORED): Placement(Place.POSTGRES, "sluice.engine"),
    (Engine.POSTGRES, Kind.CONSTANTS): Placement(Place.POSTGRES, "sluice.engine"),
    (Engine.POSTGRES, Kind.ACTING): Placement(Place.SPARK, Kind.ACTING.value),
    (Engine.POSTGRES, Kind.COPIES_TOLD): Placement(Place.SPARK, Kind.COPIES_TOLD.value),
    (Engine.POSTGRES, Kind.PAST): Placement(Place.SPARK, Kind.PAST.value),
    (Engine.POSTGRES, Kind.FOLLOWED): Placement(Place.SPARK, Kind.FOLLOWED.value),
    (Engine.POSTGRES, Kind.POLICIES): Placement(Place.SPARK, Kind.POLICIES.value),
    (Engine.SPARK, Kind.FEW): Placement(Place.SPARK, "sluice.engine"),
    (Engine.SPARK, Kind.MANY): Placement(Place.SPARK, "sluice.engine"),
    (Engine.SPARK, Kind.STORED): Placement(Place.SPARK, "sluice.engine"),
    (Engine.SPARK, Kind.CONSTANTS): Placement(Place.SPARK, "sluice.engine"),
    (Engine.SPARK, Kind.ACTING): Placement(Place.SPARK, "sluice.engine"),
    (Engine.SPARK, Kind.COPIES_TOLD): Placement(Place.SPARK, "sluice.engine"),
    (Engine.SPARK, Kind.PAST): Placement(Place.SPARK, "sluice.engine"),
    (Engine.SPARK, Kind.FOLLOWED): Placement(Place.SPARK, "sluice.engine"),
    (Engine.SPARK, Kind.POLICIES): Placement(Place.SPARK, "sluice.engine"),
}
assert PLACEMENTS.keys() == {(engine, kind) for engine in Engine for kind in Kind}, "the table of placements has gaps"


# Settings under which the kind of query does not matter.
DECIDED: Final = {
    engine: next(iter(every)) for engine in Engine if len(every := {PLACEMENTS[engine, kind] for kind in Kind}) == 1
}


def kind_of(query: Any, builtins: Builtins, *, past: bool) -> Kind:
    """Return the kind of a query, `Kind.FEW` if only the number of its rows decides. The time grows with the query.

    `past`: its tables are read as of an earlier moment, when they may have had other columns.
    """
    if past:
        return Kind.PAST
    if restricted_tables(query):  # those of the role that it was bound by, which may be another by now
        return Kind.POLICIES
    if not is_computable(query, builtins, made_by_users=True):
        return Kind.COPIES_TOLD
    return Kind.ACTING if may_act(query, builtins) else Kind.FEW


def acts_in_results_alone(query: Any, builtins: Builtins) -> bool:
    """Whether functions that may act stand in new values and RETURNING alone, and so run for chosen rows only."""
    return not may_act((query.jointree, query.rtable, query.cteList), builtins)


def may_act(tree: Any, builtins: Builtins) -> bool:
    """Whether the tree calls functions of users, or volatile ones."""
    for oid in functions(tree):
        known = builtins.functions.get(oid)
        if oid >= FIRST_USER_OID or known is None or known.volatility == "v":
            return True
    return False
