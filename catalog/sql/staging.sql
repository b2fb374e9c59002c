-- Rows by the gateway: staged at the session's backend until COMMIT, and prepared for it.

-- Refuse any caller but the gateway of this session. The backend's present message, which current_query() returns at
-- any depth of code, must begin with the name of one of these functions, in the comment that gateways put there and
-- refuse in the messages of clients (gateway/backend/own_message.py). And a gateway must have entered this backend,
-- which no client can do. If users' code may run inside of the function, the name has the OID of a relation behind it.
-- A message that binds or executes what SQL has prepared or opened has the text of that SQL, which users' code makes as
-- it likes: it does not count. Gateways keep their own names of portals from clients.
CREATE FUNCTION pg_sluice.is_told(VARIADIC functions text[]) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT (CASE WHEN starts_with(message, '/*sluice:') AND strpos(message, '*/') > 0
                 THEN split_part(substr(message, 10), '*/', 1) END = ANY (functions)) IS TRUE
        AND pg_sluice.own_gateway() IS NOT NULL
        AND NOT EXISTS (SELECT FROM pg_cursor() c
                        WHERE c.statement = current_query() AND c.name !~ '^(pg_sluice_[0-9a-f]{16}.*)?$')
        -- The text of a statement that SQL has prepared has that word; to list all prepared ones takes long.
        AND (current_query() !~* E'\\mprepare\\M'
             OR NOT EXISTS (SELECT FROM pg_prepared_statement() p WHERE p.from_sql AND p.statement = current_query()))
    FROM left(current_query(), 100) AS message
$$;

CREATE FUNCTION pg_sluice.authorize(VARIADIC functions text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_sluice.is_told(VARIADIC functions) THEN
        RAISE EXCEPTION 'permission denied for the lake''s metadata' USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- Stage a change. Returns the table's marks before and after it (see `uncommitted`).
CREATE FUNCTION pg_sluice.stage(change jsonb, OUT mark_before bigint, OUT mark_after bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    former jsonb;
BEGIN
    PERFORM pg_sluice.authorize('stage');
    SELECT coalesce(max(s.staged_id), 0) INTO mark_before
        FROM pg_sluice.staged s WHERE s.relid = (stage.change ->> 'relid')::oid;
    -- Staged files all of whose rows are in another file now. What was combined into them stays so, where it is staged
    -- together with deletions.
    IF jsonb_array_length(stage.change -> 'combined') > 0 THEN
        WITH gone AS (
            DELETE FROM pg_sluice.staged s WHERE s.relid = (stage.change ->> 'relid')::oid
                AND NOT coalesce((s.change ->> 'truncate')::boolean, false)
                AND jsonb_array_length(s.change -> 'data_files') > 0
                AND jsonb_array_length(s.change -> 'delete_files') = 0
                AND NOT EXISTS (SELECT FROM jsonb_array_elements(s.change -> 'data_files') f
                                WHERE NOT stage.change -> 'combined' ? (f ->> 'path'))
            RETURNING s.change -> 'combined' AS combined)
        SELECT coalesce(jsonb_agg(p), '[]') INTO former
            FROM gone CROSS JOIN LATERAL jsonb_array_elements(gone.combined) AS c (p);
        SELECT jsonb_agg(f -> 'path') INTO former
            FROM pg_sluice.staged s CROSS JOIN LATERAL jsonb_array_elements(s.change -> 'data_files') f
            WHERE s.relid = (stage.change ->> 'relid')::oid AND former ? (f ->> 'path');
        stage.change := jsonb_set(stage.change, '{combined}', (stage.change -> 'combined') || coalesce(former, '[]'));
    END IF;
    INSERT INTO pg_sluice.staged (relid, change) VALUES ((stage.change ->> 'relid')::oid, stage.change)
        RETURNING staged_id INTO mark_after;
END $$;


-- Everything that the transaction has staged for a table so far, as one change (see publish_rows): of the delete files
-- of one data file the last counts, data files that were combined are gone, and TRUNCATE removes everything before it.
-- NULL if nothing is staged.
CREATE FUNCTION pg_sluice.squashed(shadow oid) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    WITH counting AS (
        SELECT s.staged_id, s.change FROM pg_sluice.staged s
        WHERE s.relid = shadow AND s.staged_id >= coalesce((
            SELECT max(t.staged_id) FROM pg_sluice.staged t
            WHERE t.relid = shadow AND (t.change ->> 'truncate')::boolean), 0)
    ), deleted AS (
        SELECT DISTINCT ON (f ->> 'data_path') staged_id, f
        FROM counting CROSS JOIN LATERAL jsonb_array_elements(change -> 'delete_files') f
        ORDER BY f ->> 'data_path', staged_id DESC
    ), combined AS MATERIALIZED (
        SELECT p FROM counting CROSS JOIN LATERAL jsonb_array_elements_text(change -> 'combined') AS c (p)
    )
    SELECT jsonb_build_object(
        'relid', shadow::bigint,
        'truncate', bool_or((change ->> 'truncate')::boolean),
        'data_files', coalesce((
            SELECT jsonb_agg(f ORDER BY staged_id, place)
            FROM counting CROSS JOIN LATERAL jsonb_array_elements(change -> 'data_files') WITH ORDINALITY e (f, place)
            WHERE f ->> 'path' NOT IN (SELECT p FROM combined)
        ), '[]'),
        'delete_files', coalesce((SELECT jsonb_agg(f ORDER BY staged_id) FROM deleted), '[]'))
    FROM counting HAVING count(*) > 0
$$;


-- The transaction's uncommitted view of these relations: the descriptions of lake tables that it created or altered
-- (NULL for others), and what it has staged (NULL for nothing) with its mark: the highest `staged_id` (0 for none).
-- Where that is the one that is given for the relation, the gateway has the change, and NULL is returned in its place.
CREATE FUNCTION pg_sluice.uncommitted(relids oid[], marks bigint[])
RETURNS TABLE (relid bigint, description jsonb, mark bigint, change jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('uncommitted');
    RETURN QUERY SELECT r.relid::bigint,
        CASE WHEN EXISTS (SELECT FROM pg_sluice.dirty d WHERE d.relid = r.relid)
             THEN (SELECT d.description FROM pg_sluice.describe(ARRAY[r.relid]) d) END,
        m.mark, CASE WHEN m.mark <> k.mark THEN pg_sluice.squashed(r.relid) END
        FROM unnest(relids, marks) AS k (relid, mark) JOIN pg_sluice.relation r ON r.relid = k.relid
        CROSS JOIN LATERAL (SELECT coalesce(max(s.staged_id), 0) FROM pg_sluice.staged s
                            WHERE s.relid = r.relid) AS m (mark);
END $$;


-- Before COMMIT. Locks what publish() will lock, and in its order, so that the result stays true until COMMIT. `stale`
-- lists the staged delete files whose data file has got another live delete file meanwhile (`live`; the rows are
-- others, because row locks keep them apart): they must be staged anew with both in one. `kept` are the files that
-- COMMIT will publish, by table folder. `reads` maps the tables that a SERIALIZABLE transaction read to the snapshot at
-- which it read them: one that has changed since is a 40001.
CREATE FUNCTION pg_sluice.prepare_commit(reads jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found jsonb;
BEGIN
    PERFORM pg_sluice.authorize('prepare_commit', 'ready_to_commit');
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
        SELECT c.relid, f, d.delete_file_id, d.path, d.delete_count, d.file_size_bytes, d.footer_size,
               d.positions, pg_sluice.base_json(d) AS base
        FROM changed c CROSS JOIN LATERAL jsonb_array_elements(c.change -> 'delete_files') f
        LEFT JOIN pg_sluice.delete_file d
            ON d.data_file_id = (f ->> 'data_file_id')::bigint AND d.end_snapshot IS NULL
        WHERE f ->> 'data_file_id' IS NOT NULL
    )
    SELECT jsonb_build_object(
        'stale', coalesce((SELECT jsonb_agg(jsonb_build_object('relid', relid::bigint, 'own', f, 'live', jsonb_build_object(
                'delete_file_id', delete_file_id, 'path', path, 'delete_count', delete_count,
                'size_bytes', file_size_bytes, 'footer_size', footer_size, 'positions', positions, 'base', base)))
            FROM deleted WHERE delete_file_id IS DISTINCT FROM (f ->> 'replaces')::bigint), '[]'),
        'kept', coalesce((SELECT jsonb_agg(c.folder || path)
            FROM changed c CROSS JOIN LATERAL
                jsonb_array_elements((c.change -> 'data_files') || (c.change -> 'delete_files')) f
            CROSS JOIN LATERAL unnest(ARRAY[f ->> 'path', f #>> '{base,path}']) path WHERE path IS NOT NULL), '[]'))
        INTO found;
    RETURN found;
END $$;

-- Right before a COMMIT in the same round trip: `hold_steps_since`, `lock_checked` and `prepare_commit`, where there is
-- nothing to decide; returns the last one's `kept`. SLU02 where there is: the gateway then returns to the savepoint
-- before, asks these itself, and decides.
CREATE FUNCTION pg_sluice.ready_to_commit(enlisted jsonb, checked jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    prepared jsonb;
BEGIN
    PERFORM pg_sluice.authorize('ready_to_commit');
    IF pg_sluice.hold_steps_since(enlisted, ARRAY(SELECT k::oid FROM jsonb_object_keys(checked) k)) <> '[]'
        OR (checked <> '{}' AND pg_sluice.lock_checked(checked) <> '[]') THEN
        RAISE EXCEPTION 'others have changed what the transaction uses' USING ERRCODE = 'SLU02';
    END IF;
    prepared := pg_sluice.prepare_commit('{}');
    IF prepared -> 'stale' <> '[]' THEN
        RAISE EXCEPTION 'others have changed what the transaction uses' USING ERRCODE = 'SLU02';
    END IF;
    RETURN prepared -> 'kept';
END $$;

-- The rows of a shadow that a statement gives other values, and their new places: recorded by a trigger that lives in
-- the savepoint around it, and is undone with it. Only that transaction sees them.
CREATE UNLOGGED TABLE pg_sluice.shadow_update (before tid NOT NULL, after tid NOT NULL);

CREATE FUNCTION pg_sluice.note_update() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO pg_sluice.shadow_update VALUES (OLD.ctid, NEW.ctid);
    RETURN NULL;
END $$;

-- Let the client's role delete what is in a shadow, by `pg_sluice.emptied_OID_PID`, until `end_emptying`.
CREATE FUNCTION pg_sluice.begin_emptying(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('begin_emptying');
    PERFORM pg_sluice.open_emptying(shadow, pg_sluice.client_role());
END $$;

CREATE FUNCTION pg_sluice.end_emptying(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('end_emptying');
    PERFORM pg_sluice.close_emptying(shadow);
END $$;

CREATE FUNCTION pg_sluice.note_updates(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('note_updates');
    PERFORM pg_sluice.watch_updates(shadow);
END $$;

CREATE FUNCTION pg_sluice.noted_updates() RETURNS TABLE (before text, after text) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('noted_updates');
    RETURN QUERY SELECT u.before::text, u.after::text FROM pg_sluice.shadow_update u;
END $$;


-- While rows of the lake are copied into a shadow, inside the savepoint that will undo it: an unvalidated constraint,
-- or one under construction, binds new rows and not existing ones. `suspend_unvalidated` returns what it has suspended,
-- or NULL; from `resume_unvalidated` on, which takes that, rows are new again.
CREATE FUNCTION pg_sluice.suspend_unvalidated(shadow oid) RETURNS jsonb LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb;
BEGIN
    PERFORM pg_sluice.authorize('suspend_unvalidated');
    -- Most have nothing of the kind.
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = shadow AND contype IN ('c', 'n') AND NOT convalidated)
        AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = shadow AND indisready AND NOT indisvalid) THEN
        RETURN NULL;
    END IF;
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
    PERFORM pg_sluice.bind_unvalidated(given, false);
    RETURN given;
END $$;

CREATE FUNCTION pg_sluice.resume_unvalidated(suspended jsonb) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('resume_unvalidated');
    PERFORM pg_sluice.bind_unvalidated(suspended, true);
END $$;

-- While functions of users make rows of an empty shadow, inside the savepoint that will undo it: its EXCLUDE constraints do
-- not look for conflicts, as such looks would count as reads of functions. The gateway checks the rows that are made.
CREATE FUNCTION pg_sluice.suspend_exclusions(shadow oid) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('suspend_exclusions');
    PERFORM pg_sluice.set_unvalidated(shadow, '{}', '{}', ARRAY(
        SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = shadow AND i.indisexclusion AND i.indisready), false);
END $$;

CREATE FUNCTION pg_sluice.bind_unvalidated(given jsonb, bind boolean) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_sluice.set_unvalidated((given ->> 'relid')::oid,
        ARRAY(SELECT value::oid FROM jsonb_array_elements_text(given -> 'checks')),
        ARRAY(SELECT value::smallint FROM jsonb_array_elements_text(given -> 'columns')),
        ARRAY(SELECT value::oid FROM jsonb_array_elements_text(given -> 'indexes')), bind)
$$;

-- Whether rows that come into a shadow make PostgreSQL run functions of users: their code may mean a temporary object of
-- the session by a name without a schema, which as the owner it would trust; and as another role it could do what that may.
CREATE FUNCTION pg_sluice.runs_users_code(shadow oid) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem
                   WHERE a.attrelid = shadow AND a.atttypid >= 16384 AND a.attnum > 0
                   AND t.typtype <> 'e' AND coalesce(e.typtype, '') <> 'e')
        -- PostgreSQL's functions that run SQL given as text, and JSON's, which make values of domains.
        OR EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = shadow AND k.contype = 'c'
                   AND pg_get_constraintdef(k.oid) ~ '(to_xml|ts_stat|ts_rewrite|pg_input_|RETURNING)')
        OR EXISTS (SELECT FROM pg_attrdef f WHERE f.adrelid = shadow
                   AND pg_get_expr(f.adbin, f.adrelid) ~ '(to_xml|ts_stat|ts_rewrite|pg_input_|RETURNING)')
        OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = shadow AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
                   AND pg_get_indexdef(i.indexrelid) ~ '(to_xml|ts_stat|ts_rewrite|pg_input_|RETURNING)')
        OR EXISTS (
            SELECT FROM (
                SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE k.conrelid = shadow
                UNION ALL SELECT 'pg_attrdef'::regclass, f.oid FROM pg_attrdef f WHERE f.adrelid = shadow
                UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid = shadow
            ) o (class, oid)
            JOIN pg_depend d ON d.classid = o.class AND d.objid = o.oid
            WHERE d.refobjid >= 16384
                -- A domain runs its CHECKs.
                AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass))
$$;

-- Whether the session has temporary relations or types that are not the gateway's.
CREATE FUNCTION pg_sluice.has_temporary() RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = pg_my_temp_schema() AND c.relname !~ '^pg_sluice_')
        OR EXISTS (SELECT FROM pg_type t WHERE t.typnamespace = pg_my_temp_schema() AND t.typname !~ '^_?pg_sluice_')
$$;

-- Insert rows into a shadow as the table's owner, as which the actions of foreign keys run, inside the savepoint that
-- will undo it. `cells` has the values of the first column, then those of the second, and so on, as text of `types`. A
-- user may have created a cast from text to a type of theirs: such values are read by the type's own input function.
CREATE FUNCTION pg_sluice.put_as_owner(
    shadow oid, columns text[], types oid[], row_count integer, cells text[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO'
SET intervalstyle = 'postgres' SET timezone = 'UTC' SET lc_monetary = 'C' SET xmloption = content AS $$
DECLARE
    target text := shadow::regclass;
    forced boolean := (SELECT c.relrowsecurity AND c.relforcerowsecurity FROM pg_class c WHERE c.oid = shadow);
BEGIN
    PERFORM pg_sluice.authorize('put_as_owner ' || shadow);
    IF pg_my_temp_schema() <> 0 AND pg_sluice.runs_users_code(shadow) AND pg_sluice.has_temporary()
        AND NOT pg_has_role(pg_sluice.client_role(), (SELECT c.relowner FROM pg_class c WHERE c.oid = shadow), 'MEMBER') THEN
        PERFORM pg_sluice.refuse('checking rows as a table''s owner beside temporary objects',
                                 'Drop the temporary objects of the session.');
    END IF;
    IF forced THEN
        target := pg_sluice.open_past_policies(shadow);
    END IF;
    PERFORM pg_sluice.as_owner(shadow, pg_sluice.insert_of_cells(target, columns, types, row_count), cells);
    IF forced THEN
        PERFORM pg_sluice.close_past_policies(shadow);
    END IF;
END $$;


-- Return the INSERT of so many rows into a table, whose values are texts in one array, column by column.
CREATE FUNCTION pg_sluice.insert_of_cells(target text, columns text[], types oid[], row_count integer) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN count(*) = 0 THEN format('INSERT INTO %s SELECT FROM generate_series(1, %s)', target, row_count)
        ELSE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM unnest(%s) AS u (%s)', target,
            string_agg(quote_ident(c), ', ' ORDER BY n),
            string_agg(pg_sluice.value_of_cell(n, t), ', ' ORDER BY n),
            string_agg(format('$1[%s:%s]', (n - 1) * row_count + 1, n * row_count), ', ' ORDER BY n),
            string_agg(format('c%s', n), ', ' ORDER BY n)) END
    FROM unnest(columns, types) WITH ORDINALITY u (c, t, n)
$$;

-- A value of a type in SQL, from the text in the column c<number>: by the type's own input, if a cast may be a user's, or
-- mean something else.
CREATE FUNCTION pg_sluice.value_of_cell(number bigint, type_oid oid) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT format(CASE WHEN EXISTS (SELECT FROM pg_sluice.datatype d WHERE $2 IN (d.type_oid, d.array_oid)) THEN 'c%s::%s'
                  ELSE '(SELECT v FROM json_to_record(json_build_object(''v'', c%s)) AS r (v %s))' END,
                  number, format_type(type_oid, -1))
$$;

-- The same as the current role, into a table whose name is given with its schema.
CREATE FUNCTION pg_sluice.put_kept(target text, columns text[], types oid[], row_count integer, cells text[])
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres'
SET timezone = 'UTC' SET lc_monetary = 'C' SET xmloption = content AS $$
BEGIN
    EXECUTE pg_sluice.insert_of_cells(target, columns, types, row_count) USING cells;
END $$;

-- Those of these functions that may do more than compute, by name; an aggregate does what its functions do.
CREATE FUNCTION pg_sluice.volatile_functions(called oid[]) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(DISTINCT p.oid::regprocedure::text, ', ') FROM pg_proc p
    LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid
    WHERE p.oid = ANY (called) AND EXISTS (
        SELECT FROM pg_proc f WHERE f.provolatile = 'v' AND f.oid IN (
            p.oid, a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn,
            a.aggminvtransfn, a.aggmfinalfn))
$$;

-- For queries with volatile functions, whose effects last though the copies that they read do not
-- (gateway/execution/reading/volatile_effects.py): rows are inserted into shadows past the trigger that refuses such
-- rows at COMMIT (ddl.sql). As `replica`, triggers of these shadows that would fire in any role do not; NULL: all that
-- fire at TRUNCATE. Returns the former setting.
CREATE FUNCTION pg_sluice.set_replication_role(role text, shadows oid[]) RETURNS text LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before text := pg_sluice.backend_setting('session_replication_role');
BEGIN
    PERFORM pg_sluice.authorize('set_replication_role');
    IF role <> 'replica' THEN
        PERFORM pg_sluice.wake_triggers();
    ELSIF shadows IS NULL OR cardinality(shadows) > 0 THEN
        PERFORM pg_sluice.still_triggers(shadows);
    END IF;
    PERFORM set_config('session_replication_role', role, true);
    RETURN before;
END $$;

-- This transaction's changes to the rows of shadows: an equal result later means no change since.
CREATE FUNCTION pg_sluice.shadow_changes(shadows oid[]) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format('%s %s %s %s', pg_stat_get_xact_tuples_inserted(o), pg_stat_get_xact_tuples_updated(o),
                             pg_stat_get_xact_tuples_deleted(o), pg_relation_filenode(o)), ', ' ORDER BY o)
    FROM unnest(shadows) AS u (o)
$$;
