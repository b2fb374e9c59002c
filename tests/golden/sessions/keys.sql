-- PRIMARY KEY and UNIQUE, on every way in.
CREATE SCHEMA keyed;
SET search_path = keyed;
CREATE TABLE account (id integer PRIMARY KEY, email text UNIQUE, branch smallint, number bigint, UNIQUE (branch, number));
\d account
INSERT INTO account VALUES (1, 'a@x', 1, 1), (2, 'b@x', 1, 2);
INSERT INTO account VALUES (1, 'c@x', 2, 1);
INSERT INTO account VALUES (3, 'c@x', 2, 1), (3, 'd@x', 2, 2);
INSERT INTO account VALUES (3, 'a@x', 2, 1);
INSERT INTO account VALUES (3, 'c@x', 1, 2);
INSERT INTO account VALUES (NULL, 'c@x', 9, 9);
INSERT INTO account VALUES (3, NULL, 1, NULL), (4, NULL, 1, NULL);
SELECT * FROM account ORDER BY id;
-- rows that came from the lake
INSERT INTO account SELECT id, email || '!', branch + 10, number FROM account;
INSERT INTO account SELECT id + 10, email || '!', branch + 10, number FROM account;
INSERT INTO account SELECT id + 20, email, 50, id FROM account WHERE id = 2;
SELECT count(*) FROM account;
-- UPDATE
UPDATE account SET id = 1 WHERE id = 2;
UPDATE account SET email = 'a@x' WHERE id = 3;
UPDATE account SET number = 7, branch = 7 WHERE id IN (3, 4);
UPDATE account SET id = id WHERE id = 2;
UPDATE account SET id = 5 WHERE id = 4;
UPDATE account SET email = email WHERE id < 3 RETURNING id;
-- a key that is free again
DELETE FROM account WHERE id = 1;
INSERT INTO account VALUES (1, 'a@x', 1, 1);
-- COPY
COPY account FROM STDIN;
100	z@x	100	1
101	y@x	100	2
\.
COPY account (id, email) FROM STDIN (FORMAT csv);
102,x@x
\.
SELECT count(*), max(id) FROM account;
-- in a transaction of its own
BEGIN;
INSERT INTO account (id) VALUES (200);
SAVEPOINT one;
INSERT INTO account (id) VALUES (200);
ROLLBACK TO one;
DELETE FROM account WHERE id = 200;
INSERT INTO account (id) VALUES (200) RETURNING id;
UPDATE account SET id = 201 WHERE id = 200;
INSERT INTO account (id) VALUES (200);
ROLLBACK TO one;
INSERT INTO account (id) VALUES (201);
COMMIT;
SELECT id FROM account WHERE id >= 200 ORDER BY id;
BEGIN;
TRUNCATE account;
INSERT INTO account (id) VALUES (1);
INSERT INTO account (id) VALUES (1);
ROLLBACK;
SELECT count(*) FROM account;
-- types whose equal values have several spellings
CREATE TABLE spelled (n numeric UNIQUE, d numeric(12, 4) UNIQUE, c char(6) UNIQUE, v varchar(10) UNIQUE,
    f double precision UNIQUE, r real UNIQUE, u uuid UNIQUE, b bytea UNIQUE, day date UNIQUE, t time UNIQUE,
    ts timestamp UNIQUE, tz timestamptz UNIQUE, l boolean UNIQUE);
INSERT INTO spelled VALUES (1.50, 1.5, 'x ', 'x', 0.0, 'NaN', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '\x00ff',
    'infinity', '24:00', '-infinity', '2024-01-01 00:00+00', true);
INSERT INTO spelled (n) VALUES (1.5);
INSERT INTO spelled (n) VALUES (1.500000000000000000000000000000000000000000000001);
INSERT INTO spelled (d) VALUES (1.50001);
INSERT INTO spelled (c) VALUES ('x');
INSERT INTO spelled (v) VALUES ('x');
INSERT INTO spelled (v) VALUES ('x ');
INSERT INTO spelled (f) VALUES ('-0');
INSERT INTO spelled (r) VALUES ('nan');
INSERT INTO spelled (u) VALUES ('{a0eebc999c0b4ef8bb6d6bb9bd380a11}');
INSERT INTO spelled (b) VALUES ('\x00FF');
INSERT INTO spelled (day) VALUES ('infinity');
INSERT INTO spelled (t) VALUES ('24:00:00');
INSERT INTO spelled (ts) VALUES ('-infinity');
SET timezone = 'UTC';
INSERT INTO spelled (tz) VALUES ('2024-01-01 02:00+02');
INSERT INTO spelled (l) VALUES ('yes');
INSERT INTO spelled (n) VALUES ('NaN'), ('Infinity'), (0), (100), (100000000000000000000000000000000000000000);
INSERT INTO spelled (n) VALUES ('NaN');
INSERT INTO spelled (n) VALUES (100.0);
INSERT INTO spelled (n) VALUES (-0.00);
SELECT count(*) FROM spelled;
CREATE TABLE nulls (a integer, b text, UNIQUE NULLS NOT DISTINCT (a, b));
INSERT INTO nulls VALUES (1, NULL), (NULL, NULL), (NULL, '');
INSERT INTO nulls VALUES (NULL, NULL);
INSERT INTO nulls VALUES (1, NULL);
INSERT INTO nulls VALUES (1, '');
SELECT count(*) FROM nulls;
-- a key that no longer holds
ALTER TABLE nulls DROP CONSTRAINT nulls_a_b_key;
INSERT INTO nulls VALUES (1, '');
SELECT count(*) FROM nulls;
DROP SCHEMA keyed CASCADE;
