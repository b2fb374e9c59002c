-- Rows of temporary tables, changed in blocks that have changed schemas before.
CREATE SCHEMA temporary_rows_in_blocks;
SET search_path = temporary_rows_in_blocks;
CREATE TABLE item (id integer PRIMARY KEY, n integer);
INSERT INTO item VALUES (1, 10), (2, 20);
CREATE TEMPORARY TABLE list (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer CHECK (n > 0), name text);
BEGIN;
ALTER TABLE item ADD COLUMN m integer DEFAULT 5;
INSERT INTO list (n, name) VALUES (1, 'a'), (2, 'b') RETURNING *;
SELECT i.id, i.m, l.name FROM item i JOIN list l USING (id) ORDER BY id;
SAVEPOINT s;
INSERT INTO list (n) VALUES (0);
ROLLBACK TO s;
ALTER TABLE item RENAME TO thing;
UPDATE list SET name = upper(name) RETURNING id, name;
ROLLBACK TO s;
ALTER TABLE item DROP COLUMN n;
INSERT INTO list (n) VALUES ($1) RETURNING id \bind 6 \g
ALTER TABLE list ADD CHECK (n < 7);
COPY list (n, name) FROM STDIN;
4	d
5	e
\.
SAVEPOINT s;
INSERT INTO list (n) VALUES (7);
ROLLBACK TO s;
SELECT * FROM item ORDER BY id;
COMMIT;
SELECT * FROM list ORDER BY id;
SELECT * FROM item ORDER BY id;

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
