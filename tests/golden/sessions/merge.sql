-- MERGE
CREATE SCHEMA merging;
SET search_path = merging;
CREATE TABLE target (id integer PRIMARY KEY, balance numeric(10, 2) CHECK (balance >= 0), note text DEFAULT 'fresh');
CREATE TABLE source (sid integer, delta numeric(10, 2));
CREATE TABLE plain (a integer, b text);
INSERT INTO target VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, 'three'), (4, 40, 'four');
INSERT INTO source VALUES (2, 5), (3, 0), (5, 50), (6, 60);
INSERT INTO plain VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, 'y');
MERGE INTO target t USING source s ON t.id = s.sid
WHEN MATCHED AND s.delta > 0 THEN UPDATE SET balance = t.balance + s.delta
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED THEN INSERT (id, balance) VALUES (s.sid, s.delta);
SELECT * FROM target ORDER BY id;
MERGE INTO target USING source ON id = sid WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (sid, delta, 'again')
RETURNING merge_action(), target.*;
MERGE INTO target AS t USING (VALUES (1, 100.0), (9, 900.0)) AS v (id, amount) ON t.id = v.id
WHEN MATCHED THEN UPDATE SET balance = v.amount, note = DEFAULT
WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.amount)
RETURNING merge_action(), t.id, t.balance, t.note;
MERGE INTO target t USING source s ON t.id = s.sid WHEN NOT MATCHED BY SOURCE AND t.id < 9 THEN UPDATE SET note = 'left alone'
WHEN NOT MATCHED BY SOURCE THEN DELETE;
SELECT * FROM target ORDER BY id;
MERGE INTO target t USING (SELECT sid, sum(delta) AS delta FROM source GROUP BY sid) s ON t.id = s.sid AND t.balance > 20
WHEN MATCHED THEN UPDATE SET balance = 0;
SELECT * FROM target ORDER BY id;
WITH w AS (SELECT sid + 100 AS sid, delta FROM source) MERGE INTO target t USING w ON t.id = w.sid
WHEN NOT MATCHED THEN INSERT VALUES (w.sid, w.delta, 'from w');
SELECT count(*) FROM target;
-- what goes wrong
MERGE INTO target t USING source s ON t.id = s.sid WHEN MATCHED THEN UPDATE SET balance = -1;
MERGE INTO target t USING source s ON t.id = s.sid + 1000 WHEN NOT MATCHED THEN INSERT VALUES (1, 1);
MERGE INTO target t USING source s ON true WHEN MATCHED THEN UPDATE SET balance = s.delta;
MERGE INTO target t USING source s ON t.id = s.nothing WHEN MATCHED THEN DELETE;
SELECT count(*), sum(balance) FROM target;
-- rows that are equal
MERGE INTO plain p USING (SELECT 1 AS a) s ON p.a = s.a WHEN MATCHED THEN UPDATE SET b = 'z';
SELECT * FROM plain ORDER BY a, b;
MERGE INTO plain p USING (SELECT 2 AS a) s ON p.a = s.a WHEN MATCHED THEN DELETE;
SELECT count(*) FROM plain;
-- in a block
BEGIN;
INSERT INTO source VALUES (77, 7);
MERGE INTO target t USING source s ON t.id = s.sid WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.sid, s.delta);
SELECT * FROM target WHERE id < 100 ORDER BY id;
ROLLBACK;
SELECT count(*) FROM target;
-- more sources
MERGE INTO target t USING (SELECT n FROM generate_series(1, 3) n) AS g ON t.id = g.n WHEN MATCHED THEN UPDATE SET note = note || n WHEN NOT MATCHED THEN INSERT VALUES (n, n);
SELECT * FROM target ORDER BY id;
MERGE INTO target t USING generate_series(2, 5) AS g (number) ON t.id = number WHEN MATCHED THEN UPDATE SET note = g.number || '!' WHEN NOT MATCHED THEN INSERT (id) VALUES (g.number);
MERGE INTO target t USING generate_series(3, 4) g ON t.id = g WHEN MATCHED THEN DELETE;
MERGE INTO target t USING unnest(ARRAY[2, 5]) WITH ORDINALITY u (id, place) ON t.id = u.id WHEN MATCHED THEN UPDATE SET note = place;
SELECT * FROM target ORDER BY id;
DROP SCHEMA merging CASCADE;
