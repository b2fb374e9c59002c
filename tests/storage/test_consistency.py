"""Rows that violate a constraint are found, however they got there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catalog import datatypes
from catalog.constraints import Action, ForeignKey, Key
from catalog.model import TableVersion
from storage.maintenance.consistency import check_constraints
from storage.spark.write import replace_rows
from tests.storage.lake import rows, table, write

_INTS = datatypes.BY_OID[datatypes.INT4].array_oid


@pytest.fixture
def branch(tmp_path: Path) -> TableVersion:
    of = table(id=datatypes.INT4, name=datatypes.TEXT)
    columns = (replace(of.columns[0], nullable=False, not_null=True), of.columns[1])
    of = replace(of, columns=columns, keys=(Key(1, "branch_pkey", (1,), True, False, False),))
    return write(tmp_path, of, rows(of, (1, "one"), (2, "two")), rows(of, (3, None)))


def _with(tmp_path: Path, version: TableVersion, *values: tuple[Any, ...]) -> TableVersion:
    more = write(tmp_path, version.table, rows(version.table, *values))
    return replace(version, files=version.files + more.files)


def _found(tmp_path: Path, *versions: TableVersion) -> list[str]:
    return [finding.kind for finding in check_constraints(str(tmp_path), versions)]


def test_whole(tmp_path: Path, branch: TableVersion) -> None:
    assert _found(tmp_path, branch) == []


def test_null(tmp_path: Path, branch: TableVersion) -> None:
    assert _found(tmp_path, _with(tmp_path, branch, (None, "x"))) == ["null"]


@pytest.mark.parametrize(
    ("type_oid", "value"),
    [(datatypes.JSONB, '{"a": null}'), (datatypes.INTERVAL, {"months": 1, "days": 0, "microseconds": 0}), (_INTS, [1])],
)
def test_null_where_there_is_no_key(tmp_path: Path, type_oid: int, value: Any) -> None:
    """Of types of which there are no keys; a row that is deleted may have had a NULL."""
    of = table(id=datatypes.INT4, v=type_oid)
    of = replace(of, columns=(of.columns[0], replace(of.columns[1], not_null=True)))
    version = write(tmp_path, of, rows(of, (1, value), (2, None)))
    assert _found(tmp_path, write(tmp_path, of, rows(of, (1, value)))) == []
    assert _found(tmp_path, version) == ["null"]
    [file] = version.files
    [(_, delete_file)] = replace_rows(str(tmp_path), version, {file.path: np.array([1])}).delete_files.items()
    assert _found(tmp_path, replace(version, files=(replace(file, delete_file=delete_file),))) == []


def test_duplicate(tmp_path: Path, branch: TableVersion) -> None:
    assert _found(tmp_path, _with(tmp_path, branch, (2, "x"))) == ["duplicate key"]


def test_deleted_rows_do_not_count(tmp_path: Path, branch: TableVersion) -> None:
    twice = _with(tmp_path, branch, (2, "x"))
    [(path, delete_file)] = replace_rows(
        str(tmp_path), twice, {twice.files[0].path: np.array([1])}
    ).delete_files.items()
    files = tuple(replace(file, delete_file=delete_file) if file.path == path else file for file in twice.files)
    assert _found(tmp_path, replace(twice, files=files)) == []


def test_dangling(tmp_path: Path, branch: TableVersion) -> None:
    of = table(id=datatypes.INT4, branch=datatypes.INT8)
    reference = ForeignKey(
        2,
        "account_branch_fkey",
        of.oid,
        (2,),
        branch.table.oid,
        (1,),
        Action.CASCADE,
        Action.CASCADE,
        False,
        False,
        (2,),
    )
    of = replace(of, foreign_keys=(reference,))
    account = write(tmp_path, of, rows(of, (1, 1), (2, None), (3, 3)))
    assert _found(tmp_path, branch, account) == []
    assert _found(tmp_path, branch, _with(tmp_path, account, (4, 9))) == ["dangling reference"]
