"""Random functions in FROM: common ones of PostgreSQL, over values of the items before them."""

from __future__ import annotations

from typing import Final

from tests.answers.expressions import Expression
from tests.answers.generate_expressions import Expressions
from tests.answers.queries import Called
from tests.answers.scope import Scope

_ARRAY: Final = "CASE WHEN jsonb_typeof({0}) = 'array' THEN {0} END"
_OBJECT: Final = "CASE WHEN jsonb_typeof({0}) = 'object' THEN {0} END"

# The call | the kinds of its arguments | names and kinds of its columns; n is the number of the row.
_CALLS: Final = """
generate_series(1, abs({0} % 4)) | int4 | e1 int4
generate_series({0} % 5, 6, 2) | int4 | e1 int4
generate_series({0}, {0} + interval '2 days', interval '1 day') | timestamp | e1 timestamp
unnest({0}) | int4[] | e1 int4
unnest({0}) | text[] | e1 text
unnest(ARRAY[{0}, {1}, NULL]) | int4 int4 | e1 int4
unnest(ARRAY[{0}, {1}]) | text text | e1 text
"""
_SELDOM: Final = f"""
unnest({{0}}, {{1}}) | int4[] text[] | e1 int4 e2 text
ROWS FROM (generate_series(1, abs({{0}} % 3)), unnest({{1}})) | int4 int4[] | e1 int4 e2 int4
ROWS FROM (unnest({{0}}), generate_series(2, 3)) | text[] | e1 text e2 int4
ROWS FROM (unnest({{0}}), unnest({{1}})) | int4[] text[] | e1 int4 e2 text
string_to_table({{0}}, ' ') | text | e1 text
regexp_split_to_table({{0}}, '[ b]') | text | e1 text
regexp_matches({{0}}, '[ab]', 'g') | text | e1 text[]
generate_subscripts({{0}}, 1) | int4[] | e1 int4
generate_series({{0}}::timestamptz, {{0}}::timestamptz + interval '1 day', '12 hours') | date | e1 timestamptz
jsonb_array_elements({_ARRAY}) | jsonb | e1 jsonb
jsonb_array_elements_text({_ARRAY}) | jsonb | e1 text
jsonb_each({_OBJECT}) | jsonb | e1 text e2 jsonb
jsonb_each_text({_OBJECT}) | jsonb | e1 text e2 text
jsonb_object_keys({_OBJECT}) | jsonb | e1 text
jsonb_path_query({{0}}, '$.b[*]') | jsonb | e1 jsonb
generate_series(1.5, {{0}} % 5, 0.5) | numeric | e1 numeric
numbers({{0}}) | int4 | e1 int4
split({{0}}) | int4 | e1 int4 e2 text
ROWS FROM (numbers({{0}}), split({{1}})) | int4 int4 | e1 int4 e2 int4 e3 text
"""
# These have columns of their own words, with `FOR ORDINALITY`.
_TABLES: Final = (
    ("json_table({0}, '$.b[*]' COLUMNS (e1 int4 PATH '$' NULL ON ERROR, n FOR ORDINALITY)) AS {alias}", "int4"),
    ("json_table({0}, '$' COLUMNS (e1 text PATH '$.a' DEFAULT 'none' ON EMPTY, n FOR ORDINALITY)) AS {alias}", "text"),
    ("json_table({0}, '$' COLUMNS (e1 bool EXISTS PATH '$.c.d', n FOR ORDINALITY)) AS {alias}", "bool"),
    (
        "json_table({0}, '$' COLUMNS (n FOR ORDINALITY, NESTED PATH '$.b[*]' COLUMNS (e1 int4 PATH '$'))) AS {alias}",
        "int4",
    ),
)
_OWN: Final = "{call} WITH ORDINALITY AS {{alias}} ({names})"

Call = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]


def _read(lines: str) -> tuple[Call, ...]:
    found = []
    for line in filter(None, lines.split("\n")):
        call, arguments, columns = line.split(" | ")
        words = columns.split()
        named = (*zip(words[::2], words[1::2], strict=True), ("n", "int8"))
        names = ", ".join(name for name, _ in named)
        found.append((_OWN.format(call=call, names=names), tuple(arguments.split()), named))
    return tuple(found)


CALLS: Final = _read(_CALLS)
SELDOM: Final = (
    *_read(_SELDOM),
    *((template, ("jsonb",), (("e1", kind), ("n", "int4"))) for template, kind in _TABLES if "NESTED" not in template),
)


class Calls(Expressions):
    """Functions in FROM."""

    def alias(self) -> str:
        raise NotImplementedError

    def called(self, before: Scope | None) -> Called:
        """`before`: what its arguments may name."""
        calls = SELDOM if self.spicy and self.likely(0.6) else CALLS
        template, kinds, columns = self.chance.choice(calls)
        return Called(template, tuple(self._argument(before, kind) for kind in kinds), self.alias(), columns)

    def _argument(self, before: Scope | None, kind: str) -> Expression:
        if before is None:
            return self.literal(kind)
        value = scope_value(self, before, kind)
        return self.literal(kind) if value is None else value


def scope_value(expressions: Expressions, before: Scope, kind: str) -> Expression | None:
    """A column before it, or around, of the kind."""
    around = [each for each in before.below() if each.kind == kind]
    return expressions.chance.choice(around) if around else None
