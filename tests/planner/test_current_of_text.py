"""The condition WHERE CURRENT OF in statements' texts."""

from __future__ import annotations

import pytest

from planner.syntax.current_of_text import with_condition


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("DELETE FROM t WHERE CURRENT OF c", "DELETE FROM t WHERE false"),
        ("delete from t where current of returning", "delete from t where false"),
        ("delete from t where /* c */ current of \"returning\"; ", "delete from t where /* c */ false; "),
        ("UPDATE t SET a = 1 WHERE CURRENT OF U&\"!0063\" UESCAPE '!' RETURNING a", "UPDATE t SET a = 1 WHERE false RETURNING a"),
        ("UPDATE t SET a = (SELECT 'where current of x' WHERE true), \"where\" = 2 WHERE CURRENT OF c -- RETURNING",
         "UPDATE t SET a = (SELECT 'where current of x' WHERE true), \"where\" = 2 WHERE false -- RETURNING"),
    ],
)  # fmt: skip
def test_another_condition(text: str, changed: str) -> None:
    assert with_condition(text, "false") == changed
