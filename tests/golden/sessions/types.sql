-- Every type, with nulls and extremes, in by VALUES and out again as text.
CREATE TABLE types (
    k integer, i2 smallint, i8 bigint, n numeric(12, 3), m numeric, f4 real, f8 double precision, t text, v varchar(6),
    c char(4), b bytea, o boolean, d date, h time, ts timestamp, tz timestamptz, iv interval, u uuid, j json, jb jsonb,
    ai integer[], at text[], an numeric(6, 2)[], ad date[]
);
INSERT INTO types (k) VALUES (0);
INSERT INTO types VALUES (1, -32768, -9223372036854775808, -999999999.999, 0.000, '-Infinity', '-Infinity', '', '', '', '',
    false, '-infinity', '00:00', '-infinity', '-infinity', '-178956970 years -8 mons', '00000000-0000-0000-0000-000000000000',
    '{}', '{}', '{}', '{}', '{}', '{}');
INSERT INTO types VALUES (2, 32767, 9223372036854775807, 999999999.999, 'NaN', 'NaN', 'NaN', E'tab\tnew\nline "q" \\ ü€😀',
    'ünïcöd', 'ab', '\x00ff10', true, 'infinity', '24:00', 'infinity', 'infinity', '1 year -2 mons 3 days -04:05:06.789',
    'FFFFFFFF-ffff-ffff-ffff-ffffffffffff', '{"a": [1, 2.50, null]}', '{"b": 1.10, "a": "x"}', '{1,NULL,-3}',
    '{"a b","",NULL,"q\"\\"}', '{1.5,2}', '{2020-02-29,infinity}');
INSERT INTO types VALUES (3, 0, 0, 0, 1e-20, 1e-45, 5e-324, 'x', 'abc   ', 'abc ', '\x', NULL, '4713-01-01 BC', '23:59:59.999999',
    '0044-03-15 12:00:00 BC', '2020-06-01 12:00:00+02', '-00:00:00.000001', '6BA7B810-9DAD-11D1-80B4-00C04FD430C8', ' null ',
    'null', ARRAY[]::integer[], '{NULL}', NULL, '{}');
INSERT INTO types VALUES (4, 1, 1, 0.1, 123456789012345678901234567890123456789012345678901234567890.5, 0.1, 0.1, 'NULL', NULL,
    NULL, NULL, true, '9999-12-31', '12:34:56.5', '294246-12-31 23:59:59.999999', '1883-11-18 12:00:00+00', '14 mons', NULL,
    '"\u00e9"', '[1,  2]', '{2147483647}', '{""}', '{0.005}', '{0001-01-01}');
SELECT * FROM types ORDER BY k;
\x on
SELECT * FROM types ORDER BY k;
\x off
SELECT k, t, v, length(v), c, u, o FROM types WHERE o ORDER BY k;
SET TimeZone = 'America/New_York';
SELECT k, tz, ts FROM types ORDER BY k;
SET DateStyle = 'German, DMY';
SELECT k, d, ts, tz FROM types ORDER BY k;
SET DateStyle = 'SQL, DMY';
SELECT k, d, ts FROM types ORDER BY k;
RESET DateStyle;
SET bytea_output = 'escape';
SELECT k, b FROM types ORDER BY k;
RESET bytea_output;
COPY (SELECT * FROM types ORDER BY k) TO STDOUT;
COPY (SELECT k, t, at, j FROM types ORDER BY k) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (t));
COPY (SELECT k, d, ts, tz, f8, b FROM types ORDER BY k) TO STDOUT (FORMAT csv, DELIMITER ';', NULL 'null');
DROP TABLE types;
