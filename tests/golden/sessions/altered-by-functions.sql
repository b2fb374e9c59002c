-- Functions and DO that alter tables beside rows, as migration scripts do: a new column that is filled, a constraint over
-- what an UPDATE has mended, one column in place of another.
CREATE SCHEMA mg; SET search_path = mg;
CREATE TABLE users (id serial PRIMARY KEY, first_name text, last_name text, created timestamptz DEFAULT '2020-01-01');
INSERT INTO users (first_name, last_name) VALUES ('Ada', 'Lovelace'), ('Alan', 'Turing'), ('Grace', NULL);
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM information_schema.columns WHERE table_schema = 'mg' AND table_name = 'users' AND column_name = 'full_name') THEN
    ALTER TABLE users ADD COLUMN full_name text;
    UPDATE users SET full_name = concat_ws(' ', first_name, last_name);
    ALTER TABLE users ALTER COLUMN full_name SET NOT NULL;
  END IF;
END $$;
SELECT * FROM users ORDER BY id;
DO $$
BEGIN
  ALTER TABLE users ADD COLUMN IF NOT EXISTS slug text;
  UPDATE users SET slug = lower(first_name) WHERE slug IS NULL;
  CREATE UNIQUE INDEX IF NOT EXISTS users_slug ON users (slug);
END $$;
SELECT id, slug FROM users ORDER BY id;
BEGIN;
DO $$
BEGIN
  ALTER TABLE users ADD COLUMN active boolean DEFAULT true;
  UPDATE users SET active = false WHERE last_name IS NULL;
  ALTER TABLE users DROP COLUMN created;
END $$;
SELECT * FROM users ORDER BY id;
COMMIT;
CREATE FUNCTION add_audit(t regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ADD COLUMN updated_at timestamptz', t);
  EXECUTE format('UPDATE %s SET updated_at = %L', t, '2021-02-03');
  EXECUTE format('ALTER TABLE %s ALTER COLUMN updated_at SET DEFAULT now(), ALTER COLUMN updated_at SET NOT NULL', t);
END $$;
SELECT add_audit('users');
SELECT id, updated_at::date FROM users ORDER BY id;
DO $$ DECLARE r record; BEGIN
  ALTER TABLE users ADD COLUMN n int;
  FOR r IN SELECT id FROM users ORDER BY id LOOP UPDATE users SET n = r.id * 10 WHERE id = r.id; END LOOP;
  ALTER TABLE users RENAME COLUMN n TO number;
  ALTER TABLE users ADD CONSTRAINT positive CHECK (number > 0);
END $$;
SELECT id, number FROM users ORDER BY id;
DO $$ BEGIN
  UPDATE users SET last_name = 'Hopper' WHERE last_name IS NULL;
  ALTER TABLE users ALTER COLUMN last_name SET NOT NULL;
END $$;
SELECT id, last_name FROM users ORDER BY id;
DO $$ BEGIN
  ALTER TABLE users ADD COLUMN bad int;
  UPDATE users SET bad = 1 / (id - 2);
EXCEPTION WHEN division_by_zero THEN RAISE NOTICE 'caught %', SQLERRM;
END $$;
SELECT * FROM users WHERE id = 1;
INSERT INTO users (first_name, last_name, full_name, slug, number) VALUES ('x','y','z','s', 5) RETURNING id;
-- a table split in two
DO $$ BEGIN
  CREATE TABLE emails (user_id int REFERENCES users, email text);
  INSERT INTO emails SELECT id, slug || '@x' FROM users;
  ALTER TABLE emails ADD COLUMN domain text;
  UPDATE emails SET domain = split_part(email, '@', 2);
  DELETE FROM users WHERE id = 1000;
END $$;
SELECT * FROM emails ORDER BY 1;
-- type change via new column
DO $$ BEGIN
 ALTER TABLE users ADD COLUMN number2 text;
 UPDATE users SET number2 = number::text;
 ALTER TABLE users DROP COLUMN number;
 ALTER TABLE users RENAME COLUMN number2 TO number;
END $$;
SELECT id, number FROM users ORDER BY id;
-- procedure with commits
CREATE PROCEDURE backfill() LANGUAGE plpgsql AS $$ DECLARE c int; BEGIN
 ALTER TABLE users ADD COLUMN IF NOT EXISTS score int; COMMIT;
 LOOP
  UPDATE users SET score = id WHERE id IN (SELECT id FROM users WHERE score IS NULL ORDER BY id LIMIT 2);
  GET DIAGNOSTICS c = ROW_COUNT; EXIT WHEN c = 0; COMMIT;
 END LOOP; END $$;
CALL backfill();
SELECT id, score FROM users ORDER BY id;
-- with triggers present
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at := '2022-01-01'; RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION touch();
DO $$ BEGIN
 ALTER TABLE users ADD COLUMN lang text DEFAULT 'en';
 UPDATE users SET lang = 'fr' WHERE id % 2 = 0;
END $$;
SELECT id, lang, updated_at::date FROM users ORDER BY id;
DO $$ BEGIN
 ALTER TABLE users DISABLE TRIGGER touch; UPDATE users SET lang = 'de' WHERE id = 3; ALTER TABLE users ENABLE TRIGGER touch;
END $$;
SELECT id, lang, updated_at::date FROM users ORDER BY id;

-- Keys, references, handlers, blocks.
CREATE SCHEMA al; SET search_path = al;
CREATE TABLE p (id int PRIMARY KEY, code text UNIQUE);
CREATE TABLE c (id serial PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, n int);
INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO c (p, n) SELECT i % 3 + 1, i FROM generate_series(1, 9) i;
DO $$ BEGIN
 ALTER TABLE p ADD COLUMN size int NOT NULL DEFAULT 0;
 UPDATE p SET size = (SELECT count(*) FROM c WHERE c.p = p.id AND n > 4);
 DELETE FROM p WHERE id = 2;
 UPDATE p SET id = 10 WHERE id = 3;
END $$;
SELECT * FROM p ORDER BY id; SELECT * FROM c ORDER BY id;
DO $$ BEGIN
 ALTER TABLE c ADD COLUMN code text;
 UPDATE c SET code = p.code FROM p WHERE p.id = c.p;
 ALTER TABLE c ADD FOREIGN KEY (code) REFERENCES p (code);
 ALTER TABLE c DROP COLUMN p;
END $$;
SELECT * FROM c ORDER BY id;
UPDATE c SET code = 'zzz' WHERE id = 3;
DO $$ BEGIN
 BEGIN
  ALTER TABLE c ADD COLUMN bad int; UPDATE c SET bad = id; ALTER TABLE c ADD CONSTRAINT never CHECK (bad < 3);
 EXCEPTION WHEN check_violation THEN RAISE NOTICE 'no: %', SQLERRM;
 END;
 ALTER TABLE c ADD COLUMN good int; UPDATE c SET good = id;
 BEGIN ALTER TABLE c ADD COLUMN good int; EXCEPTION WHEN duplicate_column THEN RAISE NOTICE 'there'; END;
END $$;
SELECT * FROM c ORDER BY id;
DO $$ BEGIN UPDATE c SET n = 1; CREATE UNIQUE INDEX c_n ON c (n); END $$;
DO $$ BEGIN UPDATE c SET n = id; ALTER TABLE c ADD CONSTRAINT c_n UNIQUE (n); END $$;
INSERT INTO c (n) VALUES (4);
DO $$ BEGIN INSERT INTO c (n) VALUES (100); ALTER TABLE c ALTER COLUMN code SET NOT NULL; END $$;
DO $$ BEGIN INSERT INTO p VALUES (77, 'd'); ALTER TABLE p DROP CONSTRAINT p_code_key; END $$;
DO $$ BEGIN INSERT INTO p VALUES (77, 'd'); ALTER TABLE p ADD CHECK (size >= 0); END $$;
SELECT * FROM p ORDER BY id;
BEGIN;
UPDATE p SET size = 5 WHERE id = 1;
INSERT INTO p VALUES (5, 'e', 3);
DO $$ BEGIN ALTER TABLE p ADD COLUMN note text; UPDATE p SET note = code || size; END $$;
SELECT * FROM p ORDER BY id;
SAVEPOINT s;
DO $$ BEGIN ALTER TABLE p ADD COLUMN note2 text; UPDATE p SET note2 = note; END $$;
SELECT * FROM p ORDER BY id;
ROLLBACK TO s;
UPDATE p SET note = 'x' WHERE id = 5;
INSERT INTO p VALUES (6, 'f', 1, 'y');
DO $$ BEGIN ALTER TABLE p ADD COLUMN note2 text DEFAULT 'q'; DELETE FROM p WHERE id = 6; END $$;
COMMIT;
SELECT * FROM p ORDER BY id;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM c;
DO $$ BEGIN ALTER TABLE p ADD COLUMN rr int; UPDATE p SET rr = id; END $$;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
DO $$ BEGIN ALTER TABLE p ADD COLUMN ss int; UPDATE p SET ss = id; END $$;
ROLLBACK;
SELECT * FROM p ORDER BY id;
DO $$ BEGIN ALTER TABLE p ADD COLUMN back int; UPDATE p SET back = 1; RAISE EXCEPTION 'no'; END $$;
SELECT * FROM p WHERE id = 1;
DO $$ BEGIN ALTER TABLE p RENAME TO parent; UPDATE parent SET size = 9; END $$;
SELECT id, size FROM parent ORDER BY id;
CREATE TABLE copy AS SELECT * FROM parent;
DO $$ BEGIN ALTER TABLE copy ADD COLUMN z int; UPDATE copy SET z = 3; END $$;
SELECT id, z FROM copy ORDER BY id;
DO $$ BEGIN ALTER TABLE copy ADD PRIMARY KEY (id); DELETE FROM copy WHERE id = 1; INSERT INTO copy (id) VALUES (1); END $$;
INSERT INTO copy (id) VALUES (1);
DO $$ DECLARE r record; BEGIN
 FOR r IN SELECT table_name FROM information_schema.tables WHERE table_schema = 'al' ORDER BY 1 LOOP
  EXECUTE format('ALTER TABLE %I ADD COLUMN IF NOT EXISTS tenant int', r.table_name);
  EXECUTE format('UPDATE %I SET tenant = 1', r.table_name);
  EXECUTE format('ALTER TABLE %I ALTER tenant SET NOT NULL', r.table_name);
 END LOOP; END $$;
SELECT id, tenant FROM c ORDER BY 1; SELECT id, tenant FROM copy ORDER BY 1;
SELECT count(*), min(tenant) FROM parent;
\d parent
\d c
DO $$ BEGIN TRUNCATE copy; ALTER TABLE copy ADD COLUMN w int; INSERT INTO copy (id, w, tenant) VALUES (4, 4, 4); END $$;
SELECT id, w FROM copy;
DO $$ BEGIN ALTER TABLE copy DISABLE TRIGGER USER; UPDATE copy SET w = 5; ALTER TABLE copy ENABLE TRIGGER USER; END $$;
SELECT id, w FROM copy;
CREATE TABLE emp AS SELECT 1 AS a WHERE false;
DO $$ BEGIN ALTER TABLE emp ADD COLUMN b int; UPDATE emp SET b = 1; INSERT INTO emp VALUES (1, 2); END $$;
SELECT * FROM emp;
