-- Data in other encodings. What psql shows of them has to be ASCII, so texts are shown as bytes.
CREATE SCHEMA copy_encodings;
SET search_path = copy_encodings;
CREATE TABLE e (n integer, t text);
COPY e FROM STDIN (ENCODING 'LATIN1');
1	caf\xe9
2	é
\.
COPY e FROM STDIN (ENCODING 'WIN1252', FORMAT csv);
3,€
4,plain
\.
COPY e FROM STDIN (ENCODING 'UTF-8');
5	é
\.
COPY e FROM STDIN (ENCODING 'sjis');
6	abc
\.
SELECT n, encode(convert_to(t, 'UTF8'), 'hex') FROM e ORDER BY n;
COPY e FROM STDIN (ENCODING 'SJIS');
7	good
8	€
\.
\echo :SQLSTATE
COPY e FROM STDIN (ENCODING 'EUC_JP', FORMAT csv);
x,y
7,é
\.
COPY e FROM STDIN (ENCODING 'LATIN1') WHERE n > 9;
9	é
10	à
\.
COPY e FROM STDIN (ENCODING 'LATIN1');
x	é
\.
COPY e FROM STDIN (ENCODING 'SQL_ASCII');
11	é
\.
SELECT n, encode(convert_to(t, 'UTF8'), 'hex') FROM e ORDER BY n;
TRUNCATE e;
INSERT INTO e VALUES (1, 'plain'), (2, 'a€b'), (3, 'x');
COPY (SELECT * FROM e WHERE n <> 2 ORDER BY n) TO STDOUT (ENCODING 'LATIN1', FORMAT csv, HEADER);
COPY (SELECT * FROM e WHERE n <> 2 ORDER BY n) TO STDOUT (ENCODING 'SJIS');
COPY (SELECT * FROM e ORDER BY n) TO STDOUT (ENCODING 'LATIN1');
\echo :SQLSTATE
COPY (SELECT * FROM e ORDER BY n) TO STDOUT (ENCODING 'UTF8');
COPY (SELECT n AS "é" FROM e WHERE n = 1) TO STDOUT (ENCODING 'SJIS', HEADER);
COPY e TO STDOUT (ENCODING 'nonsense');
COPY e TO STDOUT (ENCODING 'MULE_INTERNAL', FORMAT binary, ENCODING 'x');
SET client_encoding = 'LATIN1';
COPY (SELECT * FROM e WHERE n <> 2 ORDER BY n) TO STDOUT;
COPY (SELECT * FROM e ORDER BY n) TO STDOUT;
COPY e FROM STDIN;
4	é
\.
RESET client_encoding;
SELECT n, encode(convert_to(t, 'UTF8'), 'hex') FROM e ORDER BY n;
