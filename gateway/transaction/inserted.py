"""An INSERT in a client's block, which others like it may follow (gateway/execution/changes/insert_series.py)."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.model import TableVersion
from catalog.schema.triggers import AddingTriggers
from gateway.backend.analysis import SchemaMark


@dataclass(frozen=True, slots=True)
class Inserted:
    """The table that it was carried out over, the schemas at that time, and the seconds that a statement may take; what
    is known of triggers that it has fired.
    """

    version: TableVersion
    mark: SchemaMark
    seconds: float | None
    adding: AddingTriggers | None = None
