-- Migrations as tools run scripts: a history and a lock of their own, guards, repeatable scripts, changes that fail.
CREATE SCHEMA mg;
SET search_path = mg;
SET client_min_messages = warning;

-- In the way of Flyway: the history is made and locked, and each script is a transaction with its row of history.
BEGIN;
SELECT pg_advisory_xact_lock(77431708279161);
CREATE TABLE IF NOT EXISTS schema_history (
    installed_rank int NOT NULL CONSTRAINT schema_history_pk PRIMARY KEY, version varchar(50), description varchar(200) NOT NULL,
    type varchar(20) NOT NULL, script varchar(1000) NOT NULL, checksum int, installed_by varchar(100) NOT NULL,
    installed_on timestamp NOT NULL DEFAULT now(), execution_time int NOT NULL, success boolean NOT NULL
);
CREATE INDEX IF NOT EXISTS schema_history_s_idx ON schema_history (success);
INSERT INTO schema_history (installed_rank, version, description, type, script, installed_by, execution_time, success)
    VALUES (0, '0', '<< baseline >>', 'BASELINE', 'baseline', current_user, 0, true);
COMMIT;
SELECT count(*) FROM schema_history WHERE success AND version IS NOT NULL;

BEGIN;
SELECT * FROM pg_try_advisory_lock(77431708279162);
CREATE TABLE account (id bigserial PRIMARY KEY, email varchar(100) NOT NULL, created_at timestamp DEFAULT now());
CREATE UNIQUE INDEX account_email ON account (lower(email));
INSERT INTO account (email) SELECT 'user' || i || '@example.org' FROM generate_series(1, 20) i;
INSERT INTO schema_history (installed_rank, version, description, type, script, checksum, installed_by, execution_time, success)
    SELECT max(installed_rank) + 1, '1', 'accounts', 'SQL', 'V1__accounts.sql', 1187, current_user, 12, true FROM schema_history;
COMMIT;

-- A script of data: a DO that guards itself, loops, and fails the second time.
BEGIN;
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM information_schema.columns
               WHERE table_schema = 'mg' AND table_name = 'account' AND column_name = 'domain') THEN
        RAISE EXCEPTION 'V2 is already there' USING ERRCODE = 'duplicate_column';
    END IF;
    ALTER TABLE account ADD COLUMN domain text;
END $$;
DO $$
DECLARE
    a record;
    done integer := 0;
BEGIN
    FOR a IN SELECT id, email FROM account WHERE id % 2 = 0 ORDER BY id LOOP
        UPDATE account SET domain = split_part(a.email, '@', 2) WHERE id = a.id;
        done := done + 1;
    END LOOP;
    RAISE WARNING '% of % rows', done, (SELECT count(*) FROM account);
END $$;
UPDATE account SET domain = 'none' WHERE domain IS NULL;
ALTER TABLE account ALTER COLUMN domain SET NOT NULL;
INSERT INTO schema_history (installed_rank, version, description, type, script, checksum, installed_by, execution_time, success)
    SELECT max(installed_rank) + 1, '2', 'domains', 'SQL', 'V2__domains.sql', -42, current_user, 30, true FROM schema_history;
COMMIT;
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM information_schema.columns
               WHERE table_schema = 'mg' AND table_name = 'account' AND column_name = 'domain') THEN
        RAISE EXCEPTION 'V2 is already there' USING ERRCODE = 'duplicate_column';
    END IF;
END $$;
SELECT domain, count(*) FROM account GROUP BY domain ORDER BY domain;

-- A script that fails in the middle leaves nothing but its failure.
BEGIN;
CREATE TABLE half (id int PRIMARY KEY REFERENCES account);
INSERT INTO half SELECT id FROM account;
INSERT INTO half VALUES (4711);
ROLLBACK;
INSERT INTO schema_history (installed_rank, version, description, type, script, installed_by, execution_time, success)
    SELECT max(installed_rank) + 1, '3', 'half', 'SQL', 'V3__half.sql', current_user, 1, false FROM schema_history;
SELECT to_regclass('half');
DELETE FROM schema_history WHERE NOT success;

-- Repeatable: views, functions and triggers, in place of what was there.
CREATE OR REPLACE VIEW domains AS SELECT domain, count(*) AS accounts FROM account GROUP BY domain;
CREATE OR REPLACE FUNCTION normalised() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.email := lower(trim(NEW.email));
    NEW.domain := split_part(NEW.email, '@', 2);
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS normalised ON account;
CREATE TRIGGER normalised BEFORE INSERT OR UPDATE OF email ON account FOR EACH ROW EXECUTE FUNCTION normalised();
CREATE OR REPLACE TRIGGER normalised BEFORE INSERT OR UPDATE OF email ON account FOR EACH ROW EXECUTE FUNCTION normalised();
INSERT INTO account (email) VALUES (' Ann@Example.COM '), ('USER1@example.org');
INSERT INTO account (email) VALUES (' Ann@Example.COM ');
SELECT id > 20 AS is_new, email, domain FROM account WHERE domain LIKE '%.com';
SELECT * FROM domains ORDER BY domain;
SELECT installed_rank, version, description, success FROM schema_history ORDER BY installed_rank;

-- In the way of Liquibase: a lock that is a row, change sets with preconditions, and checksums.
CREATE TABLE databasechangeloglock (
    id int NOT NULL, locked boolean NOT NULL, lockgranted timestamp, lockedby varchar(255), PRIMARY KEY (id));
DELETE FROM databasechangeloglock;
INSERT INTO databasechangeloglock (id, locked) VALUES (1, false);
SELECT locked FROM databasechangeloglock WHERE id = 1;
UPDATE databasechangeloglock SET locked = true, lockedby = 'host (10.0.0.1)', lockgranted = now() WHERE id = 1 AND locked = false;
UPDATE databasechangeloglock SET locked = true, lockedby = 'other', lockgranted = now() WHERE id = 1 AND locked = false;
CREATE TABLE databasechangelog (
    id varchar(255) NOT NULL, author varchar(255) NOT NULL, filename varchar(255) NOT NULL, dateexecuted timestamp NOT NULL,
    orderexecuted int NOT NULL, exectype varchar(10) NOT NULL, md5sum varchar(35), description varchar(255), tag varchar(255));
SELECT md5sum FROM databasechangelog WHERE md5sum IS NOT NULL LIMIT 1;
SELECT count(*) FROM databasechangelog;
BEGIN;
SELECT count(*) FROM pg_tables WHERE schemaname = 'mg' AND tablename = 'invoice';
CREATE TABLE invoice (id bigint GENERATED BY DEFAULT AS IDENTITY NOT NULL, account_id bigint, total numeric(10, 2),
    state varchar(10) DEFAULT 'open' NOT NULL, CONSTRAINT invoice_pkey PRIMARY KEY (id));
ALTER TABLE invoice ADD CONSTRAINT fk_invoice_account FOREIGN KEY (account_id) REFERENCES account (id) ON DELETE CASCADE;
CREATE INDEX idx_invoice_account ON invoice (account_id);
INSERT INTO databasechangelog SELECT '1', 'ann', 'db/changelog.xml', now(), coalesce(max(orderexecuted), 0) + 1, 'EXECUTED',
    '9:' || md5('1'), 'createTable tableName=invoice', NULL FROM databasechangelog;
COMMIT;
BEGIN;
INSERT INTO invoice (account_id, total) SELECT id, id * 1.5 FROM account WHERE id <= 20;
UPDATE invoice SET state = 'paid' WHERE total > 20;
ALTER TABLE invoice ADD CONSTRAINT state_known CHECK (state IN ('open', 'paid'));
ALTER TABLE invoice RENAME COLUMN total TO amount;
ALTER TABLE invoice ALTER COLUMN amount TYPE numeric(12, 3);
INSERT INTO databasechangelog SELECT '2', 'bob', 'db/changelog.xml', now(), max(orderexecuted) + 1, 'EXECUTED',
    '9:' || md5('2'), 'sql', 'v2' FROM databasechangelog;
COMMIT;
BEGIN;
ALTER TABLE invoice ADD CONSTRAINT all_paid CHECK (state = 'paid');
ROLLBACK;
INSERT INTO databasechangelog SELECT '3', 'bob', 'db/changelog.xml', now(), max(orderexecuted) + 1, 'MARK_RAN', NULL, 'sql', NULL
    FROM databasechangelog;
DELETE FROM account WHERE id < 3;
SELECT state, count(*), sum(amount) FROM invoice GROUP BY state ORDER BY state;
SELECT id, author, orderexecuted, exectype, md5sum, tag FROM databasechangelog ORDER BY orderexecuted;
UPDATE databasechangeloglock SET locked = false, lockedby = NULL, lockgranted = NULL WHERE id = 1;
SELECT setval('account_id_seq', (SELECT max(id) FROM account), true) > 20;
