"""PostgreSQL's numeric on Spark's decimals: exact values, each with PostgreSQL's display scale.

Spark must run with `spark.sql.decimalOperations.allowPrecisionLoss=false`: then +, - and * have exact types, and a
result that does not fit raises. An operation that could round is refused while planning. A quotient's display scale
depends on the values (`select_div_scale` in PostgreSQL 18's numeric.c), so quotients are `Decimal`s with an expression
for `display`. See `planner.spark.values` for the three ways to hold a numeric.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from catalog.datatypes import DECIMAL_DIGITS_MAX, NUMERIC, numeric_precision_scale
from catalog.errors import SluiceError, unsupported
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    field,
    integer,
    is_cheap,
    is_not_null,
    is_simple,
    let,
    negative,
    not_,
    or_,
    raise_error,
    raise_error_about,
    raise_whole,
    raw,
    string,
    struct,
    variable,
)
from planner.spark.values import INTEGER_DIGITS, MISSING, Decimal, Value

# Plain numerics in computations must have at most this many digits after the point, and 20 before it.
TEXT_SCALE: Final = 18
# If a product's scale would exceed the first, factors of varying scale are narrowed so that it is the second.
_PRODUCT_SCALE_MAX: Final = 28
_PRODUCT_SCALE: Final = 24
# A quotient keeps this many digits before the point at least.
_QUOTIENT_DIGITS_MAX: Final = 14
_QUOTIENT_DIGITS_MIN: Final = 8
_DIVISOR_DIGITS_MAX: Final = 24
_NUMERIC_MIN_SIG_DIGITS: Final = 16  # numeric.h
_GROUP: Final = 4  # DEC_DIGITS of numeric.c: digits in one base-10000 digit


def display_of(value: Value) -> Expression:
    """Return the display scale as an INT expression."""
    display = value.held.display
    assert display is not None
    return integer(display) if isinstance(display, int) else display


def is_static(value: Value) -> bool:
    """Whether every value is displayed with the same number of digits."""
    return isinstance(value.held.display, int)


def make(sql: Expression, precision: int, scale: int, display: int | Expression) -> Value:
    """Return a numeric computed by `sql`, which must be a DECIMAL(min(precision, 38), scale)."""
    if scale > DECIMAL_DIGITS_MAX:
        raise unsupported(f"a numeric with {scale} digits after the decimal point")
    precision = min(max(precision, scale, 1), DECIMAL_DIGITS_MAX)
    return Value(sql, NUMERIC, -1, Decimal(precision, scale, display))


def from_integer(value: Value) -> Value:
    """Return int2, int4 or int8 as numeric."""
    digits = INTEGER_DIGITS[value.type_oid]
    return make(cast(value.sql, f"DECIMAL({digits},0)"), digits, 0, 0)


def computable(value: Value) -> Value:
    """Return the numeric as a Spark decimal: texts are converted, and raise if Spark has no such decimal."""
    if not value.held.is_text:
        return value
    text = value.sql
    if not is_simple(text):
        parts = computable(replace(value, sql=variable("t")))
        sql, held = unpacked(let("t", text, packed(parts)), parts.held)
        return Value(sql, NUMERIC, value.typmod, held, value.constant)
    scale = TEXT_SCALE
    declared = numeric_precision_scale(value.typmod)
    if declared is not None and 0 <= declared[1] <= TEXT_SCALE:
        display: int | Expression = declared[1]
        scale = declared[1]
    else:
        point = call("instr", text, string("."))
        display = case((binary("=", point, raw("0")), raw("0")), default=binary("-", call("length", text), point))
    whole = DECIMAL_DIGITS_MAX - scale
    pattern = f"^-?[0-9]{{1,{whole}}}" + (rf"([.][0-9]{{1,{scale}}})?$" if scale else "$")
    sql = case(
        (call("rlike", text, string(pattern)), cast(text, f"DECIMAL({DECIMAL_DIGITS_MAX},{scale})")),
        (
            is_not_null(text),
            raise_error_about("0A000", "computing with the numeric ", text, " is not supported on lake tables"),
        ),
    )
    return Value(sql, NUMERIC, value.typmod, Decimal(DECIMAL_DIGITS_MAX, scale, display), value.constant)


def packed(value: Value) -> Expression:
    """Return a numeric of varying scale as STRUCT<v: DECIMAL, s: INT>, value and display scale, the form of columns."""
    return struct(v=value.sql, s=display_of(value)) if value.pair is None else value.pair


def unpacked(pair: Expression, held: Decimal) -> tuple[Expression, Decimal]:
    """Return the value's expression and its `Decimal`, from the struct that `packed` makes."""
    value = field(pair, "v")
    return value, replace(held, display=exp.Dot(this=value.this, expression=exp.to_identifier("s")))


def as_text(value: Value) -> Expression:
    """Return PostgreSQL's text of the numeric, a STRING."""
    held = value.held
    if held.display is None:
        return value.sql
    text = cast(value.sql, "STRING")
    if isinstance(held.display, int):
        return text
    if is_simple(value.sql) and is_simple(held.display):
        return _trimmed(text, held.display, held.scale)
    return let("n", packed(value), _trimmed(cast(variable("n.v"), "STRING"), variable("n.s"), held.scale))


def _trimmed(text: Expression, display: Expression, scale: int) -> Expression:
    """`text` has `scale` digits after the point; the result has `display` of them."""
    if scale == 0:
        padded = call("concat", text, string("."), call("repeat", string("0"), display))
        return case((binary("=", display, raw("0")), text), default=padded)
    # rpad cuts longer texts off. The point stands before the first digit of a fraction.
    fraction = binary("+", display, call("least", display, raw("1")))
    return call("rpad", text, binary("+", binary("-", call("length", text), integer(scale + 1)), fraction), string("0"))


def widened(value: Value, precision: int, scale: int) -> Expression:
    """Return the decimal with a scale at least as large; raises at run time if it has too many digits before the
    point."""
    if value.held.scale == scale and value.held.precision == precision:
        return value.sql
    return cast(value.sql, f"DECIMAL({precision},{scale})")


def unified(values: Sequence[Value]) -> list[Value]:
    """Return the numerics held in one way, for CASE, COALESCE, set operations and the like."""
    known = [value for value in values if value.constant is not None]
    if not known:
        return list(values)
    if all(value.held.is_text for value in known):
        return [value if value.held.is_text else replace(value, sql=cast(value.sql, "STRING"),
                decimal=Decimal(0, 0, None)) for value in values]  # fmt: skip
    known = [computable(value) for value in known]
    scale = max(value.held.scale for value in known)
    whole = max(value.held.integer_digits for value in known)
    precision = min(max(whole + scale, 1), DECIMAL_DIGITS_MAX)
    displays = {value.held.display if isinstance(value.held.display, int) else -1 for value in known}
    static = len(displays) == 1 and -1 not in displays
    result = []
    for value in values:
        if value.constant is None:
            display: int | Expression = scale if static else cast(exp.Null(), "INT")
            null = cast(exp.Null(), f"DECIMAL({precision},{scale})")
            result.append(replace(value, sql=null, decimal=Decimal(precision, scale, display)))
            continue
        value = computable(value)  # noqa: PLW2901
        display = scale if static else display_of(value)
        sql = widened(value, precision, scale)
        result.append(replace(value, sql=sql, decimal=Decimal(precision, scale, display)))
    return result


def _displayed(left: Value, right: Value, function: str) -> int | Expression:
    one, other = left.held.display, right.held.display
    if isinstance(one, int) and isinstance(other, int):
        return one + other if function == "+" else max(one, other)
    if function == "+":
        return binary("+", display_of(left), display_of(right))
    return call("greatest", display_of(left), display_of(right))


def add(operator: str, left: Value, right: Value) -> Value:
    """left + right, left - right, or left % right."""
    left, right = computable(left), computable(right)
    one, other = left.held, right.held
    scale = max(one.scale, other.scale)
    whole = max(one.integer_digits, other.integer_digits)
    precision = whole + scale + (operator != "%")
    if operator == "%":
        # Spark's own type of % can be too narrow for its operands' common scale.
        common = min(whole + scale, DECIMAL_DIGITS_MAX)
        left_sql, right_sql = (cast(side.sql, f"DECIMAL({common},{scale})") for side in (left, right))
        return make(binary("%", left_sql, right_sql), common, scale, _displayed(left, right, "max"))
    return make(binary(operator, left.sql, right.sql), precision, scale, _displayed(left, right, "max"))


def multiply(left: Value, right: Value) -> Value:
    """left · right."""
    left, right = computable(left), computable(right)
    if left.held.scale + right.held.scale > _PRODUCT_SCALE_MAX:
        left, right = _narrowed_factors(left, right)
    one, other = left.held, right.held
    return make(
        binary("*", left.sql, right.sql),
        one.precision + other.precision + 1,
        one.scale + other.scale,
        _displayed(left, right, "+"),
    )


def _narrowed_factors(left: Value, right: Value) -> tuple[Value, Value]:
    if is_static(left) and is_static(right):
        return left, right
    if is_static(left):
        return left, narrowed(right, max(_PRODUCT_SCALE - left.held.scale, 0))
    if is_static(right):
        return narrowed(left, max(_PRODUCT_SCALE - right.held.scale, 0)), right
    return narrowed(left, _PRODUCT_SCALE // 2), narrowed(right, _PRODUCT_SCALE // 2)


def narrowed(value: Value, scale: int) -> Value:
    """Return a numeric of varying scale as one of at most `scale` digits; raises at run time if one has more."""
    if value.held.scale <= scale:
        return value
    if value.pair is not None and not is_simple(value.pair):  # evaluated once
        held = replace(value.held, display=variable("p.s"))
        parts = narrowed(Value(variable("p.v"), NUMERIC, -1, held), scale)
        sql, held = unpacked(let("p", value.pair, packed(parts)), parts.held)
        return Value(sql, NUMERIC, -1, held)
    display = display_of(value)
    refusal = raise_error("0A000", f"computing with a numeric of more than {scale} digits after the decimal point "
                          "is not supported on lake tables")  # fmt: skip
    sql = case(
        (binary("<=", display, integer(scale)), cast(value.sql, f"DECIMAL({DECIMAL_DIGITS_MAX},{scale})")),
        (is_not_null(value.sql), refusal),
    )
    return make(sql, DECIMAL_DIGITS_MAX, scale, display)


def negate(value: Value) -> Value:
    """-value."""
    value = computable(value)
    return replace(value, sql=negative(value.sql), typmod=-1, constant=MISSING)


# --- from floating point ---

_FLOAT_SCALE: Final = 20


def from_float(sql: Expression, digits: int) -> Value:
    """Convert a DOUBLE as float8_numeric (15 digits) or float4_numeric (6): round to so many significant digits.

    If the next digit is a final 5, C rounds by the exact binary value, which Spark cannot show: it raises.
    """

    def pair(number: Expression) -> Expression:
        text = call("format_string", string(f"%.{digits - 1}e"), number)
        longer = call("format_string", string(f"%.{digits}e"), number)
        tie = and_(call("rlike", longer, string("5e")), binary("=", cast(longer, "DOUBLE"), cast(number, "DOUBLE")))
        plain = cast(text, f"DECIMAL({DECIMAL_DIGITS_MAX},{_FLOAT_SCALE})")
        size = call("abs", number)
        within = or_(
            binary("=", number, raw("0D")),
            and_(binary("<", size, raw("1E17D")), binary(">=", size, raw(f"1E-{_FLOAT_SCALE - digits}D"))),
        )
        value = case(
            (and_(within, not_(tie)), plain),
            (is_not_null(number), raise_error_about("0A000", "the numeric of the floating-point number ", number,
                                                    " is not supported on lake tables")),
        )  # fmt: skip
        fraction = call("rtrim", string("0"), call("substring_index", cast(plain, "STRING"), string("."), raw("-1")))
        return struct(v=value, s=case((within, call("length", fraction)), default=raw("0")))

    sql, held = unpacked(let("x", sql, pair(variable("x"))), Decimal(DECIMAL_DIGITS_MAX, _FLOAT_SCALE, 0))
    return Value(sql, NUMERIC, -1, held)


# --- division ---


def divide(left: Value, right: Value, whole_digits: int | None = None) -> Value:
    """left / right, rounded as PostgreSQL rounds it, to PostgreSQL's display scale.

    `whole_digits` is how many digits before the point the quotient may have (by default as many as the operands' types
    allow, within bounds). More raise at run time, and so do operands whose digits together exceed Spark's decimals.
    """
    left, right = computable(left), computable(right)
    if whole_digits is None:
        possible = left.held.integer_digits + right.held.scale
        whole_digits = min(max(possible, _QUOTIENT_DIGITS_MIN), _QUOTIENT_DIGITS_MAX)
    scale = DECIMAL_DIGITS_MAX - whole_digits
    divisor_digits = min(right.held.precision, _DIVISOR_DIGITS_MAX)
    operands = {"a": left.sql, "b": right.sql, "x": display_of(left), "y": display_of(right)}

    def scaled(d: dict[str, Expression]) -> Expression:
        return struct(
            n=_unscaled(d["a"], left.held, d["x"]),
            d=cast(_unscaled(d["b"], right.held, d["y"]), f"DECIMAL({divisor_digits},0)"),
            k=binary("-", d["y"], d["x"]),
            s=_quotient_display(left, d["a"], right, d["b"], call("greatest", d["x"], d["y"])),
        )

    # Spark compiles no lambda: cheap operands are written out at each use, each time as nodes of their own.
    written_out = all(map(is_cheap, operands.values()))
    first = scaled(operands).copy() if written_out else let_struct("d", operands, scaled)
    second = let_struct_of(
        "e",
        first,
        lambda e: struct(n=_times_power(e("n"), binary("+", e("s"), e("k"))), d=e("d"), s=e("s")),
    )
    quotient = let_struct_of("g", second, lambda g: struct(m=_rounded(g("n"), g("d")), s=g("s")))
    pair = let_struct_of("h", quotient, lambda h: struct(v=_scaled_down(h("m"), h("s"), scale), s=h("s")))
    sql, held = unpacked(pair, Decimal(DECIMAL_DIGITS_MAX, scale, 0))
    return Value(sql, NUMERIC, -1, held)


def let_struct(
    name: str, fields: dict[str, Expression], body: Callable[[dict[str, Expression]], Expression]
) -> Expression:
    """Return `body` of the fields, each evaluated once."""
    return let(name, struct(**fields), body({field_name: variable(f"{name}.{field_name}") for field_name in fields}))


def let_struct_of(
    name: str, value: Expression, body: Callable[[Callable[[str], Expression]], Expression]
) -> Expression:
    """Return `body` of the struct's fields, read by name."""
    return let(name, value, body(lambda field_name: variable(f"{name}.{field_name}")))


def _unscaled(value: Expression, held: Decimal, display: Expression) -> Expression:
    """Return value · 10^display, which is whole."""
    if not isinstance(held.display, int):
        digits = call("replace", _trimmed(cast(value, "STRING"), display, held.scale), string("."), string(""))
        return cast(digits, "DECIMAL(38,0)")
    if held.scale == 0:
        return cast(value, "DECIMAL(38,0)")
    if held.precision + held.scale + 2 <= DECIMAL_DIGITS_MAX:
        return cast(binary("*", value, raw("1" + "0" * held.scale + "BD")), "DECIMAL(38,0)")
    return cast(call("replace", cast(value, "STRING"), string("."), string("")), "DECIMAL(38,0)")


def _times_power(value: Expression, exponent: Expression) -> Expression:
    """Return value · 10^exponent, both whole; raises if that has more than 38 digits.

    The exponent is not negative: a quotient's display scale is at least the dividend's.
    """
    power = cast(call("concat", string("1E"), exponent), "DECIMAL(38,0)")
    return cast(binary("*", value, power), "DECIMAL(38,0)")


def _leading(operand: Value, value: Expression) -> tuple[Expression, Expression]:
    """Return 4 · weight and the first digit, in base 10000, of the operand, as PostgreSQL normalises it.

    Both are 0 for zero. `value` is the operand's expression.
    """
    if isinstance(operand.constant, decimal.Decimal) and operand.constant.is_finite() and operand.constant:
        exponent = operand.constant.adjusted()
        text = "".join(map(str, operand.constant.as_tuple().digits)).lstrip("0").ljust(_GROUP, "0")
        return raw(str(exponent & -_GROUP)), raw(text[: exponent % _GROUP + 1])
    scale = operand.held.scale
    digits: Expression = call("translate", cast(value, "STRING"), string("-."), string(""))
    if scale:
        digits = call("ltrim", string("0"), digits)
    exponents = binary("-", call("length", digits), integer(scale + 1))
    place = binary("&", exponents, raw(str(_GROUP - 1)))
    weight: Expression = binary("&", exponents, raw(str(-_GROUP)))
    if scale:  # zero has no digits then
        weight = case((binary("=", value, raw("0BD")), raw("0")), default=weight)
    return weight, cast(call("rpad", digits, binary("+", place, raw("1")), string("0")), "INT")


def _quotient_display(left: Value, a: Expression, right: Value, b: Expression, display: Expression) -> Expression:
    """Return the scale of select_div_scale: 16 significant digits or more, by the operands' leading base-10000 digits.

    PostgreSQL takes `weight1 - weight2`, less one unless the first operand's first digit is larger.
    """
    (weight, digit), (other_weight, other_digit) = _leading(left, a), _leading(right, b)
    above = binary("-", weight, other_weight)
    larger = case((binary(">", digit, other_digit), raw(str(_GROUP))), default=raw("0"))
    significant = binary("-", binary("-", raw(str(_NUMERIC_MIN_SIG_DIGITS + _GROUP)), above), larger)
    return call("greatest", significant, display)


def _rounded(numerator: Expression, divisor: Expression) -> Expression:
    """Return numerator / divisor to the nearest whole number, halves away from zero."""
    remainder = cast(binary("%", numerator, divisor), "DECIMAL(38,0)")
    whole = cast(binary("/", binary("-", numerator, remainder), divisor), "DECIMAL(38,0)")
    twice = binary("*", raw("2BD"), call("abs", remainder))
    sign = case(
        (binary("=", binary("<", numerator, raw("0BD")), binary("<", divisor, raw("0BD"))), raw("1BD")),
        default=raw("(-1BD)"),
    )
    step = case((binary(">=", twice, call("abs", divisor)), sign), default=raw("0BD"))
    return cast(binary("+", whole, step), "DECIMAL(38,0)")


def _scaled_down(mantissa: Expression, display: Expression, scale: int) -> Expression:
    """Return mantissa · 10^-display as a DECIMAL(38, scale)."""
    spark_type = f"DECIMAL({DECIMAL_DIGITS_MAX},{scale})"
    fraction = cast(call("concat", string("1E-"), display), f"DECIMAL({scale + 1},{scale})")
    product = binary("*", mantissa, fraction)
    refusal = raise_error("0A000", f"a quotient with more than {scale} digits after the decimal point "
                          "is not supported on lake tables")  # fmt: skip
    return case(
        (binary("=", mantissa, raw("0BD")), cast(raw("0BD"), spark_type)),
        (binary("<=", display, integer(scale)), cast(product, spark_type)),
        (is_not_null(mantissa), refusal),
    )


# --- rounding and length coercion ---


def rounded(value: Value, places: int, function: str) -> Value:
    """round, trunc, ceil or floor to `places` ≥ 0 digits (`ceil` and `floor`: 0)."""
    value = computable(value)
    held = value.held
    if function == "trunc":
        sql: Expression = case(
            (binary("<", value.sql, raw("0BD")), call("ceil", value.sql, raw(str(places)))),
            default=call("floor", value.sql, raw(str(places))),
        )
    elif function == "round":
        sql = call("round", value.sql, raw(str(places)))
    else:
        sql = call(function, value.sql)
    whole = held.integer_digits + 1
    if places > DECIMAL_DIGITS_MAX:
        raise unsupported(f"a numeric with {places} digits after the decimal point")
    precision = min(whole + places, DECIMAL_DIGITS_MAX)
    if places >= held.scale:
        sql = value.sql
    return make(cast(sql, f"DECIMAL({precision},{places})"), precision, places, places)


def with_typmod(value: Value, typmod: int) -> Value:
    """The length coercion numeric(p, s): round to s digits, 22003 if more than p - s stand before the point."""
    declared = numeric_precision_scale(typmod)
    if declared is None:
        return value
    precision, scale = declared
    if isinstance(value.constant, decimal.Decimal) and 0 <= scale <= precision <= DECIMAL_DIGITS_MAX:
        return _constant_with_typmod(value.constant, precision, scale, typmod)
    if precision > DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
        raise unsupported(f"the type numeric({precision},{scale}) in an expression")
    value = computable(value)
    held = value.held
    spark_type = f"DECIMAL({precision},{scale})"
    result = Decimal(precision, scale, scale)
    fits = held.integer_digits + (held.scale > scale) <= precision - scale
    if fits:
        sql: Expression = value.sql if held.spark_type == spark_type else cast(value.sql, spark_type)
        return Value(sql, NUMERIC, typmod, result)

    def checked(number: Expression) -> Expression:
        nearest = call("round", number, raw(str(scale))) if held.scale > scale else number
        bound = raw("1" + "0" * (precision - scale) + "BD")
        if precision - scale >= DECIMAL_DIGITS_MAX:
            return cast(number, spark_type)
        return case(
            (binary("<", call("abs", nearest), bound), cast(number, spark_type)),
            (is_not_null(number), raise_whole(_field_overflow(precision, scale))),
        )

    sql = checked(value.sql) if is_simple(value.sql) else let("v", value.sql, checked(variable("v")))
    return Value(sql, NUMERIC, typmod, result)


def _field_overflow(precision: int, scale: int) -> SluiceError:
    bound = f"10^{precision - scale}" if precision > scale else "1"
    detail = f"A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    return SluiceError("22003", "numeric field overflow", detail=detail)


def _constant_with_typmod(number: decimal.Decimal, precision: int, scale: int, typmod: int) -> Value:
    context = decimal.Context(prec=1000)
    nearest = number.quantize(decimal.Decimal((0, (1,), -scale)), decimal.ROUND_HALF_UP, context)
    if abs(nearest) >= decimal.Decimal(10) ** (precision - scale):
        raise _field_overflow(precision, scale)
    nearest = abs(nearest) if nearest.is_zero() else nearest
    sql = cast(raw(f"({nearest:f}BD)"), f"DECIMAL({precision},{scale})")
    return Value(sql, NUMERIC, typmod, Decimal(precision, scale, scale), nearest)
