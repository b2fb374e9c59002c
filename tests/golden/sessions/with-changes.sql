-- WITH queries that change rows.
CREATE SCHEMA changing;
SET search_path = changing;
CREATE TABLE live (id integer PRIMARY KEY, name text, price numeric(8, 2) DEFAULT 1.5, at timestamptz DEFAULT '2026-01-01 00:00+00', tags text[]);
CREATE TABLE archive (id integer, name text, price numeric(8, 2), at timestamptz, tags text[], moved boolean DEFAULT true);
CREATE TABLE parent (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL);
CREATE TABLE child (id integer GENERATED ALWAYS AS IDENTITY, parent integer REFERENCES parent, note text);
INSERT INTO live SELECT n, 'row ' || n, n * 1.25, '2026-02-01 00:00+00', ARRAY['a', NULL, n::text] FROM generate_series(1, 9) n;
-- rows move
WITH gone AS (DELETE FROM live WHERE id <= 3 RETURNING *) INSERT INTO archive SELECT * FROM gone;
SELECT * FROM archive ORDER BY id;
WITH gone AS (DELETE FROM live WHERE id = 4 RETURNING id, name) INSERT INTO archive (id, name) SELECT id, upper(name) FROM gone RETURNING id, name, moved;
-- what is returned is read
WITH gone AS (DELETE FROM live WHERE id = 5 RETURNING *) SELECT * FROM gone;
WITH new (number, label) AS (INSERT INTO live (id, name) VALUES (20, 'twenty'), (21, 'twenty-one') RETURNING id, name) SELECT number + 1 AS more, label FROM new ORDER BY number;
WITH changed AS (UPDATE live SET price = price * 2 WHERE id IN (6, 7) RETURNING id, price) SELECT count(*), sum(price), max(id) FROM changed;
WITH changed AS (UPDATE live SET name = name RETURNING id) SELECT count(*) FROM changed WHERE id > 100;
-- a parent and its child
WITH p AS (INSERT INTO parent (name) VALUES ('first') RETURNING id) INSERT INTO child (parent, note) SELECT id, 'of the first' FROM p RETURNING *;
WITH p AS (INSERT INTO parent (name) SELECT name FROM live WHERE id IN (6, 7) ORDER BY id RETURNING id, name),
    c AS (INSERT INTO child (parent, note) SELECT id, name FROM p RETURNING parent)
SELECT count(*) FROM c;
WITH c AS (DELETE FROM child WHERE note = 'of the first' RETURNING parent), nothing AS (SELECT 1 / 0)
DELETE FROM parent WHERE name = 'first';
SELECT parent.name, child.note FROM parent JOIN child ON child.parent = parent.id ORDER BY 1;
-- nobody sees what the others do
WITH gone AS (DELETE FROM live WHERE id = 8) SELECT count(*) FROM live;
SELECT count(*) FROM live;
WITH new AS (INSERT INTO live (id) VALUES (30)), more AS (INSERT INTO live (id) VALUES (31)) UPDATE live SET name = 'seen' WHERE id >= 20;
SELECT id, name FROM live WHERE id >= 20 ORDER BY id;
WITH picked AS (SELECT id FROM live WHERE id >= 20 ORDER BY id LIMIT 2), gone AS (DELETE FROM live WHERE id = 31 RETURNING id)
SELECT * FROM picked UNION ALL SELECT * FROM gone ORDER BY 1;
WITH many AS (INSERT INTO archive SELECT * FROM archive RETURNING id) SELECT count(*) FROM many;
SELECT count(*) FROM archive;
-- without RETURNING, without a row, with values alone
WITH gone AS (DELETE FROM live WHERE id = 30) SELECT 'done' AS answer;
WITH gone AS (DELETE FROM live WHERE false RETURNING *) INSERT INTO archive SELECT * FROM gone;
WITH v (n) AS (VALUES (40), (41)), new AS (INSERT INTO live (id) SELECT n FROM v RETURNING id) SELECT id, n FROM new JOIN v ON n = id ORDER BY 1;
-- names that are none of SQL's, and twice the same
WITH gone AS (DELETE FROM live WHERE id = 40 RETURNING id AS "Id; of", id AS again, name) SELECT "Id; of" + again AS sum FROM gone;
WITH gone AS (DELETE FROM live WHERE id = 41 RETURNING id, id) SELECT 1 FROM gone;
-- what fails
WITH new AS (INSERT INTO live (id) VALUES (6) RETURNING id) SELECT * FROM new;
WITH new AS (INSERT INTO parent (name) VALUES (NULL)) SELECT 1;
WITH gone AS (DELETE FROM live RETURNING id) SELECT id / 0 FROM gone;
WITH gone AS (DELETE FROM live) SELECT * FROM gone;
WITH gone AS (DELETE FROM live RETURNING nothing) SELECT * FROM gone;
SELECT count(*) FROM live;
-- in a block
BEGIN;
WITH gone AS (DELETE FROM live WHERE id = 6 RETURNING *) INSERT INTO archive SELECT * FROM gone;
SAVEPOINT s;
WITH gone AS (DELETE FROM live WHERE id = 7 RETURNING *) INSERT INTO archive SELECT * FROM gone;
SELECT (SELECT count(*) FROM live), (SELECT count(*) FROM archive);
ROLLBACK TO s;
SELECT (SELECT count(*) FROM live), (SELECT count(*) FROM archive);
\dt pg_temp.*
COMMIT;
SELECT (SELECT count(*) FROM live), (SELECT count(*) FROM archive);
SELECT count(*) FROM pg_prepared_statements;
PREPARE move (integer, text) AS WITH gone AS (DELETE FROM live WHERE id = $1 RETURNING id) INSERT INTO archive (id, name) SELECT id, $2 FROM gone RETURNING id, name;
EXECUTE move (7, 'moved');
EXECUTE move (7, 'moved');
DEALLOCATE move;
SELECT * FROM live ORDER BY id;
SET client_min_messages = warning;
DROP SCHEMA changing CASCADE;
-- What a query in WITH returns, beside the table that it changes: both see it as it was.
CREATE SCHEMA with_changes_beside;
SET search_path = with_changes_beside;
CREATE TABLE w (n int, t text);
INSERT INTO w SELECT g, 'x' || g FROM generate_series(1, 7) g;
WITH d AS (DELETE FROM w WHERE n < 4 RETURNING n) SELECT d.n, w.t FROM d JOIN w USING (n) ORDER BY 1;
SELECT count(*), min(n), max(n) FROM w;
WITH d AS (UPDATE w SET n = n + 10 RETURNING n) SELECT count(*) FROM w JOIN d ON d.n = w.n + 10;
SELECT count(*), min(n), max(n) FROM w;
DROP TABLE w;
DROP SCHEMA with_changes_beside;
