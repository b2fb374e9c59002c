-- Statement triggers with transition tables, constraint triggers.
CREATE SCHEMA ts;
SET search_path = ts;
SET client_min_messages = notice;
CREATE TABLE t (id integer PRIMARY KEY, n integer);
CREATE TABLE totals (op text, rows bigint, sum bigint);
CREATE FUNCTION sums() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO totals SELECT TG_OP, count(*), sum(n) FROM new_rows;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO totals SELECT TG_OP, count(*), sum(w.n - o.n) FROM new_rows w JOIN old_rows o USING (id);
    ELSE
        INSERT INTO totals SELECT TG_OP, count(*), sum(n) FROM old_rows;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER i AFTER INSERT ON t REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sums();
CREATE TRIGGER u AFTER UPDATE ON t REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sums();
CREATE TRIGGER d AFTER DELETE ON t REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION sums();
INSERT INTO t SELECT g, g * 10 FROM generate_series(1, 5) g;
UPDATE t SET n = n + id WHERE id > 2;
DELETE FROM t WHERE id = 1;
DELETE FROM t WHERE id = 1;
INSERT INTO t VALUES (2, 0), (9, 90) ON CONFLICT (id) DO UPDATE SET n = 1;
MERGE INTO t USING (VALUES (2), (3), (20)) v (id) ON t.id = v.id
    WHEN MATCHED AND v.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 0 WHEN NOT MATCHED THEN INSERT VALUES (v.id, 5);
INSERT INTO t VALUES (3, 3);
SELECT * FROM totals ORDER BY op, rows, sum;
SELECT * FROM t ORDER BY id;
CREATE FUNCTION most() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM t) > 8 THEN RAISE EXCEPTION 'too many rows: %', (SELECT count(*) FROM t); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER most AFTER INSERT ON t EXECUTE FUNCTION most();
INSERT INTO t VALUES (100, 1), (101, 2);
INSERT INTO t SELECT g, g FROM generate_series(200, 210) g;
SELECT count(*) FROM t;
CREATE FUNCTION no_more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'nobody deletes from %', TG_TABLE_NAME; END $$;
CREATE TRIGGER no_more BEFORE DELETE ON t EXECUTE FUNCTION no_more();
DELETE FROM t WHERE false;
DELETE FROM t;

-- constraint triggers that are not deferrable
CREATE TABLE line (id integer PRIMARY KEY, amount integer);
CREATE FUNCTION balanced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.amount > (SELECT coalesce(max(n), 0) FROM t) * 100 THEN
        RAISE EXCEPTION 'line % is too large', NEW.id USING ERRCODE = '23514', CONSTRAINT = 'line_balanced';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER line_balanced AFTER INSERT OR UPDATE OF amount ON line FOR EACH ROW EXECUTE FUNCTION balanced();
INSERT INTO line VALUES (1, 5), (2, 10000000);
INSERT INTO line VALUES (1, 5);
UPDATE line SET amount = 99999999;
SELECT * FROM line;
SELECT conname, contype, condeferrable FROM pg_constraint WHERE conrelid = 'line'::regclass ORDER BY 1;
DROP TRIGGER line_balanced ON line;
UPDATE line SET amount = 99999999;
SELECT * FROM line;
DROP SCHEMA ts CASCADE;
