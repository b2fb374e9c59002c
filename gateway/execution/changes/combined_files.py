"""Combines the small files of a transaction that inserts row by row.

Each statement reads all files that its transaction has staged for the table, for keys and references. So their number
must not grow with the number of statements: sixteen files of few rows become one, sixteen of these another, and so on.
Rows keep their order, because only the last files are combined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.publish import RowChange
from gateway.execution.locks.row_locks import file_number
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.small_files import is_small
from storage.spark.async_parquet_writer import WriterAside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from catalog.model import DataFile, Table, TableVersion
    from gateway.session.session_context import SessionContext
    from storage.spark.write import WriteResult

_FILES: Final = 16
_LEVELS: Final = 3
# A file of more rows is worth a file.
_HOT_ROWS_MAX: Final = 128


async def combine_files(session: SessionContext, version: TableVersion, added: WriteResult) -> None:
    """Stage one file in place of the last small staged ones, if there are many and they have the columns of the newly
    `added`.

    Cursors and row locks identify rows by their places in files. So nothing is done while a cursor is open, and files
    whose rows have inherited locks stay.
    """
    transaction = session.transaction
    if session.cursors.any_open or transaction.deferred.pending or transaction.parts is not None:
        return
    if transaction.enlistment.alters(version.table.table_id):
        return  # rows of files without a column may still need its values
    columns = {each for file in added.data_files for each in file.statistics}
    files = many_small(version.files, columns, transaction.following)
    if not files:
        return
    table, path = version.table, session.gateway.data_path
    async with WriterAside(path, table, min(transaction.hot_rows_max, _HOT_ROWS_MAX)) as writer:
        await writer.write_made(lambda: _rows(path, table, files))
        result = await writer.finish()
    transaction.written.update(each.lstrip("/") for each in result.paths(table.path))
    await transaction.stage(RowChange(table.oid, result.data_files, combined=[file.path for file in files]))


def many_small(files: Sequence[DataFile], columns: set[int], following: set[int]) -> Sequence[DataFile]:
    """The last files, in their order, that are the transaction's own, have these columns and about one size, if
    enough.
    """
    for level in range(_LEVELS):
        found = len(files)
        while found and _is_of(files[found - 1], _FILES ** (level + 1), columns, following):
            found -= 1
        if len(files) - found >= _FILES:
            return files[found:]
    return ()


def _is_of(file: DataFile, rows_max: int, columns: set[int], following: set[int]) -> bool:
    own = file.data_file_id is None and file.delete_file is None
    alike = is_small(file) and file.record_count < rows_max and file.statistics.keys() == columns
    return own and alike and file_number(file.path) not in following


def _rows(data_path: str, table: Table, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    """Blocking."""
    lake = LakeFiles(data_path)
    for file in files:
        for _, batch in read_rows(lake, table, file, table.columns):
            yield batch
