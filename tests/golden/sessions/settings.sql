-- What the session's settings make of values, on their way out and in.
CREATE TABLE shown (id integer, d date, ts timestamp, tz timestamptz, v interval, f4 real, f8 double precision, b bytea, at time,
    a interval[], z timestamptz[], f double precision[]);
INSERT INTO shown VALUES
    (1, '2024-02-03', '2024-02-03 04:05:06.7', '2024-03-10 06:59:59+00', '1 year -2 mons 3 days -04:05:06.7', 1.1, 0.1, '\x00ff41', '12:00',
        '{1 day,-1 mon}', '{2024-11-03 05:30+00,2024-11-03 06:30+00}', '{0.1,1e300}'),
    (2, '0044-03-15 BC', 'infinity', '-infinity', '-1 days +02:03:04', 'NaN', '-Infinity', '\x5c27', '23:59:59.999999',
        '{00:00:00}', '{NULL}', '{NaN,-0}'),
    (3, '1999-12-31', '1999-12-31 23:59:59.999999', '1975-06-01 12:00+00', '00:00:00', 3.4e38, 123456789.123456789, '', '00:00', '{}', '{}', '{}'),
    (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SET IntervalStyle = sql_standard;
SELECT id, v, a FROM shown ORDER BY id;
SELECT v::text, v + interval '1 day', concat(v, '!') FROM shown ORDER BY id;
COPY (SELECT id, v FROM shown ORDER BY id) TO STDOUT;
INSERT INTO shown (id, v) VALUES (10, '-1 2:03:04');
INSERT INTO shown (id, v) SELECT 11, v FROM shown WHERE id = 2;
COPY shown (id, v) FROM STDIN;
12	-1 2:03:04
13	1-2
\.
SELECT id, v FROM shown WHERE id >= 10 ORDER BY id;
SET IntervalStyle = postgres_verbose;
SELECT id, v, a FROM shown ORDER BY id;
COPY shown (id, v) FROM STDIN (FORMAT csv);
14,@ 1 day 2 hours ago
\.
SET IntervalStyle = iso_8601;
SELECT id, v, a FROM shown ORDER BY id;
COPY (SELECT id, v FROM shown ORDER BY id) TO STDOUT (FORMAT csv);
RESET IntervalStyle;
SELECT id, v FROM shown WHERE id >= 10 ORDER BY id;
SET extra_float_digits = 0;
SELECT id, f4, f8, f, f8 * 3, f8::text FROM shown ORDER BY id;
SET extra_float_digits = -10;
SELECT id, f4, f8, f, sum(f8) OVER (ORDER BY id) FROM shown WHERE id <> 2 ORDER BY id;
COPY (SELECT id, f4, f8 FROM shown ORDER BY id) TO STDOUT;
SET extra_float_digits = 3;
SELECT id, f4, f8, f FROM shown ORDER BY id;
RESET extra_float_digits;
SET bytea_output = escape;
SELECT id, b, b::text, b || '\x00'::bytea FROM shown ORDER BY id;
RESET bytea_output;
SET TimeZone = 'America/New_York';
SELECT id, tz, z, tz::date, tz::timestamp, tz::time FROM shown ORDER BY id;
SELECT id, extract(epoch FROM ts::timestamptz), ts::timestamptz, d::timestamptz FROM shown WHERE id = 1;
SELECT timestamptz '2024-01-01' + (ts - timestamp '2024-01-01') FROM shown WHERE id = 1;
SELECT (timestamp '2024-03-10 02:30' + (id - 1) * interval '1 day')::timestamptz FROM shown WHERE id = 1;
SELECT (timestamp '2024-11-03 01:30' + (id - 1) * interval '1 day')::timestamptz FROM shown WHERE id = 1;
SELECT id FROM shown WHERE tz >= d ORDER BY id;
SELECT id FROM shown WHERE ts < tz OR d = tz::date ORDER BY id;
SELECT date_trunc('day', tz), date_trunc('hour', tz), tz + interval '1 day', tz + interval '24 hours', tz - interval '1 month' FROM shown WHERE id = 1;
SELECT tz::text, tz || '', to_char(tz, 'YYYY-MM-DD HH24:MI TZH'), json_build_object('tz', tz) FROM shown ORDER BY id;
INSERT INTO shown (id, tz) SELECT 21, ts FROM shown WHERE id = 1;
UPDATE shown SET tz = ts WHERE id = 3;
SELECT id, tz FROM shown WHERE id IN (3, 21) ORDER BY id;
SET TIME ZONE -5;
SELECT id, tz, tz::date, d::timestamptz FROM shown ORDER BY id;
SET TimeZone = 'PST8PDT,M3.2.0,M11.1.0';
SELECT id, tz, tz::timestamp FROM shown ORDER BY id;
SET TimeZone = 'Pacific/Apia';
SELECT (timestamp '2011-12-30 12:00' + (id - 1) * interval '1 day')::timestamptz FROM shown WHERE id = 1;
RESET TimeZone;
SET DateStyle = 'SQL, DMY';
SELECT id, d, ts, tz, d::text, ts || '', concat(tz) FROM shown ORDER BY id;
INSERT INTO shown (id, d) VALUES (30, '03/04/2024');
COPY shown (id, d, ts) FROM STDIN;
31	03/04/2024	03/04/2024 05:06
\.
SELECT id, '03/04/2024'::text::date, to_date('03 04 2024', 'DD MM YYYY') FROM shown WHERE id = 30;
SET DateStyle = 'Postgres, MDY';
SELECT id, d, ts, tz, at FROM shown ORDER BY id;
SELECT id, d::text, ts::text FROM shown ORDER BY id;
SET DateStyle = German;
SELECT id, d, ts, tz, z FROM shown ORDER BY id;
COPY (SELECT id, d, ts, tz FROM shown ORDER BY id) TO STDOUT (FORMAT csv);
SET DateStyle = 'ISO, YMD';
SELECT id, d, ts, tz FROM shown WHERE id >= 30 ORDER BY id;
RESET ALL;
DROP TABLE shown;
