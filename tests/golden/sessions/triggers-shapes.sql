-- Triggers as people write them: audits, counters, soft deletes, paths, differences, rights, on every way in.
CREATE SCHEMA trigger_shapes; SET search_path = trigger_shapes;
-- triggers in blocks with savepoints, exceptions; FK actions fire triggers; COPY; MERGE; two triggers order; generated columns; UPDATE OF
CREATE TABLE p (id int PRIMARY KEY, v text, up int DEFAULT 0); CREATE TABLE c (id int PRIMARY KEY, p_id int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, v text, g text GENERATED ALWAYS AS (upper(v)) STORED);
CREATE TABLE h (n serial, what text);
CREATE FUNCTION l() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO trigger_shapes.h(what) VALUES (TG_NAME||' '||TG_OP||' '||TG_WHEN||' '||coalesce((CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD)::text END),'-')||' '||coalesce((CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW)::text END),'-')); IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;
CREATE TRIGGER zb BEFORE INSERT OR UPDATE OR DELETE ON c FOR EACH ROW EXECUTE FUNCTION l(); CREATE TRIGGER ab BEFORE INSERT OR UPDATE OR DELETE ON c FOR EACH ROW EXECUTE FUNCTION l(); CREATE TRIGGER aa AFTER INSERT OR UPDATE OF v OR DELETE ON c FOR EACH ROW EXECUTE FUNCTION l();
INSERT INTO p VALUES (1,'a'),(2,'b'); INSERT INTO c VALUES (1,1,'x'),(2,1,'y'),(3,2,'z');
UPDATE p SET id = 10 WHERE id = 1; DELETE FROM p WHERE id = 2; UPDATE c SET v = 'q' WHERE id = 1; UPDATE c SET p_id = 10;
SELECT what FROM h ORDER BY n; TRUNCATE h; SELECT * FROM c ORDER BY id;
COPY c(id,p_id,v) FROM STDIN;
20	10	cc
21	99	dd
\.
COPY c(id,p_id,v) FROM STDIN;
20	10	cc
\.
SELECT what FROM h ORDER BY n; TRUNCATE h;
CREATE FUNCTION chk() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE k int; BEGIN SELECT count(*) INTO k FROM trigger_shapes.c WHERE p_id = NEW.p_id; IF k >= 3 THEN RAISE EXCEPTION 'too many for %', NEW.p_id USING ERRCODE='check_violation', HINT='fewer', TABLE='c'; END IF; BEGIN INSERT INTO trigger_shapes.p VALUES (NEW.p_id, 'auto'); EXCEPTION WHEN unique_violation THEN UPDATE trigger_shapes.p SET up = up + 1 WHERE id = NEW.p_id; END; RETURN NEW; END $$;
CREATE TRIGGER chk BEFORE INSERT ON c FOR EACH ROW EXECUTE FUNCTION chk();
INSERT INTO c VALUES (30, 50, 'new parent'); INSERT INTO c VALUES (31,50,'x'),(32,50,'y'); INSERT INTO c VALUES (33,50,'z'); SELECT * FROM p ORDER BY id;
BEGIN; SAVEPOINT s; INSERT INTO c VALUES (40, 50, 'z'); ROLLBACK TO s; INSERT INTO c VALUES (41, 60, 'ok'); SELECT * FROM p ORDER BY id; ROLLBACK; SELECT count(*) FROM c;
INSERT INTO c VALUES (30, 10, 'up') ON CONFLICT (id) DO UPDATE SET v = excluded.v || '!' RETURNING *;
MERGE INTO c USING (VALUES (30, 'm'), (90, 'n')) s(id, v) ON c.id = s.id WHEN MATCHED AND s.v = 'm' THEN DELETE WHEN NOT MATCHED THEN INSERT (id, p_id, v) VALUES (s.id, 10, s.v) RETURNING merge_action(), c.id;
SELECT what FROM h ORDER BY n;
-- soft delete
CREATE TABLE s (id int PRIMARY KEY, gone bool DEFAULT false); CREATE FUNCTION sd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE trigger_shapes.s SET gone = true WHERE id = OLD.id; RETURN NULL; END $$; CREATE TRIGGER sd BEFORE DELETE ON s FOR EACH ROW EXECUTE FUNCTION sd(); INSERT INTO s VALUES (1),(2); DELETE FROM s WHERE id = 1; DELETE FROM s RETURNING id; SELECT * FROM s ORDER BY 1;
-- self referencing ltree-like path, running totals
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree, path text); CREATE FUNCTION pth() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.path := coalesce((SELECT path || '/' FROM trigger_shapes.tree WHERE id = NEW.up), '') || NEW.id; RETURN NEW; END $$; CREATE TRIGGER pth BEFORE INSERT OR UPDATE OF up ON tree FOR EACH ROW EXECUTE FUNCTION pth();
INSERT INTO tree VALUES (1),(2,1),(3,2); UPDATE tree SET up = 1 WHERE id = 3; SELECT * FROM tree ORDER BY 1; INSERT INTO tree SELECT g, g-1 FROM generate_series(4,8) g; SELECT path FROM tree ORDER BY id;
-- row as a value, IS DISTINCT, hstore-like diff
CREATE FUNCTION diff() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO trigger_shapes.h(what) SELECT key || ':' || value FROM jsonb_each_text(to_jsonb(NEW)) n WHERE NOT to_jsonb(OLD) @> jsonb_build_object(key, to_jsonb(NEW)->key) ORDER BY 1; RETURN NULL; END $$; CREATE TRIGGER df AFTER UPDATE ON p FOR EACH ROW WHEN (OLD IS DISTINCT FROM NEW) EXECUTE FUNCTION diff(); TRUNCATE h; UPDATE p SET v = v || '2', up = 7 WHERE id = 10; UPDATE p SET v = v; SELECT what FROM h ORDER BY n;
-- statement triggers with 0 rows, transition tables both, INSERT..SELECT
CREATE FUNCTION st() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO trigger_shapes.h(what) SELECT TG_OP || count(*) FROM nt; RETURN NULL; END $$; CREATE TRIGGER st AFTER INSERT ON p REFERENCING NEW TABLE AS nt FOR EACH STATEMENT EXECUTE FUNCTION st(); TRUNCATE h; INSERT INTO p SELECT 1, 'x' WHERE false; INSERT INTO p SELECT g, 'x' FROM generate_series(100,110) g; SELECT what FROM h ORDER BY n;
-- security definer / current_user, security invoker denied
CREATE ROLE trigger_low; GRANT USAGE ON SCHEMA trigger_shapes TO trigger_low; GRANT INSERT, SELECT ON s TO trigger_low; CREATE TABLE secret (n int); CREATE FUNCTION sec() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = trigger_shapes AS $$ BEGIN INSERT INTO secret VALUES (NEW.id); RETURN NEW; END $$; CREATE FUNCTION inv() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO trigger_shapes.secret VALUES (NEW.id); RETURN NEW; END $$; CREATE TRIGGER a AFTER INSERT ON s FOR EACH ROW EXECUTE FUNCTION sec(); SET ROLE trigger_low; INSERT INTO s VALUES (5); RESET ROLE; SELECT * FROM secret; CREATE TRIGGER b AFTER INSERT ON s FOR EACH ROW EXECUTE FUNCTION inv(); SET ROLE trigger_low; INSERT INTO s VALUES (6); RESET ROLE; SELECT count(*) FROM secret;
ALTER TABLE s ADD COLUMN extra int DEFAULT 5; INSERT INTO s VALUES (7); ALTER TABLE s DROP COLUMN gone; DELETE FROM s WHERE id = 7; ALTER FUNCTION sd() RENAME TO sd2; DELETE FROM s WHERE id = 7; DROP FUNCTION sd2() CASCADE; DELETE FROM s WHERE id = 7; SELECT * FROM s ORDER BY id;
CREATE CONSTRAINT TRIGGER nd AFTER INSERT ON s FOR EACH ROW EXECUTE FUNCTION inv(); INSERT INTO s VALUES (70); CREATE TRIGGER iot INSTEAD OF INSERT ON s FOR EACH ROW EXECUTE FUNCTION inv(); CREATE TRIGGER w BEFORE INSERT ON s FOR EACH STATEMENT WHEN (NEW.id > 1) EXECUTE FUNCTION inv();
SELECT tgname, tgenabled, tgtype FROM pg_trigger WHERE tgrelid = 's'::regclass AND NOT tgisinternal ORDER BY 1;
DROP SCHEMA trigger_shapes CASCADE; DROP ROLE trigger_low;
