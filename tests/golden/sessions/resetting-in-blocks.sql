-- RESET ALL and DISCARD in blocks that have changed schemas before.
CREATE SCHEMA resetting_in_blocks;
SET search_path = resetting_in_blocks;
CREATE TABLE author (id integer PRIMARY KEY);
CREATE TABLE book (id serial PRIMARY KEY, author integer CONSTRAINT of_author REFERENCES author DEFERRABLE, n integer);
INSERT INTO author VALUES (1);
INSERT INTO book (author, n) VALUES (1, 10), (1, 20);
BEGIN;
SET CONSTRAINTS of_author DEFERRED;
SET datestyle = 'ISO, DMY';
SET app.tenant = 'x';
ALTER TABLE book ADD COLUMN day date DEFAULT '01/02/2003', ADD COLUMN tenant text DEFAULT current_setting('app.tenant');
RESET ALL;
SHOW search_path;
SHOW datestyle;
SHOW app.tenant;
SELECT * FROM resetting_in_blocks.book ORDER BY id;
INSERT INTO resetting_in_blocks.book (author) VALUES (9);
SAVEPOINT a;
ALTER TABLE resetting_in_blocks.author ADD COLUMN later date DEFAULT '01/02/2003';
SELECT * FROM resetting_in_blocks.author ORDER BY id;
ROLLBACK TO a;
SET CONSTRAINTS resetting_in_blocks.of_author IMMEDIATE;
ROLLBACK TO a;
UPDATE resetting_in_blocks.book SET author = 1;
COMMIT;
SELECT * FROM resetting_in_blocks.book ORDER BY id;
SET search_path = resetting_in_blocks;
-- Where nothing is deferred, and of the extended protocol.
BEGIN;
SET CONSTRAINTS of_author DEFERRED;
RESET ALL;
SET search_path = resetting_in_blocks;
INSERT INTO book (author) VALUES (8);
RESET ALL \bind \g
SET search_path = resetting_in_blocks;
ALTER TABLE author ADD COLUMN day date;
RESET ALL \bind \g
SELECT count(*) FROM resetting_in_blocks.book;
SAVEPOINT a;
ALTER TABLE resetting_in_blocks.author ADD COLUMN o integer;
ROLLBACK TO a;
SELECT * FROM resetting_in_blocks.book ORDER BY id LIMIT 1;
ROLLBACK;
SET search_path = resetting_in_blocks;
-- DISCARD
CREATE TEMP TABLE own (n integer);
BEGIN;
ALTER TABLE book ADD COLUMN k integer GENERATED ALWAYS AS IDENTITY (START 100);
INSERT INTO book (n) VALUES (30) RETURNING id, k;
PREPARE those AS SELECT k FROM book WHERE id = $1;
DISCARD PLANS;
DISCARD PLANS \bind \g
EXECUTE those (1);
DISCARD SEQUENCES;
SAVEPOINT s;
SELECT currval('book_k_seq');
ROLLBACK TO s;
INSERT INTO book (n) VALUES (40) RETURNING k;
CREATE VIEW seen AS SELECT b.n FROM book b, own;
DISCARD TEMP \bind \g
SELECT * FROM seen;
ROLLBACK TO s;
DISCARD ALL;
ROLLBACK TO s;
COMMIT;
SELECT nextval('book_k_seq');
DEALLOCATE those;
DROP SCHEMA resetting_in_blocks CASCADE;
