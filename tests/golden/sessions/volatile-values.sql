-- A value that differs each time that it is computed is computed once: what is stored is what RETURNING shows, and what
-- generated columns, checks and policies are computed from.
CREATE TABLE t (id int PRIMARY KEY, r float8, g float8 GENERATED ALWAYS AS (r * 2) STORED, u uuid,
    ut text GENERATED ALWAYS AS (u::text || '!') STORED, n numeric, m numeric(12,4));
INSERT INTO t (id, r) SELECT i, 0 FROM generate_series(1, 20) i;
UPDATE t SET r = random() WHERE id < 4 RETURNING id, g = r * 2, r > 0, old.r;
UPDATE t SET u = gen_random_uuid() WHERE id < 3 RETURNING id, u::text || '!' = ut, old.ut;
UPDATE t SET (r, u) = (random(), gen_random_uuid()) WHERE id < 4 RETURNING id, g = r * 2, ut = u || '!';
UPDATE t SET n = random()::numeric, m = random()::numeric, r = 1 WHERE id < 3 RETURNING id, n = n, m = round(n, 0) OR m < 2, g;
UPDATE t SET r = random();
SELECT count(*), count(*) FILTER (WHERE g = r * 2), count(DISTINCT r) FROM t;
WITH x AS (UPDATE t SET u = gen_random_uuid() RETURNING id, u, ut) SELECT count(*) FROM x WHERE u || '!' = ut;
CREATE TABLE kept (id int, u uuid, ut text);
WITH x AS (UPDATE t SET u = gen_random_uuid() RETURNING id, u, ut) INSERT INTO kept SELECT * FROM x;
SELECT count(*), count(*) FILTER (WHERE k.u = t.u AND k.ut = t.ut AND t.ut = t.u || '!') FROM kept k JOIN t USING (id);

CREATE TABLE d (id int PRIMARY KEY, r float8 DEFAULT random() CHECK (r < 1),
    b boolean GENERATED ALWAYS AS (r < 0.5) STORED, UNIQUE (r));
INSERT INTO d (id) SELECT id FROM t;
SELECT count(*), count(*) FILTER (WHERE b = (r < 0.5)), count(DISTINCT r) FROM d;
INSERT INTO d (id) SELECT id + 100 FROM t RETURNING b = (r < 0.5) AS same, id < 103 AND r < 1 AS early;
UPDATE d SET r = DEFAULT WHERE id < 10 RETURNING b = (r < 0.5), r = old.r;
UPDATE d SET r = random() FROM t WHERE t.id = d.id AND t.id < 4 RETURNING d.id, b = (d.r < 0.5);
UPDATE d SET r = random() * 0 + 1 WHERE id = 5;
SELECT count(*) FILTER (WHERE b = (r < 0.5)) FROM d;

ALTER TABLE d ENABLE ROW LEVEL SECURITY;
ALTER TABLE d FORCE ROW LEVEL SECURITY;
CREATE POLICY half ON d USING (true) WITH CHECK (r < 0.5);
INSERT INTO d (id, r) SELECT id + 1000, random() / 2 FROM t;
SELECT count(*) FROM d WHERE id > 1000 AND r < 0.5 AND b;
DO $$ BEGIN
    FOR i IN 1 .. 5 LOOP
        BEGIN
            UPDATE d SET r = random() WHERE id > 1000;
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END;
    END LOOP;
END $$;
SELECT count(*) FROM d WHERE id > 1000 AND r >= 0.5;
