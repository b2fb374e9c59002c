-- Temporary tables joined with lake rows that are named by their ctid: what DuckDB's extension for PostgreSQL sends for UPDATE.
CREATE TABLE duck (id integer, name text);
INSERT INTO duck VALUES (1, 'a'), (2, 'b'), (3, 'c');
SELECT ctid AS place FROM duck WHERE id = 2 \gset
BEGIN;
CREATE LOCAL TEMPORARY TABLE update_data (__page_id_string varchar, name varchar) ON COMMIT DROP;
INSERT INTO update_data VALUES (:'place', 'new');
UPDATE duck SET name = update_data.name FROM update_data WHERE duck.ctid = __page_id_string::tid;
SELECT * FROM duck ORDER BY id;
COMMIT;
-- The places, kept in a table.
CREATE TEMPORARY TABLE places (place tid, name text);
INSERT INTO places SELECT ctid, name FROM duck;
UPDATE duck SET name = places.name || '2' FROM places WHERE places.place = duck.ctid;
SELECT * FROM duck ORDER BY id;
DROP TABLE places;
CREATE TEMPORARY TABLE places AS SELECT ctid AS place, name FROM duck;
UPDATE duck SET name = places.name || '3' FROM places WHERE places.place = duck.ctid RETURNING id, duck.name, places.name;
-- Values of every common type come as they are.
TRUNCATE duck;
INSERT INTO duck VALUES (1, 'a'), (2, 'b'), (3, 'c');
CREATE TEMPORARY TABLE given (place text, at tid, i2 smallint, i8 bigint, n numeric, n2 numeric(10,2), r real, d double precision,
    b boolean, day date, t time, ts timestamp, tz timestamptz, iv interval, u uuid, j jsonb, bytes bytea, fixed char(4));
INSERT INTO given (place, at) SELECT min(ctid)::text, min(ctid) FROM duck;
UPDATE given SET (i2, i8, n, n2, r, d, b, day, t, ts, tz, iv, u, j, bytes, fixed) = ROW (1, 2, 1.50, 1.5, 0.1, 0.1, true, 'infinity',
    '24:00', '2024-02-29 01:02:03.4', '2024-02-29 01:02:03.4+00', '1 mon 2 days 03:00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
    '{"b": 1, "a": 2}', '\x00ff', 'ab');
INSERT INTO given (place, at) SELECT max(ctid)::text, max(ctid) FROM duck;
INSERT INTO given (place) VALUES (NULL);
SELECT duck.id, i2, i8, n, n2, r, d, b, day, t, ts, tz, iv, u, j, bytes, fixed FROM duck JOIN given ON duck.ctid = place::tid ORDER BY id;
SELECT duck.id, (SELECT count(*) FROM given) FROM duck WHERE duck.ctid = (SELECT min(at) FROM given);
SELECT duck.id, duck.ctid = g.at AS found FROM duck LEFT JOIN given g ON duck.ctid = g.at ORDER BY 1;
PREPARE by_place AS SELECT id, i8 FROM duck JOIN given ON duck.ctid = at WHERE i2 = $1;
EXECUTE by_place(1);
BEGIN;
UPDATE given SET i2 = 5 WHERE i2 = 1;
EXECUTE by_place(5);
ROLLBACK;
EXECUTE by_place(1);
COPY (SELECT id, i8 FROM duck JOIN given ON duck.ctid = at ORDER BY id) TO STDOUT;
DELETE FROM duck USING given WHERE duck.ctid = given.at AND i2 = 1 RETURNING duck.*;
INSERT INTO duck SELECT i8, (duck.ctid = given.at)::text FROM given JOIN duck ON duck.ctid = given.at;
SELECT * FROM duck ORDER BY 1, 2;
-- Texts that are a tid, and texts that are none.
UPDATE given SET place = '{' || replace(replace(place, '(', '(  '), ',', ', +') || '}' WHERE i2 IS NULL;
SELECT id FROM duck JOIN given ON duck.ctid = place::tid;
UPDATE given SET place = 'nowhere' WHERE place IS NULL;
SELECT id FROM duck JOIN given ON duck.ctid = place::tid;
UPDATE given SET place = '(4294967296,1)' WHERE place = 'nowhere';
SELECT id FROM duck JOIN given ON duck.ctid = place::tid;
UPDATE given SET place = '(0,65536)' WHERE place LIKE '(42%';
SELECT id FROM duck JOIN given ON duck.ctid = place::tid;
-- A table without rows, and rows without columns.
CREATE TEMPORARY TABLE hollow (at tid);
UPDATE duck SET name = 'none' FROM hollow WHERE duck.ctid = hollow.at;
CREATE TEMPORARY TABLE columnless ();
INSERT INTO columnless DEFAULT VALUES;
SELECT duck.ctid IS NOT NULL AS placed, id FROM duck, columnless ORDER BY 2;
DROP TABLE duck;
