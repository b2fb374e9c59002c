-- The tables that the probes of planner.functions read: extremes, NULLs, infinities, odd strings.
CREATE TABLE integers (id integer, s smallint, i integer, b bigint);
INSERT INTO integers VALUES
    (1, 7, 7, 7), (2, -20, -20, -20), (3, 32767, 2147483647, 9223372036854775807),
    (4, -32768, -2147483648, -9223372036854775808), (5, NULL, NULL, NULL), (6, 0, 0, 0), (7, 3, 100000, 10000000000),
    (8, 7, -1, 1);
CREATE TABLE floats (id integer, r real, d double precision);
INSERT INTO floats VALUES
    (1, 1.5, 1.5), (2, -2.25, -2.75), (3, 'NaN', 'NaN'), (4, 'Infinity', 'Infinity'), (5, '-Infinity', '-Infinity'),
    (6, NULL, NULL), (7, 0, 0), (8, '-0', '-0'), (9, 1e10, 1e10), (10, 0.1, 0.1), (11, 1e-20, 1e-200), (12, 2.5, 2.5),
    (13, 0.5, -0.5), (14, 3.4e38, 1.7e308), (15, 123456.7, 12345678901234567);
CREATE TABLE decimals (id integer, n numeric(10,3), m numeric(20,6), f numeric);
INSERT INTO decimals VALUES
    (1, 1.500, 2.250000, 1.50), (2, -7.125, 0.000001, -0.001), (3, 0, 100.5, 0), (4, NULL, NULL, NULL),
    (5, 9999999.999, 99999999999999.999999, 123456789012345678.25), (6, 0.333, 3.333333, 10.000), (7, 12345.678, 7, 7),
    (8, -0.005, -12.5, 1.5), (9, 2.5, 10000, 99.9999999999);
CREATE TABLE texts (id integer, t text, v varchar(10), c char(5));
INSERT INTO texts VALUES
    (1, 'abc', 'abc', 'abc'), (2, '', '', ''), (3, NULL, NULL, NULL), (4, ' a b ', 'b', 'a b'),
    (5, E'line\nb%x\\y''"q', 'x', 'abcde'), (6, 'äöü€ 𝄞z', 'äö', 'ä'), (7, 'ABC abc', 'ABC', 'ABC'),
    (8, 'aXbb12', 'z  ', 'ab'), (9, '100%', '10', 'a');
CREATE TABLE booleans (id integer, x boolean, y boolean);
INSERT INTO booleans VALUES
    (1, true, true), (2, true, false), (3, true, NULL), (4, false, true), (5, false, false), (6, false, NULL),
    (7, NULL, true), (8, NULL, false), (9, NULL, NULL);
CREATE TABLE binaries (id integer, x bytea);
INSERT INTO binaries VALUES (1, '\x61'), (2, '\x'), (3, '\xff00'), (4, NULL), (5, '\x6100');
CREATE TABLE dates (id integer, d date, t time, ts timestamp, tz timestamptz);
INSERT INTO dates VALUES
    (1, '2024-02-29', '12:00', '2024-02-29 00:00', '2024-02-29 12:00+00'),
    (2, '1999-12-31', '23:59:59.999999', '1999-12-31 23:59:59.999999', '1999-12-31 23:59:59.999999+00'),
    (3, NULL, NULL, NULL, NULL), (4, 'infinity', '00:00', 'infinity', 'infinity'),
    (5, '-infinity', '00:00:00.5', '-infinity', '-infinity'), (6, '1970-01-01', '06:30', '1970-01-01', '1970-01-01 00:00+00'),
    (7, '0001-01-01', '01:02:03.45', '1582-10-10 01:02:03.45', '1900-01-01 01:02:03+00'),
    (8, '9999-12-31', '18:00', '2020-12-31 13:14:15.5', '2021-01-03 23:00+00'),
    (9, '2024-12-30', '09:00', '2000-01-01 00:00:00.000001', '2024-03-31 01:30+00');
CREATE TABLE intervals (id integer, v interval);
INSERT INTO intervals VALUES
    (1, '1 year 2 mons 3 days 04:05:06.789'), (2, '-1 mon +30 days'), (3, '0'), (4, NULL), (5, '1 day'), (6, '24 hours'),
    (7, '-00:00:00.000001'), (8, '30 days'), (9, '1 mon');
CREATE TABLE uuids (id integer, u uuid);
INSERT INTO uuids VALUES
    (1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), (2, '00000000-0000-0000-0000-000000000000'), (3, NULL),
    (4, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
CREATE TABLE lists (id integer, a integer[], t text[]);
INSERT INTO lists VALUES
    (1, '{1,2}', '{x,y}'), (2, '{}', '{}'), (3, NULL, NULL), (4, '{1,NULL,3}', '{x,NULL}'), (5, '{7}', '{"",a b}');
CREATE TABLE documents (id integer, j jsonb);
INSERT INTO documents VALUES
    (1, '{"a": "x", "b": 7, "c": true, "d": null, "e": {"f": "deep", "g": {"h": 1}}, "n m": "blank", "list": [1, "two", null]}'),
    (2, '{}'), (3, NULL), (4, '["a", "b", 3]'), (5, '"a"'), (6, '12'), (7, 'null'), (8, 'false'), (9, '[]'),
    (10, '{"a": "q\"\\/\n\t\u0001ä€𝄞", "b": -12, "": "none", "e": [{"f": 1}]}'), (11, '[{"a": "inside"}, [1, 2]]'),
    (12, '{"a": "", "b": 123456789012345678, "e": "f"}'),
    (13, '{"a": "null", "d": "null", "words": {"a": null, "n m": [1, null, "null"]}}');
CREATE TYPE mood AS ENUM ('zen', 'ok', 'it''s \ bad', 'angry');
CREATE DOMAIN width AS numeric(6, 2);
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE TABLE moods (id integer, m mood, o mood, w width, p positive);
INSERT INTO moods VALUES
    (1, 'zen', 'angry', 1.5, 1), (2, 'ok', 'ok', 2.25, 2), (3, 'angry', NULL, NULL, NULL), (4, NULL, 'zen', -1, 4),
    (5, 'it''s \ bad', 'ok', 0, 5), (6, 'angry', 'angry', 1.5, 6);
