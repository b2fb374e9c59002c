-- COPY in and out of tables whose schemas the block has changed.
CREATE SCHEMA copies_in_blocks;
SET search_path = copies_in_blocks;
CREATE TABLE t (id integer PRIMARY KEY, n integer CHECK (n < 1000), d date);
INSERT INTO t VALUES (1, 10), (2, 20);
BEGIN;
ALTER TABLE t ADD COLUMN m text DEFAULT 'none';
COPY t (id, n) FROM STDIN;
3	30
4	40
\.
COPY t FROM STDIN (FORMAT csv, HEADER);
id,n,d,m
5,50,2020-01-01,five
6,60,1 Feb 2020,six
\.
COPY (SELECT * FROM t ORDER BY id) TO STDOUT;
COPY (SELECT m, count(*) FROM t GROUP BY m ORDER BY m) TO STDOUT (FORMAT csv);
SAVEPOINT a;
COPY t (id, n) FROM STDIN;
7	2000
\.
ROLLBACK TO a;
COPY t (id, n) FROM STDIN;
7	70
8	oops
\.
ROLLBACK TO a;
COPY t (id, n, m) FROM STDIN;
3	70	x
\.
ROLLBACK TO a;
COPY t (id, nope) FROM STDIN;
ROLLBACK TO a;
COPY t (id) FROM STDIN;
9
\.
ALTER TABLE t ADD CHECK (id < 10);
SAVEPOINT b;
COPY t (id) FROM STDIN;
10
\.
ROLLBACK TO b;
CREATE TABLE u (id integer REFERENCES t, name text);
COPY u FROM STDIN;
1	one
9	nine
\.
SAVEPOINT c;
COPY u FROM STDIN;
11	one
\.
ROLLBACK TO c;
ALTER TABLE t DROP COLUMN d;
COPY t (id, n) FROM STDIN;
0	\N
\.
COPY (SELECT count(*) FROM (SELECT generate_series(1, 3) FROM t) s) TO STDOUT;
COPY (SELECT id, n FROM t WHERE id = 9) TO STDOUT;
COPY (SELECT * FROM u ORDER BY id) TO STDOUT (FORMAT csv, HEADER);
COMMIT;
SELECT * FROM t ORDER BY id;
SELECT * FROM u ORDER BY id;
BEGIN;
ALTER TABLE t ALTER COLUMN n TYPE text;
COPY t (id, n) FROM STDIN;
-1	minus
\.
COPY (SELECT * FROM t ORDER BY id) TO STDOUT;
ROLLBACK;
COPY (SELECT * FROM t ORDER BY id) TO STDOUT;
