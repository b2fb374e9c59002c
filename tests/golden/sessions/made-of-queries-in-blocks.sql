-- CREATE TABLE AS and SELECT INTO in blocks that have changed the tables of the query.
CREATE SCHEMA made_of_queries;
SET search_path = made_of_queries;
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN size AS integer;
CREATE TABLE item (id integer PRIMARY KEY, price numeric(10, 2), code character(4), name varchar(20) COLLATE "C",
    mood mood, size size, sizes integer[], at timestamp(3));
INSERT INTO item VALUES (1, 1.5, 'ab', 'one', 'sad', 5, '{1,2}', '2020-01-01 10:00:00.1234'),
    (2, 2.5, 'cd', 'two', 'glad', 6, NULL, NULL), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- Columns, names and types
BEGIN;
ALTER TABLE item ADD COLUMN added integer DEFAULT 7;
CREATE TABLE copied AS SELECT * FROM item;
SELECT * FROM copied ORDER BY id;
\d copied
CREATE TABLE renamed (a, "B c") AS SELECT id, added + 0.5 FROM item WITH DATA;
SELECT * FROM renamed ORDER BY a;
\d renamed
CREATE TABLE IF NOT EXISTS renamed AS SELECT 1 AS other;
CREATE TABLE IF NOT EXISTS fresh AS SELECT max(added) AS most, name COLLATE "POSIX" AS name FROM item GROUP BY name;
\d fresh
SELECT * FROM fresh ORDER BY name;
CREATE TABLE emptied WITH (fillfactor = 70) AS SELECT added, added::bigint AS large FROM item WITH NO DATA;
SELECT * FROM emptied;
SELECT relpersistence, reloptions FROM pg_class WHERE relname = 'emptied';
SELECT id, added INTO taken FROM item WHERE id < 3;
SELECT * FROM taken ORDER BY id;
INSERT INTO taken SELECT id + 10, added FROM item RETURNING *;
ALTER TABLE taken ADD COLUMN more text DEFAULT 'x';
SELECT * FROM taken ORDER BY id;
CREATE TABLE again AS SELECT more, count(*) FROM taken JOIN item USING (added) GROUP BY more;
SELECT * FROM again;
SELECT count(*) FROM item;
COMMIT;
\d copied
SELECT id, added FROM copied ORDER BY id;
SELECT * FROM renamed ORDER BY a;
SELECT * FROM fresh ORDER BY name;
SELECT count(*) FROM emptied;
SELECT * FROM taken ORDER BY id;
SELECT * FROM again;
SELECT id, added FROM item ORDER BY id;

-- Savepoints and ROLLBACK
BEGIN;
ALTER TABLE item DROP COLUMN code;
SAVEPOINT s;
CREATE TABLE less AS SELECT * FROM item;
SELECT id, price, added FROM less ORDER BY id;
ROLLBACK TO s;
SELECT * FROM less;
ROLLBACK TO s;
CREATE TABLE less AS SELECT id FROM item;
SAVEPOINT t;
ALTER TABLE item RENAME COLUMN name TO title;
CREATE TABLE titles AS SELECT title, id FROM item;
SELECT * FROM titles ORDER BY id;
ROLLBACK TO t;
SELECT count(*) FROM less;
CREATE TABLE titles AS SELECT name FROM item;
ROLLBACK;
SELECT * FROM less;
SELECT code FROM item ORDER BY id;

-- Errors
BEGIN;
ALTER TABLE item ADD COLUMN m integer DEFAULT 1;
SAVEPOINT s;
CREATE TABLE item AS SELECT 1 AS one;
ROLLBACK TO s;
CREATE TABLE failing AS SELECT nothing FROM item;
ROLLBACK TO s;
CREATE TABLE failing AS SELECT m / 0 AS n FROM item;
ROLLBACK TO s;
CREATE TABLE failing (a, b) AS SELECT m FROM item;
ROLLBACK TO s;
CREATE TABLE failing AS SELECT id, id FROM item;
ROLLBACK TO s;
CREATE TABLE nowhere.failing AS SELECT id FROM item;
ROLLBACK TO s;
CREATE TABLE failing AS SELECT m FROM item;
SELECT * FROM failing;
COMMIT;
SELECT * FROM failing;

-- Names that the block gives and takes
BEGIN;
ALTER TABLE failing RENAME TO failed;
CREATE TABLE failing AS SELECT m + 1 AS m FROM failed;
SELECT * FROM failing;
COMMIT;
SELECT * FROM failed;
SELECT * FROM failing;
BEGIN;
DROP TABLE failed;
CREATE TABLE later AS SELECT count(*) FROM failing;
SELECT * FROM later;
CREATE TABLE failed AS SELECT * FROM later;
SELECT * FROM failed;
COMMIT;
SELECT * FROM failed;
BEGIN;
CREATE TABLE failed_next AS SELECT * FROM failed;
DROP TABLE failed;
ALTER TABLE failed_next RENAME TO failed;
SELECT * FROM failed;
COMMIT;
SELECT * FROM failed;
BEGIN;
ALTER TABLE item ADD COLUMN k integer;
ALTER TYPE mood RENAME TO temper;
CREATE TABLE tempers AS SELECT mood, size FROM item;
SELECT * FROM tempers ORDER BY mood;
\d tempers
COMMIT;
\d tempers
CREATE ROLE made_of_queries_reader;
BEGIN;
ALTER DEFAULT PRIVILEGES IN SCHEMA made_of_queries GRANT SELECT ON TABLES TO made_of_queries_reader;
ALTER TABLE item DROP COLUMN k;
GRANT INSERT ON ALL TABLES IN SCHEMA made_of_queries TO made_of_queries_reader;
CREATE TABLE granted AS SELECT id FROM item;
SELECT has_table_privilege('made_of_queries_reader', 'granted', 'SELECT'),
    has_table_privilege('made_of_queries_reader', 'granted', 'INSERT');
COMMIT;
SELECT has_table_privilege('made_of_queries_reader', 'granted', 'SELECT'),
    has_table_privilege('made_of_queries_reader', 'granted', 'INSERT');
BEGIN;
ALTER SCHEMA made_of_queries RENAME TO made_elsewhere;
CREATE TABLE made_elsewhere.moved AS SELECT id FROM made_elsewhere.item;
SELECT * FROM made_elsewhere.moved ORDER BY id;
ALTER SCHEMA made_elsewhere RENAME TO made_of_queries;
COMMIT;
SELECT * FROM moved ORDER BY id;

-- What is prepared, what PostgreSQL computes, what takes numbers, files written anew
PREPARE p AS SELECT id, m FROM item WHERE id < $1;
CREATE SEQUENCE numbers;
BEGIN;
ALTER TABLE item ALTER COLUMN m TYPE text USING 'm' || m;
DEALLOCATE p;
PREPARE p AS SELECT id, m FROM item WHERE id < $1;
CREATE TABLE executed AS EXECUTE p (3);
SELECT * FROM executed ORDER BY id;
CREATE TABLE computed AS SELECT to_json(i)::text AS j FROM (SELECT id, m FROM item) i;
SELECT * FROM computed ORDER BY j;
CREATE TABLE numbered AS SELECT nextval('numbers') AS n FROM item;
SELECT * FROM numbered ORDER BY n;
CREATE TABLE generated AS SELECT g, 'a' AS a FROM generate_series(1, 3) g;
SELECT * FROM generated ORDER BY g;
CREATE TABLE no_rows AS EXECUTE p (1) WITH NO DATA;
SELECT * FROM no_rows;
TRUNCATE generated;
CREATE TABLE of_emptied AS SELECT * FROM generated;
SELECT count(*) FROM of_emptied;
CREATE TABLE locking AS SELECT id FROM item WHERE id = 1 FOR UPDATE;
SELECT * FROM locking;
COMMIT;
SELECT id, m FROM item ORDER BY id;
SELECT * FROM executed ORDER BY id;
SELECT * FROM computed ORDER BY j;
SELECT * FROM numbered ORDER BY n;
SELECT count(*) FROM of_emptied;

-- A table in the place of another
CREATE TABLE report AS SELECT 1 AS one;
BEGIN;
DROP TABLE IF EXISTS report;
CREATE TABLE report AS SELECT id, m FROM item;
SELECT * FROM report ORDER BY id;
INSERT INTO report VALUES (50, 'x');
SAVEPOINT s;
DROP TABLE report;
CREATE TABLE report (two) AS SELECT count(*) FROM item;
SELECT * FROM report;
ROLLBACK TO s;
ALTER TABLE report ADD PRIMARY KEY (id);
INSERT INTO report VALUES (50, 'y');
ROLLBACK TO s;
CREATE TABLE report AS SELECT 1;
ROLLBACK TO s;
\d report
ALTER TABLE report RENAME TO "Report\s";
CREATE TABLE report AS SELECT max(m) AS most FROM "Report\s";
SELECT * FROM report;
COMMIT;
SELECT * FROM report;
SELECT * FROM "Report\s" ORDER BY id;
\d report
BEGIN;
ALTER TABLE report RENAME TO report_old;
SELECT most, most AS again INTO report FROM report_old;
UPDATE report SET again = 'b';
SELECT * FROM report;
DROP TABLE report_old;
CREATE TABLE IF NOT EXISTS report AS SELECT 1;
CREATE TABLE made_of_queries.report_old WITH (fillfactor = 60) AS SELECT 2 AS two WITH NO DATA;
ALTER TABLE report_old ADD COLUMN three integer;
INSERT INTO report_old VALUES (2, 3);
SELECT * FROM report_old;
COMMIT;
SELECT * FROM report;
SELECT * FROM report_old;
SELECT relname, reloptions FROM pg_class WHERE relname ~ '^report' ORDER BY relname;
BEGIN;
DROP TABLE report;
CREATE TABLE report AS SELECT 1 AS one;
ROLLBACK;
SELECT * FROM report;

-- Numbers of a sequence that the block makes, domains and labels that it changes, keys of what is made
BEGIN;
ALTER TABLE item ADD COLUMN number serial;
CREATE TABLE counted AS SELECT number, nextval('item_number_seq') AS next FROM item;
SELECT * FROM counted ORDER BY number;
INSERT INTO item (id) VALUES (4) RETURNING number;
ALTER TABLE counted ADD PRIMARY KEY (number);
ALTER TABLE item ADD FOREIGN KEY (number) REFERENCES counted NOT VALID;
SAVEPOINT s;
INSERT INTO counted SELECT number, 0 FROM item;
ROLLBACK TO s;
INSERT INTO item (id, number) VALUES (5, 90);
ROLLBACK TO s;
ALTER DOMAIN size ADD CONSTRAINT small CHECK (value < 10);
CREATE TABLE sized AS SELECT id, size FROM item;
INSERT INTO sized VALUES (9, 10);
ROLLBACK TO s;
CREATE TABLE sized AS SELECT id, (size + 1)::size AS size FROM item;
ALTER DOMAIN size ADD CONSTRAINT small CHECK (value < 7);
ROLLBACK TO s;
ALTER DOMAIN size ADD CONSTRAINT small CHECK (value < 10);
CREATE TABLE sized AS SELECT id, size FROM item;
SELECT * FROM sized ORDER BY id;
COMMIT;
SELECT * FROM counted ORDER BY number;
SELECT id, number FROM item ORDER BY id;
INSERT INTO sized VALUES (9, 10);

-- Nothing is deferred
BEGIN;
CREATE TABLE lonely AS SELECT nothing FROM item;
SELECT 1;
ROLLBACK;
BEGIN;
SAVEPOINT s;
CREATE TABLE lonely AS SELECT 1 / (id - 1) AS n FROM item;
ROLLBACK TO s;
CREATE TABLE lonely AS SELECT id FROM item;
CREATE TABLE IF NOT EXISTS lonely AS SELECT 1;
ALTER TABLE lonely RENAME TO alone;
ALTER TABLE item ADD COLUMN last integer;
CREATE TABLE lonely AS SELECT count(*) FROM alone;
SELECT * FROM lonely;
COMMIT;
SELECT * FROM alone ORDER BY id;
BEGIN \; CREATE TABLE several AS SELECT id FROM item \; SELECT count(*) FROM several \; COMMIT;
CREATE TABLE one_more AS SELECT id FROM several \; SELECT count(*) FROM one_more;

-- Temporary tables
BEGIN;
ALTER TABLE item ADD COLUMN t integer DEFAULT 9;
CREATE TEMP TABLE passing AS SELECT id, t, m, price FROM item;
SELECT * FROM passing ORDER BY id;
SELECT i.id, p.t + i.t AS sum FROM item i JOIN passing p USING (id) ORDER BY id;
CREATE TEMP TABLE IF NOT EXISTS passing AS SELECT id FROM item;
CREATE TEMP TABLE leaving (a) ON COMMIT DROP AS SELECT t FROM item;
SELECT * FROM leaving;
SELECT id, t INTO TEMP taking FROM item WHERE id = 1;
SELECT * FROM taking;
SAVEPOINT s;
CREATE TEMP TABLE going AS SELECT t FROM item;
ALTER TABLE item RENAME TO items;
ROLLBACK TO s;
SELECT * FROM going;
ROLLBACK TO s;
CREATE TEMP TABLE passing AS SELECT id FROM item;
ROLLBACK TO s;
CREATE TEMP TABLE going AS SELECT t / 0 AS t FROM item;
ROLLBACK TO s;
PREPARE q AS SELECT id, t FROM item WHERE id < $1;
CREATE TEMP TABLE executed_too AS EXECUTE q (3);
SELECT * FROM executed_too ORDER BY id;
CREATE TEMP TABLE nothing AS SELECT id, t FROM item WITH NO DATA;
SELECT * FROM nothing;
CREATE TEMP TABLE item AS SELECT id + 100 AS id, t FROM item;
SELECT * FROM item ORDER BY id;
UPDATE passing SET t = 1 WHERE id = 1;
SELECT id, t FROM passing ORDER BY id;
COMMIT;
SELECT * FROM leaving;
SELECT id, t FROM passing ORDER BY id;
SELECT * FROM taking;
SELECT * FROM item ORDER BY id;
DROP TABLE item;
SELECT id, t FROM item ORDER BY id;
BEGIN;
ALTER TABLE item DROP COLUMN t;
CREATE TEMP TABLE computed_too AS SELECT i FROM (SELECT id, m FROM item) i;
SELECT * FROM computed_too ORDER BY 1;
CREATE TEMP TABLE locked AS SELECT id FROM item FOR UPDATE;
SELECT * FROM locked ORDER BY id;
ROLLBACK;
SELECT * FROM computed_too;
DROP OWNED BY made_of_queries_reader;
DROP ROLE made_of_queries_reader;
DROP SCHEMA made_of_queries CASCADE;
