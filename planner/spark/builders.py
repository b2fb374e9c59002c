"""Small constructors of Spark SQL as sqlglot expressions.

Every function and type is written by its Spark name, and sqlglot's generator does not change it: nothing here is
translated from another dialect. Operands are put in parentheses wherever precedence could matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from sqlglot import exp

from catalog.errors import SluiceError
from storage.spark.raise_error import raise_error_text

Expression = exp.Expr

_ATOMS: Final = (
    exp.Column, exp.Literal, exp.Anonymous, exp.Cast, exp.Paren, exp.Case, exp.Subquery, exp.Var, exp.Null, exp.Boolean,
    exp.Bracket, exp.Dot, exp.Window, exp.Identifier, exp.Exists,
)  # fmt: skip

DIALECT: Final = "spark"


def operand(expression: Expression) -> Expression:
    """Return the expression, in parentheses unless it binds tighter than any operator."""
    return expression if isinstance(expression, _ATOMS) else exp.Paren(this=expression)


def raw(text: str) -> exp.Var:
    """Return a piece of Spark SQL that is an atom, such as `1L` or `1.50BD`."""
    return exp.Var(this=text)


# Characters of a string that sqlglot writes in some milliseconds.
_SLICE: Final = 1 << 14


def string(value: str) -> Expression:
    """Return a STRING literal. A long one is written slice by slice, so that other threads get the interpreter in
    between."""
    if len(value) <= _SLICE:
        return exp.Literal.string(value)
    slices = (value[place : place + _SLICE] for place in range(0, len(value), _SLICE))
    return raw(f"'{''.join(exp.Literal.string(part).sql(dialect=DIALECT)[1:-1] for part in slices)}'")


def integer(value: int) -> Expression:
    """Return an INT literal (a wider type if it does not fit)."""
    return exp.Paren(this=raw(str(value))) if value < 0 else raw(str(value))


def null(spark_type: str) -> Expression:
    """Return NULL of a Spark type."""
    return cast(exp.Null(), spark_type)


def boolean(value: bool) -> exp.Boolean:
    """Return TRUE or FALSE."""
    return exp.Boolean(this=value)


def call(name: str, *arguments: Expression) -> exp.Anonymous:
    """Return a call of a Spark function by its name, which binds tighter than any operator."""
    assert name != "not", "NOT binds looser than a comparison"
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast(expression: Expression, spark_type: str) -> exp.Cast:
    """Return a CAST, to a Spark type as Spark spells it."""
    return exp.Cast(this=expression, to=exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=spark_type))


def try_cast(expression: Expression, spark_type: str) -> Expression:
    """Return TRY_CAST: NULL if the cast fails."""
    return exp.TryCast(this=expression, to=exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=spark_type), safe=True)


_OPERATORS: Final[dict[str, type[exp.Binary]]] = {
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div, "%": exp.Mod, "DIV": exp.IntDiv,
    "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE, "<=>": exp.NullSafeEQ,
    "&": exp.BitwiseAnd, "|": exp.BitwiseOr, "^": exp.BitwiseXor, "||": exp.DPipe, "LIKE": exp.Like,
}  # fmt: skip


def binary(operator: str, left: Expression, right: Expression) -> Expression:
    """Return a binary operator, by its symbol (`DIV` for whole division)."""
    if operator == "/":
        return exp.Div(this=operand(left), expression=operand(right), typed=True, safe=False)
    if operator == "DIV":
        # The operator has no node that sqlglot's generator leaves alone; div(a, b) is the same.
        return call("div", left, right)
    return _OPERATORS[operator](this=operand(left), expression=operand(right))


def and_(*conditions: Expression) -> Expression:
    """Return the conjunction of all conditions."""
    return _connected(exp.And, conditions)


def or_(*conditions: Expression) -> Expression:
    """Return the disjunction of the conditions."""
    return _connected(exp.Or, conditions)


def _connected(kind: type[exp.Connector], conditions: Sequence[Expression]) -> Expression:
    result = conditions[0]
    for condition in conditions[1:]:
        left = result if type(result) is kind else operand(result)
        result = kind(this=left, expression=operand(condition))
    return result


def not_(condition: Expression) -> Expression:
    """Return NOT."""
    return exp.Not(this=operand(condition))


def is_null(expression: Expression) -> Expression:
    """Return IS NULL."""
    return exp.Paren(this=exp.Is(this=operand(expression), expression=exp.Null()))


def is_not_null(expression: Expression) -> Expression:
    """Return IS NOT NULL."""
    return call("isnotnull", expression)


def marked(expression: Expression, type_name: str) -> Expression:
    """Mark an operand of an operation that yields this integer type: Spark does not say which of them overflows."""
    result = exp.Paren(this=expression)
    result.comments = [type_name]
    return result


def negative(expression: Expression) -> Expression:
    """Return unary minus."""
    return exp.Paren(this=exp.Neg(this=operand(expression)))


def case(*branches: tuple[Expression, Expression], default: Expression | None = None) -> exp.Case:
    """Return CASE WHEN … with (condition, result) pairs."""
    return exp.Case(
        ifs=[exp.If(this=condition, true=result) for condition, result in branches],
        **({} if default is None else {"default": default}),
    )


def struct(**fields: Expression) -> Expression:
    """Return NAMED_STRUCT."""
    arguments: list[Expression] = []
    for name, value in fields.items():
        arguments += (string(name), value)
    return call("named_struct", *arguments)


def lambda_(parameter: str, body: Expression) -> exp.Lambda:
    """Return a lambda of one parameter."""
    return exp.Lambda(this=body, expressions=[exp.to_identifier(parameter)])


def lambda_2(first: str, second: str, body: Expression) -> exp.Lambda:
    """Return a lambda of two parameters."""
    return exp.Lambda(this=body, expressions=[exp.to_identifier(first), exp.to_identifier(second)])


def field(expression: Expression, name: str) -> Expression:
    """Return a struct's field."""
    return exp.Dot(this=operand(expression), expression=exp.to_identifier(name))


def let(name: str, value: Expression, body: Expression) -> Expression:
    """Return `body` with the lambda variable `name` standing for `value`, which is evaluated once."""
    return call("element_at", call("transform", call("array", value), lambda_(name, body)), raw("1"))


def variable(name: str) -> exp.Var:
    """Return a lambda variable, or a field of one."""
    return raw(name)


def column(table: str, name: str) -> exp.Column:
    """Return a column under the alias of its table."""
    return exp.column(name, table=table)


def raise_error(sqlstate: str, message: str) -> Expression:
    """Return an expression that fails when evaluated; `storage.spark.raise_error` reads the text."""
    return call("raise_error", string(f"SLUICE:{sqlstate}:{message}"))


def raise_whole(error: SluiceError) -> Expression:
    """Do as `raise_error`, with all fields of the error."""
    return call("raise_error", string(raise_error_text(error)))


def raise_error_about(sqlstate: str, prefix: str, about: Expression, suffix: str) -> Expression:
    """Do as `raise_error`, with a value's text in the message."""
    text = call("concat", string(f"SLUICE:{sqlstate}:{prefix}"), cast(about, "STRING"), string(suffix))
    return call("raise_error", text)


def over(function: Expression, window: exp.Window | None) -> Expression:
    """Return the aggregate or window function with a window's specification."""
    if window is None:
        return function
    result = window.copy()
    result.set("this", function)
    return result


def is_simple(expression: Expression) -> bool:
    """Whether writing the expression twice costs nothing."""
    if isinstance(expression, exp.Paren):
        return is_simple(expression.this)
    if isinstance(expression, (exp.Cast, exp.Dot)):
        return is_simple(expression.this)
    return isinstance(expression, (exp.Column, exp.Literal, exp.Var, exp.Null, exp.Boolean))


_CHEAP: Final = (exp.Column, exp.Identifier, exp.Literal, exp.Var, exp.Null, exp.Paren, exp.Cast, exp.DataType,
                 exp.DataTypeParam, exp.Neg)  # fmt: skip
_CHEAP_CALLS: Final = frozenset({"SUM", "COUNT", "NULLIF"})
_CHEAP_NODES_MAX: Final = 24


def is_cheap(expression: Expression) -> bool:
    """Whether it is short, and has only columns and aggregates of columns: Spark computes equal aggregates once."""
    nodes = list(islice(expression.walk(), _CHEAP_NODES_MAX + 1))
    return len(nodes) <= _CHEAP_NODES_MAX and all(
        isinstance(node, _CHEAP) or (isinstance(node, exp.Anonymous) and node.name.upper() in _CHEAP_CALLS)
        for node in nodes
    )
