-- An UPDATE that leaves a reference as it is does not look for the referenced row, unless the transaction has made the row.
CREATE SCHEMA references_unchanged;
SET search_path = references_unchanged;
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE c (id int PRIMARY KEY, p int, v int);
INSERT INTO p VALUES (1), (2);
INSERT INTO c VALUES (1, 5, 1), (2, 1, 2), (3, 5, 3), (4, NULL, 4);
ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES p NOT VALID;
MERGE INTO c USING (VALUES (1), (2), (4)) s (i) ON c.id = s.i WHEN MATCHED THEN UPDATE SET v = 10;
INSERT INTO c VALUES (1, 5, 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO c SELECT id, p, v + 1 FROM c ON CONFLICT (id) DO UPDATE SET v = excluded.v, p = excluded.p;
UPDATE c SET p = p, v = 3;
UPDATE c SET (v, p) = (SELECT 11, 5) WHERE id = 1;
UPDATE c SET p = 5 + (random() * 0)::int WHERE id IN (1, 3);
SELECT * FROM c ORDER BY id;
-- what differs, and new rows, are checked
INSERT INTO c VALUES (1, 6, 9) ON CONFLICT (id) DO UPDATE SET p = excluded.p;
INSERT INTO c VALUES (1, 5, 9), (9, 5, 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
UPDATE c SET p = CASE WHEN id = 3 THEN 5 ELSE 7 END;
MERGE INTO c USING (VALUES (1), (9)) s (i) ON c.id = s.i WHEN MATCHED THEN UPDATE SET v = 12
WHEN NOT MATCHED THEN INSERT VALUES (s.i, 5);
MERGE INTO c USING (VALUES (1), (9)) s (i) ON c.id = s.i WHEN MATCHED THEN DELETE
WHEN NOT MATCHED THEN INSERT VALUES (1, 5);
MERGE INTO c USING (VALUES (1), (3), (9)) s (i) ON c.id = s.i WHEN MATCHED AND c.id = 1 THEN DELETE
WHEN MATCHED THEN UPDATE SET v = 12 WHEN NOT MATCHED THEN INSERT VALUES (1, 5);
MERGE INTO c USING (VALUES (1), (3), (9)) s (i) ON c.id = s.i WHEN MATCHED AND c.id = 2 THEN DELETE
WHEN MATCHED THEN UPDATE SET v = 13 WHEN NOT MATCHED THEN INSERT VALUES (9, 2);
MERGE INTO c USING (VALUES (1), (9)) s (i) ON c.id = s.i WHEN MATCHED THEN UPDATE SET p = 2;
SELECT * FROM c ORDER BY id;
UPDATE c SET p = 5 WHERE id = 1;
-- rows of the own transaction
BEGIN;
UPDATE c SET p = p, v = 20 WHERE id = 3;
UPDATE c SET v = 21 WHERE id = 1;
INSERT INTO c VALUES (10, 2, 0);
INSERT INTO p VALUES (3);
COMMIT;
BEGIN;
UPDATE c SET p = p, v = 20 WHERE id = 3;
UPDATE c SET p = p, v = 21 WHERE id = 3;
COMMIT;
SELECT * FROM c ORDER BY id;
-- deferred
ALTER TABLE c DROP CONSTRAINT f;
ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES p DEFERRABLE INITIALLY DEFERRED NOT VALID;
BEGIN;
INSERT INTO c VALUES (3, 5, 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
ALTER TABLE c ADD COLUMN w int;
UPDATE c SET p = p, w = 1 WHERE id = 2;
ALTER TABLE c DROP COLUMN w;
COMMIT;
BEGIN;
UPDATE c SET p = p, v = 30 WHERE id = 3;
UPDATE c SET p = 1 WHERE id = 10;
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
BEGIN;
UPDATE c SET p = 2 WHERE id = 10;
ALTER TABLE c ADD COLUMN w int;
ROLLBACK;
BEGIN;
UPDATE c SET p = p, v = 31 WHERE id = 3;
UPDATE c SET p = 8 WHERE id = 10;
COMMIT;
SELECT * FROM c ORDER BY id;
SET client_min_messages = error;
DROP SCHEMA references_unchanged CASCADE;
