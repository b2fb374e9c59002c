"""Operators and functions, by the kind of their result: templates with the kinds of their arguments.

None of them fails for a value of the tables: PostgreSQL does not promise which of two errors comes first, or whether
one comes at all.
"""

from __future__ import annotations

from typing import Final

from tests.answers import templates_more as more
from tests.answers import templates_seldom as seldom

_TEXT: Final = """
int4 | ({0} + {1}) | int4 int4
int4 | ({0} - {1}) | int4 int4
int4 | ({0} * 3) | int4
int4 | ({0} % 3) | int4
int4 | ({0} / nullif({1}, 0)) | int4 int4
int4 | (- {0}) | int4
int4 | abs({0}) | int4
int4 | {0}::int4 | int2
int4 | ({0} % 100)::int4 | int8
int4 | {0}::int4 | numeric
int4 | {0}::int4 | bool
int4 | length({0}) | text
int4 | length({0}) | char
int4 | octet_length({0}) | bytea
int4 | strpos({0}, {1}) | text text
int4 | ascii({0}) | text
int4 | ({0} - {1}) | date date
int4 | extract(year from {0})::int4 | date
int4 | extract(dow from {0})::int4 | timestamp
int4 | cardinality({0}) | int4[]
int4 | array_length({0}, 1) | text[]
int4 | ({0})[1] | int4[]
int4 | array_position({0}, {1}) | int4[] int4
int4 | jsonb_array_length(CASE WHEN jsonb_typeof({0}) = 'array' THEN {0} END) | jsonb
int2 | {0}::int4::int2 | bool
int2 | ({0} % 100)::int2 | int4
int2 | ({0} / 2::int2) | int2
int8 | ({0} + {1}) | int8 int4
int8 | ({0} - {1}) | int8 int8
int8 | ({0} / nullif({1}, 0)) | int8 int2
int8 | ({0} % 7) | int8
int8 | {0}::int8 | int4
int8 | {0}::int8 | numeric
numeric | ({0} + {1}) | numeric numeric
numeric | ({0} - {1}) | numeric int4
numeric | ({0} * 1.5) | numeric
numeric | ({0} / 4) | numeric
numeric | ({0} / nullif({1}, 0)) | numeric int4
numeric | ({0} % 2.5) | numeric
numeric | round({0}, 1) | numeric
numeric | round({0}) | numeric
numeric | trunc({0}, 1) | numeric
numeric | ceil({0}) | numeric
numeric | floor({0}) | numeric
numeric | abs({0}) | numeric
numeric | {0}::numeric | int4
numeric | {0}::numeric(10,1) | numeric
numeric | {0}::numeric(6,3) | int2
numeric | extract(epoch from {0}) | interval
numeric | extract(day from {0}) | date
float4 | {0}::float4 | int2
float4 | ({0} + {1}) | float4 float4
float8 | ({0} + {1}) | float8 float8
float8 | ({0} - {1}) | float8 int4
float8 | {0}::float8 | int4
float8 | {0}::float8 | float4
float8 | {0}::float8 | numeric
float8 | floor({0}) | float8
float8 | sqrt(abs({0})) | float8
text | ({0} || {1}) | text text
text | ({0} || {1}) | text int4
text | upper({0}) | text
text | lower({0}) | text
text | substr({0}, 2) | text
text | substring({0} from 1 for 2) | text
text | left({0}, 1) | text
text | right({0}, -1) | text
text | reverse({0}) | text
text | replace({0}, 'a', 'xy') | text
text | translate({0}, 'ab', 'b') | text
text | lpad({0}, 4, '*') | text
text | rpad({0}, 3) | text
text | trim({0}) | text
text | repeat({0}, 2) | text
text | split_part({0}, ' ', 1) | text
text | concat({0}, {1}, '-') | text int4
text | concat_ws(',', {0}, {1}) | text text
text | regexp_replace({0}, '[ab]', '_', 'g') | text
text | {0}::text | int4
text | {0}::text | int8
text | {0}::text | bool
text | {0}::text | date
text | {0}::text | timestamp
text | {0}::text | uuid
text | {0}::text | char
text | {0}::text | mood
text | {0}::varchar(3) | text
text | to_char({0}, 'YYYY-MM-DD HH24:MI') | timestamp
text | md5({0}) | text
text | encode({0}, 'hex') | bytea
text | ({0} ->> 'a') | jsonb
text | jsonb_typeof({0}) | jsonb
text | ({0})[2] | text[]
text | array_to_string({0}, '/', '?') | text[]
char | {0}::char(4) | text
bool | (NOT {0}) | bool
bool | ({0} LIKE 'a%') | text
bool | ({0} NOT LIKE '%b') | text
bool | ({0} ILIKE 'A_') | text
bool | ({0} ~ '^[ab]+$') | text
bool | ({0} IS TRUE) | bool
bool | ({0} IS NOT FALSE) | bool
bool | ({0} IS UNKNOWN) | bool
bool | ({0} <> ALL ({1})) | int4 int4[]
bool | ({0} @> {1}) | int4[] int4[]
bool | ({0} && {1}) | int4[] int4[]
bool | ({0} = {1}) | int4[] int4[]
bool | ({0} ? 'a') | jsonb
bool | ({0} IN ('a', 'b', NULL)) | text
bool | ({0} NOT IN (1, 2)) | int4
bool | ({0} NOT IN (1, NULL)) | int4
bool | ({0}::bool) | int4
bool | (({0}, {1}) = ({2}, {3})) | int4 text int4 text
bool | (({0}, {1}) < ({2}, {3})) | int4 date int4 date
bool | (({0}, {1}) IS DISTINCT FROM ({2}, {3})) | int4 text int8 text
bool | starts_with({0}, 'a') | text
date | ({0} - 30) | date
date | {0}::date | timestamp
date | {0}::date | timestamptz
date | date_trunc('month', {0}::timestamp)::date | date
date | make_date(2024, 1 + abs({0} % 12), 28) | int4
time | {0}::time | timestamp
timestamp | {0}::timestamp | date
timestamp | date_trunc('hour', {0}) | timestamp
timestamp | date_trunc('quarter', {0}) | timestamp
timestamp | {0}::timestamp | timestamptz
timestamptz | {0}::timestamptz | timestamp
timestamptz | date_trunc('day', {0}) | timestamptz
interval | ({0} - {1}) | timestamp timestamp
interval | ({0} + {1}) | interval interval
interval | (- {0}) | interval
jsonb | ({0} -> 'a') | jsonb
jsonb | ({0} -> 0) | jsonb
jsonb | ({0} #> '{{c,d}}') | jsonb
int4[] | ARRAY[{0}, {1}] | int4 int4
int4[] | array_append({0}, {1}) | int4[] int4
text[] | ARRAY[{0}, {1}] | text text
text[] | string_to_array({0}, ' ') | text
mood | CASE WHEN {0} > 1 THEN 'happy'::mood ELSE 'sad'::mood END | int4
date | ({0} + 1) | date
timestamp | ({0} + interval '1 day') | timestamp
timestamp | ({0} - interval '1 mon') | date
timestamptz | ({0} + interval '2 hours') | timestamptz
bool | ({0} = ANY ('{{1,2,NULL}}'::int4[])) | int4
interval | (- {0}) | interval
int8 | abs({0}) | int8
"""

# Those that the planner leaves to PostgreSQL.
_SELDOM: Final = """
int4 | width_bucket({0}, 0, 10, 3) | numeric
int8 | sign({0})::int8 | int8
text | initcap({0}) | text
text | format('%s:%s', {0}, {1}) | text int4
bool | ({0} = ANY ({1})) | int4 int4[]
bool | ({0} @> {1}) | jsonb jsonb
bool | ({0} = {1}) | jsonb jsonb
bool | (({0}, {1}) OVERLAPS ({0}, interval '2 days')) | date interval
date | ({0} + {1} % 100) | date int4
timestamp | ({0} + {1}) | timestamp interval
timestamp | ({0} - {1}) | date interval
timestamp | ({0} AT TIME ZONE 'America/New_York') | timestamptz
timestamptz | ({0} AT TIME ZONE 'Europe/Zurich') | timestamp
timestamptz | ({0} + {1}) | timestamptz interval
timestamptz | {0}::timestamptz | date
jsonb | to_jsonb({0}) | int4
int4[] | ({0} || {1}) | int4[] int4[]
"""

# Of any kind, with X for it.
_ANY_KIND: Final = """
X | coalesce({0}, {1}) | X X
X | nullif({0}, {1}) | X X
"""
_COMPARED: Final = """
X | greatest({0}, {1}) | X X
X | least({0}, {1}) | X X
"""

# Those that take any two of a kind.
COMPARISONS: Final = (
    "({0} = {1})", "({0} = {1})", "({0} <> {1})", "({0} < {1})", "({0} >= {1})", "({0} > {1})", "({0} <= {1})",
    "({0} IS DISTINCT FROM {1})", "({0} IS NOT DISTINCT FROM {1})",
)  # fmt: skip
NULL_TESTS: Final = ("({0} IS NULL)", "({0} IS NOT NULL)")
BETWEEN: Final = ("({0} BETWEEN {1} AND {2})", "({0} NOT BETWEEN {1} AND {2})", "({0} BETWEEN SYMMETRIC {1} AND {2})")

_AGGREGATES: Final = """
int8 | count(*) |
int8 | count({distinct}{0}) | int4
int8 | count({distinct}{0}) | text
int8 | count({distinct}{0}) | numeric
int8 | sum({distinct}{0}) | int4
int8 | sum({distinct}{0}) | int2
numeric | sum({distinct}{0}) | int8
numeric | sum({distinct}{0}) | numeric
numeric | avg({distinct}{0}) | int4
numeric | avg({0}) | numeric
float8 | sum({0}) | float8
float8 | avg({0}) | float8
float8 | percentile_cont(0.5) WITHIN GROUP (ORDER BY {0}) | float8
bool | bool_and({0}) | bool
bool | bool_or({0}) | bool
bool | every({0}) | bool
interval | sum({0}) | interval
text | string_agg({0}, ',' {order}) | text
int4[] | array_agg({0} {order}) | int4
int4[] | array_agg({distinct}{0} {order}) | int4
text[] | array_agg({0} {order}) | text
int4 | any_value({distinct}{0} {order}) | int4
text | any_value({0} {order}) | text
int4 | bit_or({0}) | int4
"""
_SELDOM_AGGREGATES: Final = """
numeric | stddev({0}) | int4
numeric | var_pop({0}) | int2
float4 | sum({0}) | float4
jsonb | jsonb_agg({0} {order}) | int4
"""
_ANY_AGGREGATES: Final = """
X | min({0}) | X
X | max({0}) | X
"""
_ORDERED_SETS: Final = """
X | percentile_disc(0.5) WITHIN GROUP (ORDER BY {0}) | X
X | mode() WITHIN GROUP (ORDER BY {0}) | X
"""
_EXTREMES: Final = (
    "int4", "int2", "int8", "numeric", "float4", "float8", "text", "char", "date", "time", "timestamp", "timestamptz",
    "interval", "mood",
)  # fmt: skip
_GREATEST: Final = ("int4", "int2", "int8", "numeric", "float8", "text", "date", "timestamp", "timestamptz")
_SORTED: Final = ("int4", "int2", "int8", "date", "timestamp")
_KINDS: Final = (*_EXTREMES, "bool", "uuid", "bytea", "jsonb", "int4[]", "text[]", "int4range", "pair")

# Window functions beside aggregates; with the keys or (plain) without.
_WINDOWS: Final = """
int4[] | array_agg({0}) | int4 | frame
text | string_agg({0}, '+') | text | frame
X | lead({0}, 0, {1}) | X X | keys
X | lag({0}, -1) | X | keys
X | lead({0}, {1} % 3, {0}) | X int4 | keys
int4 | ntile(1 + abs({0} % 1)) | int4 | keys
X | nth_value({0}, 1) | X | frame
X | max({0}) | X | frame
X | min({0}) | X | frame
int8 | count({0}) | text | frame
int8 | row_number() | | keys
int8 | rank() | | plain
int8 | dense_rank() | | plain
float8 | percent_rank() | | plain
float8 | cume_dist() | | plain
int4 | ntile(3) | | keys
X | lag({0}) | X | keys
X | lag({0}, 2, {1}) | X X | keys
X | lead({0}) | X | keys
X | first_value({0}) | X | frame
X | last_value({0}) | X | frame
X | nth_value({0}, 2) | X | frame
"""

Template = tuple[str, tuple[str, ...]]


def _read(lines: str, any_: str = "", kinds: tuple[str, ...] = ()) -> dict[str, list[Template]]:
    found: dict[str, list[Template]] = {}
    for line in filter(None, lines.split("\n")):
        given, template, arguments = line.split(" | ") if not line.endswith("|") else (*line[:-2].split(" | "), "")
        found.setdefault(given, []).append((template, tuple(arguments.split())))
    for line in filter(None, any_.split("\n")):
        _, template, arguments = line.split(" | ")
        for kind in kinds:
            found.setdefault(kind, []).append((template, tuple(arguments.replace("X", kind).split())))
    return found


def _joined(*found: dict[str, list[Template]]) -> dict[str, list[Template]]:
    return {kind: [each for one in found for each in one.get(kind, ())] for one in found for kind in one}


def _windows() -> dict[str, list[tuple[str, tuple[str, ...], str]]]:
    found: dict[str, list[tuple[str, tuple[str, ...], str]]] = {}
    for line in filter(None, _WINDOWS.split("\n")):
        given, template, arguments, need = (part.strip() for part in line.split("|"))
        for kind in _EXTREMES if given == "X" else (given,):
            found.setdefault(kind, []).append((template, tuple(arguments.replace("X", kind).split()), need))
    return found


# Those of old stand twice, so that what is common stays common.
FUNCTIONS: Final = _read(
    _TEXT + _TEXT + more.NUMBERS + more.TEXTS + more.CONDITIONS + more.TIMES + more.ARRAYS + more.DOCUMENTS
)
GENERAL: Final = _joined(_read("", _ANY_KIND, _KINDS), _read("", _COMPARED, _GREATEST))
AGGREGATES: Final = _joined(
    _read(_AGGREGATES + more.AGGREGATES, _ANY_AGGREGATES, _EXTREMES), _read("", _ORDERED_SETS, _SORTED)
)
# By kind, what most statements do without, so that Spark answers them.
SELDOM: Final = _joined(
    _read(
        _SELDOM + seldom.NUMBERS + seldom.TEXTS + seldom.CONDITIONS + seldom.TIMES + seldom.ARRAYS + seldom.DOCUMENTS
    ),
    _read("", _COMPARED, _KINDS),
)
SELDOM_AGGREGATES: Final = _joined(_read(_SELDOM_AGGREGATES + seldom.AGGREGATES), _read("", _ORDERED_SETS, _EXTREMES))
WINDOWS: Final = _windows()
