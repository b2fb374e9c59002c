-- Long schema changes: their tables and workers, and the state of each of their elements (states.py). Every step of an
-- element is a commit of the gateway's own connection; the last one, to PUBLIC, is in the transaction of the client's
-- statement. A change whose `finished` is NULL runs as long as the backend that works on it is alive (backends.sql).
-- Otherwise it is abandoned, and the next gateway that meets it undoes it.

CREATE TABLE pg_sluice.schema_change (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relid oid NOT NULL,
    relation text NOT NULL,             -- as it was called when the change began
    statement text NOT NULL,
    started_by name NOT NULL,
    process_id integer NOT NULL,        -- that of the client's session
    worker_id integer NOT NULL,         -- that of the gateway's own backend which takes the steps, and when that was started
    worker_started bigint NOT NULL,
    started timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished timestamptz,
    error text,
    step text NOT NULL DEFAULT 'begin',  -- what it does now, and how far that is (catalog/schema/schema_change_progress.py)
    files_done bigint NOT NULL DEFAULT 0,
    files_total bigint NOT NULL DEFAULT 0,
    rows_done bigint NOT NULL DEFAULT 0,
    rows_total bigint NOT NULL DEFAULT 0,
    paused boolean NOT NULL DEFAULT false,
    canceled boolean NOT NULL DEFAULT false
);
CREATE INDEX schema_change_unfinished ON pg_sluice.schema_change (relid) WHERE finished IS NULL;

-- An element of a table that changes state. `previous` is the committed state. If the change fails, the element keeps
-- its `origin`, the state before the change.
CREATE TABLE pg_sluice.element (
    element_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    change_id bigint NOT NULL REFERENCES pg_sluice.schema_change,
    relid oid NOT NULL,
    other_relid oid NOT NULL,           -- the table that a foreign key refers to; 0 for none
    kind text NOT NULL,
    name name NOT NULL,
    of_column name,                     -- of NOT NULL
    definition text NOT NULL,
    origin text NOT NULL,
    previous text NOT NULL,
    state text NOT NULL
);
CREATE INDEX element_relid ON pg_sluice.element (relid);

-- states.py's steps, as rows: the kind of change of each.
CREATE TABLE pg_sluice.element_step (
    element text NOT NULL, before text NOT NULL, after text NOT NULL,
    kind text NOT NULL REFERENCES pg_sluice.change_kind, PRIMARY KEY (element, before, after));


-- Changes of one table are made one after another: a session that alters it locks its row here until its transaction
-- ends, before it locks the shadow. A change that takes several transactions holds the table's turn by its row in
-- `schema_change`, which is written under the lock; each new holder of the lock checks for such a row.
CREATE TABLE pg_sluice.changing (relid oid PRIMARY KEY);

-- The changes of a table that another backend is working on, each with its backend.
CREATE FUNCTION pg_sluice.changes_at_work(shadow oid) RETURNS SETOF pg_sluice.schema_change LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.* FROM pg_sluice.schema_change c WHERE c.relid = shadow AND c.finished IS NULL
        AND c.worker_id <> pg_backend_pid() AND pg_sluice.lives(c.worker_id, c.worker_started)
$$;

-- Take the table's turn until the transaction ends, after the transactions that hold it by the lock. False if a change
-- runs: then no lock is kept, because the subtransaction is undone.
CREATE FUNCTION pg_sluice.try_order(shadow oid) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_sluice.changes_at_work(shadow)) THEN
        RETURN false;
    END IF;
    INSERT INTO pg_sluice.changing VALUES (shadow) ON CONFLICT DO NOTHING;
    PERFORM FROM pg_sluice.changing o WHERE o.relid = shadow FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM pg_sluice.await_row('changing', shadow, 'UPDATE');
    END IF;
    IF NOT EXISTS (SELECT FROM pg_sluice.changing o WHERE o.relid = shadow) OR EXISTS (SELECT FROM pg_sluice.changes_at_work(shadow)) THEN
        RAISE SQLSTATE 'SL000';
    END IF;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'SL000' THEN
    RETURN false;
END $$;

-- The same, waiting as for a lock of PostgreSQL's: up to lock_timeout, and not for a change that waits for us. Returns
-- whether an unfinished change without a worker exists.
CREATE FUNCTION pg_sluice.order_changes(shadow oid) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    waits_for interval := pg_sluice.backend_setting('lock_timeout');
    looks_after interval := pg_sluice.backend_setting('deadlock_timeout');
    since timestamptz := clock_timestamp();
BEGIN
    PERFORM pg_sluice.authorize('order_changes');
    WHILE NOT pg_sluice.try_order(shadow) LOOP
        IF waits_for > '0' AND clock_timestamp() > since + waits_for THEN
            RAISE EXCEPTION 'canceling statement due to lock timeout' USING ERRCODE = 'lock_not_available';
        ELSIF clock_timestamp() > since + looks_after AND (EXISTS (
                SELECT FROM pg_sluice.changes_at_work(shadow) c
                WHERE pg_backend_pid() = ANY (pg_blocking_pids(c.worker_id) || pg_blocking_pids(c.process_id)))
            OR EXISTS (  -- a step, which asks for the shadow for a moment, again and again (catalog/schema/steps.py)
                SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
                WHERE NOT l.granted AND l.relation = shadow AND a.application_name = 'sluice gateway'
                    AND pg_backend_pid() = ANY (pg_blocking_pids(l.pid)))) THEN
            RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected';
        END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
    RETURN EXISTS (SELECT FROM pg_sluice.schema_change c WHERE c.relid = shadow AND c.finished IS NULL);
END $$;


-- Where a message has a whole change, up to its COMMIT, nobody can look between its statements (`at_once` in
-- gateway/execution/schema/change_at_once.py). So it fails with SLU02 if the turn is another's, or was one's who is gone.
CREATE FUNCTION pg_sluice.order_at_once(shadow oid) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('order_at_once');
    PERFORM FROM pg_sluice.changing o WHERE o.relid = shadow FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR EXISTS (SELECT FROM pg_sluice.schema_change c WHERE c.relid = shadow AND c.finished IS NULL) THEN
        RAISE EXCEPTION 'the change waits for another one' USING ERRCODE = 'SLU02';
    END IF;
END $$;

-- And if the statement demands something of rows that are there, or was not about that table.
CREATE FUNCTION pg_sluice.confirm_at_once(shadow oid) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('confirm_at_once');
    DELETE FROM pg_sluice.column_obligation WHERE attnum = 0;  -- there is no USING
    IF NOT EXISTS (SELECT FROM pg_sluice.dirty d WHERE d.relid = shadow) OR EXISTS (SELECT FROM pg_sluice.obligation)
        OR EXISTS (SELECT FROM pg_sluice.index_obligation) OR EXISTS (SELECT FROM pg_sluice.column_obligation) THEN
        RAISE EXCEPTION 'the change demands something of rows' USING ERRCODE = 'SLU02';
    END IF;
END $$;


-- The constraints that the transaction has noted (obligations.sql), as elements to be added one by one before it: those
-- whose columns other sessions have too.
CREATE FUNCTION pg_sluice.elements() RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('elements', 'explained');
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'relid', k.conrelid::bigint, 'other_relid', k.confrelid::bigint, 'name', k.conname,
            'constraint', k.oid::bigint,
            'kind', CASE WHEN k.contype IN ('p', 'u', 'x') THEN 'index' ELSE 'constraint' END,
            'of_column', CASE WHEN k.contype = 'n' THEN a.attname END,
            'definition', CASE WHEN k.contype IN ('p', 'u') THEN pg_get_indexdef(k.conindid)
                          WHEN k.contype = 'x' THEN format('CREATE UNIQUE INDEX %I ON %s USING btree (%s)', k.conname,
                              k.conrelid::regclass, (
                                  SELECT string_agg(quote_ident(c.attname), ', ' ORDER BY u.n)
                                  FROM unnest(k.conkey) WITH ORDINALITY u (attnum, n)
                                  JOIN pg_attribute c ON c.attrelid = k.conrelid AND c.attnum = u.attnum))
                          ELSE format('CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid)) END,
            'origin', CASE WHEN EXISTS (SELECT FROM pg_sluice.published_shape s
                                        WHERE s.relid = k.conrelid AND s.shape -> 'constraints' ? k.oid::text)
                      THEN 'check' ELSE 'absent' END
            ) ORDER BY pg_sluice.obligation_place(k), k.oid), '[]')
        FROM pg_sluice.obligation o JOIN pg_constraint k ON k.oid = o.constraint_oid AND k.conrelid = o.relid
        LEFT JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
        WHERE NOT EXISTS (
            SELECT FROM unnest(k.conkey) u (attnum) JOIN pg_sluice.attribute l ON l.relid = k.conrelid
                AND l.attnum = u.attnum JOIN pg_attribute n ON n.attrelid = k.conrelid AND n.attnum = u.attnum
            WHERE NOT EXISTS (SELECT FROM pg_sluice.published_shape s WHERE s.relid = k.conrelid
                              AND s.shape -> 'columns' -> l.column_id::text ->> 'name' = n.attname))
        AND k.confrelid IN (SELECT 0 UNION SELECT s.relid FROM pg_sluice.published_shape s)
        -- No index that sessions could keep meanwhile demands what it does.
        AND NOT (k.contype = 'x' AND NOT pg_sluice.excludes_equals(k.conindid))
        -- An index or constraint that PostgreSQL has rebuilt with a column existed before.
        AND NOT EXISTS (
            SELECT FROM pg_sluice.published_shape s CROSS JOIN LATERAL jsonb_each(s.shape -> 'constraints') c
            WHERE s.relid = k.conrelid AND c.value ->> 'name' = k.conname AND c.key <> k.oid::text)
        -- A column has one NOT NULL: another one, which is not validated, is there until the statement removes it.
        AND NOT (k.contype = 'n' AND EXISTS (
            SELECT FROM pg_sluice.published_shape s CROSS JOIN LATERAL jsonb_each(s.shape -> 'constraints') c
            WHERE s.relid = k.conrelid AND (c.value ->> 'not_null')::smallint = k.conkey[1] AND c.key <> k.oid::text))
        AND NOT (k.contype = 'n' AND EXISTS (
            SELECT FROM pg_sluice.published_shape s CROSS JOIN LATERAL jsonb_each(s.shape -> 'columns') c
            WHERE s.relid = k.conrelid AND c.value ->> 'name' = a.attname
                AND NOT (c.value ->> 'nullable')::boolean))) || pg_sluice.index_elements();
END $$;


-- In the client's transaction, before its statement is executed: the placeholders of its constraints are removed, and
-- the constraints are PUBLIC with the commit.
CREATE FUNCTION pg_sluice.conclude(change bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    e record;
BEGIN
    PERFORM pg_sluice.authorize('conclude');
    FOR e IN SELECT m.*, n.nspname FROM pg_sluice.element m JOIN pg_class c ON c.oid = m.relid
             JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE m.change_id = change AND m.origin = 'absent' ORDER BY m.element_id LOOP
        IF e.kind = 'index' THEN
            PERFORM pg_sluice.as_owner(e.relid, format('DROP INDEX %I.%I', e.nspname, e.name));
        ELSE
            PERFORM pg_sluice.as_owner(e.relid, format('ALTER TABLE %s DROP CONSTRAINT %I', e.relid::regclass, e.name));
        END IF;
    END LOOP;
    UPDATE pg_sluice.element SET state = 'public' WHERE change_id = change;
    INSERT INTO pg_sluice.dirty (relid)
        SELECT relid FROM pg_sluice.element WHERE change_id = change
        UNION SELECT other_relid FROM pg_sluice.element WHERE change_id = change AND other_relid <> 0;
    UPDATE pg_sluice.schema_change SET finished = clock_timestamp() WHERE change_id = change;
END $$;


-- In the log: the steps that elements take in this transaction.
CREATE FUNCTION pg_sluice.record_element_steps(snapshot bigint, shadow oid, id bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    steps bigint;
BEGIN
    INSERT INTO pg_sluice.schema_step (table_id, snapshot_id, kind, subject)
        SELECT id, snapshot, s.kind, e.name FROM pg_sluice.element e
        JOIN pg_sluice.element_step s ON s.element = e.kind AND s.before = e.previous AND s.after = e.state
        WHERE shadow IN (e.relid, e.other_relid) AND e.state <> e.previous
            -- An index that is not UNIQUE demands nothing of writers: its sidecars are made from existing files.
            AND NOT (e.kind = 'index' AND e.definition NOT LIKE 'CREATE UNIQUE INDEX %')
        ORDER BY e.element_id;
    GET DIAGNOSTICS steps = ROW_COUNT;
    RETURN steps;
END $$;

-- Steps that the difference of shapes shows, but that elements have taken in this transaction by themselves.
CREATE FUNCTION pg_sluice.is_step_of_element(shadow oid, kind text, subject text) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_sluice.element e WHERE e.relid = shadow AND e.state = 'public'
                   AND (($2 IN ('add constraint', 'publish constraint', 'drop constraint', 'add index') AND e.name = $3)
                        OR ($2 = 'set not null' AND e.of_column = $3)))
$$;

CREATE FUNCTION pg_sluice.settle_elements() RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM pg_sluice.element WHERE state <> previous AND state IN ('public', 'absent', origin);
    UPDATE pg_sluice.element SET previous = state WHERE state <> previous;
$$;


-- Schema changes, running and finished, for all roles. The role that began one may be gone.
CREATE VIEW pg_sluice.schema_changes AS
    SELECT c.change_id, c.relation, c.statement, c.started_by, c.process_id, c.started, c.finished, c.error, c.paused,
           c.step, c.files_done, c.files_total, c.rows_done, c.rows_total,
           e.name AS element, e.kind, e.state
    FROM pg_sluice.schema_change c LEFT JOIN pg_sluice.element e USING (change_id)
    WHERE pg_has_role(to_regrole(quote_ident(c.started_by)), 'USAGE') OR pg_has_role('pg_monitor', 'USAGE');
GRANT SELECT ON pg_sluice.schema_changes TO PUBLIC;

-- Those of indexes are shown in PostgreSQL's own view. Files are counted in place of blocks, and rows in place of
-- tuples.
CREATE VIEW pg_sluice.progress_create_index AS
    SELECT c.process_id AS pid, d.oid AS datid, d.datname, c.relid,
           coalesce(i.oid, 0) AS index_relid,
           CASE WHEN c.statement ~* E'^\\s*create\\s.*\\sconcurrently\\s' THEN 'CREATE INDEX CONCURRENTLY' ELSE 'CREATE INDEX' END
               AS command,
           CASE e.state WHEN 'absent' THEN 'initializing' WHEN 'reorg' THEN 'building index: scanning table'
               ELSE 'waiting for writers before build' END AS phase,
           0::bigint AS lockers_total, 0::bigint AS lockers_done, 0::bigint AS current_locker_pid,
           c.files_total AS blocks_total, c.files_done AS blocks_done, c.rows_total AS tuples_total,
           c.rows_done AS tuples_done, 0::bigint AS partitions_total, 0::bigint AS partitions_done
    FROM pg_sluice.schema_change c JOIN pg_sluice.element e USING (change_id) JOIN pg_class t ON t.oid = c.relid
    LEFT JOIN pg_class i ON i.relname = e.name AND i.relnamespace = t.relnamespace
    JOIN pg_database d ON d.datname = current_database()
    WHERE c.finished IS NULL AND e.kind = 'index' AND e.state <> 'public'
        AND (pg_has_role(to_regrole(quote_ident(c.started_by)), 'USAGE') OR pg_has_role('pg_monitor', 'USAGE'));
DO $$
BEGIN
    EXECUTE format('CREATE OR REPLACE VIEW pg_catalog.pg_stat_progress_create_index AS SELECT * FROM (%s) v '
                   'UNION ALL SELECT * FROM pg_sluice.progress_create_index',
                   rtrim(pg_get_viewdef('pg_catalog.pg_stat_progress_create_index'::regclass), ';'));
END $$;

-- A paused change takes no further step until it is resumed; a canceled one is undone.
CREATE FUNCTION pg_sluice.steer(change bigint, pausing boolean, canceling boolean) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pg_sluice.schema_change c SET paused = coalesce(pausing, c.paused), canceled = canceling OR c.canceled
        WHERE c.change_id = change AND c.finished IS NULL AND pg_has_role(session_user, to_regrole(quote_ident(c.started_by)), 'USAGE');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no change % of yours at work', change USING ERRCODE = 'undefined_object';
    END IF;
END $$;
CREATE FUNCTION pg_sluice.pause(change bigint) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT pg_sluice.steer(change, true, false)';
CREATE FUNCTION pg_sluice.resume(change bigint) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT pg_sluice.steer(change, false, false)';
CREATE FUNCTION pg_sluice.cancel(change bigint) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT pg_sluice.steer(change, NULL, true)';


-- After users' code has run in a step, whose COMMIT is a gateway's: nothing of that code may run then. PostgreSQL runs
-- the query of a held cursor at COMMIT as the login role. A deferred trigger, which must be on a temporary table, could
-- still create such a cursor.
CREATE FUNCTION pg_sluice.leave_nothing() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE 'CLOSE ALL';
    IF EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_my_temp_schema()) THEN
        RAISE EXCEPTION 'a function that makes temporary relations, in a step of a change of a schema, is not supported'
            USING ERRCODE = 'feature_not_supported';
    END IF;
    -- Nobody fires these before COMMIT.
    IF EXISTS (SELECT FROM pg_trigger t JOIN pg_sluice.relation r ON r.relid = t.tgrelid WHERE t.tgdeferrable AND NOT t.tgisinternal
               AND 0 < pg_stat_get_xact_tuples_inserted(r.relid) + pg_stat_get_xact_tuples_updated(r.relid)
                       + pg_stat_get_xact_tuples_deleted(r.relid)) THEN
        RAISE EXCEPTION 'a function that may queue deferred triggers, in a step of a change of a schema, is not supported'
            USING ERRCODE = 'feature_not_supported';
    END IF;
END $$;
