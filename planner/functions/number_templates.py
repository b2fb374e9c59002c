"""to_char of numbers by a constant template of 9, 0, commas and one point, with FM and text around it.

The number is rounded, written with all of the template's zeros and commas, and cut where its own digits begin. The cut
part is blank, or left out with FM. A number of too many digits is shown as `#`. Templates with other words (S, MI, PR,
RN, V, EEEE, TH, L) are refused. Source: PostgreSQL 18, src/backend/utils/adt/formatting.c, NUM_processor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from catalog.datatypes import DECIMAL_DIGITS_MAX, NUMERIC
from catalog.errors import unsupported
from planner.functions.call import Call, Row, row
from planner.functions.casts import on
from planner.spark import numerics
from planner.spark.builders import Expression, and_, binary, call, case, cast, integer, is_not_null, raw, string
from planner.spark.values import Value, null_value

# Nothing that was taken is given back: each part ends where the next begins.
_TEXT: Final = r"[^A-Za-z0-9.,\"\\#+-]*+"
_TEMPLATE: Final = re.compile(rf"(FM|fm)?+({_TEXT})([90][90,Gg]*+)?+(?:([.Dd])([90]*+))?+({_TEXT})")


@dataclass(frozen=True, slots=True)
class _Template:
    """A parsed template. `whole` has the commas; `least` is the number of digits before the point that are always
    shown.

    `kept` is the number of digits after the point that FM leaves if all are zero.
    """

    bare: bool
    before: str
    whole: str
    point: str
    places: int
    kept: int
    after: str

    @property
    def digits(self) -> int:
        return len(self.whole) - self.whole.count(",")

    @property
    def least(self) -> int:
        digits = self.whole.replace(",", "")
        return len(digits) - digits.index("0") if "0" in digits else 0


def _read(template: str) -> _Template:
    found = _TEMPLATE.fullmatch(template)
    if found is None or not found[3] or (found[4] and not found[5]) or found[3].endswith((",", "G", "g")):
        raise unsupported(f"the template {template!r}")
    fraction = found[5] or ""
    whole = re.sub("[Gg]", ",", found[3])
    return _Template(bool(found[1]), found[2], whole, "." if fraction else "", len(fraction),
                     fraction.rfind("0") + 1, found[6])  # fmt: skip


def _to_char(given: Call) -> Value:
    value = given.arguments[0]
    text = given.constant(1, "a template")
    if text is None:
        return null_value(given.result_type)
    assert isinstance(text, str)
    template = _read(text)
    number = numerics.computable(value) if value.type_oid == NUMERIC else numerics.from_integer(value)
    if template.digits + template.places > DECIMAL_DIGITS_MAX:
        raise unsupported(f"the template {text!r}")
    nearest = numerics.rounded(number, template.places, "round")
    # With a digit before the point and all of those after it.
    return given.result(on(nearest.sql, lambda sql: _written(sql, template)))


def _written(number: Expression, template: _Template) -> Expression:
    negative = binary("<", number, raw("0BD"))
    sign = case((negative, string("-")), default=string(""))
    digits = call("substring_index", cast(call("abs", number), "STRING"), string("."), raw("1"))
    fits = binary("<", call("abs", number), raw("1" + "0" * template.digits + "BD"))
    full = _with_commas(call("lpad", digits, integer(template.digits), string("0")), template.whole)
    shown = call("substring", full, _start(number, digits, template))
    fraction = _fraction(number, template)
    crossed = string(re.sub("[90]", "#", template.whole) + template.point + "#" * template.places)
    body = call("concat", sign, case((fits, call("concat", shown, fraction)), default=crossed))
    if not template.bare:
        width = len(template.whole) + len(template.point) + template.places + 1
        body = call("lpad", body, integer(width), string(" "))
    text = call("concat", string(template.before), body, string(template.after))
    return case((is_not_null(number), text))


def _with_commas(digits: Expression, whole: str) -> Expression:
    """Return the digits, as many as the template has, with its commas between them."""
    if "," not in whole:
        return digits
    parts: list[Expression] = []
    position = 1
    for number, group in enumerate(whole.split(",")):
        if number:
            parts.append(string(","))
        if group:
            parts.append(call("substring", digits, integer(position), integer(len(group))))
        position += len(group)
    return call("concat", *parts)


def _start(number: Expression, digits: Expression, template: _Template) -> Expression:
    """Return where the shown part begins in `full`; a zero before the point counts only if nothing follows it."""
    length: Expression = call("length", digits)
    if template.places:
        none = binary("<", call("abs", number), raw("1BD"))
        if template.bare and not template.kept:  # a zero without digits after the point keeps the one before it
            none = and_(none, binary("<>", number, raw("0BD")))
        length = case((none, raw("0")), default=length)
    shown = call("greatest", length, integer(template.least))
    places = [position for position, mark in enumerate(template.whole, 1) if mark != ","]
    starts = [*reversed(places), len(template.whole) + 1]  # by the number of digits shown, from 1; of none, last
    by_count = [starts[-1], *starts[:-1]]
    index = call("least", shown, integer(template.digits))
    return call("element_at", call("array", *map(integer, by_count)), binary("+", index, raw("1")))


def _fraction(number: Expression, template: _Template) -> Expression:
    if not template.places:
        return string("")
    digits = call("substring_index", cast(number, "STRING"), string("."), raw("-1"))
    if template.bare and template.kept < template.places:
        rest = call("substring", digits, integer(template.kept + 1))
        digits = call("concat", call("left", digits, integer(template.kept)), call("rtrim", string("0"), rest))
    return call("concat", string("."), digits)


_TEMPLATES: Final = (
    "999", "999.99", "FM999.99", "FM999.00", "9,999.00", "FM9,999,999.00", "0000", "FM0000", "990.0", "FM990.0",
    "000.9", "FM0.9", "FM9,990", "9G999D99", "$999.99", "FM$9,999,990.00", "999%", "FM990.0%", "FM999,990.099", "0,000",
    "9,0,9", "FM999999990", "999,999,999", "FM90.09", "FM9", "9,9990,099.900",
)  # fmt: skip


def _probe(column: str, table: str) -> str:
    return f"SELECT id, {', '.join(f'to_char({column}, {template!r})' for template in _TEMPLATES)} FROM {table}"


ROWS: Final[tuple[Row, ...]] = (
    row("to_char(numeric,text)", _to_char, _probe("n", "decimals"), _probe("-n * 3", "decimals"),
        _probe("n / 3", "decimals"), "SELECT id, to_char(n, NULL) FROM decimals",
        "SELECT to_char(sum(n), 'FM999G999G990D00') FROM decimals"),
    row("to_char(int4,text)", _to_char, _probe("i", "integers")),
    row("to_char(int8,text)", _to_char, _probe("b", "integers")),
)  # fmt: skip
