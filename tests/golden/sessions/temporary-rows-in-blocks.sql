-- Rows of temporary tables, changed in blocks beside changes of schemas.
CREATE SCHEMA temporary_rows_in_blocks;
SET search_path = temporary_rows_in_blocks;
CREATE TABLE item (id integer PRIMARY KEY, n integer);
INSERT INTO item VALUES (1, 10), (2, 20);
CREATE TEMPORARY TABLE list (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer CHECK (n > 0), name text);
CREATE TEMPORARY TABLE entry (list integer REFERENCES list ON DELETE CASCADE, at timestamptz DEFAULT now());
BEGIN;
ALTER TABLE item ADD COLUMN m integer DEFAULT 5;
INSERT INTO list (n, name) VALUES (1, 'a'), (2, 'b') RETURNING *;
INSERT INTO entry SELECT id FROM list;
SELECT i.id, i.m, l.name FROM item i JOIN list l USING (id) ORDER BY id;
SAVEPOINT s;
INSERT INTO list (n) VALUES (0);
ROLLBACK TO s;
DELETE FROM list WHERE id = 1;
SELECT count(*), count(at) FROM entry;
ROLLBACK TO s;
SELECT count(*) FROM entry;
UPDATE list SET name = upper(name) RETURNING id, name;
ALTER TABLE item RENAME TO thing;
INSERT INTO list (n, name) VALUES (3, 'c') RETURNING id;
ALTER TABLE thing DROP COLUMN n;
TRUNCATE list CASCADE;
SELECT * FROM list;
COPY list (n, name) FROM STDIN;
4	d
5	e
\.
COPY list TO STDOUT;
INSERT INTO list (n) VALUES ($1) RETURNING id \bind 6 \g
SELECT * FROM thing ORDER BY id;
COMMIT;
SELECT * FROM list ORDER BY id;
SELECT * FROM thing ORDER BY id;

-- Of tables that the block changes or makes.
BEGIN;
ALTER TABLE thing ADD COLUMN o integer DEFAULT 6;
CREATE TEMPORARY TABLE fresh (n integer);
INSERT INTO fresh VALUES (1);
ALTER TABLE list ADD CHECK (n < 7);
INSERT INTO list (n) VALUES (6);
SAVEPOINT s;
INSERT INTO list (n) VALUES (7);
ROLLBACK TO s;
ALTER TABLE list RENAME name TO title;
UPDATE list SET title = 'none' WHERE title IS NULL RETURNING n, title;
CREATE TABLE list (id integer);
SELECT n, title FROM list ORDER BY n, title;
ROLLBACK;
SELECT n, name FROM list ORDER BY id;
BEGIN;
ALTER TABLE thing ADD COLUMN o integer DEFAULT 6;
DELETE FROM list;
ROLLBACK;
SELECT n, name FROM list ORDER BY id;

-- A name that another table has outside of the block.
SET search_path = temporary_rows_in_blocks, pg_temp;
CREATE TABLE shade (n integer);
INSERT INTO shade VALUES (1);
CREATE TEMPORARY TABLE shade (n integer);
BEGIN;
ALTER TABLE shade RENAME TO light;
INSERT INTO shade VALUES (2);
SELECT * FROM shade;
SELECT * FROM light;
TRUNCATE shade;
COMMIT;
SELECT * FROM shade;
SELECT * FROM light;
SET client_min_messages = warning;
DROP SCHEMA temporary_rows_in_blocks CASCADE;
