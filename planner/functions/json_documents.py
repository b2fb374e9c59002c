"""jsonb: scalars inside a document as text, its type, its keys.

A jsonb is stored as PostgreSQL's text of it, in which no key occurs twice. Spark extracts strings, booleans and nulls
exactly, but not numbers with a fraction or an exponent, nor the spacing of objects and arrays. If the text found could
be one of those, the query fails with 0A000. json, which keeps duplicate keys, is not supported here.
"""

from __future__ import annotations

import re
from typing import Final

from catalog.datatypes import JSONB
from catalog.errors import unsupported
from planner.functions.call import Build, Call, Row, row
from planner.functions.casts import on
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    is_not_null,
    is_null,
    not_,
    raise_error,
    raw,
    string,
)
from planner.spark.values import Value

_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ :-]*")
# What remains of an object, an array, or a number that Spark may have written otherwise.
_DOUBTFUL: Final = r"^(?:[{\[]|-?[0-9]+[.eE]|-?[0-9]{19})"
# A value inside a document records its path here, for operators that look further inside.
_PLACE: Final = "json_place"
_FIRST: Final = "[0]"
_UNREADABLE: Final = raise_error("0A000", "a jsonb that Spark cannot read is not supported on lake tables")


def _step(given: Call) -> str:
    """Return a key or an index as a step of Spark's paths."""
    key = given.constant(1, "a key")
    if isinstance(key, str) and _KEY.fullmatch(key):
        return f"['{key}']"
    if isinstance(key, int) and key >= 0:
        return f"[{key}]"
    raise unsupported(f"{given.signature} with the key {key!r}")


def _steps(given: Call) -> str:
    keys = given.constant(1, "a path")
    if not isinstance(keys, tuple) or not keys:
        raise unsupported(f"{given.signature} with this path")
    # A number would be an index of an array, and a key of an object.
    if not all(isinstance(key, str) and _KEY.fullmatch(key) and not key.isdigit() for key in keys):
        raise unsupported(f"{given.signature} with this path")
    return "".join(f"['{key}']" for key in keys)


def _place(given: Call, several: bool) -> tuple[Expression, str]:
    """Return the document, and the path from it."""
    document, path = given.sql[0].meta.get(_PLACE) or (given.sql[0], "$")
    step = _steps(given) if several else _step(given)
    if step == _FIRST and path.endswith(_FIRST):
        raise unsupported(f"{given.signature} of an element of an element")
    return document, path + step


def _first_of_scalar(document: Expression, container: str, found: Expression) -> tuple[Expression, Expression]:
    """In PostgreSQL a scalar has itself as its first element: fail unless the document surely is an array with one."""
    refusal = raise_error("0A000", "the first element of what may be a jsonb scalar is not supported on lake tables")
    if container == "$":
        return not_(call("rlike", document, string(r"^[{\[]"))), refusal
    return and_(is_null(found), is_not_null(call("get_json_object", document, string(container)))), refusal


def _inside(several: bool = False) -> Build:
    """-> and #>: a result may be looked into; as a value of its own it fails, unless it is NULL."""

    def build(given: Call) -> Value:
        document, path = _place(given, several)
        found = call("get_json_object", document, string(path))
        refusal = raise_error("0A000", "a jsonb from inside of another is not supported on lake tables")
        # A JSON null inside is no NULL of SQL, and Spark does not distinguish it from a missing value.
        sql = case((is_not_null(document), refusal), default=found)  # of a type, lest Spark take it for a mere NULL
        sql.meta[_PLACE] = document, path
        return Value(sql, JSONB)

    return build


def _text(several: bool = False) -> Build:
    """->> and #>>."""

    def build(given: Call) -> Value:
        document, path = _place(given, several)
        refusal = raise_error("0A000", "the text of a jsonb object, array or fractional number inside another "
                              "is not supported on lake tables")  # fmt: skip
        found = call("get_json_object", document, string(path))
        branches = [] if not path.endswith(_FIRST) else [_first_of_scalar(document, path.removesuffix(_FIRST), found)]

        # If Spark cannot read a document (nested a thousand deep), it returns NULL as if nothing were there.
        readable = call("json_array_length", call("concat", string("["), document, string("]")))
        unread = and_(is_not_null(document), is_null(found), is_null(readable))
        # The null that is an array's element comes as a text, like the string "null".
        parsed = call("try_parse_json", document)
        element = case(
            (is_null(parsed), _UNREADABLE), default=call("variant_get", parsed, string(path), string("STRING"))
        )

        def build(text: Expression) -> Expression:
            return case(
                (unread, _UNREADABLE),
                *branches,
                (binary("=", text, string("null")), element),
                (call("rlike", text, string(_DOUBTFUL)), refusal),
                default=text,
            )

        return given.result(on(found, build))

    return build


def _first_is(document: Expression, character: str) -> Expression:
    return call("startswith", document, string(character))


def _kind(given: Call) -> Value:
    """Return the type, which the first character tells."""

    def build(text: Expression) -> Expression:
        return case(
            *((_first_is(text, mark), string(name)) for mark, name in (
                ("{", "object"), ("[", "array"), ('"', "string"), ("t", "boolean"), ("f", "boolean"), ("n", "null"))),
            (is_not_null(text), string("number")),
        )  # fmt: skip

    return given.result(on(given.sql[0], build))


def _length(given: Call) -> Value:
    def build(text: Expression) -> Expression:
        return case(
            (_first_is(text, "["), call("coalesce", call("json_array_length", text), cast(_UNREADABLE, "INT"))),
            (_first_is(text, "{"), raise_error("22023", "cannot get array length of a non-array")),
            (is_not_null(text), raise_error("22023", "cannot get array length of a scalar")),
        )

    return given.result(on(given.sql[0], build))


def _has_key(given: Call) -> Value:
    """`?`: whether it is a key of an object, or the string itself; in an array it would be an element."""
    key = given.constant(1, "a key")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise unsupported(f"{given.signature} with the key {key!r}")

    def build(text: Expression) -> Expression:
        refusal = raise_error("0A000", "whether a jsonb array has an element is not supported on lake tables")
        return case(
            (
                _first_is(text, "{"),
                call(
                    "coalesce",
                    call("array_contains", call("json_object_keys", text), string(key)),
                    cast(_UNREADABLE, "BOOLEAN"),
                ),
            ),
            (and_(_first_is(text, "["), binary("<>", text, string("[]"))), refusal),
            (is_null(text), raw("CAST(NULL AS BOOLEAN)")),
            default=binary("=", text, string(f'"{key}"')),
        )

    return given.result(on(given.sql[0], build))


_J: Final = "FROM documents"

ROWS: Final[tuple[Row, ...]] = (
    row("jsonb_object_field_text(jsonb,text)", _text(),
        f"SELECT id, j ->> 'a', j ->> 'b', j ->> 'c', j ->> 'd', j ->> 'n m', j ->> 'f' {_J}",
        f"SELECT id, j -> 'e' ->> 'f', j -> 'e' -> 'g' ->> 'h', j -> 'list' ->> 'a' {_J}",
        f"SELECT (j ->> 'b')::bigint + 1 {_J} WHERE j ->> 'a' = 'x'",
        f"SELECT id, j -> 'words' ->> 'a', j ->> 'd' IS NULL {_J}"),
    row("jsonb_array_element_text(jsonb,int4)", _text(),
        f"SELECT id, j ->> 2, j -> 'list' ->> 1, j -> 'list' ->> 0 {_J}",
        f"SELECT id, j -> 'list' ->> 2, j -> 'words' -> 'n m' ->> 1, j -> 'words' -> 'n m' ->> 2 {_J}",
        f"SELECT id, j ->> 0, j -> 0 ->> 'a', j -> 1 ->> 1 {_J} WHERE id IN (1, 2, 4, 9)"),
    row("jsonb_extract_path_text(jsonb,_text)", _text(True), f"SELECT id, j #>> '{{e,f}}', j #>> '{{e,g,h}}' {_J}"),
    row("jsonb_object_field(jsonb,text)", _inside(), f"SELECT id, j -> 'e' ->> 'f' {_J}"),
    row("jsonb_array_element(jsonb,int4)", _inside(), f"SELECT id, j -> 0 ->> 'a' {_J}"),
    row("jsonb_extract_path(jsonb,_text)", _inside(True), f"SELECT id, j #> '{{e,g}}' ->> 'h' {_J}"),
    row("jsonb_typeof(jsonb)", _kind, f"SELECT id, jsonb_typeof(j) {_J}"),
    row("jsonb_array_length(jsonb)", _length, f"SELECT id, jsonb_array_length(j) {_J} WHERE jsonb_typeof(j) = 'array'",
        f"SELECT jsonb_array_length(j) {_J} WHERE id = 1", f"SELECT jsonb_array_length(j) {_J} WHERE id = 6"),
    row("jsonb_exists(jsonb,text)", _has_key, f"SELECT id, j ? 'a', j ? 'zz', j ? 'n m' {_J} WHERE id NOT IN (4, 11)"),
)  # fmt: skip
