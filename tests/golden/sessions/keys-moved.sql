-- MERGE, ON CONFLICT DO UPDATE, and UPDATEs that only PostgreSQL can compute, of keys that others refer to.
CREATE SCHEMA moved; SET search_path=moved;
CREATE TABLE p (id int PRIMARY KEY, name text, mail text UNIQUE);
CREATE TABLE c (n int, p int REFERENCES p ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE n (n int, p int REFERENCES p ON UPDATE SET NULL ON DELETE SET NULL);
CREATE TABLE d (n int, p int DEFAULT 1 REFERENCES p ON UPDATE SET DEFAULT ON DELETE CASCADE);
CREATE TABLE m (n int, mail text REFERENCES p (mail) ON UPDATE CASCADE ON DELETE SET NULL);
CREATE TABLE l (n int, c int REFERENCES p ON UPDATE CASCADE ON DELETE RESTRICT);
INSERT INTO p VALUES (1, 'one', 'one@x'), (2, 'two', 'two@x'), (3, 'three', 'three@x'), (4, 'four', NULL), (5, 'five', 'five@x'), (6, 'six', 'six@x');
INSERT INTO c VALUES (1, 1), (2, 2), (22, 2), (3, 3), (4, 4), (5, 5), (6, 6);
INSERT INTO n SELECT * FROM c; INSERT INTO d SELECT * FROM c WHERE n <> 1; INSERT INTO m VALUES (2, 'two@x'), (3, 'three@x'), (5, 'five@x');
INSERT INTO l VALUES (3, 3), (4, 4);
-- one row, several, and none whose key moves
INSERT INTO p VALUES (20, 'zwei', 'two@x') ON CONFLICT (mail) DO UPDATE SET id = excluded.id, name = excluded.name;
SELECT * FROM p ORDER BY id; SELECT * FROM c ORDER BY n; SELECT * FROM n ORDER BY n; SELECT * FROM d ORDER BY n; SELECT * FROM m ORDER BY n;
INSERT INTO p VALUES (3, 'drei', 'drei@x'), (30, 'new', 'new@x'), (5, 'cinq', 'cinq@x') ON CONFLICT (id) DO UPDATE SET id = p.id * 100, mail = excluded.mail RETURNING *;
SELECT * FROM p ORDER BY id; SELECT * FROM c ORDER BY n; SELECT * FROM d ORDER BY n; SELECT * FROM m ORDER BY n; SELECT * FROM l ORDER BY n;
INSERT INTO p VALUES (300, 'tres', 'drei@x') ON CONFLICT (id) DO UPDATE SET name = excluded.name, id = p.id;
SELECT * FROM p ORDER BY id; SELECT * FROM c ORDER BY n;
-- MERGE moves some, deletes some, inserts some
MERGE INTO p USING (VALUES (1, 11), (300, 301), (500, 0), (7, 7), (20, 21)) s (id, next) ON p.id = s.id
  WHEN MATCHED AND s.next = 0 THEN DELETE
  WHEN MATCHED THEN UPDATE SET id = s.next, name = p.name || '!'
  WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'seven', 'seven@x');
WITH done AS (MERGE INTO p USING (VALUES (300, 301), (500, 0), (7, 7), (20, 21)) s (id, next) ON p.id = s.id
  WHEN MATCHED AND s.next = 0 THEN DELETE
  WHEN MATCHED THEN UPDATE SET id = s.next, name = p.name || '!'
  WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'seven', 'seven@x') RETURNING merge_action(), s.id AS source, p.*) SELECT * FROM done ORDER BY source;
SELECT * FROM p ORDER BY id; SELECT * FROM c ORDER BY n; SELECT * FROM n ORDER BY n; SELECT * FROM d ORDER BY n; SELECT * FROM m ORDER BY n; SELECT * FROM l ORDER BY n;
-- keys that are exchanged
MERGE INTO p USING (VALUES (6, 60), (4, 40)) s (id, next) ON p.id = s.id WHEN MATCHED THEN UPDATE SET id = s.next;
SELECT * FROM p ORDER BY id; SELECT * FROM c ORDER BY n; SELECT * FROM l ORDER BY n;
-- what forbids it
MERGE INTO p USING (VALUES (40)) s (id) ON p.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO p USING (VALUES (40, 301)) s (id, next) ON p.id = s.id WHEN MATCHED THEN UPDATE SET id = s.next;
DELETE FROM p WHERE id = 1; INSERT INTO d VALUES (60, 60);
MERGE INTO p USING (VALUES (60, 61)) s (id, next) ON p.id = s.id WHEN MATCHED THEN UPDATE SET id = s.next;
SELECT * FROM p ORDER BY id; SELECT * FROM d ORDER BY n;
-- in a block, with a savepoint, twice
TRUNCATE d;
BEGIN;
INSERT INTO p VALUES (60, 'x', NULL) ON CONFLICT (id) DO UPDATE SET id = 61;
SAVEPOINT s;
MERGE INTO p USING (VALUES (61)) s (id) ON p.id = s.id WHEN MATCHED THEN UPDATE SET id = 62;
SELECT * FROM c ORDER BY n;
ROLLBACK TO s;
SELECT * FROM c ORDER BY n;
MERGE INTO p USING (VALUES (61)) s (id) ON p.id = s.id WHEN MATCHED THEN UPDATE SET id = 63;
COMMIT;
SELECT * FROM p ORDER BY id; SELECT * FROM c ORDER BY n;
-- a key that only PostgreSQL can compute
UPDATE p SET id = (jsonb_path_query_first(to_jsonb(p), '$.id'))::int + 1000 WHERE (jsonb_path_query_first(to_jsonb(p), '$.id'))::int > 20;
SELECT * FROM p ORDER BY id; SELECT * FROM c ORDER BY n; SELECT * FROM l ORDER BY n;
UPDATE p SET mail = mail || '!' WHERE to_jsonb(p) @? '$.mail';
SELECT * FROM p ORDER BY id; SELECT * FROM m ORDER BY n;
-- a chain, and a table that refers to itself
CREATE TABLE tree (id int PRIMARY KEY, above int REFERENCES tree ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE leaf (tree int REFERENCES tree ON UPDATE CASCADE ON DELETE SET NULL);
INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 1), (4, 2); INSERT INTO leaf VALUES (1), (2), (3), (4);
MERGE INTO tree USING (VALUES (1, 10), (2, 20)) s (id, next) ON tree.id = s.id WHEN MATCHED THEN UPDATE SET id = s.next;
SELECT * FROM tree ORDER BY id; SELECT * FROM leaf ORDER BY 1;
MERGE INTO tree USING (VALUES (20, 0), (3, 30), (7, 7)) s (id, next) ON tree.id = s.id WHEN MATCHED AND s.next = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET id = s.next WHEN NOT MATCHED THEN INSERT VALUES (7, 10);
SELECT * FROM tree ORDER BY id; SELECT * FROM leaf ORDER BY 1;
INSERT INTO tree VALUES (10, NULL) ON CONFLICT (id) DO UPDATE SET id = 11;
SELECT * FROM tree ORDER BY id; SELECT * FROM leaf ORDER BY 1;
-- keys of several columns
CREATE TABLE pair (a int, b text, x int, PRIMARY KEY (a, b));
CREATE TABLE of (n int, a int, b text, FOREIGN KEY (a, b) REFERENCES pair ON UPDATE CASCADE ON DELETE SET NULL (b));
INSERT INTO pair VALUES (1, 'x', 0), (1, 'y', 0), (2, 'x', 0); INSERT INTO of VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'x');
INSERT INTO pair VALUES (1, 'x', 1), (2, 'x', 1) ON CONFLICT (a, b) DO UPDATE SET b = pair.b || pair.a, x = excluded.x;
SELECT * FROM pair ORDER BY a, b; SELECT * FROM of ORDER BY n;
MERGE INTO pair USING (VALUES (1, 'y'), (2, 'x2')) s (a, b) ON pair.a = s.a AND pair.b = s.b WHEN MATCHED AND s.a = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET a = 3;
SELECT * FROM pair ORDER BY a, b; SELECT * FROM of ORDER BY n;
DROP SCHEMA moved CASCADE;
