-- Changes of schemas in blocks, among other statements, and what savepoints take back of them.
CREATE SCHEMA changes_in_blocks;
SET search_path = changes_in_blocks;
CREATE TABLE fruit (id integer PRIMARY KEY, name text, weight integer);
INSERT INTO fruit VALUES (1, 'apple', 150), (2, 'banana', 120), (3, 'cherry', 8);
BEGIN;
ALTER TABLE fruit ADD COLUMN colour text DEFAULT 'green';
SELECT * FROM fruit ORDER BY id;
UPDATE fruit SET colour = 'yellow' WHERE name = 'banana';
INSERT INTO fruit VALUES (4, 'date', 7, 'brown') RETURNING *;
SELECT column_name FROM information_schema.columns WHERE table_name = 'fruit' ORDER BY ordinal_position;
SELECT count(*), max(weight) FROM fruit WHERE colour <> 'green';
ALTER TABLE fruit ADD CONSTRAINT heavy CHECK (weight > 5), ALTER COLUMN name SET NOT NULL;
SHOW transaction_isolation;
SAVEPOINT before_index;
CREATE UNIQUE INDEX fruit_name ON fruit (name);
INSERT INTO fruit VALUES (5, 'date', 9);
ROLLBACK TO before_index;
INSERT INTO fruit VALUES (5, 'elderberry', 1);
ROLLBACK TO before_index;
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'fruit'::regclass ORDER BY indexrelid::regclass::text;
INSERT INTO fruit VALUES (5, 'elderberry', 11);
CREATE INDEX fruit_weight ON fruit (weight DESC);
DELETE FROM fruit WHERE id = 1;
COMMIT;
SELECT * FROM fruit ORDER BY id;
SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'fruit'::regclass ORDER BY indexrelid::regclass::text;
SELECT conname, convalidated FROM pg_constraint WHERE conrelid = 'fruit'::regclass AND contype <> 't' ORDER BY 1;

-- Taken back as a whole.
BEGIN;
ALTER TABLE fruit DROP COLUMN colour;
SELECT * FROM fruit WHERE id = 2;
INSERT INTO fruit VALUES (6, 'fig', 50);
ROLLBACK;
SELECT * FROM fruit ORDER BY id;

-- The name of a column that came and went.
BEGIN;
SAVEPOINT a;
ALTER TABLE fruit ADD COLUMN extra integer DEFAULT 1;
SELECT sum(extra) FROM fruit;
ROLLBACK TO a;
ALTER TABLE fruit ADD COLUMN extra text DEFAULT 'one';
SELECT extra FROM fruit WHERE id = 2;
SAVEPOINT b;
ALTER TABLE fruit DROP COLUMN extra;
SELECT extra FROM fruit;
ROLLBACK TO b;
SELECT max(extra) FROM fruit;
RELEASE a;
COMMIT;
SELECT * FROM fruit ORDER BY id;

-- Statements that settle what was deferred: what comes before and after them is seen alike.
BEGIN;
ALTER TABLE fruit DROP COLUMN extra;
CREATE TABLE basket (fruit integer REFERENCES fruit, number integer);
INSERT INTO basket VALUES (2, 7), (3, 100);
ALTER TABLE fruit ADD COLUMN origin text;
SET LOCAL search_path = changes_in_blocks, pg_catalog;
SAVEPOINT c;
ALTER TABLE basket ADD CHECK (number < 1000);
COMMENT ON COLUMN fruit.origin IS 'where it grows';
INSERT INTO basket VALUES (99, 1);
ROLLBACK TO c;
SELECT f.*, b.number FROM fruit f JOIN basket b ON b.fruit = f.id ORDER BY 1;
COMMIT;
SELECT col_description('fruit'::regclass, attnum) FROM pg_attribute WHERE attrelid = 'fruit'::regclass AND attname = 'origin';

-- What rows do not satisfy.
BEGIN;
ALTER TABLE fruit ADD CONSTRAINT light CHECK (weight < 100);
COMMIT;
BEGIN;
ALTER TABLE fruit ADD COLUMN n integer;
UPDATE fruit SET n = 1;
ALTER TABLE fruit ADD CONSTRAINT fruit_n UNIQUE (n);
ROLLBACK;
BEGIN;
ALTER TABLE fruit ADD COLUMN n integer;
UPDATE fruit SET n = id;
ALTER TABLE fruit ADD CONSTRAINT fruit_n UNIQUE (n);
UPDATE fruit SET n = 2 WHERE id = 3;
ROLLBACK;
BEGIN;
ALTER TABLE fruit ADD COLUMN n integer;
UPDATE fruit SET n = id * 2;
ALTER TABLE fruit ALTER n SET NOT NULL, ADD CONSTRAINT fruit_n UNIQUE (n);
ALTER TABLE fruit RENAME CONSTRAINT fruit_n TO fruit_number;
INSERT INTO fruit (id, name, weight, n) VALUES (7, 'grape', 6, 99);
ALTER TABLE fruit ALTER weight TYPE bigint;
ALTER TABLE fruit ALTER weight TYPE text USING weight || ' g';
SELECT * FROM fruit ORDER BY id;
COMMIT;
INSERT INTO fruit (id, name, weight, n) VALUES (8, 'hazelnut', '1 g', 99);
SELECT * FROM fruit ORDER BY id;

-- Prepared before, and within.
PREPARE weights AS SELECT name, weight FROM fruit WHERE id = $1;
EXECUTE weights (2);
BEGIN;
ALTER TABLE fruit ADD COLUMN ripe boolean DEFAULT true;
EXECUTE weights (2);
PREPARE ripe AS SELECT name FROM fruit WHERE ripe AND id < $1 ORDER BY 1;
EXECUTE ripe (4);
ALTER TABLE fruit ALTER ripe SET DEFAULT false;
INSERT INTO fruit (id, name, n) VALUES (9, 'imbe', 1) RETURNING ripe;
EXECUTE ripe (10);
DECLARE all_of_them CURSOR FOR SELECT id FROM fruit ORDER BY id;
FETCH 2 FROM all_of_them;
ALTER TABLE fruit ADD COLUMN sweet boolean;
COMMIT;
EXECUTE ripe (10);
BEGIN;
ALTER TABLE fruit DROP COLUMN ripe, DROP COLUMN sweet;
SELECT nope FROM fruit;
SELECT 1;
ROLLBACK;
SELECT ripe FROM fruit WHERE id = 9;

-- Other names, and none any more.
BEGIN;
ALTER TABLE fruit RENAME COLUMN name TO kind;
SELECT kind FROM fruit WHERE id = 2;
SELECT name FROM fruit;
ROLLBACK;
BEGIN;
ALTER TABLE fruit RENAME COLUMN name TO kind;
ALTER TABLE fruit RENAME TO produce;
ALTER INDEX fruit_weight RENAME TO produce_weight;
UPDATE produce SET kind = upper(kind) WHERE id < 4 RETURNING kind;
SAVEPOINT d;
DROP INDEX produce_weight;
DROP TABLE produce;
DROP TABLE basket, produce;
ROLLBACK TO d;
DROP TABLE basket, produce;
SELECT * FROM produce;
ROLLBACK TO d;
SELECT * FROM fruit;
ROLLBACK TO d;
SELECT count(*) FROM produce p JOIN basket b ON b.fruit = p.id;
INSERT INTO basket SELECT id, 1 FROM produce WHERE kind = 'CHERRY';
COMMIT;
SELECT id, kind FROM produce WHERE id < 4 ORDER BY id;
BEGIN;
DROP TABLE basket;
DROP TABLE IF EXISTS nothing, produce;
CREATE TABLE produce (id integer);
INSERT INTO produce VALUES (1);
SELECT * FROM produce;
ROLLBACK;
SELECT count(*) FROM produce;
BEGIN;
DROP TABLE produce CASCADE;
COMMIT;
SELECT count(*) FROM basket;
\d basket
DROP TABLE basket;

-- Tables that refer to others, and what is built on a change.
CREATE TABLE maker (id integer PRIMARY KEY, name text);
INSERT INTO maker VALUES (1, 'ada'), (2, 'bob');
BEGIN;
CREATE TABLE tool (id integer PRIMARY KEY, maker integer NOT NULL REFERENCES maker ON DELETE CASCADE, part_of integer,
    FOREIGN KEY (part_of) REFERENCES tool DEFERRABLE INITIALLY DEFERRED);
CREATE INDEX tool_maker ON tool (maker);
COMMENT ON TABLE tool IS 'what is made';
COMMENT ON COLUMN tool.maker IS 'by whom';
ALTER TABLE maker ADD COLUMN born date;
CREATE VIEW made AS SELECT t.id, m.name, m.born FROM tool t JOIN maker m ON m.id = t.maker;
COMMENT ON VIEW made IS 'with the year';
INSERT INTO tool VALUES (1, 1, 2), (2, 2, NULL);
UPDATE maker SET born = '1815-12-10' WHERE id = 1;
SELECT * FROM made ORDER BY id;
CREATE SCHEMA IF NOT EXISTS workshop_of_blocks;
CREATE TYPE mood AS ENUM ('fair', 'foul');
ALTER TABLE tool RENAME COLUMN part_of TO whole;
SAVEPOINT e;
INSERT INTO tool VALUES (3, 3, NULL);
ROLLBACK TO e;
INSERT INTO tool VALUES (3, 1, 9);
COMMIT;
SELECT count(*) FROM pg_class WHERE relname IN ('tool', 'made');
BEGIN;
CREATE TABLE tool (id integer PRIMARY KEY, maker integer NOT NULL CONSTRAINT by_whom REFERENCES maker ON DELETE CASCADE);
CREATE TABLE IF NOT EXISTS tool (id integer REFERENCES maker);
CREATE TABLE tool (id integer REFERENCES maker);
ROLLBACK;
BEGIN;
CREATE TABLE tool (id integer PRIMARY KEY, maker integer NOT NULL CONSTRAINT by_whom REFERENCES maker ON DELETE CASCADE);
CREATE TABLE IF NOT EXISTS tool (id integer REFERENCES maker);
ALTER TABLE tool ADD COLUMN weight numeric(5, 2) DEFAULT 1 CHECK (weight > 0);
INSERT INTO tool VALUES (1, 1), (2, 2);
CREATE SCHEMA shed;
ALTER TABLE tool SET SCHEMA shed;
SELECT * FROM shed.tool ORDER BY id;
SELECT * FROM tool;
ROLLBACK;
BEGIN;
CREATE TABLE tool (id integer PRIMARY KEY, maker integer NOT NULL CONSTRAINT by_whom REFERENCES maker ON DELETE CASCADE);
INSERT INTO tool VALUES (1, 1), (2, 2);
CREATE VIEW made AS SELECT count(*) FROM tool;
GRANT SELECT ON made TO PUBLIC;
ALTER TABLE maker ADD COLUMN died date;
COMMENT ON COLUMN maker.died IS 'if so';
COMMIT;
\d+ tool
\d+ maker
DELETE FROM maker WHERE id = 1;
SELECT * FROM made;
\dp made
INSERT INTO tool VALUES (5, 1);
DROP TABLE maker CASCADE;
DROP TABLE tool CASCADE;

-- Rows that are put in place of others, and rows that are locked, beside what is deferred.
CREATE TABLE stock (id integer PRIMARY KEY, name text UNIQUE, n integer DEFAULT 1);
INSERT INTO stock VALUES (1, 'nail', 10), (2, 'screw', 20), (3, 'bolt', 30);
BEGIN;
ALTER TABLE stock ADD COLUMN shelf text DEFAULT 'a';
INSERT INTO stock VALUES (1, 'nail', 5, 'b'), (4, 'nut', 40, 'c')
    ON CONFLICT (id) DO UPDATE SET n = stock.n + excluded.n, shelf = excluded.shelf RETURNING *;
INSERT INTO stock (id, name) VALUES (5, 'bolt'), (6, 'rivet') ON CONFLICT DO NOTHING RETURNING id, shelf;
SELECT id, shelf FROM stock WHERE n > 15 ORDER BY id FOR UPDATE;
SELECT id FROM stock ORDER BY id FOR SHARE SKIP LOCKED;
MERGE INTO stock USING (VALUES (2, 'd'), (9, 'e')) AS s (id, shelf) ON s.id = stock.id
    WHEN MATCHED THEN UPDATE SET shelf = s.shelf
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'new', 0, s.shelf) RETURNING merge_action(), stock.*;
SAVEPOINT f;
ALTER TABLE stock ALTER n TYPE numeric(8, 2);
INSERT INTO stock VALUES (1, 'nail', 0.5) ON CONFLICT (name) DO UPDATE SET n = stock.n * excluded.n RETURNING n;
MERGE INTO stock USING stock AS s ON s.id = stock.id + 1 WHEN MATCHED AND s.n > 20 THEN DELETE;
SELECT id, n, shelf FROM stock ORDER BY id FOR NO KEY UPDATE;
ROLLBACK TO f;
SELECT id, n, shelf FROM stock ORDER BY id;
INSERT INTO stock (id, name) VALUES (7, 'nut') ON CONFLICT (id) DO NOTHING;
ROLLBACK TO f;
COMMIT;
SELECT * FROM stock ORDER BY id;
DROP TABLE stock;
