-- ON CONFLICT that reads a query in WITH which changes the same table: it begins at the first conflict.
CREATE SCHEMA changing_late;
SET search_path = changing_late;
CREATE TABLE z (k integer PRIMARY KEY, v text);
INSERT INTO z SELECT g, 'v' || g FROM generate_series(1, 4) g;
WITH simple AS (SELECT 2 k, 'Green' v), inner_one AS (
    INSERT INTO z VALUES (2, 'Blue') ON CONFLICT (k) DO UPDATE SET (k, v) = (SELECT k, v FROM simple WHERE simple.k = z.k) RETURNING k, v)
INSERT INTO z VALUES (2, 'Red') ON CONFLICT (k) DO UPDATE SET (k, v) = (SELECT k, v FROM inner_one WHERE inner_one.k = z.k) RETURNING k, v;
SELECT * FROM z ORDER BY k;
WITH a AS (UPDATE z SET v = v || 'a' WHERE k < 3 RETURNING k, v) INSERT INTO z VALUES (1, 'x'), (3, 'y') ON CONFLICT (k) DO UPDATE SET v = (SELECT max(v) FROM a) RETURNING *;
SELECT * FROM z ORDER BY k;
WITH a AS (UPDATE z SET v = v || 'b' WHERE k = 1 RETURNING v) INSERT INTO z VALUES (3, 'x'), (1, 'y') ON CONFLICT (k) DO UPDATE SET v = (SELECT v FROM a);
WITH a AS (DELETE FROM z WHERE k = 4 RETURNING v) INSERT INTO z VALUES (4, 'x') ON CONFLICT (k) DO UPDATE SET v = (SELECT v FROM a) RETURNING *;
SELECT * FROM z ORDER BY k;
WITH a AS (INSERT INTO z VALUES (9, 'nine') RETURNING v) INSERT INTO z VALUES (9, 'x') ON CONFLICT (k) DO UPDATE SET v = (SELECT v FROM a);
WITH a AS (INSERT INTO z VALUES (9, 'nine') RETURNING v) INSERT INTO z VALUES (8, 'x') ON CONFLICT (k) DO UPDATE SET v = (SELECT v FROM a);
SELECT * FROM z ORDER BY k;
BEGIN;
WITH a AS (DELETE FROM z WHERE k = 1 RETURNING v) INSERT INTO z VALUES (8, 'x') ON CONFLICT (k) DO UPDATE SET v = excluded.v WHERE EXISTS (SELECT FROM a) RETURNING *;
SELECT * FROM z ORDER BY k;
ROLLBACK;
SELECT * FROM z ORDER BY k;
DROP SCHEMA changing_late CASCADE;
