"""The statements around which the backend is switched to UTF-8."""

from __future__ import annotations

import pytest

from gateway.backend.backend_encoding import TO_UTF8, back, switched

_LATIN = {"client_encoding": "LATIN1"}
_BACK = back(_LATIN)


@pytest.mark.parametrize("name", ["UTF8", "UNICODE", "SQL_ASCII"])
def test_nothing_is_switched_where_nothing_is_converted(name: str) -> None:
    assert switched(["SELECT 1", "COMMIT"], {"client_encoding": name}, b"I") == [0, 1]


@pytest.mark.parametrize(
    ("statements", "status", "expected"),
    [
        (["SELECT 1"], b"I", [TO_UTF8, 0, _BACK]),
        (["SELECT 1", "SELECT 2"], b"T", [TO_UTF8, 0, 1, _BACK]),
        (["BEGIN READ WRITE", "SELECT 1", "COMMIT"], b"I", [0, TO_UTF8, 1, 2]),
        (["COMMIT"], b"T", [TO_UTF8, 0]),
        (["SAVEPOINT a", "SELECT 1"], b"T", [0, TO_UTF8, 1, _BACK]),
        (
            ["SELECT 1", "ROLLBACK TO SAVEPOINT a", "RELEASE SAVEPOINT a", "SELECT 2"],
            b"T",
            [TO_UTF8, 0, _BACK, 1, 2, TO_UTF8, 3, _BACK],
        ),
        (["SELECT 1"], b"E", [0]),
        (["ROLLBACK TO SAVEPOINT a", "RELEASE SAVEPOINT a", "SELECT 1"], b"E", [0, 1, TO_UTF8, 2, _BACK]),
    ],
)
def test_where_transactions_begin_and_end_it_is_the_client_s(
    statements: list[str], status: bytes, expected: list[str | int]
) -> None:
    assert switched(statements, _LATIN, status) == expected
