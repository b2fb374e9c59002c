"""More operators and functions that Spark computes, in the form of `templates`."""

from __future__ import annotations

from typing import Final

# --- numbers ---
NUMBERS: Final = """
int4 | ({0} & 6) | int4
int4 | ({0}|8) | int4
int4 | ({0} # {1}) | int4 int4
int4 | mod({0}, 5) | int4
int4 | sign({0})::int4 | numeric
int4 | ({0} / 2) | int4
int4 | ({0} % (-3)) | int4
int4 | div({0}, 3)::int4 | numeric
int4 | ({0}::text)::int4 | int4
int4 | (round({0}) % 100)::int4 | numeric
int2 | ({0} % 7::int2) | int2
int2 | abs({0} % 100::int2) | int2
int2 | (({0} & 3::int2)) | int2
int8 | ({0} * 2) | int4
int8 | ({0} & 255) | int8
int8 | mod({0}, 3) | int8
int8 | (- {0}) | int8
int8 | {0}::int8 | float8
int8 | {0}::int8 | float4
int8 | (({0} % 1000) * ({1} % 1000)) | int8 int8
numeric | mod({0}, 1.5) | numeric
numeric | div({0}, 3) | numeric
numeric | trunc({0}) | numeric
numeric | sign({0}) | numeric
numeric | (- {0}) | numeric
numeric | ({0} * {1}) | numeric int4
numeric | ({0} * {1}) | numeric numeric
numeric | ({0} / 3) | numeric
numeric | ({0} / nullif({1}, 0)) | int8 numeric
numeric | {0}::numeric | int8
numeric | {0}::numeric | float8
numeric | ({0}::text)::numeric | numeric
numeric | ({0} + 0.5)::numeric(12,0) | numeric
numeric | extract(hour from {0}) | timestamp
numeric | extract(second from {0}) | timestamp
numeric | extract(epoch from {0}) | timestamp
numeric | extract(epoch from {0}) | timestamptz
numeric | extract(epoch from {0}) | date
numeric | extract(month from {0}) | interval
numeric | extract(century from {0}) | date
numeric | extract(decade from {0}) | date
numeric | extract(week from {0}) | timestamp
numeric | extract(isoyear from {0}) | date
float4 | (- {0}) | float4
float4 | ({0} * {1}) | float4 float4
float4 | abs({0}) | float4
float4 | {0}::float4 | float8
float4 | {0}::float4 | numeric
float8 | ({0} * {1}) | float8 float8
float8 | ({0} / nullif({1}, 0)) | float8 float8
float8 | abs({0}) | float8
float8 | ceil({0}) | float8
float8 | round({0}) | float8
float8 | trunc({0}) | float8
float8 | (- {0}) | float8
float8 | date_part('day', {0}) | timestamp
float8 | date_part('dow', {0}) | date
"""

# --- text ---
TEXTS: Final = """
int4 | position({0} in {1}) | text text
int4 | char_length({0}) | text
int4 | octet_length({0}) | text
int4 | bit_length({0}) | text
int4 | regexp_count({0}, '[ab]') | text
int4 | length(trim({0})) | text
int4 | length({0}) | bytea
text | btrim({0}, 'ab') | text
text | ltrim({0}, 'a') | text
text | rtrim({0}, 'b ') | text
text | trim(both 'x' from {0}) | text
text | substring({0} from 2) | text
text | substring({0} from 0 for 3) | text
text | substring({0} from -1 for 3) | text
text | substring({0} from '[a-c]+') | text
text | substring({0} from '(a)(b)?') | text
text | left({0}, -1) | text
text | left({0}, {1} % 5) | text int4
text | right({0}, 2) | text
text | lpad({0}, 2) | text
text | lpad({0}, 5, 'xy') | text
text | rpad({0}, 6, 'ab') | text
text | repeat({0}, 0) | text
text | repeat({0}, {1} % 4) | text int4
text | replace({0}, '', 'x') | text
text | replace({0}, {1}, '-') | text text
text | translate({0}, 'abc', 'xy') | text
text | split_part({0}, ' ', -1) | text
text | split_part({0}, 'b', 2) | text
text | concat({0}, NULL, {1}) | text bool
text | concat_ws('-', {0}, NULL, {1}) | text int4
text | regexp_replace({0}, 'a', 'X') | text
text | regexp_replace({0}, '(a)(b)', '\\2\\1') | text
text | regexp_replace({0}, 'B', 'x', 'i') | text
text | regexp_substr({0}, '[a-b]+') | text
text | (regexp_match({0}, '(a)(b)?'))[1] | text
text | array_to_string(regexp_split_to_array({0}, ' '), '+') | text
text | to_char({0}, 'FM9990.00') | numeric
text | to_char({0}, '99999') | int4
text | ({0} || {1}) | text char
text | ({0} || {1}) | text bool
text | ({0} || {1}) | text date
text | ({0} || {1}) | int4 text
text | {0}::text | int2
text | {0}::text | numeric
text | {0}::text | timestamptz
text | {0}::text | time
text | ({0}::char(2))::text | text
text | {0}::varchar(1) | text
text | md5({0}) | bytea
text | upper({0}) | char
text | ({0} COLLATE "C") | text
text | to_char({0}, 'Day, DD Mon YYYY') | date
text | to_char({0}, 'IYYY-IW Q') | date
text | to_char({0}, 'HH12:MI:SS.MS AM') | timestamp
text | to_char({0}, 'YYYY-MM-DD"T"HH24:MI:SS') | timestamptz
text | array_to_string({0}, ',') | int4[]
char | lower({0})::char(4) | char
bool | ({0} SIMILAR TO '(a|b)%') | text
bool | ({0} NOT ILIKE '%B%') | text
bool | ({0} ~* '^A') | text
bool | ({0} !~ 'b$') | text
bool | ({0} ^@ 'a') | text
bool | regexp_like({0}, 'a.*b') | text
bool | ({0} LIKE ANY (ARRAY['a%', '%b'])) | text
bool | ({0} NOT LIKE ALL (ARRAY['a%', 'b'])) | text
bool | ({0} = {1}) | text char
bool | ({0} = 'a   ') | char
bool | ({0} < {1} COLLATE "C") | text text
"""

# --- conditions ---
CONDITIONS: Final = """
bool | ({0} IS NOT TRUE) | bool
bool | ({0} IS NOT UNKNOWN) | bool
bool | ({0} IS FALSE) | bool
bool | ({0} = {1} AND {1} IS NOT NULL) | bool bool
bool | ({0} IN ({1}, {2})) | int4 int4 int8
bool | ({0} NOT IN ({1}, 3, NULL)) | int4 int4
bool | ({0} IN ({1}, {2})) | numeric int4 numeric
bool | ({0} = ANY (ARRAY[{1}, {2}])) | int4 int4 int4
bool | ({0} > ALL (ARRAY[{1}, 0])) | int4 int4
bool | ({0} <> ANY ('{{a,b}}'::text[])) | text
bool | (({0}, {1}) >= ({2}, {3})) | int4 text int4 text
bool | (({0}, {1}) IN ((1, 'a'), (2, NULL))) | int4 text
bool | (({0}, {1}) IS NULL) | int4 text
bool | (({0}, {1}) IS NOT NULL) | int4 text
bool | (row({0}, {1}) = row({2}, {3})) | date int4 timestamp int8
bool | isfinite({0}) | date
bool | ({0} BETWEEN '2024-01-01' AND '2024-12-31') | timestamptz
bool | ({0} NOT BETWEEN SYMMETRIC {1} AND {2}) | int4 int4 int4
bool | ({0} < {1}) | mood mood
bool | coalesce({0}, {1}, false) | bool bool
bool | ({0} = {1}::text::bool) | bool bool
bool | bool(int4 '1' = {0}) | int4
mood | coalesce({0}, 'ok') | mood
"""

# --- dates and time zones ---
TIMES: Final = """
int4 | extract(month from {0})::int4 | timestamptz
int4 | extract(isodow from {0})::int4 | date
int4 | extract(doy from {0})::int4 | date
int4 | extract(hour from {0})::int4 | timestamptz
int4 | ({0}::date - {1}::date) | timestamp timestamp
date | ({0} + interval '1 month')::date | date
date | ({0} - interval '1 year')::date | date
date | date_trunc('week', {0})::date | date
date | date_trunc('year', {0})::date | timestamptz
date | to_date(to_char({0}, 'YYYYMMDD'), 'YYYYMMDD') | date
date | ({0}::text)::date | date
date | coalesce({0}, '2024-01-01') | date
timestamp | date_trunc('minute', {0}) | timestamp
timestamp | date_trunc('week', {0}) | timestamp
timestamp | ({0} - interval '36 hours') | timestamp
timestamp | ({0} + interval '1 month 1 day') | timestamp
timestamp | ({0} + interval '1 month') | date
timestamp | ({0} AT TIME ZONE 'UTC') | timestamptz
timestamp | ({0} AT TIME ZONE 'Europe/Zurich') | timestamptz
timestamptz | ({0} AT TIME ZONE 'UTC') | timestamp
timestamptz | ({0} + interval '1 day') | timestamptz
timestamptz | ({0} - interval '1 month') | timestamptz
timestamptz | date_trunc('month', {0}) | timestamptz
interval | ({0} - {1}) | timestamptz timestamptz
interval | ({0} - {1}) | interval interval
"""

# --- arrays ---
ARRAYS: Final = """
int4 | array_length({0}, 1) | int4[]
int4 | cardinality({0}) | text[]
int4 | ({0})[{1}] | int4[] int4
int4 | array_position({0}, {1}) | text[] text
text | ({0})[1] | text[]
int4[] | ({0} || {1}) | int4[] int4
int4[] | ARRAY[{0}, NULL, {1}] | int4 int4
int4[] | '{{}}'::int4[] || {0} | int4
text[] | array_append({0}, {1}) | text[] text
text[] | {0}::text[] | int4[]
text[] | regexp_split_to_array({0}, '[ b]') | text
text[] | regexp_match({0}, '(a)(b)?') | text
bool | ({0} <@ {1}) | int4[] int4[]
bool | ({0} <> {1}) | int4[] int4[]
bool | ({0} = {1}) | text[] text[]
bool | ({0} && {1}) | text[] text[]
bool | ({0} = ANY ({1})) | text text[]
bool | ({0} < ALL ({1})) | int4 int4[]
bool | ({0} IS NULL) | int4[]
bool | ({0} = '{{}}') | int4[]
"""

# --- jsonb ---
DOCUMENTS: Final = """
text | ({0} -> 'c' ->> 'd') | jsonb
bool | (({0} ->> 'a') = 'x') | jsonb
"""

# --- aggregates ---
AGGREGATES: Final = """
int8 | count({distinct}{0}) | date
int8 | count({distinct}{0}) | bool
int8 | count({distinct}{0}) | float8
int8 | count({distinct}{0}) | timestamptz
int8 | count({distinct}{0}) | int4[]
int8 | count({distinct}({0}, {1})) | int4 text
int8 | bit_xor({0}) | int8
int4 | bit_and({0}) | int4
int2 | bit_or({0}) | int2
numeric | avg({distinct}{0}) | int8
numeric | avg({distinct}{0}) | int2
numeric | avg({distinct}{0}) | numeric
numeric | var_samp({0}) | numeric
numeric | variance({0}) | int4
float8 | avg({0}) | float4
float8 | percentile_cont(0.25) WITHIN GROUP (ORDER BY {0} DESC) | float8
text | string_agg({distinct}{0}, '-' {order}) | text
text[] | array_agg({distinct}{0} {order}) | text
bool | bool_and({0} IS NOT NULL) | int4
"""
