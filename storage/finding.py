"""What `sluice check` reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a file: "orphan", "missing", "size", "unreadable", "record count", "field ids", "deletes" or
    "scheduled".

    Of what the catalog keeps of snapshots: "snapshot". Of a table's rows (storage.maintenance.consistency): "null",
    "duplicate key" or "dangling reference", and the table's folder; of its indexes (storage.indexes.sidecars): "index".
    """

    kind: str
    path: str
    message: str
