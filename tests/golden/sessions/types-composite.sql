-- Columns of composite types, of arrays of them, of domains over them, and of enumerations without labels.
CREATE TYPE address AS (street text, zip integer, since date);
CREATE DOMAIN home AS address CHECK ((VALUE).zip > 0);
CREATE TYPE amount AS (value numeric, took interval, data bytea);
CREATE TABLE person (id integer PRIMARY KEY, at address, all_of address[], own home, cost amount DEFAULT '(1.50,1 day,"\\xff")');
\d person
INSERT INTO person VALUES (1, ('Main, "5"', 123, '2020-02-01'), ARRAY[ROW('a', 1, NULL), NULL]::address[], ROW('x', 1, NULL));
INSERT INTO person VALUES (2, '(,,)', '{}', NULL, (1.5, '1 mon -02:00:00', '\x0a'));
INSERT INTO person VALUES (3, NULL, NULL, '(x,0,)');
INSERT INTO person VALUES (3, NULL, '{{"(a,1,)"},{"(b,2,)"}}', '(x,7,)', NULL);
SELECT * FROM person ORDER BY id;
SET datestyle = 'German';
SET intervalstyle = 'sql_standard';
SET bytea_output = 'escape';
SELECT * FROM person ORDER BY id;
INSERT INTO person SELECT id + 10, at, all_of, own, cost FROM person;
RESET datestyle;
RESET intervalstyle;
RESET bytea_output;
SELECT * FROM person WHERE id > 10 ORDER BY id;
SELECT id, (at).street, (at).since, all_of[1].zip, (cost).took FROM person ORDER BY id;
SELECT id, at IS NULL, at IS NOT NULL FROM person ORDER BY id;
SELECT id FROM person WHERE at = ROW('Main, "5"', 123, '2020-02-01')::address ORDER BY id;
SELECT id FROM person WHERE cost = ROW(1.500, '24:00:00', '\xff')::amount ORDER BY id;
SELECT cost, count(*) FROM person GROUP BY cost ORDER BY cost;
SELECT DISTINCT own FROM person ORDER BY own;
UPDATE person SET at.zip = 9 WHERE id = 1 RETURNING at;
UPDATE person SET own.zip = -1 WHERE id = 1;
UPDATE person SET all_of[3] = ROW('c', 3, NULL) WHERE id = 1 RETURNING all_of;
UPDATE person SET id = 4 WHERE id = 3;
DELETE FROM person WHERE (at).zip = 123;
SELECT * FROM person ORDER BY id;
COPY person TO STDOUT;
COPY person (id, at, own) FROM STDIN (FORMAT csv);
30,"(a,5,)","(b,6,)"
\.
COPY person (id, own) FROM STDIN (FORMAT csv);
31,"(b,0,)"
\.
SELECT id, at, own, cost FROM person WHERE id = 30;
ALTER TYPE address RENAME ATTRIBUTE zip TO code;
SELECT row_to_json(p) FROM person p WHERE id = 30;
SELECT p FROM person p WHERE id = 30;
SELECT a.id, b.id FROM person a JOIN person b ON a.at = b.at WHERE a.id < b.id ORDER BY 1, 2;
CREATE VIEW streets AS SELECT id, (at).street FROM person;
SELECT * FROM streets ORDER BY id;
CREATE TYPE empty AS ENUM ();
CREATE TABLE nothing (x empty, many empty[]);
INSERT INTO nothing VALUES (NULL, '{}');
INSERT INTO nothing VALUES ('a', NULL);
ALTER TYPE empty ADD VALUE 'a';
INSERT INTO nothing VALUES ('a', '{a,NULL}');
SELECT * FROM nothing ORDER BY x;
CREATE TABLE IF NOT EXISTS nothing (x empty);
DROP TABLE nothing;
DROP VIEW streets;
DROP TABLE person;
DROP DOMAIN home;
DROP TYPE address, amount, empty;
