-- Functions and triggers look rows of large tables up by keys: no more than these rows are copied, whatever the limit.
CREATE SCHEMA by_keys;
SET search_path = by_keys;
CREATE TABLE account (id integer PRIMARY KEY, email text UNIQUE, name varchar(20), next integer, n integer DEFAULT 0);
INSERT INTO account SELECT g, 'e' || g, 'n' || g, g + 7, g % 10 FROM generate_series(1, 210000) g;
CREATE TABLE booking (id integer PRIMARY KEY, account integer REFERENCES account, amount numeric(10, 2));
CREATE TABLE audit (what text, n integer);
SET sluice.load_limit = '20kB';

-- Reading
CREATE FUNCTION name_of(k integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
    SELECT name INTO found FROM account WHERE id = k;
    RAISE NOTICE 'looked for %', k;
    RAISE LOG 'not told';
    RETURN found;
END $$;
SELECT name_of(5);
SELECT name_of(6), name_of(7);
SELECT name_of(0) IS NULL, name_of(NULL) IS NULL;
SELECT g, name_of(g) FROM generate_series(209999, 210001) g;
CREATE FUNCTION by_email(address text) RETURNS SETOF account LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY SELECT * FROM account WHERE email = address; END $$;
SELECT * FROM by_email('e77');
SELECT * FROM by_email('nobody');
CREATE FUNCTION several(VARIADIC keys integer[]) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT sum(n) FROM account WHERE id = ANY (keys)); END $$;
SELECT several(1, 2, 3), several(4), several(300000);
CREATE FUNCTION walk(first integer, steps integer) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE at integer := first; path integer[] := '{}';
BEGIN
    FOR i IN 1 .. steps LOOP
        path := path || at;
        SELECT next INTO at FROM account WHERE id = at;
    END LOOP;
    RETURN path;
END $$;
SELECT walk(1, 5), walk(209990, 4);
CREATE FUNCTION constant() RETURNS text LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT name FROM account WHERE id = 12); END $$;
SELECT constant();
UPDATE account SET name = 'changed' WHERE id = 12;
SELECT constant();
SELECT constant();
CREATE FUNCTION dynamic(k integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN EXECUTE format('SELECT name FROM %I WHERE id = $1', 'account') INTO found USING k; RETURN found; END $$;
SELECT dynamic(9), dynamic(10);
PREPARE asked (integer) AS SELECT name_of($1);
EXECUTE asked (3);
EXECUTE asked (4);
SET client_min_messages = warning;
EXECUTE asked (5);
SHOW client_min_messages;
RESET client_min_messages;
SET plan_cache_mode = force_generic_plan;
EXECUTE asked (6);
SHOW plan_cache_mode;
RESET plan_cache_mode;
SHOW debug_print_plan;

-- Changing
CREATE FUNCTION deposit(k integer, sum integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE left_over integer;
BEGIN
    UPDATE account SET n = n + sum WHERE id = k RETURNING n INTO left_over;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no account %', k USING ERRCODE = 'no_data_found';
    END IF;
    INSERT INTO audit VALUES ('deposit ' || k, left_over);
    RETURN left_over;
END $$;
SELECT deposit(5, 10), deposit(5, 10), deposit(6, 1);
SELECT deposit(0, 1);
SELECT id, n FROM account WHERE id IN (5, 6) ORDER BY id;
TABLE audit ORDER BY what, n;
CREATE FUNCTION find_or_make(address text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE k integer;
BEGIN
    SELECT id INTO k FROM account WHERE email = address;
    IF k IS NULL THEN
        INSERT INTO account (id, email) VALUES (1000000 + length(address), address) RETURNING id INTO k;
    END IF;
    RETURN k;
END $$;
SELECT find_or_make('e8'), find_or_make('new one');
SELECT find_or_make('new one');
SELECT * FROM account WHERE id > 210000 ORDER BY id;
CREATE PROCEDURE transfer(source integer, target integer, sum integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET n = n - sum WHERE id = source;
    UPDATE account SET n = n + sum WHERE id = target;
    DELETE FROM account WHERE id = 1000000 + sum;
END $$;
CALL transfer(5, 6, 7);
SELECT id, n FROM account WHERE id IN (5, 6) OR id > 210000 ORDER BY id;
BEGIN;
CALL transfer(5, 6, 100);
SELECT id, n FROM account WHERE id IN (5, 6) ORDER BY id;
SAVEPOINT s;
CALL transfer(6, 5, 1);
SELECT name_of(5), deposit(5, 0), deposit(6, 0);
ROLLBACK TO s;
SELECT deposit(5, 0), deposit(6, 0);
ROLLBACK;
SELECT id, n FROM account WHERE id IN (5, 6) ORDER BY id;
DO $$
DECLARE a account;
BEGIN
    FOR i IN 20 .. 22 LOOP
        SELECT * INTO a FROM account WHERE id = i FOR UPDATE;
        UPDATE account SET name = a.name || '!' WHERE id = a.id;
    END LOOP;
END $$;
SELECT id, name FROM account WHERE id BETWEEN 19 AND 23 ORDER BY id;

-- Keys that are added
CREATE FUNCTION count_up(k integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE now integer;
BEGIN
    INSERT INTO account (id, n) VALUES (k, 1) ON CONFLICT (id) DO UPDATE SET n = account.n + 1 RETURNING n INTO now;
    RETURN now;
END $$;
SELECT count_up(50), count_up(50), count_up(2000050), count_up(2000050);
CREATE FUNCTION make_or_find(k integer, address text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account (id, email, name) VALUES (k, address, 'made');
    RETURN 'made';
EXCEPTION WHEN unique_violation THEN
    RETURN (SELECT 'found ' || name FROM account WHERE id = k);
END $$;
SELECT make_or_find(60, NULL);
SELECT make_or_find(3000060, NULL);
SELECT make_or_find(3000060, NULL);
RESET sluice.load_limit;
SELECT make_or_find(3000061, 'e61');
SELECT make_or_find(80, 'made');
SELECT id, email, name, n FROM account WHERE id IN (50, 60, 70, 71, 80, 2000050, 3000060, 3000061, 4000070) ORDER BY id;
SET sluice.load_limit = '20kB';

-- Triggers and references
CREATE FUNCTION count_booking() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET n = n + 1 WHERE id = new.account;
    new.amount := new.amount + (SELECT n FROM account WHERE id = new.account);
    RETURN new;
END $$;
CREATE TRIGGER counted BEFORE INSERT ON booking FOR EACH ROW EXECUTE FUNCTION count_booking();
INSERT INTO booking VALUES (1, 30, 10), (2, 31, 10), (3, 30, 10) RETURNING *;
INSERT INTO booking VALUES (4, 0, 10);
SELECT id, n FROM account WHERE id IN (30, 31) ORDER BY id;
CREATE FUNCTION book(k integer) RETURNS void LANGUAGE sql AS $$ INSERT INTO booking VALUES (100 + k, k, 1) $$;
SELECT book(40);
SELECT book(0);
TABLE booking ORDER BY id;

RESET sluice.load_limit;
RESET search_path;
DROP SCHEMA by_keys CASCADE;
