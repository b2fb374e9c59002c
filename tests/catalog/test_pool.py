"""The log's lines about faults of the catalog."""

from __future__ import annotations

import logging

import asyncpg
import pytest

from catalog.errors import SluiceError, SqlState
from catalog.postgres.pool import log_fault

_LOG = logging.getLogger("tests.catalog.test_pool")


@pytest.mark.parametrize(
    ("fault", "in_a_line"),
    [
        (ConnectionRefusedError("nobody listens"), True),
        (asyncpg.CannotConnectNowError("the database system is starting up"), True),
        (SluiceError(SqlState.CANNOT_CONNECT_NOW, "cannot reach the catalog"), True),
        (SluiceError(SqlState.INTERNAL_ERROR, "what nobody thought of"), False),
        (asyncpg.UndefinedTableError("what nobody thought of"), False),
        (AssertionError("what nobody thought of"), False),
    ],
)
def test_a_catalog_that_is_away_is_no_traceback(
    caplog: pytest.LogCaptureFixture, fault: Exception, in_a_line: bool
) -> None:
    log_fault(_LOG, "left to the next look", fault)
    [record] = caplog.records
    assert "left to the next look" in record.getMessage()
    assert (str(fault) in record.getMessage()) is in_a_line
    assert (record.exc_info is None) is in_a_line
