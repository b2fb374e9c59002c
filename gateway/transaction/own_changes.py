"""What a transaction has made of lake tables, of which its backend need not tell again what the gateway knows.

Each staged change has a number, and none comes twice. The highest one of a table is the mark of all that the
transaction has staged for it: a statement adds a higher one, and a savepoint that is undone takes its own ones away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from cachetools import LRUCache

from catalog.publish import RowChange, change_from_json
from storage.parquet.hot_rows import hot_weight

# Changes with more bytes of hot rows in all are not kept.
_KEPT_BYTES_MAX: Final = 8 * 2**20
_UNKNOWN: Final = -1
_FILE_BYTES: Final = 500

Values = Sequence[bytes | None]


class OwnChange(NamedTuple):
    """What a transaction has made of a table: a description of it (None: the catalog's), and rows (None: no change)."""

    oid: int
    description: Mapping[str, Any] | None = None
    rows: RowChange | None = None


class _Kept(NamedTuple):
    mark: int
    rows: RowChange | None


def _bytes_of(kept: _Kept) -> int:
    if kept.rows is None:
        return _FILE_BYTES
    files = [len(file.hot_rows or "") + _FILE_BYTES for file in kept.rows.data_files]
    return sum(files) + _FILE_BYTES * (1 + len(kept.rows.deleted))


class OwnChanges:
    """The changes that a transaction has staged.

    `told` are those of tables, by OID, while a statement that changes rows knows that they stay as they are: until it
    stages some. `weight` says how much its hot rows add to what compaction has to do, once they are committed.
    """

    def __init__(self) -> None:
        self.weight = 0
        self.told: Mapping[int, OwnChange] = {}
        self._kept = LRUCache[int, _Kept](_KEPT_BYTES_MAX, getsizeof=_bytes_of)

    def staging(self, changes: Iterable[RowChange]) -> None:
        """Note changes that are about to be staged."""
        self.told = {}
        self.weight += sum(hot_weight(file) for change in changes for file in change.data_files)

    def staged(self, changes: Sequence[RowChange], answers: Iterable[Values]) -> None:
        """Note changes that were staged, with the answers of `pg_sluice.stage`: the marks before and after each."""
        for change, answer in zip(changes, answers, strict=True):
            before, after = (int(mark or 0) for mark in answer)
            kept = self._kept.pop(change.relation_oid, None)
            if kept is not None and kept.mark == before:
                self._keep(change.relation_oid, _Kept(after, both(kept.rows, change)))

    def marks(self, oids: Iterable[int]) -> list[int]:
        """The marks of these tables, for `pg_sluice.uncommitted`."""
        return [self._kept[oid].mark if oid in self._kept else _UNKNOWN for oid in oids]

    def read(self, answers: Iterable[Values]) -> list[OwnChange]:
        """Read the answer of `pg_sluice.uncommitted`, which does not repeat the rows of a mark that it was asked."""
        found = []
        for relid, description, marked, rows in answers:
            oid, mark = int(relid or 0), int(marked or 0)
            kept = self._kept.get(oid)
            if kept is None or kept.mark != mark:
                kept = _Kept(mark, None if rows is None else change_from_json(json.loads(rows)))
                self._keep(oid, kept)
            found.append(OwnChange(oid, None if description is None else json.loads(description), kept.rows))
        return found

    def _keep(self, oid: int, kept: _Kept) -> None:
        self._kept.pop(oid, None)
        if _bytes_of(kept) <= _KEPT_BYTES_MAX:
            self._kept[oid] = kept

    def clear(self) -> None:
        """After the transaction's end."""
        self.weight = 0
        self.told = {}
        self._kept.clear()


def both(before: RowChange | None, change: RowChange) -> RowChange:
    """Return what was staged and a change after it as one, as `pg_sluice.squashed` does."""
    after = change_from_json(json.loads(change.to_json()))
    if before is None or change.truncate:
        return after
    files = [file for file in before.data_files if file.path not in change.combined]
    deleted = {each.data_path: each for each in before.deleted}
    for each in after.deleted:
        deleted.pop(each.data_path, None)
        deleted[each.data_path] = each
    return replace(before, data_files=[*files, *after.data_files], deleted=list(deleted.values()))
