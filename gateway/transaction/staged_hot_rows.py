"""The hot rows that a transaction has staged, so that the backend need not send them back with each statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from cachetools import LRUCache

from catalog.publish import RowChange, change_from_json
from storage.parquet.hot_rows import hot_weight

_KEPT_BYTES_MAX: Final = 2 * 2**20


class StagedHotRows:
    """`limit` is the setting (gateway/session/hot_rows.py): as many rows of a statement become hot rows. `weight` says
    how much they add to what compaction has to do, once they are committed.
    """

    def __init__(self) -> None:
        self.limit = 0
        self.weight = 0
        self._texts = LRUCache[str, str](_KEPT_BYTES_MAX, getsizeof=lambda text: 100 + len(text))

    def note(self, changes: Iterable[RowChange]) -> None:
        """Keep the hot rows of changes that are about to be staged."""
        for file in (file for change in changes for file in change.data_files):
            self.weight += hot_weight(file)
            if file.hot_rows is not None:
                self._texts[file.path] = file.hot_rows

    @property
    def known(self) -> Collection[str]:
        """The paths of the data files whose hot rows are kept. A savepoint may have undone some of them."""
        return list(self._texts)

    def of(self, change: Mapping[str, Any]) -> RowChange:
        """Read a change that `pg_sluice.uncommitted` has given, without the hot rows of the files `known`."""
        files = [
            {**file, "hot_rows": self._texts[file["path"]]} if file["hot_rows"] is True else file
            for file in change["data_files"]
        ]
        return change_from_json({**change, "data_files": files})

    def clear(self) -> None:
        """After the transaction's end."""
        self.weight = 0
        self._texts.clear()
