"""Whether two answers are the same."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from enum import Enum

from catalog import datatypes as t
from tests.planner.differential import Answer

Row = tuple[str | None, ...]
_FLOATS = {t.FLOAT4: 1e-5, t.FLOAT8: 1e-9}
INTERNAL = "XX000"
REFUSED = "0A000"


class Verdict(Enum):
    SAME = "same"
    REFUSED = "refused"
    ALIKE = "errors alike"
    DIFFERENT = "different"


def judge(wanted: Answer, answer: Answer, is_list: bool) -> Verdict:
    """What Sluice's answer is beside PostgreSQL's. `is_list`: the order of rows is certain."""
    if answer.sqlstate == REFUSED and wanted.sqlstate != REFUSED:
        return Verdict.REFUSED
    if wanted.sqlstate or answer.sqlstate:
        alike = wanted.sqlstate == answer.sqlstate and answer.sqlstate != INTERNAL
        return Verdict.ALIKE if alike else Verdict.DIFFERENT
    if wanted.types != answer.types or len(wanted.rows) != len(answer.rows):
        return Verdict.DIFFERENT
    left, right = list(wanted.rows), list(answer.rows)
    if left == right:
        return Verdict.SAME
    forms = [_form(oid) for oid in wanted.types]
    left, right = [_row(each, forms) for each in left], [_row(each, forms) for each in right]
    if not is_list:
        left, right = sorted(left, key=_sortable), sorted(right, key=_sortable)
    return Verdict.SAME if left == right else Verdict.DIFFERENT


def _row(row: Row, forms: list[Callable[[str], str]]) -> Row:
    return tuple(None if value is None else form(value) for value, form in zip(row, forms, strict=True))


def _sortable(row: Row) -> tuple[tuple[bool, str], ...]:
    return tuple((value is None, value or "") for value in row)


def _form(oid: int) -> Callable[[str], str]:
    if oid in _FLOATS:
        digits = 6 if oid == t.FLOAT4 else 12
        return lambda text: _rounded(text, digits)
    if oid == t.NUMERIC:
        return _number
    return lambda text: text


def _rounded(text: str, digits: int) -> str:
    """Sums of floats in another order differ in the last digits."""
    value = float(text)
    return f"{value:.{digits - 1}e}" if math.isfinite(value) else text


def _number(text: str) -> str:
    """Numbers without their zeros at the end: of equal ones a group shows any."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return text
    return text if not value.is_finite() else re.sub(r"\.?0+$", "", text) if "." in text else text
