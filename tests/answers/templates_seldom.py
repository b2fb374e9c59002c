"""Operators and functions that the planner leaves to PostgreSQL, in the form of `templates`."""

from __future__ import annotations

from typing import Final

# --- numbers ---
NUMBERS: Final = """
int4 | (({0} % 100) << 2) | int4
int4 | ({0} >> 1) | int4
int4 | (~ {0}) | int4
int4 | gcd({0}, 12) | int4
int4 | lcm({0} % 10, 6) | int4
int4 | width_bucket({0}, ARRAY[0, 2, 5]) | int4
int4 | doubled({0}) | int4
int4 | clamped({0}) | int4
int4 | (split({0})).whole | int4
int4 | lower({0}) | int4range
int4 | ({0}).a | pair
int4 | num_nulls({0}, {1}) | int4 text
int4 | num_nonnulls({0}, {1}, 1) | date int4
int4 | scale({0}) | numeric
int4 | min_scale({0}) | numeric
int8 | ({0}::int8 << 3) | int2
int8 | factorial(abs({0} % 5))::int8 | int4
numeric | round({0}, -1) | numeric
numeric | trunc({0}, -1) | numeric
numeric | trim_scale({0}) | numeric
numeric | ({0} ^ 2) | numeric
numeric | sqrt(abs({0})) | numeric
numeric | extract(minute from {0}) | time
numeric | extract(microseconds from {0}) | time
numeric | extract(timezone_hour from {0}) | timestamptz
float8 | sign({0}) | float8
float8 | cbrt({0}) | float8
float8 | ({0} ^ 2) | float8
float8 | power(abs({0}), 0.5::float8) | float8
float8 | ln(abs({0}) + 1) | float8
float8 | exp({0} / 1048577.0::float8) | float8
float8 | log(abs({0}) + 1) | float8
float8 | sin({0}) | float8
float8 | atan2({0}, 1::float8) | float8
float8 | degrees({0}) | float8
float8 | date_part('epoch', {0}) | interval
"""

# --- text ---
TEXTS: Final = """
int4 | regexp_instr({0}, 'b') | text
int4 | octet_length({0}) | char
text | overlay({0} placing 'Z' from 2 for 1) | text
text | chr(65 + abs({0} % 26)) | int4
text | to_hex({0}) | int4
text | tagged({0}) | text
text | ({0}).b | pair
text | {0}::text | int4range
text | {0}::text | pair
pair | row({0}, {1})::pair | int4 text
text | quote_literal({0}) | text
text | quote_ident({0}) | text
text | quote_nullable({0}) | text
text | initcap({0}) | text
text | {0}::text | float8
text | {0}::text | float4
text | {0}::text | interval
text | {0}::text | bytea
text | {0}::text | jsonb
text | {0}::text | int4[]
text | {0}::text | text[]
text | encode({0}, 'base64') | bytea
text | encode({0}, 'escape') | bytea
text | encode(convert_to({0}, 'UTF8'), 'hex') | text
text | encode(sha256({0}), 'hex') | bytea
text | format('%s %I %L', {0}, coalesce({0}, 'i'), {1}) | text int4
text | normalize({0}) | text
text | string_to_array({0}, NULL)::text | text
text | array_dims({0}) | int4[]
text | pg_typeof({0})::text | numeric
bytea | ({0} || {1}) | bytea bytea
bytea | substring({0} from 1 for 1) | bytea
bytea | convert_to({0}, 'UTF8') | text
bytea | sha256({0}) | bytea
bytea | decode(encode({0}, 'hex'), 'hex') | bytea
bool | ({0} LIKE {1}) | text text
bool | ({0} LIKE 'x#_y%' ESCAPE '#') | text
"""

# --- conditions ---
CONDITIONS: Final = """
bool | (({0}, {1}) OVERLAPS ({2}, {3})) | date date date date
bool | ({0} = ANY (enum_range('ok'::mood, NULL))) | mood
mood | ({0}::text)::mood | mood
bool | ({0} @> {1}::int4) | int4range int4
bool | ({0} && {1}) | int4range int4range
bool | ({0} -|- {1}) | int4range int4range
bool | isempty({0}) | int4range
bool | ({0} = {1}) | int4range int4range
bool | ({0} < {1}) | int4range int4range
bool | ({0} = {1}) | pair pair
bool | ({0} IS DISTINCT FROM {1}) | pair pair
bool | ({0} IS NULL) | pair
bool | ({0} IS NOT NULL) | pair
int4range | ({0} * {1}) | int4range int4range
int4range | int4range({0} % 5, 5 + abs({1} % 5), '[]') | int4 int4
int4range | range_merge({0}, {1}) | int4range int4range
"""

# --- dates and time zones ---
TIMES: Final = """
time | {0}::time | timestamptz
time | ({0} + interval '3 hours') | time
time | ({0} - interval '90 minutes') | time
time | make_time(abs({0} % 24), 5, 0) | int4
time | {0}::time | interval
timestamp | date_trunc('decade', {0}) | timestamp
timestamp | date_bin('15 minutes', {0}, timestamp '2001-01-01') | timestamp
timestamp | ({0} + {1}) | date time
timestamp | make_timestamp(2024, 1 + abs({0} % 12), 31 - abs({0} % 5) - 5, 1, 2, 3.5) | int4
timestamp | ({0} AT TIME ZONE interval '2 hours') | timestamptz
timestamp | {0}::timestamp(0) | timestamp
timestamp | ({0}::text)::timestamp | timestamp
timestamptz | ({0} AT TIME ZONE 'America/New_York') | timestamp
timestamptz | date_trunc('day', {0}, 'Asia/Kolkata') | timestamptz
timestamptz | to_timestamp({0}) | float8
timestamptz | make_timestamptz(2024, 1 + abs({0} % 12), 5, 1, 2, 3, 'UTC') | int4
timestamptz | ({0}::text)::timestamptz | timestamptz
interval | age({0}, {1}) | timestamp timestamp
interval | age({0}, {1}) | date date
interval | ({0} * 2) | interval
interval | ({0} / 2) | interval
interval | ({0} - {1}) | time time
interval | make_interval(days => {0}) | int4
interval | make_interval(hours => {0} % 50, mins => 5) | int4
interval | justify_days({0}) | interval
interval | justify_hours({0}) | interval
interval | ({0}::text)::interval | interval
interval | (interval '1 day' * {0}) | int4
interval | {0}::interval | time
interval | date_trunc('day', {0}) | interval
"""

# --- arrays ---
ARRAYS: Final = """
int4 | array_ndims({0}) | int4[]
int4 | array_lower({0}, 1) | int4[]
int4 | array_upper({0}, 1) | int4[]
int4 | array_position({0}, {1}, 2) | int4[] int4
int4[] | array_prepend({0}, {1}) | int4 int4[]
int4[] | array_cat({0}, {1}) | int4[] int4[]
int4[] | ({0} || {1}) | int4 int4[]
int4[] | array_remove({0}, {1}) | int4[] int4
int4[] | array_replace({0}, {1}, 9) | int4[] int4
int4[] | ({0})[1:2] | int4[]
int4[] | ({0})[2:] | int4[]
int4[] | trim_array({0}, 0) | int4[]
int4[] | array_fill({0}, ARRAY[2]) | int4
int4[] | array_positions({0}, {1}) | int4[] int4
int4[] | array_sort({0}) | int4[]
int4[] | array_reverse({0}) | int4[]
text[] | array_cat({0}, {1}) | text[] text[]
text[] | array_remove({0}, {1}) | text[] text
text[] | array_reverse({0}) | text[]
text[] | string_to_array({0}, ' ', 'a') | text
text[] | string_to_array({0}, NULL) | text
bool | ({0} < {1}) | int4[] int4[]
bool | ({0} >= {1}) | text[] text[]
bool | ({0} IS DISTINCT FROM {1}) | int4[] int4[]
"""

# --- jsonb ---
DOCUMENTS: Final = """
int4 | jsonb_array_length(CASE WHEN jsonb_typeof({0}) = 'array' THEN {0} ELSE '[]' END) | jsonb
int4 | CASE WHEN jsonb_typeof({0} -> 'a') = 'number' THEN ({0} -> 'a')::int4 END | jsonb
numeric | CASE WHEN jsonb_typeof({0}) = 'number' THEN {0}::numeric END | jsonb
text | ({0} ->> 0) | jsonb
text | ({0} ->> -1) | jsonb
text | ({0} #>> '{{b,0}}') | jsonb
text | ({0} #>> '{{}}') | jsonb
text | jsonb_pretty({0}) | jsonb
text | jsonb_typeof({0} -> 'a') | jsonb
text | json_value({0}, '$.a') | jsonb
text | json_value({0}, '$.b[1]' DEFAULT 'none' ON EMPTY) | jsonb
text | json_value({0}, 'strict $.x' NULL ON ERROR) | jsonb
text | json_serialize({0}) | jsonb
int4 | json_value({0}, '$.c.d' RETURNING int4) | jsonb
bool | json_exists({0}, '$.a') | jsonb
bool | json_exists({0}, '$.b[*] ? (@ > 1)') | jsonb
bool | ({0} ?| ARRAY['a', 'b']) | jsonb
bool | ({0} ?& ARRAY['a', 'b']) | jsonb
bool | ({0} <@ {1}) | jsonb jsonb
bool | ({0} @> '{{"a": 1}}') | jsonb
bool | ({0} @? '$.b[*] ? (@ >= 2)') | jsonb
bool | ({0} @@ '$.a == 1') | jsonb
bool | jsonb_path_exists({0}, '$.c.d') | jsonb
bool | ({0} < {1}) | jsonb jsonb
bool | ({0} <> {1}) | jsonb jsonb
bool | ({0} = '{{}}') | jsonb
bool | ({0} IS JSON) | text
bool | ({0} IS JSON SCALAR) | text
bool | ({0}::text IS JSON OBJECT) | jsonb
jsonb | json_query({0}, '$.b') | jsonb
jsonb | json_query({0}, '$.b[*]' WITH WRAPPER) | jsonb
jsonb | jsonb_path_query_first({0}, '$.b[*] ? (@ > 1)') | jsonb
jsonb | jsonb_path_query_array({0}, '$.*') | jsonb
jsonb | ({0} -> 'c' -> 'd') | jsonb
jsonb | ({0} -> -1) | jsonb
jsonb | ({0} || {1}) | jsonb jsonb
jsonb | CASE WHEN jsonb_typeof({0}) = 'object' THEN {0} - 'a' END | jsonb
jsonb | CASE WHEN jsonb_typeof({0}) = 'object' THEN {0} - ARRAY['a', 'c'] END | jsonb
jsonb | CASE WHEN jsonb_typeof({0}) = 'object' THEN {0} #- '{{c,d}}' END | jsonb
jsonb | CASE WHEN jsonb_typeof({0}) = 'object' THEN jsonb_set({0}, '{{a}}', '[1]') END | jsonb
jsonb | CASE WHEN jsonb_typeof({0}) = 'object' THEN jsonb_insert({0}, '{{z}}', '0') END | jsonb
jsonb | jsonb_strip_nulls({0}) | jsonb
jsonb | jsonb_build_object('k', {0}, 't', {1}) | int4 text
jsonb | jsonb_build_array({0}, {1}, NULL) | numeric text
jsonb | json_object('a': {0}, 'b': {1} ABSENT ON NULL RETURNING jsonb) | int4 date
jsonb | json_array({0}, {1} NULL ON NULL RETURNING jsonb) | int4 text
jsonb | to_jsonb({0}) | text
jsonb | to_jsonb({0}) | timestamp
jsonb | to_jsonb({0}) | numeric
jsonb | to_jsonb({0}) | int4[]
jsonb | to_jsonb({0}) | bool
jsonb | row_to_json(row({0}, {1}))::jsonb | int4 text
jsonb | ({0}::text)::jsonb | jsonb
"""

# --- aggregates ---
AGGREGATES: Final = """
text | longest({0}) | text
text | range_agg({0})::text | int4range
int8 | count({distinct}{0}) | pair
int8 | regr_count({0}, {1}) | float8 float8
int8 | rank(3) WITHIN GROUP (ORDER BY {0}) | int4
int8 | dense_rank(3) WITHIN GROUP (ORDER BY {0}) | int4
numeric | stddev_pop({0}) | int8
float8 | stddev({0}) | float8
float8 | var_pop({0}) | float8
float8 | corr({0}, {1}) | float8 float8
float8 | covar_pop({0}, {1}) | float8 float8
float8 | regr_slope({0}, {1}) | float8 float8
float8 | percent_rank(2) WITHIN GROUP (ORDER BY {0}) | int4
float8 | cume_dist(2) WITHIN GROUP (ORDER BY {0}) | int4
interval | avg({0}) | interval
interval | percentile_cont(0.5) WITHIN GROUP (ORDER BY {0}) | interval
interval | sum({0}) | time
bytea | string_agg({0}, '\\x00'::bytea {order}) | bytea
text | json_agg({0} {order})::text | int4
text | array_agg({0} {order})::text | mood
text | array_agg({0} {order})::text | date
text | array_agg({0} {order})::text | numeric
text | array_agg({0} {order})::text | bool
text | percentile_disc(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY {0})::text | int4
text | percentile_cont(ARRAY[0, 0.5, 1]) WITHIN GROUP (ORDER BY {0})::text | float8
text | max({0})::text | int4[]
jsonb | jsonb_agg({0} {order}) | text
jsonb | jsonb_agg({0} {order}) | jsonb
jsonb | jsonb_object_agg(coalesce({0}, -1), 1) | int4
jsonb | json_arrayagg({0} {order} NULL ON NULL RETURNING jsonb) | int4
"""
