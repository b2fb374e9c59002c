-- DO, functions and procedures that read and change lake tables, as people write them.
CREATE SCHEMA fl;
SET search_path = fl;
SET client_min_messages = notice;
CREATE TABLE account (id integer PRIMARY KEY, owner text NOT NULL UNIQUE, balance numeric(12, 2) NOT NULL DEFAULT 0 CHECK (balance >= 0));
CREATE TABLE entry (id serial PRIMARY KEY, account integer NOT NULL REFERENCES account ON DELETE CASCADE, amount numeric(12, 2), note text);
CREATE TABLE audit (at integer GENERATED ALWAYS AS IDENTITY, what text, old jsonb, new jsonb);
INSERT INTO account VALUES (1, 'ann', 100), (2, 'bob', 50), (3, 'cyd', 0);
INSERT INTO entry (account, amount, note) VALUES (1, 100, 'opening'), (2, 50, 'opening');

-- a guard, as Flyway and Liquibase have it
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM account WHERE owner = 'dan') THEN
        INSERT INTO account VALUES (4, 'dan', 10);
        RAISE NOTICE 'dan is made';
    END IF;
END $$;
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM account WHERE owner = 'dan') THEN
        INSERT INTO account VALUES (4, 'dan', 10);
        RAISE NOTICE 'dan is made';
    END IF;
END $$;
SELECT * FROM account ORDER BY id;

-- reads
CREATE FUNCTION balance_of(who text) RETURNS numeric LANGUAGE sql STABLE AS $$ SELECT balance FROM account WHERE owner = who $$;
SELECT balance_of('ann'), balance_of('nobody');
CREATE FUNCTION total() RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE r record; s numeric := 0;
BEGIN
    FOR r IN SELECT * FROM account ORDER BY id LOOP
        s := s + r.balance;
        RAISE NOTICE '% has %', r.owner, r.balance;
    END LOOP;
    RETURN s;
END $$;
SELECT total();
CREATE FUNCTION rich(least numeric) RETURNS TABLE (who text, much numeric) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT owner, balance FROM account WHERE balance >= least ORDER BY 1;
    IF NOT FOUND THEN RAISE EXCEPTION 'nobody has %', least USING ERRCODE = 'no_data_found'; END IF;
END $$;
SELECT * FROM rich(40);
SELECT * FROM rich(4000);
CREATE FUNCTION counted(name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN EXECUTE format('SELECT count(*) FROM %I', name) INTO n; RETURN n; END $$;
SELECT counted('account'), counted('entry');
SELECT counted('nothing');

-- a transfer: updates, a check that fails, and what is caught
CREATE FUNCTION transfer(source integer, target integer, much numeric) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    UPDATE account SET balance = balance - much WHERE id = source;
    UPDATE account SET balance = balance + much WHERE id = target;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n = 0 THEN RAISE EXCEPTION 'no account %', target; END IF;
    INSERT INTO entry (account, amount, note) VALUES (source, -much, 'transfer'), (target, much, 'transfer');
    RETURN 'done';
EXCEPTION WHEN check_violation THEN
    INSERT INTO audit (what) VALUES ('refused: ' || SQLERRM);
    RETURN 'refused';
END $$;
SELECT transfer(1, 2, 30);
SELECT transfer(1, 2, 3000);
SELECT transfer(1, 9, 1);
SELECT * FROM account ORDER BY id;
SELECT account, amount, note FROM entry ORDER BY id;
SELECT what FROM audit;

-- Sequelize's findOrCreate
CREATE OR REPLACE FUNCTION pg_temp.testfunc(OUT response text, OUT sequelize_caught_exception text) RETURNS RECORD AS $f$
BEGIN
    INSERT INTO account (id, owner) VALUES (5, 'ann') RETURNING id INTO response;
EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS sequelize_caught_exception = PG_EXCEPTION_DETAIL;
END $f$ LANGUAGE plpgsql;
SELECT (testfunc.response) AS response, testfunc.sequelize_caught_exception FROM pg_temp.testfunc();
DROP FUNCTION pg_temp.testfunc();

-- references
DO $$ BEGIN
    INSERT INTO entry (account, amount) VALUES (77, 1);
EXCEPTION WHEN foreign_key_violation THEN RAISE NOTICE '% %', SQLSTATE, SQLERRM;
END $$;
DO $$ BEGIN INSERT INTO entry (account, amount) VALUES (77, 1); END $$;
DO $$ DECLARE n bigint; BEGIN
    DELETE FROM account WHERE id = 2;
    SELECT count(*) INTO n FROM entry WHERE account = 2;
    RAISE NOTICE 'left: %', n;
END $$;
SELECT account, amount, note FROM entry ORDER BY id;

-- an upsert by a loop, as before ON CONFLICT, and by ON CONFLICT
CREATE TABLE counter (key text PRIMARY KEY, n integer);
CREATE FUNCTION merge_counter(k text, by integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        UPDATE counter SET n = n + by WHERE key = k;
        IF found THEN RETURN; END IF;
        BEGIN
            INSERT INTO counter VALUES (k, by);
            RETURN;
        EXCEPTION WHEN unique_violation THEN NULL;
        END;
    END LOOP;
END $$;
SELECT merge_counter('a', 1);
SELECT merge_counter('a', 2);
SELECT merge_counter(k, 1) FROM (VALUES ('b'), ('a'), ('b')) v (k);
SELECT * FROM counter ORDER BY key;
DO $$ BEGIN INSERT INTO counter VALUES ('a', 100), ('c', 1) ON CONFLICT (key) DO UPDATE SET n = counter.n + excluded.n; END $$;
DO $$ BEGIN MERGE INTO counter c USING (VALUES ('a'), ('d')) v (k) ON c.key = v.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (v.k, 0); END $$;
SELECT * FROM counter ORDER BY key;

-- procedures, in blocks, with savepoints
CREATE PROCEDURE pay(who text, much numeric, INOUT left_over numeric DEFAULT NULL) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - much WHERE owner = who RETURNING balance INTO left_over;
    IF NOT FOUND THEN RAISE EXCEPTION 'who is %?', who USING HINT = 'Ask.'; END IF;
    INSERT INTO audit (what, new) VALUES ('pay', jsonb_build_object('left', left_over));
END $$;
CALL pay('ann', 5);
CALL pay('zoe', 5);
BEGIN;
CALL pay('ann', 5);
SELECT * FROM account ORDER BY id;
SAVEPOINT s;
CALL pay('ann', 5);
SELECT balance_of('ann');
ROLLBACK TO s;
SELECT balance_of('ann');
UPDATE account SET balance = balance + 1 WHERE id = 1;
SELECT balance_of('ann');
CALL pay('cyd', 1);
ROLLBACK TO s;
CALL pay('ann', 1);
COMMIT;
SELECT * FROM account ORDER BY id;
SELECT what, new FROM audit ORDER BY at;

-- nested blocks, recursion, what is undone is undone
CREATE FUNCTION nested(depth integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit (what) VALUES ('depth ' || depth);
    IF depth = 0 THEN RAISE EXCEPTION 'the bottom'; END IF;
    PERFORM nested(depth - 1);
    RETURN depth;
EXCEPTION WHEN raise_exception THEN
    IF depth < 2 THEN RAISE; END IF;
    INSERT INTO audit (what) VALUES ('caught at ' || depth);
    RETURN -depth;
END $$;
SELECT nested(3);
SELECT what FROM audit ORDER BY at;
DO $$ BEGIN PERFORM nested(1); END $$;

-- setval by what is there
CREATE SEQUENCE numbers;
SELECT setval('numbers', (SELECT max(id) FROM account));
DO $$ BEGIN PERFORM setval('numbers', (SELECT max(id) + 10 FROM account)); END $$;
SELECT nextval('numbers');
SELECT setval(pg_get_serial_sequence('entry', 'id'), coalesce((SELECT max(id) + 1 FROM entry), 1), false);

-- SECURITY DEFINER and rights
CREATE FUNCTION owners() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = fl AS $$ SELECT owner FROM account ORDER BY 1 $$;
SELECT * FROM owners();

-- cursors
CREATE FUNCTION by_cursor() RETURNS text LANGUAGE plpgsql AS $$
DECLARE c CURSOR (least numeric) FOR SELECT id, owner FROM account WHERE balance >= least ORDER BY id; v record; s text := '';
BEGIN
    OPEN c(1);
    LOOP
        FETCH c INTO v;
        EXIT WHEN NOT FOUND;
        s := s || v.owner || ' ';
        UPDATE account SET balance = balance + 1 WHERE CURRENT OF c;
    END LOOP;
    CLOSE c;
    RETURN s;
END $$;
SELECT by_cursor();
SELECT * FROM account ORDER BY id;

-- temporary tables and messages beside happen once
CREATE TEMPORARY TABLE mine (n bigint);
DO $$ BEGIN INSERT INTO mine SELECT count(*) FROM account; RAISE NOTICE 'counted'; END $$;
SELECT * FROM mine;
DO $$ BEGIN CREATE TEMPORARY TABLE copied AS SELECT * FROM account; UPDATE copied SET balance = 0; END $$;
SELECT * FROM copied ORDER BY id;
-- errors have their context
DO $$ DECLARE n integer; BEGIN SELECT id INTO STRICT n FROM account; END $$;
DO $$ BEGIN UPDATE account SET balance = -1; END $$;
DO $$ BEGIN INSERT INTO account VALUES (1, 'one'); END $$;
DO $$ BEGIN PERFORM 1 / (balance - balance) FROM account; END $$;
SELECT * FROM account ORDER BY id;
DROP SCHEMA fl CASCADE;
