-- Rows with values that cannot be read are left out.
CREATE SCHEMA copy_on_error;
SET search_path = copy_on_error;
CREATE TABLE e (n integer NOT NULL, d date, t varchar(3));
COPY e FROM STDIN (ON_ERROR ignore);
1	2020-01-01	a
x	2020-01-01	a
2	1 Feb 2020	abc
3	2020-13-01	a
4	2020-01-01	abcd
5	\N	\N
\.
COPY e FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose, FORMAT csv, HEADER);
n,d,t
6,2020-01-01,"a
b"
"a ""quoted
value""",2020-01-01,a
99999999999,2020-01-01,a
7,"31 Apr 2020",a
8,,
\.
COPY e FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY silent);
x	\N	\N
\.
COPY e FROM STDIN (ON_ERROR ignore);
x	\N	\N
\.
COPY e FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 2);
x	\N	\N
9	\N	\N
y	\N	\N
\.
COPY e FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 2, LOG_VERBOSITY verbose);
x	\N	\N
10	\N	\N
y	\N	\N
11	\N	toolong
12	\N	\N
\.
\echo :SQLSTATE
COPY e FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 1);
x	\N	\N
\N	\N	\N
\.
COPY e FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 1);
x	\N	\N
y	\N	\N
\N	\N	\N
\.
COPY e FROM STDIN (ON_ERROR ignore);
13	\N
\.
COPY e FROM STDIN (ON_ERROR ignore);
14	\N	\N	\N
\.
COPY e FROM STDIN (ON_ERROR stop);
15	2020-01-32	\N
\.
COPY e FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose) WHERE n > 16;
16	\N	\N
17	x	\N
18	\N	\N
\.
SET client_min_messages = warning;
COPY e FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose);
19	x	\N
20	\N	\N
\.
RESET client_min_messages;
CREATE TABLE k (n integer PRIMARY KEY, c integer CHECK (c > 0));
COPY k FROM STDIN (ON_ERROR ignore);
1	1
x	1
2	2
1	3
\.
COPY k FROM STDIN (ON_ERROR ignore);
1	1
x	1
2	0
\.
COPY k FROM STDIN (ON_ERROR ignore);
1	1
x	1
2	1
\.
CREATE TABLE p (n integer PRIMARY KEY);
COPY p FROM STDIN (ON_ERROR ignore);
1
x
2
y
1
\.
COPY p FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose);
1
\\N
 2
y
3
\.
COPY (SELECT * FROM e ORDER BY n) TO STDOUT;
COPY k TO STDOUT;
COPY (SELECT * FROM p ORDER BY n) TO STDOUT;
