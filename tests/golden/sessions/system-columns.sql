-- ctid and tableoid of rows of the lake: to find duplicates, to change some rows of many, to page through a table.
\pset null <null>
CREATE SCHEMA system_columns;
SET search_path = system_columns;
CREATE TABLE mail (id integer, address text);
INSERT INTO mail VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, NULL), (5, 'b'), (6, 'a');
SELECT ctid, * FROM mail ORDER BY id;
SELECT ctid, m.tableoid IS NOT NULL AS of_a_table FROM mail m WHERE ctid = '(0,3)';
SELECT id FROM mail WHERE ctid > '(0,3)'::tid ORDER BY ctid DESC;
SELECT id FROM mail WHERE ctid BETWEEN '(0,2)' AND '(0,4)' AND ctid <> '(0,3)' ORDER BY 1;
SELECT address, min(ctid), max(ctid), count(ctid), count(DISTINCT ctid) FROM mail GROUP BY address ORDER BY address;
SELECT id, ctid < '(0,3)', ctid <= '(0,3)', ctid = '(0,3)', ctid >= '(0,3)', ctid > '(0,3)', ctid <> '(0,3)' FROM mail ORDER BY id;
SELECT id, ctid::text || '!' AS place FROM mail ORDER BY ctid LIMIT 2;
SELECT id FROM mail WHERE ctid IN ('(0,1)', '(0,2)') ORDER BY 1;
SELECT id FROM mail WHERE ctid = ANY (ARRAY(SELECT ctid FROM mail WHERE address = 'a' ORDER BY id LIMIT 2)) ORDER BY 1;
SELECT id, ctid = ANY (ARRAY(SELECT ctid FROM mail WHERE address = 'a' ORDER BY id LIMIT 2)) FROM mail ORDER BY 1;
SELECT id, NULLIF(id, 4) <> ALL (ARRAY(SELECT id FROM mail WHERE address = 'a')) FROM mail ORDER BY 1;
SELECT id FROM mail WHERE id <> ALL (ARRAY(SELECT NULLIF(id, 3) FROM mail WHERE address = 'a')) ORDER BY 1;
SELECT id FROM mail WHERE NOT id = ANY (ARRAY(SELECT id FROM mail WHERE address = 'none')) ORDER BY 1 LIMIT 2;
SELECT a.ctid, b.ctid, b.tableoid IS NULL AS none FROM mail a LEFT JOIN mail b ON b.id = a.id + 3 ORDER BY a.id;
SELECT coalesce(m.ctid, '(0,0)') FROM (VALUES (1)) v (x) LEFT JOIN mail m ON false;
SELECT ctid FROM mail WHERE ctid = 'nowhere';
SELECT ctid + 1 FROM mail;
PREPARE behind(tid) AS SELECT id FROM mail WHERE ctid > $1 ORDER BY ctid LIMIT 2;
EXECUTE behind('(0,0)');
EXECUTE behind('(0,2)');
COPY (SELECT ctid, id FROM mail ORDER BY id LIMIT 2) TO STDOUT;
BEGIN;
DECLARE places CURSOR FOR SELECT ctid, id FROM mail ORDER BY id;
FETCH 2 FROM places;
SELECT ctid, id FROM mail WHERE id = 5 FOR UPDATE;
UPDATE mail SET address = 'c' WHERE ctid = (SELECT ctid FROM mail WHERE id = 5 FOR UPDATE);
DELETE FROM mail WHERE ctid IN (SELECT ctid FROM mail ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *;
INSERT INTO mail VALUES (7, 'q'), (8, 'r');
SELECT id FROM mail ORDER BY ctid;
DELETE FROM mail WHERE ctid = (SELECT max(ctid) FROM mail) RETURNING id;
SELECT id FROM mail ORDER BY ctid;
ROLLBACK;
DELETE FROM mail a USING mail b WHERE a.ctid < b.ctid AND a.address = b.address;
SELECT * FROM mail ORDER BY id;
INSERT INTO mail SELECT n, 'x' || n % 2 FROM generate_series(10, 15) n;
DELETE FROM mail WHERE ctid NOT IN (SELECT min(ctid) FROM mail GROUP BY address);
SELECT * FROM mail ORDER BY id;
UPDATE mail SET address = address || '!' WHERE ctid = (SELECT max(ctid) FROM mail) RETURNING *;
SELECT id, address FROM mail ORDER BY ctid;
WITH doomed AS (SELECT ctid FROM mail ORDER BY id LIMIT 1) DELETE FROM mail USING doomed WHERE mail.ctid = doomed.ctid
    RETURNING id;
DELETE FROM mail WHERE ctid IN (SELECT ctid FROM (SELECT ctid, row_number() OVER (ORDER BY id DESC) AS n FROM mail) s
    WHERE n > 2) RETURNING ctid, id;
CREATE VIEW placed AS SELECT ctid AS place, id FROM mail;
SELECT id FROM placed WHERE place > '(0,0)' ORDER BY place;
CREATE TABLE copied AS SELECT id, ctid::text LIKE '(0,%)' AS placed FROM mail;
SELECT * FROM copied ORDER BY id;
TRUNCATE mail;
SELECT ctid FROM mail;
-- Blocks other than the first, and rows that an index finds.
CREATE TABLE many (id integer, part integer);
INSERT INTO many SELECT n, n % 1000 FROM generate_series(1, 70000) n;
CREATE INDEX ON many (part);
DELETE FROM many WHERE part = 7 AND id > 30000;
SELECT count(*), count(DISTINCT ctid), bool_and(ctid > '(0,0)') FROM many;
SELECT id FROM many WHERE part = 7 ORDER BY ctid DESC LIMIT 3;
SELECT count(*) FROM many a JOIN many b ON a.ctid = b.ctid WHERE a.part = 7 AND b.id % 1000 = 7;
DELETE FROM many WHERE ctid = ANY (ARRAY(SELECT ctid FROM many WHERE part = 8 ORDER BY id LIMIT 60));
SELECT id FROM many WHERE part = 8 ORDER BY id;
-- What was inserted, and what updated.
CREATE TABLE counted (id integer PRIMARY KEY, n integer);
INSERT INTO counted VALUES (1, 1);
INSERT INTO counted VALUES (1, 5), (2, 6) ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING id, xmax = 0 AS made;
INSERT INTO counted SELECT n, 9 FROM generate_series(2, 3) n ON CONFLICT (id) DO UPDATE SET n = excluded.n
    RETURNING id, xmax = 0 AS made, tableoid::regclass;
