-- FOREIGN KEY: new rows, and every action.
CREATE SCHEMA referred;
SET search_path = referred;
CREATE TABLE branch (id integer PRIMARY KEY, name text UNIQUE);
CREATE TABLE account (id integer PRIMARY KEY, branch integer REFERENCES branch, boss integer REFERENCES account);
\d account
\d branch
INSERT INTO branch SELECT n, 'branch ' || n FROM generate_series(1, 5) n;
INSERT INTO account VALUES (1, 1, NULL), (2, 2, 1), (3, NULL, 2);
INSERT INTO account VALUES (4, 9, NULL);
INSERT INTO account VALUES (4, 1, 9);
INSERT INTO account VALUES (4, 1, 4);
INSERT INTO account SELECT id + 10, branch + 4, NULL FROM account ORDER BY id;
INSERT INTO account SELECT id + 10, branch + 1, NULL FROM account WHERE id < 3;
UPDATE account SET branch = 77 WHERE id = 1;
UPDATE account SET branch = 3 WHERE id = 1;
UPDATE account SET id = id, branch = branch;
COPY account FROM STDIN;
30	1	\N
31	8	\N
\.
COPY account FROM STDIN;
30	1	\N
31	2	30
\.
SELECT * FROM account ORDER BY id;
DELETE FROM branch WHERE id = 1;
DELETE FROM branch WHERE id IN (4, 5);
UPDATE branch SET id = 10 WHERE id = 2;
UPDATE branch SET name = upper(name);
DELETE FROM account WHERE id = 1;
DELETE FROM account WHERE id IN (1, 2, 3);
TRUNCATE branch;
DROP TABLE branch;
SELECT count(*) FROM account;
SELECT * FROM branch ORDER BY id;
-- actions
CREATE TABLE cascading (id integer PRIMARY KEY, branch integer REFERENCES branch ON DELETE CASCADE ON UPDATE CASCADE, note text DEFAULT 'x');
CREATE TABLE nulling (id integer, branch integer REFERENCES branch ON DELETE SET NULL ON UPDATE SET NULL,
    twice integer GENERATED ALWAYS AS (branch * 2) STORED);
CREATE TABLE defaulting (id integer, branch integer DEFAULT 1 REFERENCES branch ON DELETE SET DEFAULT ON UPDATE SET DEFAULT);
CREATE TABLE restricting (id integer, branch integer REFERENCES branch ON DELETE RESTRICT ON UPDATE RESTRICT);
CREATE TABLE leaf (id integer, cascading integer REFERENCES cascading ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO branch VALUES (20, 'twenty'), (21, 'twenty-one'), (22, 'twenty-two'), (23, 'twenty-three');
INSERT INTO cascading SELECT n, 20 + n % 2, 'row ' || n FROM generate_series(1, 6) n;
INSERT INTO leaf SELECT n, 1 + n % 6 FROM generate_series(1, 12) n;
INSERT INTO nulling VALUES (1, 20), (2, 21);
INSERT INTO defaulting VALUES (1, 20), (2, 21);
INSERT INTO restricting VALUES (1, 22);
DELETE FROM branch WHERE id = 22;
UPDATE branch SET id = 32 WHERE id = 22;
DELETE FROM branch WHERE id = 20;
SELECT * FROM cascading ORDER BY id;
SELECT * FROM leaf ORDER BY id;
SELECT * FROM nulling ORDER BY id;
SELECT * FROM defaulting ORDER BY id;
UPDATE branch SET id = id + 100 WHERE id IN (21, 23);
SELECT * FROM cascading ORDER BY id;
SELECT * FROM nulling ORDER BY id;
SELECT * FROM defaulting ORDER BY id;
UPDATE cascading SET id = id + 50;
SELECT * FROM leaf ORDER BY id;
BEGIN;
DELETE FROM cascading;
SELECT count(*) FROM leaf;
ROLLBACK;
SELECT count(*) FROM leaf;
TRUNCATE cascading CASCADE;
SELECT count(*) FROM leaf;
-- as the owner of the referring table, whoever deletes; what fails is said as PostgreSQL says it
CREATE TABLE firm (id integer PRIMARY KEY, name varchar UNIQUE);
CREATE TABLE clerk (id integer PRIMARY KEY, firm integer CHECK (firm < 100) REFERENCES firm ON DELETE SET NULL ON UPDATE CASCADE,
    owner text DEFAULT current_user, twice integer GENERATED ALWAYS AS (firm * 2) STORED,
    number integer GENERATED ALWAYS AS IDENTITY);
CREATE TABLE member (firm integer NOT NULL REFERENCES firm ON DELETE SET NULL ON UPDATE SET NULL,
    name varchar REFERENCES firm (name) ON UPDATE CASCADE ON DELETE SET DEFAULT, paid numeric(8, 2), at timestamptz, tags text[]);
CREATE TABLE alone (clerk integer DEFAULT 3 REFERENCES clerk ON DELETE SET DEFAULT);
INSERT INTO firm VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, NULL);
INSERT INTO clerk (id, firm) VALUES (1, 1), (2, 2), (3, NULL), (4, 1);
INSERT INTO member VALUES (3, 'two', 1.50, '2026-01-01 00:00+00', '{a,NULL,"b c"}'), (3, NULL, NULL, NULL, NULL);
INSERT INTO alone VALUES (1), (4);
CREATE ROLE referred_client;
GRANT USAGE ON SCHEMA referred TO referred_client;
GRANT SELECT, UPDATE, DELETE ON firm, clerk TO referred_client;
GRANT referred_client TO CURRENT_USER;
SET ROLE referred_client;
DELETE FROM firm WHERE id = 1;
UPDATE firm SET id = 22 WHERE id = 2;
UPDATE firm SET id = 122 WHERE id = 22;
UPDATE firm SET name = 'zwei' WHERE name = 'two';
DELETE FROM clerk WHERE id = 1;
DELETE FROM firm WHERE id = 3;
UPDATE firm SET id = 33 WHERE id = 3;
DELETE FROM clerk WHERE id = 3;
SELECT * FROM member;
INSERT INTO clerk (id) VALUES (9);
RESET ROLE;
SELECT id, firm, owner, twice, number FROM clerk ORDER BY id;
SELECT * FROM member ORDER BY paid;
SELECT * FROM alone ORDER BY clerk;
DROP TABLE alone, member, clerk, firm;
DROP OWNED BY referred_client;
DROP ROLE referred_client;
-- a tree
CREATE TABLE tree (id integer PRIMARY KEY, parent integer REFERENCES tree ON DELETE CASCADE);
INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, NULL), (6, 5);
DELETE FROM tree WHERE id = 2;
SELECT * FROM tree ORDER BY id;
-- two columns, other types of the same class
CREATE TABLE pair (a bigint, b varchar(10), PRIMARY KEY (a, b));
CREATE TABLE single (x smallint, y text, FOREIGN KEY (x, y) REFERENCES pair ON DELETE SET NULL (y));
INSERT INTO pair VALUES (1, 'one'), (2, 'two');
INSERT INTO single VALUES (1, 'one'), (1, NULL), (NULL, 'none'), (2, 'two');
INSERT INTO single VALUES (1, 'two');
DELETE FROM pair WHERE a = 1;
SELECT * FROM single ORDER BY x, y;
-- deferred to COMMIT
CREATE TABLE egg (id integer PRIMARY KEY, hen integer);
CREATE TABLE hen (id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, egg integer NOT NULL REFERENCES egg DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO hen VALUES (1, 1);
INSERT INTO egg VALUES (1, 1);
COMMIT;
BEGIN;
INSERT INTO hen VALUES (2, 2);
COMMIT;
BEGIN;
DELETE FROM egg;
INSERT INTO egg VALUES (1, 2);
COMMIT;
BEGIN;
DELETE FROM egg;
SELECT count(*) FROM egg;
COMMIT;
INSERT INTO hen VALUES (3, 3);
INSERT INTO hen VALUES (1, 1);
BEGIN;
INSERT INTO hen VALUES (1, 1);
DELETE FROM hen WHERE id = 1;
INSERT INTO hen VALUES (1, 1);
COMMIT;
SELECT * FROM hen ORDER BY id;
SELECT * FROM egg ORDER BY id;
-- SET CONSTRAINTS
SET CONSTRAINTS ALL DEFERRED;
CREATE TABLE nest (id integer PRIMARY KEY, hen integer UNIQUE DEFERRABLE, egg integer CONSTRAINT "Its egg" REFERENCES egg DEFERRABLE);
INSERT INTO egg VALUES (50, 1), (51, 1) ON CONFLICT DO NOTHING;
INSERT INTO nest VALUES (1, 1, 50), (2, 2, 51);
BEGIN;
UPDATE nest SET hen = 2 WHERE id = 1;
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE nest SET hen = 2 WHERE id = 1;
UPDATE nest SET hen = 1 WHERE id = 2;
INSERT INTO nest VALUES (3, 3, 99);
INSERT INTO nest VALUES (2, 4, 50);
ROLLBACK;
BEGIN;
SET CONSTRAINTS nest_hen_key DEFERRED;
UPDATE nest SET hen = 2 WHERE id = 1;
UPDATE nest SET hen = 1 WHERE id = 2;
COMMIT;
SELECT * FROM nest ORDER BY id;
BEGIN;
SET CONSTRAINTS referred."Its egg", nest_hen_key DEFERRED;
INSERT INTO nest VALUES (3, 3, 99);
SET CONSTRAINTS nest_hen_key IMMEDIATE;
SET CONSTRAINTS "Its egg" IMMEDIATE;
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
SAVEPOINT s;
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO nest VALUES (3, 3, 99);
ROLLBACK TO s;
INSERT INTO nest VALUES (3, 3, 99);
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO nest VALUES (3, 3, 99);
INSERT INTO egg VALUES (99, 1);
COMMIT;
SET CONSTRAINTS nothing_of_that_name DEFERRED;
SET CONSTRAINTS nest_pkey DEFERRED;
SELECT * FROM nest ORDER BY id;
DROP TABLE nest;
ALTER TABLE hen DROP CONSTRAINT hen_egg_fkey;
INSERT INTO hen VALUES (9, 9);
DELETE FROM egg;
SELECT count(*) FROM hen;
DROP SCHEMA referred CASCADE;
