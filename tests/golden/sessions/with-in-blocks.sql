-- WITH that changes rows, and prepared statements, over tables whose schemas the block has changed.
CREATE SCHEMA with_in_blocks;
SET search_path = with_in_blocks;
CREATE TABLE item (id integer PRIMARY KEY, n integer);
CREATE TABLE log (item integer REFERENCES item, what text);
INSERT INTO item VALUES (1, 10), (2, 20), (3, 30);
BEGIN;
ALTER TABLE item ADD COLUMN price integer DEFAULT 7;
ALTER TABLE log ADD COLUMN day date DEFAULT '2020-01-01';
WITH changed AS (UPDATE item SET price = n * 2 WHERE id < 3 RETURNING id, price)
    INSERT INTO log (item, what) SELECT id, 'price ' || price FROM changed RETURNING *;
WITH made AS (INSERT INTO item VALUES (4, 40, 7), (5, 50, 5) RETURNING *), also AS (INSERT INTO log SELECT id, 'made' FROM made)
    SELECT * FROM made ORDER BY id;
WITH v (id) AS (VALUES (3), (6)), gone AS (DELETE FROM item USING v WHERE item.id = v.id RETURNING item.*) SELECT count(*), max(price) FROM gone;
WITH gone AS (DELETE FROM log WHERE item = 5 RETURNING item) DELETE FROM item USING gone WHERE item.id = gone.item RETURNING *;
SAVEPOINT a;
WITH x AS (INSERT INTO log VALUES (99, 'nothing') RETURNING item) SELECT * FROM x;
ROLLBACK TO a;
WITH x AS (UPDATE item SET price = 1 / (id - id) RETURNING id) SELECT * FROM x;
ROLLBACK TO a;
WITH x AS (UPDATE item SET price = -1 WHERE id = 1 RETURNING id) UPDATE item SET price = -2 WHERE id = 1 RETURNING *;
SELECT * FROM item WHERE id = 1;
PREPARE cheap AS SELECT id FROM item WHERE price < $1 ORDER BY id;
EXECUTE cheap (41);
EXECUTE cheap (20 + 20);
PREPARE put AS INSERT INTO item (id, price) VALUES ($1, $2) RETURNING *;
EXECUTE put (7, 70);
EXECUTE put (7, 70);
ROLLBACK TO a;
EXECUTE put (8, 80);
ALTER TABLE item ADD CHECK (price < 1000);
WITH x AS (INSERT INTO item VALUES (9, 1, 1000) RETURNING id) SELECT * FROM x;
ROLLBACK TO a;
COMMIT;
SELECT * FROM item ORDER BY id;
SELECT * FROM log ORDER BY item, what;
