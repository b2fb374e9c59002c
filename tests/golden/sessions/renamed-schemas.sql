-- A schema gets another name, and its tables with it; the old name is free.
CREATE SCHEMA drawer;
CREATE TABLE drawer.box (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL CHECK (name <> ''), size numeric DEFAULT 1.5);
CREATE TABLE drawer.lid (box integer REFERENCES drawer.box ON DELETE CASCADE, color text);
CREATE VIEW drawer.named AS SELECT name, color FROM drawer.box LEFT JOIN drawer.lid ON box = id;
INSERT INTO drawer.box (name) VALUES ('small'), ('large');
INSERT INTO drawer.lid VALUES (1, 'red');
ALTER SCHEMA drawer RENAME TO chest;
SELECT * FROM drawer.box;
SELECT * FROM chest.box ORDER BY id;
SELECT to_json(b) FROM chest.box b ORDER BY id;
SELECT * FROM chest.named ORDER BY name;
-- another one of the name
CREATE SCHEMA drawer;
CREATE TABLE drawer.box (id integer PRIMARY KEY, name text, other boolean);
INSERT INTO drawer.box VALUES (7, 'new', true);
SELECT to_json(b) FROM drawer.box b ORDER BY id;
SELECT to_json(b) FROM chest.box b ORDER BY id;
SELECT b.id, d.id, to_json(d) FROM chest.box b, drawer.box d ORDER BY 1;
INSERT INTO chest.box (name) VALUES ('third') RETURNING *;
INSERT INTO chest.box (name) VALUES ('');
INSERT INTO chest.box (name) SELECT name || '!' FROM drawer.box RETURNING *;
INSERT INTO chest.lid VALUES (7, 'none');
UPDATE chest.box SET name = to_json(box)->>'name' || '?' WHERE id = 2 RETURNING *;
DELETE FROM chest.box WHERE id = 1;
SELECT * FROM chest.lid;
COPY chest.box TO STDOUT;
COPY drawer.box TO STDOUT;
-- in a block, and undone
BEGIN;
ALTER SCHEMA chest RENAME TO trunk;
INSERT INTO trunk.box (name) VALUES ('in the block') RETURNING id;
SELECT to_json(b) FROM trunk.box b ORDER BY id;
ROLLBACK;
SELECT count(*), max(name) FROM chest.box;
BEGIN;
ALTER SCHEMA chest RENAME TO trunk;
ALTER SCHEMA drawer RENAME TO chest;
INSERT INTO trunk.box (name) VALUES ('kept') RETURNING id;
INSERT INTO chest.box VALUES (8, 'kept too', false);
COMMIT;
SELECT to_json(b) FROM trunk.box b ORDER BY id;
SELECT to_json(b) FROM chest.box b ORDER BY id;
SELECT count(*) FROM trunk.box t JOIN chest.box c ON t.name <> c.name;
\d trunk.*
SET client_min_messages = warning;
DROP SCHEMA trunk CASCADE;
SELECT * FROM chest.box ORDER BY id;
DROP SCHEMA chest CASCADE;
