-- Columns of domains: kept as what they are over, with PostgreSQL's rules for the values that come in.
CREATE DOMAIN label AS varchar(5);
CREATE DOMAIN price AS numeric(8, 2) DEFAULT 9.99 CHECK (VALUE >= 0);
CREATE DOMAIN code AS text NOT NULL CHECK (VALUE ~ '^[a-z]+$');
CREATE DOMAIN special AS price CHECK (VALUE <> 13);
CREATE TYPE size AS ENUM ('small', 'big', 'a lot');
CREATE DOMAIN wearable AS size CHECK (VALUE < 'a lot');
CREATE TABLE item (id integer PRIMARY KEY, l label, p price, c code, s special, w wearable);
\d item
\dD
INSERT INTO item VALUES (1, 'one', 1.5, 'abc', 2, 'small'), (2, 'two', DEFAULT, 'x', NULL, 'big');
INSERT INTO item (id, c) VALUES (3, 'rest');
INSERT INTO item (id, c) VALUES (4, 'A');
INSERT INTO item (id) VALUES (4);
INSERT INTO item (id, c, p) VALUES (4, 'a', -1);
INSERT INTO item (id, c, s) VALUES (4, 'a', 13);
INSERT INTO item (id, c, s) VALUES (4, 'a', -13);
INSERT INTO item (id, c, w) VALUES (4, 'a', 'a lot');
INSERT INTO item (id, c, l) VALUES (4, 'a', 'too long');
INSERT INTO item (id, c, p) VALUES (4, 'a', 1e9);
SELECT * FROM item ORDER BY id;
SELECT id, p * 2, l || '!', upper(c), w FROM item WHERE p > 1 AND c <> 'x' ORDER BY w DESC, id;
SELECT sum(p), max(l), min(w), count(DISTINCT s) FROM item;
SELECT l, count(*) FROM item GROUP BY l ORDER BY l;
SELECT p FROM item UNION SELECT s FROM item ORDER BY 1;
SELECT p FROM item UNION SELECT p FROM item ORDER BY 1;
SELECT coalesce(s, p), CASE WHEN id = 1 THEN p END, pg_typeof(p), pg_typeof(p + 1) FROM item ORDER BY id;
SELECT id::price, c::label FROM item ORDER BY id;
SELECT (-id)::price FROM item ORDER BY id;
SELECT id FROM item WHERE l = 'one'::label;
UPDATE item SET l = 'uno' WHERE id = 1 RETURNING *;
UPDATE item SET l = 'far too long' WHERE id = 1;
UPDATE item SET p = p - 5 WHERE id = 1;
UPDATE item SET p = p + 1, c = c || 'z' RETURNING id, p, c;
UPDATE item SET c = NULL;
DELETE FROM item WHERE p > 10 AND l IS NULL RETURNING id;
INSERT INTO item SELECT id + 10, l, p, c, s, w FROM item;
INSERT INTO item SELECT id + 20, c, p - 100, c, s, w FROM item;
INSERT INTO item SELECT id + 20, 'l', p, c || '1', s, w FROM item;
INSERT INTO item (id, c) SELECT id + 30, c FROM item;
INSERT INTO item (id) SELECT id + 40 FROM item;
INSERT INTO item VALUES (1, 'x', 1, 'b', 1, NULL) ON CONFLICT (id) DO UPDATE SET p = EXCLUDED.p - 2;
SELECT * FROM item ORDER BY id;
COPY item FROM STDIN;
51	l	5	abc	6	big
\.
COPY item (id, c) FROM STDIN;
52	abc
\.
COPY item (id, c) FROM STDIN;
53	abc
54	ABC
\.
COPY item (id) FROM STDIN;
55
\.
COPY item (id, c, p) FROM STDIN (FORMAT csv);
56,abc,-2
\.
COPY (SELECT * FROM item WHERE id > 50 ORDER BY id) TO STDOUT;
CREATE TABLE plain (id integer, l label, n label);
INSERT INTO plain VALUES (1, 'a', 'b');
INSERT INTO plain SELECT id, l, 'c' FROM item;
UPDATE plain SET n = l || '.' WHERE id > 10;
UPDATE plain SET n = l || 'far too long' WHERE id = 11;
COPY plain FROM STDIN;
99	abc	\N
\.
COPY plain FROM STDIN;
99	abcdefg	\N
\.
SELECT * FROM plain ORDER BY id, n;
ALTER TABLE plain ADD COLUMN m label DEFAULT 'm';
ALTER TABLE plain ALTER COLUMN n TYPE text, ALTER COLUMN n TYPE text;
ALTER TABLE plain ALTER COLUMN n TYPE text;
ALTER TABLE plain ALTER COLUMN l TYPE varchar(5);
ALTER TABLE plain ALTER COLUMN l TYPE label;
\d plain
SELECT * FROM plain ORDER BY id, n;
CREATE TABLE made AS SELECT id, l, m FROM plain;
\d made
SELECT count(*), max(m) FROM made;
PREPARE q (label) AS SELECT id FROM plain WHERE l = $1 ORDER BY id;
EXECUTE q ('a');
DEALLOCATE q;
CREATE TABLE parent (c label PRIMARY KEY, k code UNIQUE DEFAULT 'a');
CREATE TABLE child (id integer, c label REFERENCES parent ON UPDATE CASCADE);
INSERT INTO parent VALUES ('a', 'b'), ('b', 'c');
INSERT INTO parent VALUES ('a');
INSERT INTO child VALUES (1, 'a'), (2, 'c');
INSERT INTO child VALUES (1, 'a');
UPDATE parent SET c = 'z' WHERE c = 'a';
SELECT * FROM child;
UPDATE parent SET c = 'far too long' WHERE c = 'z';
INSERT INTO parent VALUES ('x', 'c');
SELECT * FROM parent JOIN child USING (c) WHERE k = 'b';
DROP TABLE child, parent, made;
ALTER DOMAIN price DROP CONSTRAINT price_check;
INSERT INTO item (id, c, p) VALUES (60, 'a', -1) RETURNING p;
ALTER DOMAIN price SET DEFAULT 5;
INSERT INTO item (id, c) VALUES (61, 'a') RETURNING p;
COPY item (id, c) FROM STDIN;
62	abc
\.
SELECT id, p FROM item WHERE id >= 60 ORDER BY id;
ALTER DOMAIN price DROP DEFAULT;
INSERT INTO item (id, c) VALUES (63, 'a') RETURNING p;
BEGIN;
CREATE DOMAIN fresh AS integer;
CREATE TABLE made (f fresh);
INSERT INTO made VALUES (1);
ALTER TABLE made ALTER COLUMN f TYPE integer;
SELECT * FROM made;
ROLLBACK;
DROP DOMAIN label;
DROP DOMAIN label CASCADE;
\d plain
SELECT * FROM plain ORDER BY id, n;
DROP TABLE plain, item;
DROP DOMAIN special, code, price, wearable;
DROP TYPE size;
