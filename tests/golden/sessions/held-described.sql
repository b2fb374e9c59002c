-- A cursor WITH HOLD over a lake table has its columns after COMMIT too, of every kind of type and name.
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE TABLE t (n int, v varchar(10), c char(4), m numeric(12,4), ts timestamp(3), iv interval day to second(2), b bit(3),
    vs varchar(5)[], "Q ""x" text, mo mood, p positive, j jsonb, d date);
INSERT INTO t VALUES (1, 'a', 'b', 2.5, '2024-01-01 10:00:00.123', '1 day', B'101', '{a,b}', 'q', 'ok', 7, '{}', '2024-01-01');
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT *, 1 AS n, 'x' FROM t;
INSERT INTO t (n) VALUES (2);
COMMIT;
FETCH 2 FROM c;
DECLARE d SCROLL CURSOR WITH HOLD FOR SELECT count(*), (SELECT max(n) FROM t) FROM t;
FETCH ALL FROM d;
FETCH BACKWARD 1 FROM d;
SELECT name, is_holdable, is_binary FROM pg_cursors ORDER BY name;
CLOSE ALL;
