-- What stands beside the changes of schemas that a block has deferred: cursors that lock rows, EXPLAIN ANALYZE, SET
-- CONSTRAINTS of the extended protocol, sequences.
CREATE SCHEMA beside_changes;
SET search_path = beside_changes;
CREATE TABLE bird (id integer PRIMARY KEY, name text, weight integer);
INSERT INTO bird VALUES (1, 'auk', 500), (2, 'bee-eater', 60), (3, 'crane', 5000);
CREATE TABLE nest (id integer PRIMARY KEY, bird integer CONSTRAINT whose REFERENCES bird DEFERRABLE INITIALLY IMMEDIATE);
BEGIN;
ALTER TABLE bird ADD COLUMN legs integer DEFAULT 2;
DECLARE locking CURSOR FOR SELECT id, name, legs FROM bird WHERE id < 3 ORDER BY id FOR UPDATE;
FETCH locking;
UPDATE bird SET legs = 3 WHERE CURRENT OF locking RETURNING id, legs;
FETCH locking;
DELETE FROM bird WHERE CURRENT OF locking RETURNING name;
FETCH locking;
FETCH BACKWARD 1 FROM locking;
ALTER TABLE bird DROP COLUMN legs;
ROLLBACK;
BEGIN;
ALTER TABLE bird ADD COLUMN legs integer DEFAULT 2;
SAVEPOINT a;
DECLARE plain CURSOR FOR SELECT * FROM bird;
MOVE 2 FROM plain;
UPDATE bird SET legs = 0 WHERE CURRENT OF plain RETURNING *;
UPDATE bird SET legs = 1 WHERE CURRENT OF nothing;
ROLLBACK TO a;
DECLARE shared CURSOR FOR SELECT b.id, n.id FROM bird b LEFT JOIN nest n ON n.bird = b.id ORDER BY 1 FOR SHARE OF b;
FETCH ALL FROM shared;
CLOSE shared;
ALTER TABLE bird ALTER legs SET DEFAULT 4;
INSERT INTO bird VALUES (4, 'dodo', 9000) RETURNING legs;
COMMIT;
SELECT * FROM bird ORDER BY id;

-- SET CONSTRAINTS of the extended protocol.
BEGIN \bind \g
ALTER TABLE bird ADD COLUMN wings integer DEFAULT 2 \bind \g
SET CONSTRAINTS ALL DEFERRED \bind \g
INSERT INTO nest VALUES ($1, $2) \bind 1 9 \g
SET CONSTRAINTS whose DEFERRED \bind \g
SAVEPOINT b \bind \g
SET CONSTRAINTS whose IMMEDIATE \bind \g
ROLLBACK TO b \bind \g
INSERT INTO bird (id, wings) VALUES ($1, $2) \bind 9 7 \g
SET CONSTRAINTS ALL IMMEDIATE \bind \g
SAVEPOINT c \bind \g
INSERT INTO nest VALUES ($1, $2) \bind 2 10 \g
ROLLBACK TO c \bind \g
SET CONSTRAINTS nothing DEFERRED \bind \g
ROLLBACK TO c \bind \g
SELECT wings FROM bird WHERE id = $1 \bind 9 \g
COMMIT \bind \g
SELECT * FROM nest;

-- Constraints that the block itself has made.
BEGIN;
ALTER TABLE bird ADD CONSTRAINT named UNIQUE (name) DEFERRABLE;
SET CONSTRAINTS named DEFERRED;
INSERT INTO bird (id, name) VALUES (10, 'auk');
UPDATE bird SET name = 'albatross' WHERE id = 10;
SET CONSTRAINTS named IMMEDIATE;
INSERT INTO bird (id, name) VALUES (11, 'auk');
ROLLBACK;

-- Sequences.
BEGIN;
ALTER TABLE bird ADD COLUMN ring integer;
CREATE SEQUENCE rings START 100;
UPDATE bird SET ring = nextval('rings') WHERE id = 1 RETURNING ring;
ALTER TABLE bird ALTER ring SET DEFAULT nextval('rings');
INSERT INTO bird (id) VALUES (12) RETURNING ring;
SELECT setval('rings', 200, false), nextval('rings'), currval('rings');
COMMIT;
INSERT INTO bird (id) VALUES (13) RETURNING ring;
DROP TABLE nest, bird;
