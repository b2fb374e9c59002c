-- Functions and DO that give a column its own type, with other values: PostgreSQL writes all rows anew.
CREATE SCHEMA same_type;
SET search_path = same_type;
CREATE TABLE account (id integer PRIMARY KEY, code varchar(10), n integer CHECK (n < 1000));
INSERT INTO account SELECT g, 'c' || g, g FROM generate_series(1, 6) g;
DO $$ BEGIN ALTER TABLE account ALTER COLUMN code TYPE varchar(10) USING upper(code); END $$;
SELECT * FROM account ORDER BY id;
DO $$ BEGIN
    ALTER TABLE account ALTER COLUMN n TYPE integer USING n * 2;
    UPDATE account SET n = n + 1 WHERE id > 4;
    ALTER TABLE account ALTER COLUMN n TYPE integer USING n * 2, ALTER COLUMN code TYPE text;
    RAISE NOTICE '%', (SELECT sum(n) FROM account);
END $$;
SELECT * FROM account ORDER BY id;
DO $$ BEGIN
    ALTER TABLE account ALTER COLUMN n TYPE integer USING n * 1000;
EXCEPTION WHEN check_violation THEN RAISE NOTICE 'kept: %', SQLERRM;
END $$;
DO $$ BEGIN EXECUTE 'ALTER TABLE account ALTER id TYPE integer USING 1'; END $$;
SELECT * FROM account ORDER BY id;
CREATE FUNCTION shifted(by integer) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE account ALTER COLUMN id TYPE integer USING id + %s', by);
    RETURN (SELECT max(id) FROM account);
END $$;
SELECT shifted(10);
BEGIN;
INSERT INTO account VALUES (1, 'new', 1);
SAVEPOINT s;
SELECT shifted(100);
SELECT * FROM account ORDER BY id;
ROLLBACK TO s;
SELECT * FROM account ORDER BY id;
SELECT shifted(1);
COMMIT;
SELECT * FROM account ORDER BY id;
BEGIN;
CREATE TABLE other (n integer);
ALTER TABLE account ADD extra integer;
DO $$ BEGIN ALTER TABLE account ALTER COLUMN extra TYPE integer USING id; END $$;
SELECT * FROM account ORDER BY id;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM account;
DO $$ BEGIN ALTER TABLE account ALTER COLUMN n TYPE integer USING 1; END $$;
COMMIT;
-- The column itself: nothing is written.
DO $$ BEGIN ALTER TABLE account ALTER COLUMN n TYPE integer USING n, ALTER COLUMN code TYPE text USING code; END $$;
UPDATE account SET n = 0 WHERE id = 12;
SELECT * FROM account ORDER BY id;
DROP SCHEMA same_type CASCADE;
