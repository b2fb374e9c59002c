-- Functions, procedures, triggers and DO blocks as migration tools, queues, ledgers and audit packages have them.
CREATE SCHEMA st1; SET search_path = st1;
-- 1 knex-like: updated_at function shared by tables, made by a loop
CREATE FUNCTION on_update_timestamp() RETURNS trigger AS $$ BEGIN NEW.updated_at = '2024-01-01'::timestamptz; RETURN NEW; END; $$ LANGUAGE 'plpgsql';
CREATE TABLE accounts (id serial PRIMARY KEY, name text NOT NULL, balance numeric(10,2) NOT NULL DEFAULT 0 CHECK (balance >= 0), updated_at timestamptz, version int NOT NULL DEFAULT 1);
CREATE TABLE orders (id serial PRIMARY KEY, account int NOT NULL REFERENCES accounts ON DELETE CASCADE, total numeric(10,2), state text DEFAULT 'open', updated_at timestamptz, meta jsonb DEFAULT '{}');
DO $$ DECLARE t text; BEGIN
 FOR t IN SELECT c.table_name FROM information_schema.columns c WHERE c.table_schema = 'st1' AND c.column_name = 'updated_at' ORDER BY 1 LOOP
  EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE ON %I FOR EACH ROW EXECUTE PROCEDURE on_update_timestamp()', t || '_updated', t);
 END LOOP; END $$;
INSERT INTO accounts (name, balance) VALUES ('a', 100), ('b', 50), ('c', 0);
-- 2 transfer with checks
CREATE PROCEDURE transfer(src int, dst int, amount numeric) LANGUAGE plpgsql AS $$ BEGIN
 UPDATE accounts SET balance = balance - amount WHERE id = src; 
 IF NOT FOUND THEN RAISE EXCEPTION 'no account %', src USING ERRCODE = 'P0002', HINT = 'look again'; END IF;
 UPDATE accounts SET balance = balance + amount WHERE id = dst;
 IF NOT FOUND THEN RAISE EXCEPTION no_data_found USING MESSAGE = format('no account %s', dst); END IF;
END $$;
CALL transfer(1, 2, 30); CALL transfer(1, 2, 300); CALL transfer(1, 9, 1); CALL transfer(9, 1, 1);
SELECT * FROM accounts ORDER BY id;
-- 3 upsert loop of the documentation
CREATE TABLE db (a int PRIMARY KEY, b text);
CREATE FUNCTION merge_db(key int, data text) RETURNS void AS $$ BEGIN LOOP
 UPDATE db SET b = data WHERE a = key; IF found THEN RETURN; END IF;
 BEGIN INSERT INTO db (a, b) VALUES (key, data); RETURN; EXCEPTION WHEN unique_violation THEN END; END LOOP; END; $$ LANGUAGE plpgsql;
SELECT merge_db(1, 'david'); SELECT merge_db(1, 'dennis'); SELECT * FROM db;
-- 4 job queue: skip locked in a function
CREATE TABLE jobs (id bigserial PRIMARY KEY, kind text, run_at timestamptz DEFAULT '2020-01-01', locked_by text, attempts int DEFAULT 0, priority int DEFAULT 0);
INSERT INTO jobs (kind, priority) VALUES ('x', 1), ('y', 5), ('x', 3);
CREATE FUNCTION take_job(worker text) RETURNS SETOF jobs LANGUAGE plpgsql AS $$ BEGIN
 RETURN QUERY UPDATE jobs SET locked_by = worker, attempts = attempts + 1 WHERE id = (SELECT id FROM jobs WHERE locked_by IS NULL AND run_at <= now() ORDER BY priority DESC, id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING *;
END $$;
SELECT id, kind, locked_by FROM take_job('w1'); SELECT id, kind FROM take_job('w2');
BEGIN; SELECT id, kind FROM take_job('w3'); SELECT id, kind FROM take_job('w4'); ROLLBACK;
SELECT id, locked_by, attempts FROM jobs ORDER BY id;
-- 5 ltree-less tree: closure table by trigger
CREATE TABLE node (id int PRIMARY KEY, parent int REFERENCES node ON DELETE CASCADE, path text);
CREATE TABLE closure (ancestor int REFERENCES node ON DELETE CASCADE, descendant int REFERENCES node ON DELETE CASCADE, depth int, PRIMARY KEY (ancestor, descendant));
CREATE FUNCTION node_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
 INSERT INTO closure VALUES (NEW.id, NEW.id, 0);
 INSERT INTO closure SELECT ancestor, NEW.id, depth + 1 FROM closure WHERE descendant = NEW.parent;
 UPDATE node SET path = (SELECT string_agg(ancestor::text, '/' ORDER BY depth DESC) FROM closure WHERE descendant = NEW.id) WHERE id = NEW.id;
 RETURN NULL; END $$;
CREATE TRIGGER node_added AFTER INSERT ON node FOR EACH ROW EXECUTE FUNCTION node_added();
INSERT INTO node (id, parent) VALUES (1, NULL), (2, 1), (3, 2), (4, 1);
BEGIN; INSERT INTO node (id, parent) VALUES (5, 3); INSERT INTO node (id, parent) VALUES (6, 5), (7, 6); SAVEPOINT a; DELETE FROM node WHERE id = 3; SELECT count(*) FROM closure; ROLLBACK TO a; COMMIT;
SELECT * FROM node ORDER BY id; SELECT count(*), max(depth) FROM closure;
-- 6 soft delete by INSTEAD OF / BEFORE DELETE returning NULL
ALTER TABLE orders ADD COLUMN deleted_at timestamptz;
CREATE FUNCTION soft() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE orders SET deleted_at = '2024-02-02' WHERE id = OLD.id; RETURN NULL; END $$;
CREATE TRIGGER soft BEFORE DELETE ON orders FOR EACH ROW EXECUTE FUNCTION soft();
INSERT INTO orders (account, total) SELECT 1 + i % 2, i * 10 FROM generate_series(1, 4) i;
DELETE FROM orders WHERE total > 20; SELECT id, deleted_at IS NULL AS lives FROM orders ORDER BY id;
-- 7 statement trigger with transition tables keeping totals
CREATE TABLE totals (account int PRIMARY KEY, n int, total numeric);
CREATE FUNCTION sum_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
 INSERT INTO totals SELECT account, count(*), sum(total) FROM added GROUP BY account ON CONFLICT (account) DO UPDATE SET n = totals.n + excluded.n, total = totals.total + excluded.total; RETURN NULL; END $$;
CREATE TRIGGER sum_up AFTER INSERT ON orders REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sum_up();
INSERT INTO orders (account, total) VALUES (1, 5), (2, 6), (1, 7); BEGIN; INSERT INTO orders (account, total) VALUES (3, 5); INSERT INTO orders (account, total) VALUES (3, 6); COMMIT;
SELECT * FROM totals ORDER BY 1;
-- 8 enum-ish migration
DO $$ BEGIN CREATE TYPE mood AS ENUM ('ok', 'bad'); EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE TYPE mood AS ENUM ('ok', 'bad'); EXCEPTION WHEN duplicate_object THEN RAISE NOTICE 'there'; END $$;
DO $$ BEGIN ALTER TABLE accounts ADD COLUMN mood mood; UPDATE accounts SET mood = CASE WHEN balance > 60 THEN 'ok' ELSE 'bad' END::mood; ALTER TABLE accounts ALTER COLUMN mood SET DEFAULT 'ok', ALTER mood SET NOT NULL; END $$;
SELECT id, mood FROM accounts ORDER BY id;
-- 9 backup table then change
DO $$ BEGIN
 CREATE TABLE accounts_backup AS SELECT * FROM accounts;
 UPDATE accounts SET name = upper(name);
 ALTER TABLE accounts_backup ADD PRIMARY KEY (id);
END $$;
SELECT id, name FROM accounts_backup ORDER BY id; SELECT id, name FROM accounts ORDER BY id;
-- 10 type change in a guard
DO $$ BEGIN
 IF (SELECT data_type FROM information_schema.columns WHERE table_schema = 'st1' AND table_name = 'orders' AND column_name = 'id') = 'integer' THEN
  ALTER TABLE orders ALTER COLUMN id TYPE bigint;
 END IF; END $$;
SELECT pg_typeof(id) FROM orders LIMIT 1;
-- 11 dynamic pivot / temp table
CREATE FUNCTION report() RETURNS TABLE (account int, n bigint) LANGUAGE plpgsql AS $$ BEGIN
 CREATE TEMP TABLE IF NOT EXISTS r ON COMMIT DROP AS SELECT o.account, o.total FROM orders o; DELETE FROM r WHERE r.total < 10;
 RETURN QUERY SELECT r.account, count(*) FROM r GROUP BY 1 ORDER BY 1; END $$;
SELECT * FROM report(); BEGIN; SELECT * FROM report(); COMMIT;
-- 12 optimistic version
CREATE FUNCTION bump() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.version <> OLD.version THEN RAISE EXCEPTION 'stale' USING ERRCODE = '40001'; END IF; NEW.version := OLD.version + 1; RETURN NEW; END $$;
CREATE TRIGGER zbump BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION bump();
UPDATE accounts SET balance = 1 WHERE id = 3 RETURNING version; UPDATE accounts SET version = 9 WHERE id = 3;
-- 13 refcursors
CREATE FUNCTION two_sets(OUT a refcursor, OUT b refcursor) LANGUAGE plpgsql AS $$ BEGIN a := 'one'; OPEN a FOR SELECT id, name FROM accounts ORDER BY id; b := 'two'; OPEN b FOR SELECT count(*) FROM orders; END $$;
BEGIN; SELECT * FROM two_sets(); FETCH ALL FROM one; FETCH ALL FROM two; COMMIT;
-- 14 setval after load
COPY accounts (id, name, balance) FROM stdin;
20	loaded	5
\.
SELECT setval(pg_get_serial_sequence('accounts', 'id'), (SELECT max(id) FROM accounts));
INSERT INTO accounts (name) VALUES ('after') RETURNING id;
-- 15 partial batch delete
CREATE PROCEDURE purge(batch int) LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN LOOP
 WITH gone AS (DELETE FROM closure WHERE ctid IN (SELECT ctid FROM closure WHERE depth > 1 LIMIT batch) RETURNING 1) SELECT count(*) INTO n FROM gone;
 EXIT WHEN n = 0; COMMIT; END LOOP; END $$;
CALL purge(2); SELECT max(depth) FROM closure;
-- 16 json api
CREATE FUNCTION save_order(doc json) RETURNS json LANGUAGE plpgsql AS $$ DECLARE r orders; BEGIN
 INSERT INTO orders (account, total, meta) SELECT account, total, coalesce(meta, '{}') FROM json_populate_record(NULL::orders, doc) RETURNING * INTO r; RETURN json_build_object('id', r.id, 'meta', r.meta); 
EXCEPTION WHEN foreign_key_violation THEN RETURN json_build_object('error', SQLERRM); WHEN not_null_violation THEN RETURN json_build_object('null', SQLERRM); END $$;
SELECT save_order('{"account": 1, "total": 9, "meta": {"a": 1}}'); SELECT save_order('{"account": 99}'); SELECT save_order('{"total": 1}'); SELECT save_order('{"account": 2}');
-- 17 views with INSTEAD OF
CREATE VIEW open_orders AS SELECT o.id, a.name, o.total FROM orders o JOIN accounts a ON a.id = o.account WHERE o.state = 'open';
CREATE FUNCTION open_ins() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE acc int; BEGIN
 SELECT id INTO acc FROM accounts WHERE name = NEW.name; IF acc IS NULL THEN INSERT INTO accounts (name) VALUES (NEW.name) RETURNING id INTO acc; END IF;
 INSERT INTO orders (account, total) VALUES (acc, NEW.total) RETURNING id INTO NEW.id; RETURN NEW; END $$;
CREATE TRIGGER oi INSTEAD OF INSERT ON open_orders FOR EACH ROW EXECUTE FUNCTION open_ins();
INSERT INTO open_orders (name, total) VALUES ('newone', 3), ('A', 4) RETURNING *;
-- 18 event log with pg_notify and row_to_json
CREATE TABLE event (id bigserial, at timestamptz DEFAULT '2020-01-01', payload json);
CREATE FUNCTION ev() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE p json; BEGIN p := json_build_object('op', TG_OP, 'row', row_to_json(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END)); INSERT INTO event (payload) VALUES (p); PERFORM pg_notify('ev', p::text); RETURN NULL; END $$;
CREATE TRIGGER ev AFTER INSERT OR UPDATE OR DELETE ON db FOR EACH ROW EXECUTE FUNCTION ev();
INSERT INTO db VALUES (2, 'x') ; UPDATE db SET b = 'y'; DELETE FROM db WHERE a = 1; BEGIN; INSERT INTO db VALUES (3, 'z'); UPDATE db SET b = 'w' WHERE a = 3; COMMIT;
SELECT id, payload FROM event ORDER BY id;
-- 19 merge in a function with counts
CREATE FUNCTION sync(rows jsonb) RETURNS text LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN
 MERGE INTO db USING jsonb_to_recordset(rows) AS r (a int, b text) ON db.a = r.a WHEN MATCHED AND db.b IS DISTINCT FROM r.b THEN UPDATE SET b = r.b WHEN NOT MATCHED THEN INSERT VALUES (r.a, r.b) WHEN NOT MATCHED BY SOURCE THEN DELETE;
 GET DIAGNOSTICS n = ROW_COUNT; RETURN n || ' changed'; END $$;
SELECT sync('[{"a": 3, "b": "w"}, {"a": 4, "b": "n"}]'); SELECT * FROM db ORDER BY a;
-- 20 drop everything by a loop
DO $$ DECLARE r record; BEGIN FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = 'st1' AND tablename LIKE '%backup' LOOP EXECUTE 'DROP TABLE ' || quote_ident(r.tablename) || ' CASCADE'; END LOOP; END $$;
SELECT count(*) FROM pg_tables WHERE schemaname = 'st1';
