-- COPY FROM takes the rows that meet a condition.
CREATE SCHEMA copy_where;
SET search_path = copy_where;
CREATE TABLE w (id integer PRIMARY KEY, n integer CHECK (n < 100), t text DEFAULT 'none', g integer GENERATED ALWAYS AS (id) STORED);
COPY w (id, n) FROM STDIN WHERE n > 10 AND t = 'none';
1	10
2	20
3	\N
4	1000
\.
COPY w (id, n) FROM STDIN WHERE id <> 4;
4	1000
5	50
\.
COPY w FROM STDIN (FORMAT csv, HEADER, DELIMITER ';') WHERE copy_where.w.t LIKE '%''%' OR t = 'where; "x"'; -- the end
id;n;t
6;1;it's
7;1;its
8;1;"where; ""x"""
\.
COPY w (id, n) FROM STDIN WHERE n / (id - 9) > 0;
10	10
9	9
\.
COPY w (id, n) FROM STDIN WHERE id > 10;
1	x
\.
COPY w (id, n) FROM STDIN WHERE id > 10;
5	1
11	1
\.
COPY w (id, n) FROM STDIN WHERE id > 2;
12	1
13	1
12	1
\.
COPY w FROM STDIN WHERE g > 1;
\echo :SQLSTATE
COPY w FROM STDIN WHERE nosuch > 1;
\echo :SQLSTATE
COPY w FROM STDIN WHERE id;
COPY w FROM STDIN WHERE max(id) > 1;
COPY w FROM STDIN WHERE id IN (SELECT 1);
COPY w FROM STDIN WHERE generate_series(1, 2) > 1;
COPY w FROM STDIN WHERE row_number() OVER () > 1;
COPY w FROM STDIN WHERE $1 > 1;
COPY w (id, n) FROM STDIN (FORMAT csv) WHERE CASE WHEN n IS NULL THEN false ELSE n::text ~ '^[1-5]$' END;
20,1
21,6
22,
23,"5"
\.
CREATE FUNCTION odd(n integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT n % 2 = 1';
COPY w (id, n) FROM STDIN WHERE odd(id);
30	1
31	1
\.
BEGIN;
COPY w (id, n) FROM STDIN WHERE false;
40	1
\.
COPY w (id) FROM STDIN WHERE true;
41
\.
COMMIT;
COPY (SELECT * FROM w ORDER BY id) TO STDOUT;
