"""Array parameters are read from PostgreSQL's own text of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from catalog.errors import SluiceError
from planner.tree.datum import read_text


@pytest.mark.parametrize(
    ("type_oid", "text", "expected"),
    [
        (1005, "{2,5,77}", (2, 5, 77)),
        (1007, "{}", ()),
        (1009, r'{a,"b c",NULL,"NULL","","q\"\\,{}"}', ("a", "b c", None, "NULL", "", 'q"\\,{}')),
        (1000, "{t,f,NULL}", (True, False, None)),
        (1231, "{1.50,-2}", (Decimal("1.50"), Decimal(-2))),
    ],
)
def test_reads(type_oid: int, text: str, expected: tuple[Any, ...]) -> None:
    assert read_text(type_oid, text) == expected


@pytest.mark.parametrize("text", ["{{1,2},{3,4}}", "[0:1]={1,2}"])
def test_other_shapes_are_refused(text: str) -> None:
    with pytest.raises(SluiceError) as refusal:
        read_text(1007, text)
    assert refusal.value.sqlstate == "0A000"
