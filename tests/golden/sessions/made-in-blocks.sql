-- Functions, types and the like made in blocks beside changes of schemas.
CREATE SCHEMA made_in_blocks;
SET search_path = made_in_blocks;
CREATE TABLE item (id integer PRIMARY KEY, n integer);
INSERT INTO item VALUES (1, 10), (2, 20);
CREATE FUNCTION old(x integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT x + 1';

-- Types
BEGIN;
ALTER TABLE item ADD COLUMN m integer DEFAULT 5;
CREATE DOMAIN size AS integer CHECK (VALUE > 0);
CREATE TYPE place AS (x integer, y integer);
CREATE TYPE span AS RANGE (subtype = integer);
CREATE DOMAIN size AS text;
ROLLBACK;
BEGIN;
ALTER TABLE item ADD COLUMN m integer DEFAULT 5;
CREATE DOMAIN size AS integer CHECK (VALUE > 0);
CREATE TABLE box (id integer PRIMARY KEY, size size);
INSERT INTO box VALUES (1, 3);
SAVEPOINT s;
INSERT INTO box VALUES (2, 0);
ROLLBACK TO s;
ALTER TABLE item ADD COLUMN size size DEFAULT 7;
SELECT i.*, b.size FROM item i LEFT JOIN box b USING (id) ORDER BY id;
SAVEPOINT s;
UPDATE item SET size = -1;
ROLLBACK TO s;
ALTER DOMAIN size ADD CONSTRAINT small CHECK (VALUE < 100);
SAVEPOINT s;
UPDATE item SET size = 100 WHERE id = 1;
ROLLBACK TO s;
CREATE DOMAIN small_size AS size CHECK (VALUE < 10);
SELECT 9::small_size, pg_typeof(size) FROM item WHERE id = 1;
COMMIT;
\dD
SELECT i.*, b.size FROM item i LEFT JOIN box b USING (id) ORDER BY id;
BEGIN;
ALTER TABLE item DROP COLUMN size;
DROP TABLE box;
DROP DOMAIN small_size;
DROP DOMAIN size;
CREATE DOMAIN size AS text;
SELECT 'x'::size;
SAVEPOINT s;
CREATE TYPE place AS (x size, y integer);
ROLLBACK TO s;
CREATE TYPE place AS (x integer, y integer);
SELECT (1, 2)::place;
COMMIT;
\dD
\dT

-- A name that the block has changed means what it means there.
BEGIN;
ALTER DOMAIN size RENAME TO length;
CREATE DOMAIN size AS integer;
CREATE DOMAIN width AS length;
SELECT pg_typeof('a'::length), pg_typeof(1::size), 'b'::width;
COMMIT;
\dD
BEGIN;
ALTER TABLE item ADD COLUMN o integer;
CREATE DOMAIN height AS nothing;
ROLLBACK;

-- Functions
BEGIN;
ALTER TABLE item ADD COLUMN o integer DEFAULT 3;
CREATE FUNCTION total() RETURNS integer LANGUAGE sql AS 'SELECT sum(o)::integer FROM made_in_blocks.item';
CREATE FUNCTION twice(x integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 2 * x';
CREATE FUNCTION half(x integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN x / 2; END $$;
CREATE PROCEDURE nothing() LANGUAGE plpgsql AS $$ BEGIN NULL; END $$;
CREATE AGGREGATE adding (integer) (sfunc = int4pl, stype = integer, initcond = 0);
ALTER TABLE item ADD CHECK (twice(n) > 0), ALTER o SET DEFAULT half(8);
INSERT INTO item VALUES (3, 30);
SELECT id, n, o FROM item ORDER BY id;
SAVEPOINT s;
INSERT INTO item VALUES (4, -1);
ROLLBACK TO s;
CREATE TABLE made (x integer DEFAULT twice(4) CHECK (half(x) > 1));
INSERT INTO made DEFAULT VALUES RETURNING x;
SAVEPOINT s;
INSERT INTO made VALUES (1);
ROLLBACK TO s;
CREATE FUNCTION wrong() RETURNS integer LANGUAGE sql AS 'SELECT nothing FROM item';
ROLLBACK TO s;
CREATE FUNCTION wrong() RETURNS integer LANGUAGE plpgsql AS 'BEGIN RETURN; END';
ROLLBACK TO s;
CREATE FUNCTION twice(x integer) RETURNS integer LANGUAGE sql AS 'SELECT 2 * x';
ROLLBACK TO s;
CREATE OR REPLACE FUNCTION old(x integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT x + 2';
SELECT old(1), twice(2), half(4);
ALTER FUNCTION old(integer) STABLE;
SELECT provolatile FROM pg_proc WHERE oid = 'old'::regproc;
ROLLBACK TO s;
SELECT old(1);
SELECT provolatile FROM pg_proc WHERE oid = 'old'::regproc;
COMMENT ON FUNCTION twice(integer) IS 'two times';
COMMIT;
\df
\d item
SELECT old(1), twice(2), obj_description('twice(integer)'::regprocedure);
SELECT adding(n) FROM item;
DROP TABLE made;

-- Of signatures and bodies that name what the block has changed.
BEGIN;
ALTER TABLE item RENAME TO thing;
CREATE FUNCTION id_of(x thing) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT x.id';
CREATE FUNCTION of_things() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM thing; END;
DROP FUNCTION half(integer);
ROLLBACK;
BEGIN;
ALTER FUNCTION old(integer) RENAME TO older;
CREATE FUNCTION old(x integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT x - 1';
SELECT old(1), older(1);
ALTER FUNCTION old(integer) IMMUTABLE COST 7;
COMMIT;
SELECT proname, procost FROM pg_proc WHERE pronamespace = 'made_in_blocks'::regnamespace AND proname ~ '^old' ORDER BY 1;

-- Operators, casts and the like.
BEGIN;
ALTER TABLE item ADD COLUMN p integer DEFAULT 1;
CREATE OPERATOR === (FUNCTION = int4eq, LEFTARG = integer, RIGHTARG = integer);
SELECT 1 === 1;
CREATE FUNCTION place(x integer) RETURNS place IMMUTABLE LANGUAGE sql AS 'SELECT x, x';
CREATE CAST (integer AS place) WITH FUNCTION place(integer);
SELECT 4::place;
SELECT id FROM item WHERE n === 20;
CREATE COLLATION plain FROM "C";
CREATE TEXT SEARCH DICTIONARY words (TEMPLATE = simple);
CREATE TEXT SEARCH CONFIGURATION plainly (COPY = simple);
ALTER TEXT SEARCH CONFIGURATION plainly ALTER MAPPING FOR word WITH words;
SELECT to_tsvector('plainly', 'auk bird');
SAVEPOINT s;
CREATE OPERATOR CLASS int4_other FOR TYPE integer USING btree AS OPERATOR 1 <, FUNCTION 1 btint4cmp(integer, integer);
ROLLBACK TO s;
CREATE CONVERSION to_plain FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8;
ALTER TABLE item ADD COLUMN q text COLLATE plain DEFAULT 'x';
SELECT * FROM item ORDER BY q, id;
ALTER OPERATOR === (integer, integer) SET (RESTRICT = eqsel);
ALTER TABLE item ADD CHECK (n === n);
CREATE TABLE other (a integer CHECK (a === 1), b text COLLATE plain);
INSERT INTO other VALUES (1, 'x');
COMMIT;
\dC place
\dO
\d other
SELECT 5::place, to_tsvector('plainly', 'auk'), 1 === 2;
SET client_min_messages = warning;
DROP SCHEMA made_in_blocks CASCADE;
