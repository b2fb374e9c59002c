-- Columns of enumerations: their order is that of their labels, not of the texts.
CREATE TYPE mood AS ENUM ('zen', 'ok', 'it''s \ bad', 'angry');
CREATE TABLE person (
    id integer PRIMARY KEY, name text, now mood NOT NULL DEFAULT 'ok', usual mood,
    CHECK (usual IS DISTINCT FROM 'angry')
);
\d person
\dT+ mood
INSERT INTO person (id, name) VALUES (1, 'default');
INSERT INTO person VALUES (2, 'two', 'zen', 'it''s \ bad'), (3, 'three', 'angry', NULL), (4, 'four', 'it''s \ bad', 'zen'),
    (5, 'five', 'ok', 'ok');
INSERT INTO person VALUES (6, 'six', 'cheerful', NULL);
INSERT INTO person VALUES (6, 'six', NULL, NULL);
INSERT INTO person VALUES (6, 'six', 'ok', 'angry');
INSERT INTO person VALUES (1, 'again', 'ok', 'ok');
SELECT * FROM person ORDER BY now, id;
SELECT id, usual FROM person ORDER BY usual DESC NULLS LAST, id DESC;
SELECT id FROM person WHERE now = 'ok' ORDER BY id;
SELECT id FROM person WHERE now <> 'ok' ORDER BY id;
SELECT id FROM person WHERE now > 'ok' ORDER BY id;
SELECT id FROM person WHERE now BETWEEN 'zen' AND 'ok' ORDER BY id;
SELECT id FROM person WHERE now IN ('angry', 'zen') ORDER BY id;
SELECT id FROM person WHERE now = usual ORDER BY id;
SELECT id FROM person WHERE usual IS NULL ORDER BY id;
SELECT id FROM person WHERE usual IS DISTINCT FROM 'zen' ORDER BY id;
SELECT id FROM person WHERE now = 'nothing';
SELECT id FROM person WHERE now = 'ok'::text;
SELECT id FROM person WHERE now::text = 'ok' ORDER BY id;
SELECT min(now), max(now), min(usual), count(DISTINCT now), count(usual) FROM person;
SELECT now, count(*), max(id) FROM person GROUP BY now ORDER BY now;
SELECT now, usual, count(*) FROM person GROUP BY GROUPING SETS ((now), (usual)) ORDER BY 1, 2;
SELECT DISTINCT now FROM person ORDER BY 1 DESC;
SELECT DISTINCT ON (now) now, id FROM person ORDER BY now, id DESC;
SELECT a.id, b.id FROM person a JOIN person b ON a.now = b.usual ORDER BY 1, 2;
SELECT id, now, rank() OVER (ORDER BY now DESC), lag(now) OVER (ORDER BY id), max(now) OVER (ORDER BY id) FROM person ORDER BY id;
SELECT CASE WHEN id < 3 THEN now ELSE 'angry' END, coalesce(usual, now), nullif(now, 'ok') FROM person ORDER BY id;
SELECT greatest(now, 'ok'), least(now, usual) FROM person ORDER BY id;
SELECT now || '!', length(now::text), upper(now::text), pg_typeof(now) FROM person ORDER BY id;
SELECT array_agg(now ORDER BY now DESC), string_agg(now::text, ',' ORDER BY now) FROM person;
SELECT enum_first(now), enum_range(NULL::mood) FROM person WHERE id = 1;
SELECT now FROM person UNION SELECT usual FROM person ORDER BY 1;
SELECT now FROM person INTERSECT SELECT usual FROM person ORDER BY 1;
SELECT id FROM person WHERE now = (SELECT max(now) FROM person);
SELECT id FROM person WHERE now IN (SELECT usual FROM person) ORDER BY id;
SELECT v.m, id FROM (VALUES ('ok'::mood), ('zen'::mood)) AS v (m) JOIN person ON now = v.m ORDER BY v.m, id;
SELECT to_json(now), row_to_json(p) FROM person p WHERE id = 2;
SELECT id FROM person WHERE (now, id) > ('ok', 1) ORDER BY id;
SELECT 'ok'::mood < 'angry'::mood, 'zen'::mood = 'zen';
SELECT id, name::mood FROM person WHERE id = 1;
-- changes
UPDATE person SET now = 'angry' WHERE now = 'ok' AND id = 1 RETURNING id, now;
UPDATE person SET now = 'angry' WHERE now = 'ok';
UPDATE person SET now = 'lost';
UPDATE person SET now = usual WHERE usual IS NOT NULL;
UPDATE person SET usual = CASE WHEN id = 4 THEN 'ok'::mood ELSE usual END, now = DEFAULT WHERE id IN (3, 4) RETURNING *;
DELETE FROM person WHERE now = 'zen' RETURNING *;
INSERT INTO person SELECT id + 10, name, usual, now FROM person WHERE usual IS NOT NULL;
INSERT INTO person SELECT id + 20, name, name::mood, now FROM person WHERE id = 1;
INSERT INTO person SELECT id + 30, 'cast', (CASE WHEN id % 2 = 0 THEN 'zen' ELSE 'ok' END)::mood, NULL FROM person WHERE id < 4;
INSERT INTO person VALUES (1, 'again', 'zen', 'zen') ON CONFLICT (id) DO UPDATE SET now = EXCLUDED.now, name = person.now;
MERGE INTO person p USING (VALUES (2, 'angry'::mood), (99, 'zen'::mood)) AS s (i, m) ON p.id = s.i
    WHEN MATCHED THEN UPDATE SET now = s.m WHEN NOT MATCHED THEN INSERT (id, now) VALUES (s.i, s.m);
SELECT * FROM person ORDER BY id;
-- COPY
COPY person FROM STDIN;
41	tab	zen	\N
42	back	it's \\ bad	ok
\.
COPY person (id, now) FROM STDIN (FORMAT csv);
43,angry
44,sunny
\.
COPY (SELECT id, now, usual FROM person WHERE id > 40 ORDER BY now) TO STDOUT;
COPY (SELECT id, now, usual FROM person WHERE id > 40 ORDER BY id) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (now));
-- statements with parameters
PREPARE by_mood (mood) AS SELECT id FROM person WHERE now = $1 ORDER BY id;
EXECUTE by_mood ('zen');
EXECUTE by_mood ('sunny');
PREPARE above (mood) AS SELECT count(*) FROM person WHERE now > $1;
EXECUTE above ('ok');
PREPARE adding (integer, mood) AS INSERT INTO person (id, now) VALUES ($1, $2) RETURNING id, now;
EXECUTE adding (50, 'angry');
DEALLOCATE ALL;
-- a cursor
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, now FROM person ORDER BY now DESC, id;
FETCH 2 FROM c;
FETCH LAST FROM c;
COMMIT;
-- keys and references
CREATE TABLE level (m mood PRIMARY KEY, weight integer);
INSERT INTO level VALUES ('ok', 1), ('zen', 2), ('angry', 3);
INSERT INTO level VALUES ('zen', 9);
CREATE TABLE entry (id integer, m mood REFERENCES level ON UPDATE CASCADE ON DELETE SET NULL);
INSERT INTO entry VALUES (1, 'ok'), (2, 'zen'), (3, NULL), (4, 'angry');
INSERT INTO entry VALUES (5, 'it''s \ bad');
UPDATE level SET m = 'it''s \ bad' WHERE m = 'zen';
DELETE FROM level WHERE m = 'angry';
SELECT * FROM entry ORDER BY id;
SELECT e.id, l.weight FROM entry e LEFT JOIN level l USING (m) ORDER BY e.m, e.id;
INSERT INTO level VALUES ('ok', 5) ON CONFLICT (m) DO UPDATE SET weight = EXCLUDED.weight RETURNING *;
CREATE INDEX ON person (now);
SELECT id FROM person WHERE now = 'angry' ORDER BY id;
DROP TABLE entry, level;
-- ALTER TABLE
ALTER TABLE person ADD COLUMN future mood NOT NULL DEFAULT 'zen', ADD COLUMN past mood;
SELECT id, future, past FROM person WHERE id < 20 ORDER BY id;
ALTER TABLE person ALTER COLUMN future SET DEFAULT 'angry', ALTER COLUMN now DROP NOT NULL;
INSERT INTO person (id, now) VALUES (60, NULL) RETURNING future, now;
SELECT id FROM person WHERE future = 'zen' AND id > 40 ORDER BY id;
ALTER TABLE person RENAME COLUMN future TO later;
ALTER TABLE person DROP COLUMN past;
ALTER TABLE person ALTER COLUMN later DROP DEFAULT, ALTER COLUMN later TYPE varchar(20);
SELECT id, later, later < 'b' AS by_text FROM person WHERE id > 50 ORDER BY id;
ALTER TABLE person ALTER COLUMN later TYPE mood;
ALTER TABLE person ALTER COLUMN later TYPE mood USING later::mood;
SELECT id, later FROM person WHERE later > 'ok' ORDER BY id;
ALTER TABLE person ALTER COLUMN name TYPE mood USING left(name, 0)::mood;
ALTER TABLE person ADD CONSTRAINT calm CHECK (now < 'angry');
ALTER TABLE person ADD CONSTRAINT known CHECK (later IN ('zen', 'angry', 'ok'));
ALTER TABLE person ALTER COLUMN now SET NOT NULL;
CREATE TABLE copied AS SELECT id, now, later FROM person WHERE id < 5;
\d copied
SELECT * FROM copied ORDER BY now NULLS FIRST, id;
CREATE VIEW angry AS SELECT id, now FROM person WHERE now = 'angry';
SELECT * FROM angry ORDER BY id;
CREATE MATERIALIZED VIEW by_mood AS SELECT now, count(*) AS n FROM person GROUP BY now;
SELECT * FROM by_mood ORDER BY now;
DROP MATERIALIZED VIEW by_mood;
DROP VIEW angry;
DROP TABLE copied;
-- ALTER TYPE
ALTER TYPE mood ADD VALUE 'calm' BEFORE 'ok';
ALTER TYPE mood ADD VALUE IF NOT EXISTS 'calm';
ALTER TYPE mood ADD VALUE 'furious';
INSERT INTO person (id, now, later) VALUES (70, 'calm', 'zen'), (71, 'furious', 'ok');
SELECT id, now FROM person WHERE now < 'ok' OR now > 'angry' ORDER BY now, id;
SELECT max(now) FROM person;
BEGIN;
ALTER TYPE mood ADD VALUE 'new';
INSERT INTO person (id, now, later) VALUES (80, 'new', 'zen');
ROLLBACK;
BEGIN;
ALTER TYPE mood ADD VALUE 'new';
COPY person (id, now, later) FROM STDIN;
81	new	zen
\.
ROLLBACK;
BEGIN;
ALTER TYPE mood ADD VALUE 'newest';
SELECT max(now) FROM person;
COMMIT;
INSERT INTO person (id, now, later) VALUES (82, 'newest', 'zen') RETURNING now;
SELECT max(now) FROM person;
ALTER TYPE mood RENAME TO temper;
SELECT id, now, pg_typeof(now) FROM person WHERE now = 'newest';
BEGIN;
CREATE TYPE shade AS ENUM ('light', 'dark', 'black');
CREATE TABLE wall (id integer, s shade DEFAULT 'dark');
INSERT INTO wall VALUES (1, 'light'), (2, DEFAULT);
INSERT INTO wall SELECT 3, 'black'::shade FROM wall WHERE id = 1;
SELECT * FROM wall ORDER BY s DESC;
COMMIT;
SELECT * FROM wall ORDER BY s;
BEGIN;
ALTER TABLE wall ADD COLUMN t temper DEFAULT 'ok';
UPDATE wall SET t = 'furious' WHERE s = 'dark';
SELECT * FROM wall ORDER BY t, s;
ROLLBACK;
SELECT * FROM wall ORDER BY s;
DROP TYPE shade;
DROP TYPE shade CASCADE;
SELECT * FROM wall ORDER BY id;
DROP TABLE wall;
DROP TABLE person;
ALTER TYPE temper RENAME VALUE 'ok' TO 'fine';
CREATE TABLE again (m temper);
INSERT INTO again VALUES ('fine'), ('zen');
SELECT * FROM again ORDER BY m;
DROP TABLE again;
DROP TYPE temper;
