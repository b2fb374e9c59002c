"""The versions of tables that all parts of one statement see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog.model import TableVersion


@dataclass(frozen=True, slots=True)
class Parts:
    """A statement that is executed in several parts. Each part sees the tables in these versions, without the other
    parts' changes. `late` are the constraints, by OID, that are checked when the statement ends.
    """

    versions: Mapping[int, TableVersion]
    late: set[int] = field(default_factory=set)
