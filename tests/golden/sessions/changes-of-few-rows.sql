-- Schema changes over few rows, which no engine but PostgreSQL looks at, and their errors.
CREATE SCHEMA few; SET search_path = few;
CREATE TABLE parent (id bigint PRIMARY KEY, name text, day date, UNIQUE (name, day));
CREATE TABLE child (id int, ref int, name varchar(10), day date, note text, n numeric(6, 2));
INSERT INTO parent VALUES (1, 'a', '2024-01-01'), (2, 'b', '2024-01-02'), (3, 'c', 'infinity');
INSERT INTO child VALUES (1, 1, 'a', '2024-01-01', '10', 1.5), (2, 3, 'c', 'infinity', '20', 2), (3, NULL, 'x', NULL, ' 30 ', NULL);
INSERT INTO child SELECT g, 2, 'b', '2024-01-02', g::text, g FROM generate_series(4, 20) g;
DELETE FROM child WHERE id = 20;
-- What all rows meet
ALTER TABLE child ALTER id SET NOT NULL, ADD CHECK (id > 0 AND n IS DISTINCT FROM 0);
ALTER TABLE child ADD CONSTRAINT of_parent FOREIGN KEY (ref) REFERENCES parent;
ALTER TABLE child ADD CONSTRAINT of_both FOREIGN KEY (name, day) REFERENCES parent (name, day);
ALTER TABLE child ADD CONSTRAINT one_id UNIQUE (id), ADD UNIQUE (name, day, id);
CREATE UNIQUE INDEX by_ref ON child (ref, id);
CREATE UNIQUE INDEX by_text ON child ((note || id));
-- What a row violates
ALTER TABLE child ALTER ref SET NOT NULL;
ALTER TABLE child ALTER day SET NOT NULL;
ALTER TABLE child ADD CONSTRAINT small CHECK (n < 10 AND length(name) = 1);
ALTER TABLE child ADD CONSTRAINT twice UNIQUE (ref);
ALTER TABLE child ADD CONSTRAINT again PRIMARY KEY (name, day);
CREATE UNIQUE INDEX twice ON child (day, ref);
INSERT INTO child VALUES (21, 2, 'z', '2024-01-05', '40', 3);
INSERT INTO child (id, ref) VALUES (22, 9);
ALTER TABLE child DROP CONSTRAINT of_both;
INSERT INTO child VALUES (21, 2, 'z', '2024-01-05', '40', 3);
ALTER TABLE child ADD CONSTRAINT of_both FOREIGN KEY (name, day) REFERENCES parent (name, day);
ALTER TABLE child ADD CONSTRAINT of_both FOREIGN KEY (name, day) REFERENCES parent (name, day) NOT VALID;
ALTER TABLE child VALIDATE CONSTRAINT of_both;
DELETE FROM child WHERE id = 21;
ALTER TABLE child VALIDATE CONSTRAINT of_both;
-- Nulls that are not distinct, and equality that bytes do not decide
CREATE UNIQUE INDEX nulls ON child (ref, n) NULLS NOT DISTINCT WHERE id < 4;
CREATE COLLATION few.blind (provider = builtin, locale = 'C.UTF-8');
ALTER TABLE parent ADD CONSTRAINT plain UNIQUE (name), ALTER name TYPE text COLLATE "C";
-- New types
ALTER TABLE child ALTER note TYPE int USING trim(note)::int + id, ALTER n TYPE numeric(8, 4);
SELECT id, note, n FROM child ORDER BY id LIMIT 4;
ALTER TABLE child ALTER note TYPE text USING CASE WHEN id = 3 THEN NULL ELSE 'n' || note END;
ALTER TABLE child ALTER note TYPE int USING note::int;
ALTER TABLE child ALTER name TYPE varchar(0);
SELECT id, note, day FROM child ORDER BY id LIMIT 4;
-- In a block
BEGIN;
INSERT INTO child VALUES (30, 1, 'a', '2024-01-01', 'x', 4);
ALTER TABLE child ADD CONSTRAINT later CHECK (id <= 30), ALTER note TYPE varchar(5);
SAVEPOINT s;
ALTER TABLE child ADD CONSTRAINT never CHECK (id < 30);
ROLLBACK TO s;
ALTER TABLE child ALTER id TYPE text, DROP CONSTRAINT later;
SELECT count(*), max(id) FROM child;
COMMIT;
-- By somebody who may make no temporary tables, and under policies
CREATE ROLE few_owner; GRANT few_owner TO CURRENT_USER; GRANT ALL ON SCHEMA few TO few_owner;
CREATE TABLE owned (a int, b text); INSERT INTO owned VALUES (1, '1'), (2, '2'), (2, 'x');
ALTER TABLE owned OWNER TO few_owner;
ALTER TABLE owned ENABLE ROW LEVEL SECURITY; ALTER TABLE owned FORCE ROW LEVEL SECURITY;
CREATE POLICY some ON owned USING (a = 1);
SET ROLE few_owner;
ALTER TABLE owned ADD CONSTRAINT first CHECK (a < 2);
ALTER TABLE owned ADD CONSTRAINT second UNIQUE (a);
ALTER TABLE owned ALTER b TYPE int USING b::int;
ALTER TABLE owned ALTER b TYPE varchar(4) USING b || a;
RESET ROLE;
ALTER TABLE owned NO FORCE ROW LEVEL SECURITY;
SELECT * FROM owned ORDER BY a, b;
-- Domains judge no rows that are there already
CREATE DOMAIN positive AS int;
CREATE TABLE judged (d positive, e int); INSERT INTO judged VALUES (-1, 1), (2, 2);
ALTER DOMAIN positive ADD CONSTRAINT above CHECK (VALUE > 0) NOT VALID;
ALTER TABLE judged ADD CHECK (e > 0), ALTER e SET NOT NULL;
ALTER TABLE judged ALTER e TYPE text;
SELECT e FROM judged ORDER BY e;
DROP SCHEMA few CASCADE; DROP ROLE few_owner;
