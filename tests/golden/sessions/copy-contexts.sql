-- Where in the data an error was.
CREATE SCHEMA copy_contexts;
SET search_path = copy_contexts;
CREATE TABLE c (n integer NOT NULL, d date, t varchar(5), u integer);
COPY c FROM STDIN;
1	2020-01-01	a	\N
x	2020-01-01	a	\N
\.
\echo :SQLSTATE :LAST_ERROR_MESSAGE
COPY c FROM STDIN;
1	2020-01-01	a	\N
2	2020-02-30	a	\N
\.
COPY c FROM STDIN (FORMAT csv);
1,2020-01-01,"a
b",
2,2020-01-01,"too long, this is",
\.
COPY c FROM STDIN (FORMAT csv, HEADER);
n,d,t,u
1,2020-01-01,"a
b",
,2020-01-01,"c ""d""",5
\.
COPY c (d, t) FROM STDIN;
2020-01-01	a\tb
\.
COPY c (n, t) FROM STDIN (FORMAT csv);
1,"this is much longer than one hundred characters, so that PostgreSQL shows only the beginning of it in the context of its error"
\.
COPY c (t, n) FROM STDIN (FORMAT csv);
"this is much longer than one hundred characters, so that PostgreSQL shows only the beginning of it in the context of its error",
\.
COPY c FROM STDIN;
1	2020-01-01	a
\.
COPY c FROM STDIN;
1	2020-01-01	a	1	2
\.
COPY c FROM STDIN;
x	2020-01-01	a	1
1	2020-01-01	a
\.
COPY c FROM STDIN (FORMAT csv);
1,2020-01-01,a,1
1,2020-01-01,"a,1
\.
COPY c FROM STDIN;

\.
COPY c (n) FROM STDIN;

\.
COPY c (n) FROM STDIN;
1
99999999999
\.
COPY c (n, u) FROM STDIN (NULL 'nil', DELIMITER '|');
1|nil
2|NaN
\.
ALTER TABLE c ADD CHECK (u > 0);
COPY c (n, u) FROM STDIN (FORMAT csv, DELIMITER ';');
1;1
"2";"0"
\.
COPY c (n, u) FROM STDIN (FORMAT csv, FORCE_NULL (n));
1,1
"",1
\.
ALTER TABLE c ADD UNIQUE (n);
COPY c (n, u) FROM STDIN (FORMAT csv);
5,1
6,1
5,1
\.
CREATE TABLE r (n integer REFERENCES c (n));
COPY r FROM STDIN;
5
\.
COPY r FROM STDIN;
x
\.
CREATE TABLE j (v json, a integer[], b boolean, u uuid, i interval, y bytea, z timestamptz);
COPY j (v) FROM STDIN;
{"a": 1}
{"a": 1,
\.
COPY j (a, b) FROM STDIN;
{1,2}	t
{1,2	t
\.
COPY j (a, b) FROM STDIN;
{1,x}	t
\.
COPY j (b, u) FROM STDIN;
maybe	\N
\.
COPY j (u) FROM STDIN;
nonsense
\.
COPY j (i, y) FROM STDIN;
1 lightyear	\N
\.
COPY j (y) FROM STDIN;
\\xgg
\.
COPY j (z) FROM STDIN;
2020-01-01 00:00 Nowhere/Land
\.
-- Lines that end too early are wrong only if their values are right.
COPY c FROM STDIN;
x	2020-01-01
\.
COPY c FROM STDIN (ON_ERROR ignore);
x	2020-01-01
1	x
\.
COPY c FROM STDIN (ON_ERROR ignore, FORMAT csv, HEADER);
n,d,t,u
x,2020-01-01
30,2020-01-01,a,1
y
31,2020-01-01,a,z,1
\.
COPY c FROM STDIN (ON_ERROR ignore);
40	2020-01-01	a	1
41
42	2020-01-01	a	1
\.
COPY c FROM STDIN;
1	2020-01-01	\xe9	1	2
\.
COPY c FROM STDIN;
50	2020-01-01	a	1
51	2020-01-01	a\xc3b	1
\.
COPY c FROM STDIN;
50	2020-01-01	\0	1
\.
COPY c FROM STDIN;
x	2020-01-01	a	1
51	2020-01-01	a\xc3b	1
\.
SELECT count(*) FROM c;
