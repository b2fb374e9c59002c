"""The new place of a row, by the transaction's own changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from catalog.model import DataFile
from gateway.session import row_versions
from gateway.session.row_versions import ReplacedRows
from storage.spark.write import WriteResult

_TABLE = 7


def _updated(old: list[tuple[str, int]], new: dict[str, int], *, told: bool = True) -> WriteResult:
    """Rows at the old places become those of the new files, in their order, if that is `told`."""
    positions = {
        path: np.array(sorted(position for file, position in old if file == path), np.int64)
        for path in {file for file, _ in old}
    }
    batches = [  # as a job gives them: each batch with a dictionary of its own
        pa.RecordBatch.from_arrays(
            [pa.array([file]).dictionary_encode(), pa.array([position], pa.int64())], names=["file", "position"]
        )
        for file, position in old
    ]
    files = tuple(DataFile(path, count, 0, 0) for path, count in new.items())
    sources = pa.Table.from_batches(batches) if told else None
    return WriteResult(files, {}, len(old), None, positions, sources)


def test_a_row_is_followed_from_file_to_file() -> None:
    rows = ReplacedRows()
    rows.note(_TABLE, _updated([("a", 5), ("b", 5), ("a", 1)], {"c": 2, "d": 1}))
    rows.note(_TABLE + 1, _updated([("d", 0)], {"x": 1}))
    rows.note(_TABLE, _updated([("d", 0), ("c", 1)], {"e": 2}))
    assert rows.trace(_TABLE, ("a", 1)).places == (("a", 1), ("d", 0), ("e", 0))
    assert rows.trace(_TABLE, ("b", 5)).places == (("b", 5), ("c", 1), ("e", 1))
    assert rows.trace(_TABLE, ("a", 5)).places == (("a", 5), ("c", 0))
    assert rows.trace(_TABLE, ("c", 5)) == row_versions.Trace((("c", 5),), lost=False)


def test_what_a_savepoint_has_undone_is_a_place_among_others() -> None:
    """Which of them there is, the lake tells."""
    rows = ReplacedRows()
    rows.note(_TABLE, _updated([("a", 0)], {"undone": 1}))
    rows.note(_TABLE, _updated([("a", 0)], {"b": 1}))
    assert rows.trace(_TABLE, ("a", 0)).places == (("a", 0), ("undone", 0), ("b", 0))


def test_a_row_is_lost_where_a_statement_does_not_tell() -> None:
    rows = ReplacedRows()
    rows.note(_TABLE, _updated([("a", 0), ("a", 2)], {"b": 2}, told=False))
    assert rows.trace(_TABLE, ("a", 2)).lost
    assert not rows.trace(_TABLE, ("a", 1)).lost
    assert not rows.trace(_TABLE + 1, ("a", 2)).lost


def test_deleted_and_added_rows_leave_nothing_to_tell() -> None:
    rows = ReplacedRows()
    rows.note(_TABLE, WriteResult(row_count=1, positions={"a": np.array([0])}))
    rows.note(_TABLE, WriteResult((DataFile("b", 1, 0, 0),), row_count=1))
    assert rows.trace(_TABLE, ("a", 0)) == row_versions.Trace((("a", 0),), lost=False)


def test_more_rows_than_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_versions, "ROWS_MAX", 2)
    rows = ReplacedRows()
    rows.note(_TABLE, _updated([("a", 0), ("a", 1)], {"b": 2}))
    rows.note(_TABLE, _updated([("b", 0)], {"c": 1}))
    assert rows.trace(_TABLE, ("a", 1)).lost
    rows.clear()
    assert rows.trace(_TABLE, ("a", 1)) == row_versions.Trace((("a", 1),), lost=False)
