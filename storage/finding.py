"""A finding of `sluice check`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a file: "orphan", "missing", "size", "unreadable", "record count", "field ids", "deletes" or
    "scheduled".

    A fault of the catalog's record of snapshots: "snapshot". Faults of a table's rows
    (storage.maintenance.consistency), with the table's folder: "null", "duplicate key" or "dangling reference". A fault
    of its indexes (storage.indexes.sidecars): "index".
    """

    kind: str
    path: str
    message: str
