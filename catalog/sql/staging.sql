-- Rows by the gateway: staged at the session's backend until COMMIT, and made ready for it.

-- Only a gateway knows the token; the client whose backend this is does not (nor may it read `setting`).
CREATE FUNCTION pg_sluice.authorize(token text) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_sluice.setting s
                   WHERE s.name = 'token' AND s.value = authorize.token) THEN
        RAISE EXCEPTION 'permission denied for the lake''s metadata' USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

CREATE FUNCTION pg_sluice.stage(token text, change jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_sluice.authorize(token);
    INSERT INTO pg_sluice.staged (relid, change) VALUES ((stage.change ->> 'relid')::oid, stage.change);
END $$;


-- What the transaction has staged for a table so far, as one change (see publish_rows): of the delete files of one data
-- file the last counts, and TRUNCATE takes all before it away. NULL where nothing is staged.
CREATE FUNCTION pg_sluice.squashed(shadow oid) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog AS $$
    WITH counting AS (
        SELECT s.staged_id, s.change FROM pg_sluice.staged s
        WHERE s.relid = shadow AND s.staged_id >= coalesce((
            SELECT max(t.staged_id) FROM pg_sluice.staged t
            WHERE t.relid = shadow AND (t.change ->> 'truncate')::boolean), 0)
    ), deleted AS (
        SELECT DISTINCT ON (f ->> 'data_path') staged_id, f
        FROM counting CROSS JOIN LATERAL jsonb_array_elements(change -> 'delete_files') f
        ORDER BY f ->> 'data_path', staged_id DESC
    )
    SELECT jsonb_build_object(
        'relid', shadow::bigint,
        'truncate', bool_or((change ->> 'truncate')::boolean),
        'data_files', coalesce((
            SELECT jsonb_agg(f ORDER BY staged_id, place)
            FROM counting CROSS JOIN LATERAL jsonb_array_elements(change -> 'data_files') WITH ORDINALITY e (f, place)
        ), '[]'),
        'delete_files', coalesce((SELECT jsonb_agg(f ORDER BY staged_id) FROM deleted), '[]'))
    FROM counting HAVING count(*) > 0
$$;


-- What the transaction sees of these relations that is not committed: its own lake tables' descriptions where it made
-- or altered them (NULL where not), and what it has staged (NULL for nothing).
CREATE FUNCTION pg_sluice.uncommitted(token text, relids oid[])
RETURNS TABLE (relid bigint, description jsonb, change jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_sluice.authorize(token);
    RETURN QUERY SELECT r.relid::bigint,
        CASE WHEN EXISTS (SELECT FROM pg_sluice.dirty d WHERE d.relid = r.relid)
             THEN (SELECT d.description FROM pg_sluice.describe(ARRAY[r.relid]) d) END,
        pg_sluice.squashed(r.relid)
        FROM pg_sluice.relation r WHERE r.relid = ANY (relids);
END $$;


-- Before COMMIT. Locks what publish() will lock, and in its order, so that what is said here stays true until COMMIT:
-- `stale` lists the staged delete files whose data file has got another live delete file meanwhile (`live`; the rows are
-- others, for row locks keep them apart), which have to be staged anew with both in one. `kept` are the files that COMMIT
-- will publish, by table folder. `reads` maps the tables that a SERIALIZABLE transaction read to the snapshot at which
-- it read them: one that has changed since is a 40001.
CREATE FUNCTION pg_sluice.prepare_commit(token text, reads jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    found jsonb;
BEGIN
    PERFORM pg_sluice.authorize(token);
    PERFORM pg_sluice.lock_changed();
    IF reads <> '{}' THEN
        LOCK TABLE pg_sluice.head IN EXCLUSIVE MODE;
    END IF;
    IF EXISTS (SELECT FROM jsonb_each_text(reads) r LEFT JOIN pg_sluice.relation k ON k.relid = r.key::oid
               WHERE k.relid IS NULL OR pg_sluice.rows_changed(k) > r.value::bigint) THEN
        RAISE EXCEPTION 'could not serialize access due to read/write dependencies among transactions'
            USING ERRCODE = 'serialization_failure', HINT = 'The transaction might succeed if retried.';
    END IF;
    WITH changed AS (
        SELECT r.relid, r.table_id, r.schema_path || r.path AS folder, pg_sluice.squashed(r.relid) AS change
        FROM pg_sluice.relation r WHERE r.relid IN (SELECT s.relid FROM pg_sluice.staged s)
            AND EXISTS (SELECT FROM pg_class c WHERE c.oid = r.relid)  -- not dropped by the transaction itself
    ), deleted AS (
        SELECT c.relid, f, d.delete_file_id, d.path, d.delete_count, d.file_size_bytes, d.footer_size
        FROM changed c CROSS JOIN LATERAL jsonb_array_elements(c.change -> 'delete_files') f
        LEFT JOIN pg_ducklake.ducklake_delete_file d
            ON d.data_file_id = (f ->> 'data_file_id')::bigint AND d.end_snapshot IS NULL
        WHERE f ->> 'data_file_id' IS NOT NULL
    )
    SELECT jsonb_build_object(
        'stale', coalesce((SELECT jsonb_agg(jsonb_build_object('relid', relid::bigint, 'own', f, 'live', jsonb_build_object(
                'delete_file_id', delete_file_id, 'path', path, 'delete_count', delete_count,
                'size_bytes', file_size_bytes, 'footer_size', footer_size)))
            FROM deleted WHERE delete_file_id IS DISTINCT FROM (f ->> 'replaces')::bigint), '[]'),
        'kept', coalesce((SELECT jsonb_agg(c.folder || (f ->> 'path'))
            FROM changed c CROSS JOIN LATERAL
                jsonb_array_elements((c.change -> 'data_files') || (c.change -> 'delete_files')) f), '[]'))
        INTO found;
    RETURN found;
END $$;

CREATE FUNCTION pg_sluice.lock_changed() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
    PERFORM FROM pg_sluice.relation
        WHERE relid IN (SELECT s.relid FROM pg_sluice.staged s UNION SELECT d.relid FROM pg_sluice.dirty d)
        ORDER BY relid FOR UPDATE;
END $$;

-- The rows that a validated INSERT left in a shadow, inside the savepoint that will undo it.
CREATE FUNCTION pg_sluice.shadow_rows(token text, shadow oid, columns text, condition text) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_sluice.authorize(token);
    RETURN QUERY EXECUTE format('SELECT %s FROM ONLY %s WHERE %s', columns, shadow::regclass, condition);
END $$;


-- Which rows of a shadow a statement gives other values, and where these are then: noted by a trigger that is there as long
-- as the savepoint around it, with which all of it is undone. Nobody but that transaction ever sees what it has noted.
CREATE UNLOGGED TABLE pg_sluice.shadow_update (before tid NOT NULL, after tid NOT NULL);

CREATE FUNCTION pg_sluice.note_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO pg_sluice.shadow_update VALUES (OLD.ctid, NEW.ctid);
    RETURN NULL;
END $$;

CREATE FUNCTION pg_sluice.note_updates(token text, shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog SET event_triggers = off AS $$
BEGIN
    PERFORM pg_sluice.authorize(token);
    EXECUTE format('CREATE TRIGGER pg_sluice_note AFTER UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION pg_sluice.note_update()',
                   shadow::regclass);
END $$;

CREATE FUNCTION pg_sluice.noted_updates(token text) RETURNS TABLE (before text, after text) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_sluice.authorize(token);
    RETURN QUERY SELECT u.before::text, u.after::text FROM pg_sluice.shadow_update u;
END $$;


-- While rows of the lake are copied into a shadow, inside the savepoint that will undo it: what is not validated, or still
-- on its way, binds new rows and not those that are there. `suspend_unvalidated` says what it has suspended, or NULL; from
-- `resume_unvalidated` on, which is given that, rows are new again.
CREATE FUNCTION pg_sluice.suspend_unvalidated(token text, shadow oid) RETURNS jsonb LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    given jsonb;
BEGIN
    PERFORM pg_sluice.authorize(token);
    SELECT jsonb_build_object(
        'relid', shadow::bigint,
        'checks', coalesce((SELECT jsonb_agg(oid::bigint) FROM pg_constraint
                            WHERE conrelid = shadow AND contype = 'c' AND conenforced AND NOT convalidated), '[]'),
        'columns', coalesce((SELECT jsonb_agg(conkey[1]) FROM pg_constraint
                             WHERE conrelid = shadow AND contype = 'n' AND NOT convalidated), '[]'),
        'indexes', coalesce((SELECT jsonb_agg(indexrelid::bigint) FROM pg_index
                             WHERE indrelid = shadow AND indisready AND NOT indisvalid), '[]')) INTO given;
    IF given -> 'checks' || (given -> 'columns') || (given -> 'indexes') = '[]' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_sluice.set_unvalidated(given, false);
    RETURN given;
END $$;

CREATE FUNCTION pg_sluice.resume_unvalidated(token text, suspended jsonb) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_sluice.authorize(token);
    PERFORM pg_sluice.set_unvalidated(suspended, true);
END $$;

CREATE FUNCTION pg_sluice.set_unvalidated(given jsonb, bind boolean) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
    UPDATE pg_constraint SET conenforced = bind WHERE oid IN (
        SELECT value::oid FROM jsonb_array_elements_text(given -> 'checks'));
    UPDATE pg_index SET indisready = bind WHERE indexrelid IN (
        SELECT value::oid FROM jsonb_array_elements_text(given -> 'indexes'));
    -- PostgreSQL looks at a table's constraints anew where one of its columns has changed.
    UPDATE pg_attribute SET attnotnull = CASE WHEN given -> 'columns' @> to_jsonb(attnum) THEN bind ELSE attnotnull END
        WHERE attrelid = (given ->> 'relid')::oid AND (attnum = 1 OR given -> 'columns' @> to_jsonb(attnum));
END $$;

-- Put rows into a shadow as the table's owner, who is the one that the actions of foreign keys act as, inside the savepoint
-- that will undo it. `cells` has the values of the first column, then those of the second, and so on, as text of `types`.
-- Only a function that the owner owns acts as the owner; the savepoint undoes that too.
CREATE FUNCTION pg_sluice.put_as_owner(
    token text, shadow oid, columns text[], types oid[], row_count integer, cells text[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET datestyle = 'ISO'
SET intervalstyle = 'postgres' AS $$
DECLARE
    name text := format('pg_sluice.put_as_owner_%s', pg_backend_pid()); names text; casts text; slices text; aliases text;
BEGIN
    PERFORM pg_sluice.authorize(token);
    SELECT string_agg(quote_ident(c), ', ' ORDER BY n), string_agg(format('c%s::%s', n, format_type(t, -1)), ', ' ORDER BY n),
           string_agg(format('$1[%s:%s]', (n - 1) * row_count + 1, n * row_count), ', ' ORDER BY n),
           string_agg(format('c%s', n), ', ' ORDER BY n)
        INTO names, casts, slices, aliases FROM unnest(columns, types) WITH ORDINALITY u (c, t, n);
    EXECUTE format('CREATE OR REPLACE FUNCTION %s(text[]) RETURNS void LANGUAGE sql SECURITY DEFINER AS %L', name, CASE
        WHEN names IS NULL THEN format('INSERT INTO %s SELECT FROM generate_series(1, %s)', shadow::regclass, row_count)
        ELSE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM unnest(%s) AS u (%s)',
                    shadow::regclass, names, casts, slices, aliases) END);
    EXECUTE format('ALTER FUNCTION %s(text[]) OWNER TO %s', name,
                   (SELECT relowner::regrole FROM pg_class WHERE oid = shadow));
    EXECUTE format('SELECT %s($1)', name) USING cells;
    -- The savepoint around it may be kept (gateway/lake/temporary_change.py), and the function is for nobody else.
    EXECUTE format('DROP FUNCTION %s(text[])', name);
END $$;


-- Those of these functions that may do more than to compute, by name; aggregates do what their functions do.
CREATE FUNCTION pg_sluice.volatile_functions(called oid[]) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog AS $$
    SELECT string_agg(DISTINCT p.oid::regprocedure::text, ', ') FROM pg_proc p
    LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid
    WHERE p.oid = ANY (called) AND EXISTS (
        SELECT FROM pg_proc f WHERE f.provolatile = 'v' AND f.oid IN (
            p.oid, a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn,
            a.aggminvtransfn, a.aggmfinalfn))
$$;

-- For queries with volatile functions, whose effects last though the copies that they read do not (gateway/lake/effects.py):
-- rows are put into shadows past the trigger that refuses such rows at COMMIT (ddl.sql). Returns what was set.
CREATE FUNCTION pg_sluice.set_replication_role(token text, role text) RETURNS text LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    before text := current_setting('session_replication_role');
BEGIN
    PERFORM pg_sluice.authorize(token);
    PERFORM set_config('session_replication_role', role, true);
    RETURN before;
END $$;

-- What this transaction has done to the rows of shadows: the same again means nothing since.
CREATE FUNCTION pg_sluice.shadow_changes(shadows oid[]) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT string_agg(format('%s %s %s %s', pg_stat_get_xact_tuples_inserted(o), pg_stat_get_xact_tuples_updated(o),
                             pg_stat_get_xact_tuples_deleted(o), pg_relation_filenode(o)), ', ' ORDER BY o)
    FROM unnest(shadows) AS u (o)
$$;

-- Take the copies out of a shadow; false, and they stay, where any of them is locked.
CREATE FUNCTION pg_sluice.take_copies(token text, shadow oid) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog SET session_replication_role = local AS $$
DECLARE
    locked boolean;
BEGIN
    PERFORM pg_sluice.authorize(token);
    EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s WHERE xmax::text <> ''0'')', shadow::regclass) INTO locked;
    IF NOT locked THEN
        EXECUTE format('DELETE FROM ONLY %s', shadow::regclass);
    END IF;
    RETURN NOT locked;
END $$;
