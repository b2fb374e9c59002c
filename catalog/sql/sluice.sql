-- What Sluice adds to the catalog database: which relations are lake tables, and how a transaction of the
-- session's own backend publishes schema and rows together, as one DuckLake snapshot, at its COMMIT.
--
--   DDL by a client ──► event triggers ──► relation, attribute (IDs) + dirty
--   rows by the gateway ──► stage(token, change) ──► staged
--   COMMIT ──► deferred trigger on dirty and staged ──► publish(): one snapshot, all or nothing
--
-- Everything is transactional, so ROLLBACK and ROLLBACK TO SAVEPOINT undo it without further code.

CREATE SCHEMA pg_sluice;

CREATE TABLE pg_sluice.setting (name text PRIMARY KEY, value text NOT NULL);

-- datatypes.py, as rows: the DuckLake name of each scalar type that a lake column may have.
CREATE TABLE pg_sluice.datatype (type_oid oid PRIMARY KEY, array_oid oid UNIQUE NOT NULL, ducklake text NOT NULL);

CREATE TABLE pg_sluice.relation (
    relid oid PRIMARY KEY,
    table_id bigint UNIQUE NOT NULL,
    table_uuid uuid NOT NULL DEFAULT gen_random_uuid(),
    path text NOT NULL,                 -- below its schema's folder
    schema_path text NOT NULL,
    next_column_id bigint NOT NULL DEFAULT 1,
    changed_snapshot bigint NOT NULL DEFAULT 0, -- the last snapshot that changed schema or rows
    schema_version bigint NOT NULL DEFAULT 0    -- the last step of its schema (enlistment.sql)
);

CREATE TABLE pg_sluice.attribute (
    relid oid NOT NULL REFERENCES pg_sluice.relation ON DELETE CASCADE,
    attnum smallint NOT NULL,
    column_id bigint NOT NULL,          -- DuckLake column ID = Parquet field ID; nested fields follow it
    type_oid oid NOT NULL,
    typmod integer NOT NULL,
    initial_default text,               -- what rows written before the column hold (pg_attribute.attmissingval)
    PRIMARY KEY (relid, attnum)
);

CREATE TABLE pg_sluice.dirty (relid oid NOT NULL, namespace name);
CREATE TABLE pg_sluice.staged (
    staged_id bigint GENERATED ALWAYS AS IDENTITY, relid oid NOT NULL, change jsonb NOT NULL);

-- Who replaces many rows of a table locks its row here against all others (row_locks.sql).
-- That row may outlive the table: whoever drops a table does not wait for who changes its rows.
CREATE TABLE pg_sluice.writer (relid oid PRIMARY KEY);

-- IDs come from sequences, so that no commit reads max() + 1. Gaps are harmless; order is that of the lock on
-- `head`, which publish() takes last, after those of lock_changed, and holds until COMMIT.
CREATE TABLE pg_sluice.head ();
CREATE SEQUENCE pg_sluice.snapshot_id MINVALUE 0;
CREATE SEQUENCE pg_sluice.schema_version MINVALUE 0;
CREATE SEQUENCE pg_sluice.catalog_id;
CREATE SEQUENCE pg_sluice.file_id MINVALUE 0;


-- The DuckLake type of a column, or NULL where lake tables cannot hold it (datatypes.lake_form).
CREATE FUNCTION pg_sluice.column_type(type_oid oid, typmod integer) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN d.array_oid = $1 THEN 'list'
        WHEN d.type_oid = 1700 AND $2 >= 4
             AND (($2 - 4) >> 16) & 65535 <= 38
             AND ((($2 - 4) & 2047) # 1024) - 1024 BETWEEN 0 AND (($2 - 4) >> 16) & 65535
        THEN format('decimal(%s,%s)', (($2 - 4) >> 16) & 65535, ((($2 - 4) & 2047) # 1024) - 1024)
        ELSE d.ducklake
    END
    FROM pg_sluice.datatype d WHERE $1 IN (d.type_oid, d.array_oid)
$$;


-- The DuckLake columns that one attribute becomes, itself first, then the fields nested in it, depth first.
CREATE FUNCTION pg_sluice.fields(
    name text, type_oid oid, typmod integer, column_id bigint, parent bigint,
    OUT field_id bigint, OUT field_name text, OUT field_type text, OUT parent_id bigint
) RETURNS SETOF record LANGUAGE plpgsql STABLE AS $$
DECLARE
    element oid := (SELECT d.type_oid FROM pg_sluice.datatype d WHERE d.array_oid = fields.type_oid);
BEGIN
    field_id := column_id; field_name := name; parent_id := parent;
    field_type := pg_sluice.column_type(type_oid, typmod);
    RETURN NEXT;
    IF element IS NOT NULL THEN
        RETURN QUERY SELECT * FROM pg_sluice.fields('element', element, typmod, column_id + 1, column_id);
    ELSIF type_oid = 'interval'::regtype THEN
        RETURN QUERY VALUES (column_id + 1, 'months', 'int32', column_id),
                            (column_id + 2, 'days', 'int32', column_id),
                            (column_id + 3, 'microseconds', 'int64', column_id);
    END IF;
END $$;


-- Lake tables described as JSON, for catalog.store: the transaction's own view of them.
CREATE FUNCTION pg_sluice.describe(relids oid[]) RETURNS TABLE (relid oid, description jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT r.relid, jsonb_build_object(
        'relid', r.relid::bigint, 'table_id', r.table_id, 'schema', n.nspname, 'name', c.relname,
        'path', r.schema_path || r.path, 'changed', r.changed_snapshot, 'schema_version', r.schema_version,
        'columns', (SELECT jsonb_agg(jsonb_build_object(
                'attnum', a.attnum, 'column_id', l.column_id, 'name', a.attname, 'type', a.atttypid::bigint,
                'typmod', a.atttypmod, 'nullable', NOT a.attnotnull, 'initial_default', l.initial_default,
                'generated', a.attgenerated, 'identity', a.attidentity,
                'default', (SELECT d.adbin::text FROM pg_attrdef d WHERE d.adrelid = r.relid AND d.adnum = a.attnum)
            ) ORDER BY a.attnum)
            FROM pg_attribute a JOIN pg_sluice.attribute l ON l.relid = a.attrelid AND l.attnum = a.attnum
            WHERE a.attrelid = r.relid AND NOT a.attisdropped),
        'checks', (SELECT jsonb_agg(jsonb_build_object('name', k.conname, 'expression', k.conbin::text)
                                    ORDER BY k.conname)
            FROM pg_constraint k WHERE k.conrelid = r.relid AND k.contype = 'c'),
        'keys', pg_sluice.keys(r.relid), 'foreign_keys', pg_sluice.foreign_keys(r.relid))
    FROM pg_sluice.relation r
    JOIN pg_class c ON c.oid = r.relid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE r.relid = ANY (relids)
$$;


-- ── DDL by clients ──────────────────────────────────────────────────────────────────────────────────────

CREATE FUNCTION pg_sluice.refuse(construct text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is not supported on lake tables', construct USING ERRCODE = 'feature_not_supported';
END $$;


-- A row that is still in a shadow at COMMIT was written by something that ran on PostgreSQL alone.
CREATE FUNCTION pg_sluice.refuse_shadow_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_sluice.refuse(format('writing table "%s" from within a function or procedure', TG_TABLE_NAME));
    RETURN NULL;
END $$;


-- Take a new relation into the lake: an ID, a folder, and the guard against rows in its shadow.
CREATE FUNCTION pg_sluice.adopt(shadow regclass) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog SET allow_system_table_mods = on AS $$
DECLARE
    c pg_class; n name; id bigint := nextval('pg_sluice.catalog_id');
BEGIN
    SELECT * INTO c FROM pg_class WHERE oid = shadow;
    SELECT nspname INTO n FROM pg_namespace WHERE oid = c.relnamespace;
    INSERT INTO pg_sluice.relation (relid, table_id, path, schema_path) VALUES (
        shadow, id,
        format('%s-%s/', regexp_replace(c.relname, '[^A-Za-z0-9_]', '_', 'g'), id),
        format('%s/', regexp_replace(n, '[^A-Za-z0-9_]', '_', 'g')));
    INSERT INTO pg_sluice.writer VALUES (shadow) ON CONFLICT DO NOTHING;
    PERFORM pg_sluice.make_table_lock(id);
    EXECUTE format('CREATE CONSTRAINT TRIGGER pg_sluice_guard AFTER INSERT ON %s DEFERRABLE INITIALLY DEFERRED '
                   'FOR EACH ROW EXECUTE FUNCTION pg_sluice.refuse_shadow_row()', shadow);
    UPDATE pg_trigger SET tgisinternal = true WHERE tgrelid = shadow AND tgname = 'pg_sluice_guard';
END $$;


-- Bring `attribute` up to what the shadow's columns are now; refuse what is not yet done online.
CREATE FUNCTION pg_sluice.number_columns(shadow regclass, created boolean) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
DECLARE
    a record; known pg_sluice.attribute; next_id bigint;
BEGIN
    SELECT next_column_id INTO next_id FROM pg_sluice.relation WHERE relid = shadow;
    FOR a IN SELECT * FROM pg_attribute WHERE attrelid = shadow AND attnum > 0 AND NOT attisdropped ORDER BY attnum
    LOOP
        SELECT * INTO known FROM pg_sluice.attribute WHERE relid = shadow AND attnum = a.attnum;
        IF NOT FOUND THEN
            IF pg_sluice.column_type(a.atttypid, a.atttypmod) IS NULL THEN
                PERFORM pg_sluice.refuse(format('column "%s" of type %s', a.attname,
                                                format_type(a.atttypid, a.atttypmod)));
            END IF;
            IF NOT created AND (a.attgenerated <> '' OR a.attidentity <> '' OR (a.atthasdef AND NOT a.atthasmissing))
            THEN
                PERFORM pg_sluice.refuse(format('adding column "%s" with a computed default', a.attname));
            END IF;
            INSERT INTO pg_sluice.attribute VALUES (
                shadow, a.attnum, next_id, a.atttypid, a.atttypmod, (a.attmissingval::text::text[])[1]);
            next_id := next_id + (SELECT count(*) FROM pg_sluice.fields('', a.atttypid, a.atttypmod, 0, NULL));
        ELSIF (known.type_oid, known.typmod) IS DISTINCT FROM (a.atttypid, a.atttypmod) THEN
            PERFORM pg_sluice.refuse(format('changing the type of column "%s"', a.attname));
        END IF;
    END LOOP;
    UPDATE pg_sluice.relation SET next_column_id = next_id WHERE relid = shadow;
END $$;


CREATE FUNCTION pg_sluice.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    command record; c pg_class; created boolean; has_rows boolean; parent oid;
BEGIN
    FOR command IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
        IF command.object_type = 'schema' THEN
            INSERT INTO pg_sluice.dirty VALUES (0, (SELECT nspname FROM pg_namespace WHERE oid = command.objid));
        END IF;
        parent := CASE command.object_type
            WHEN 'index' THEN (SELECT indrelid FROM pg_index WHERE indexrelid = command.objid)
            WHEN 'trigger' THEN (SELECT tgrelid FROM pg_trigger WHERE oid = command.objid AND NOT tgisinternal
                                  AND tgname <> 'pg_sluice_guard')
            WHEN 'rule' THEN (SELECT ev_class FROM pg_rewrite WHERE oid = command.objid AND rulename <> '_RETURN')
            WHEN 'policy' THEN (SELECT polrelid FROM pg_policy WHERE oid = command.objid) END;
        IF command.object_type <> 'index' AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = parent) THEN
            PERFORM pg_sluice.refuse(command.command_tag);
        ELSIF command.object_type = 'index' AND command.command_tag = 'CREATE INDEX' AND parent IS NOT NULL
              AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = parent)
              AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = command.objid) THEN
            PERFORM pg_sluice.refuse(command.command_tag);
        END IF;
        IF command.classid <> 'pg_class'::regclass OR command.object_type = 'sequence' THEN
            CONTINUE;
        END IF;
        SELECT * INTO c FROM pg_class WHERE oid = command.objid;
        IF NOT FOUND OR c.relpersistence = 't' OR c.relnamespace IN (
            'pg_catalog'::regnamespace, 'pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace) THEN
            CONTINUE;
        END IF;
        IF c.relkind IN ('m', 'p', 'f') THEN
            PERFORM pg_sluice.refuse(CASE c.relkind WHEN 'm' THEN 'a materialized view'
                                     WHEN 'p' THEN 'PARTITION BY' ELSE 'a foreign table' END);
        ELSIF c.relkind <> 'r' THEN
            CONTINUE;
        END IF;
        created := NOT EXISTS (SELECT FROM pg_sluice.relation WHERE relid = c.oid);
        IF c.relpersistence = 'u' THEN
            PERFORM pg_sluice.refuse('UNLOGGED');
        ELSIF EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhrelid, inhparent)) THEN
            PERFORM pg_sluice.refuse('INHERITS');
        ELSIF c.reloftype <> 0 THEN
            PERFORM pg_sluice.refuse('a typed table (OF)');
        ELSIF c.relrowsecurity THEN
            PERFORM pg_sluice.refuse('ROW LEVEL SECURITY');
        END IF;
        EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', c.oid::regclass) INTO has_rows;
        IF has_rows THEN
            PERFORM pg_sluice.refuse(command.command_tag || ' from within a function, or over catalog tables,');
        END IF;
        IF created THEN
            PERFORM pg_sluice.adopt(c.oid);
        ELSE
            PERFORM pg_sluice.refuse_unvalidated(c.oid);
        END IF;
        PERFORM pg_sluice.number_columns(c.oid, created);
        PERFORM pg_sluice.adopt_constraints(c.oid);
        INSERT INTO pg_sluice.constraint_known
            SELECT oid, conrelid FROM pg_constraint WHERE conrelid = c.oid ON CONFLICT DO NOTHING;
        INSERT INTO pg_sluice.dirty VALUES (c.oid, NULL);
    END LOOP;
END $$;


-- A constraint put on a table that exists was checked by PostgreSQL against an empty shadow: refuse it.
-- What was there before is in `constraint_known`.
CREATE TABLE pg_sluice.constraint_known (constraint_oid oid PRIMARY KEY, relid oid NOT NULL);

CREATE FUNCTION pg_sluice.refuse_unvalidated(shadow regclass) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
DECLARE
    k record;
BEGIN
    FOR k IN SELECT * FROM pg_constraint c WHERE conrelid = shadow AND contype IN ('c', 'n', 'p', 'u', 'f')
             AND NOT EXISTS (SELECT FROM pg_sluice.constraint_known o WHERE o.constraint_oid = c.oid)
             AND (EXISTS (SELECT FROM pg_sluice.relation r WHERE r.relid = shadow AND r.changed_snapshot > 0)
                  OR EXISTS (SELECT FROM pg_sluice.staged s WHERE s.relid = shadow)) LOOP
        PERFORM pg_sluice.refuse(format('adding constraint "%s" to an existing table', k.conname));
    END LOOP;
END $$;


CREATE FUNCTION pg_sluice.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    o record;
BEGIN
    FOR o IN SELECT * FROM pg_event_trigger_dropped_objects() LOOP
        IF o.classid = 'pg_class'::regclass AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = o.objid) THEN
            INSERT INTO pg_sluice.dirty VALUES (o.objid, NULL);
        ELSIF o.object_type = 'schema' AND NOT o.is_temporary THEN
            INSERT INTO pg_sluice.dirty VALUES (0, o.object_name);
        END IF;
    END LOOP;
END $$;


CREATE FUNCTION pg_sluice.on_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_sluice.relation WHERE relid = pg_event_trigger_table_rewrite_oid()) THEN
        PERFORM pg_sluice.refuse('an ALTER TABLE that rewrites the table');
    END IF;
END $$;


-- ── Rows by the gateway ─────────────────────────────────────────────────────────────────────────────────

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
               WHERE k.changed_snapshot IS NULL OR k.changed_snapshot > r.value::bigint) THEN
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


-- How often this transaction has scanned a shadow: more than before a statement that PostgreSQL alone ran means that
-- the statement read an empty table in place of the lake.
CREATE FUNCTION pg_sluice.shadow_scans() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT coalesce(sum(pg_stat_get_xact_numscans(relid)), 0)::bigint FROM pg_sluice.relation
$$;


-- ── Publishing ──────────────────────────────────────────────────────────────────────────────────────────

-- The lesser (or, for direction > 0, the greater) of two bounds in DuckLake's texts; NULL where either is unknown.
CREATE FUNCTION pg_sluice.bound(ducklake text, direction integer, a text, b text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog AS $$
DECLARE
    a_first boolean;
BEGIN
    IF a IS NULL OR b IS NULL THEN
        RETURN NULL;
    END IF;
    a_first := CASE
        WHEN ducklake LIKE 'int%' OR ducklake LIKE 'decimal%' THEN a::numeric <= b::numeric
        WHEN ducklake LIKE 'float%' THEN a::float8 <= b::float8
        WHEN ducklake = 'date' THEN a::date <= b::date
        WHEN ducklake = 'timestamp' THEN a::timestamp <= b::timestamp
        WHEN ducklake = 'timestamptz' THEN a::timestamptz <= b::timestamptz
        ELSE a COLLATE "C" <= b COLLATE "C" END;
    RETURN CASE WHEN a_first = (direction < 0) THEN a ELSE b END;
END $$;


-- Bring DuckLake's rows of one schema up to the catalog; returns what changed, in DuckLake's words.
CREATE FUNCTION pg_sluice.publish_schema(snapshot bigint, namespace name) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
DECLARE
    present boolean := EXISTS (SELECT FROM pg_namespace WHERE nspname = namespace);
    id bigint := (SELECT schema_id FROM pg_ducklake.ducklake_schema
                  WHERE schema_name = namespace AND end_snapshot IS NULL);
BEGIN
    IF present AND id IS NULL THEN
        INSERT INTO pg_ducklake.ducklake_schema VALUES (
            nextval('pg_sluice.catalog_id'), gen_random_uuid(), snapshot, NULL, namespace,
            format('%s/', regexp_replace(namespace, '[^A-Za-z0-9_]', '_', 'g')), true);
        RETURN format('created_schema:"%s"', replace(namespace, '"', '""'));
    ELSIF NOT present AND id IS NOT NULL THEN
        UPDATE pg_ducklake.ducklake_schema SET end_snapshot = snapshot WHERE schema_id = id AND end_snapshot IS NULL;
        RETURN format('dropped_schema:%s', id);
    END IF;
    RETURN NULL;
END $$;


CREATE FUNCTION pg_sluice.publish_table(snapshot bigint, shadow oid) RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
DECLARE
    r pg_sluice.relation; c record; t pg_ducklake.ducklake_table; schema_of bigint; changes text[];
    renamed boolean; columns_changed bigint;
BEGIN
    SELECT * INTO r FROM pg_sluice.relation WHERE relid = shadow;
    IF NOT FOUND THEN
        RETURN changes;  -- made and dropped in this transaction
    END IF;
    SELECT * INTO t FROM pg_ducklake.ducklake_table WHERE table_id = r.table_id AND end_snapshot IS NULL;
    SELECT k.relname, n.nspname INTO c FROM pg_class k JOIN pg_namespace n ON n.oid = k.relnamespace
        WHERE k.oid = shadow;
    IF NOT FOUND THEN
        UPDATE pg_ducklake.ducklake_table SET end_snapshot = snapshot
            WHERE table_id = r.table_id AND end_snapshot IS NULL;
        UPDATE pg_ducklake.ducklake_column SET end_snapshot = snapshot
            WHERE table_id = r.table_id AND end_snapshot IS NULL;
        PERFORM pg_sluice.end_files(snapshot, r.table_id);
        DELETE FROM pg_sluice.constraint_known WHERE relid = shadow;
        DELETE FROM pg_sluice.relation WHERE relid = shadow;
        DELETE FROM pg_sluice.writer WHERE relid IN (
            SELECT w.relid FROM pg_sluice.writer w WHERE w.relid = shadow FOR UPDATE SKIP LOCKED);
        RETURN CASE WHEN t.table_id IS NULL THEN changes ELSE changes || format('dropped_table:%s', r.table_id) END;
    END IF;

    changes := changes || pg_sluice.publish_schema(snapshot, c.nspname);
    SELECT schema_id INTO STRICT schema_of FROM pg_ducklake.ducklake_schema
        WHERE schema_name = c.nspname AND end_snapshot IS NULL;
    renamed := t.table_id IS NOT NULL AND (t.table_name, t.schema_id) IS DISTINCT FROM (c.relname::varchar, schema_of);
    IF renamed THEN
        UPDATE pg_ducklake.ducklake_table SET end_snapshot = snapshot
            WHERE table_id = r.table_id AND end_snapshot IS NULL;
    END IF;
    IF t.table_id IS NULL OR renamed THEN
        -- The path is written as absolute below the data path (see `path_of`): a rename moves no file.
        INSERT INTO pg_ducklake.ducklake_table VALUES (
            r.table_id, r.table_uuid, snapshot, NULL, schema_of, c.relname,
            CASE WHEN r.schema_path = (SELECT path FROM pg_ducklake.ducklake_schema
                                       WHERE schema_id = schema_of AND end_snapshot IS NULL)
                 THEN r.path
                 ELSE (SELECT value FROM pg_ducklake.ducklake_metadata WHERE key = 'data_path')
                      || r.schema_path || r.path END,
            r.schema_path = (SELECT path FROM pg_ducklake.ducklake_schema
                             WHERE schema_id = schema_of AND end_snapshot IS NULL));
        changes := changes || CASE WHEN renamed THEN format('altered_table:%s', r.table_id)
            ELSE format('created_table:"%s"."%s"', replace(c.nspname, '"', '""'), replace(c.relname, '"', '""')) END;
    END IF;
    IF t.table_id IS NULL THEN
        INSERT INTO pg_ducklake.ducklake_table_stats VALUES (r.table_id, 0, 0, 0);
    END IF;

    WITH wanted AS (
        SELECT f.field_id, a.attnum, f.field_name, f.field_type, l.initial_default, f.parent_id,
               CASE WHEN f.parent_id IS NULL THEN NOT a.attnotnull ELSE true END AS nullable,
               CASE WHEN f.parent_id IS NULL THEN l.initial_default END AS first_value
        FROM pg_attribute a
        JOIN pg_sluice.attribute l ON l.relid = a.attrelid AND l.attnum = a.attnum
        CROSS JOIN LATERAL pg_sluice.fields(a.attname, a.atttypid, a.atttypmod, l.column_id, NULL) f
        WHERE a.attrelid = shadow AND NOT a.attisdropped
    ), ended AS (
        UPDATE pg_ducklake.ducklake_column k SET end_snapshot = snapshot
        WHERE k.table_id = r.table_id AND k.end_snapshot IS NULL AND NOT EXISTS (
            SELECT FROM wanted w WHERE w.field_id = k.column_id AND w.field_name = k.column_name
                AND w.field_type = k.column_type AND w.nullable = k.nulls_allowed)
        RETURNING k.column_id
    ), added AS (
        INSERT INTO pg_ducklake.ducklake_column
        SELECT w.field_id, snapshot, NULL, r.table_id, w.field_id, w.field_name, w.field_type, w.first_value,
               coalesce(w.first_value, 'NULL'), w.nullable, w.parent_id, 'literal', 'duckdb'
        FROM wanted w
        WHERE NOT EXISTS (SELECT FROM pg_ducklake.ducklake_column k WHERE k.table_id = r.table_id
                          AND k.column_id = w.field_id AND k.end_snapshot IS NULL
                          AND k.column_name = w.field_name AND k.column_type = w.field_type
                          AND k.nulls_allowed = w.nullable)
        RETURNING column_id
    )
    SELECT (SELECT count(*) FROM ended) + (SELECT count(*) FROM added) INTO columns_changed;
    IF columns_changed > 0 AND t.table_id IS NOT NULL AND NOT renamed THEN
        changes := changes || format('altered_table:%s', r.table_id);
    END IF;
    DELETE FROM pg_sluice.attribute l WHERE l.relid = shadow AND NOT EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = shadow AND a.attnum = l.attnum AND NOT a.attisdropped);
    IF cardinality(changes) > 0 THEN
        INSERT INTO pg_ducklake.ducklake_schema_versions
            VALUES (snapshot, currval('pg_sluice.schema_version'), r.table_id);
    END IF;
    -- Also for what DuckLake does not hold, such as a constraint: what is kept of the table is out of date.
    UPDATE pg_sluice.relation SET changed_snapshot = snapshot WHERE relid = shadow;
    RETURN changes;
END $$;


CREATE FUNCTION pg_sluice.end_files(snapshot bigint, of_table bigint) RETURNS void LANGUAGE sql
SET search_path = pg_catalog AS $$
    UPDATE pg_ducklake.ducklake_data_file SET end_snapshot = snapshot
        WHERE table_id = of_table AND end_snapshot IS NULL;
    UPDATE pg_ducklake.ducklake_delete_file SET end_snapshot = snapshot
        WHERE table_id = of_table AND end_snapshot IS NULL;
$$;


-- One staged change of one table:
--   {"relid": …, "truncate": bool,
--    "data_files":   [{"path", "record_count", "size_bytes", "footer_size",
--                      "statistics": {column_id: {value_count, null_count, size_bytes, minimum, maximum,
--                                                 contains_nan}}}],
--    "delete_files": [{"data_path", "data_file_id" (null for a data file of the same change),
--                      "replaces": delete_file_id or null, "path", "delete_count", "size_bytes", "footer_size"}]}
-- A delete file whose predecessor is no longer the live one, or whose data file is gone, means that another
-- transaction changed the same rows' file: 40001.
CREATE FUNCTION pg_sluice.publish_rows(snapshot bigint, change jsonb) RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
DECLARE
    id bigint := (SELECT table_id FROM pg_sluice.relation WHERE relid = (change ->> 'relid')::oid);
    f jsonb; file bigint; first_row bigint; live bigint; changes text[];
BEGIN
    IF id IS NULL THEN
        RAISE EXCEPTION 'could not serialize access: the table was dropped meanwhile'
            USING ERRCODE = 'serialization_failure';
    END IF;
    IF (change ->> 'truncate')::boolean THEN
        PERFORM pg_sluice.end_files(snapshot, id);
        UPDATE pg_ducklake.ducklake_table_stats SET record_count = 0, file_size_bytes = 0 WHERE table_id = id;
        DELETE FROM pg_ducklake.ducklake_table_column_stats WHERE table_id = id;
        changes := changes || format('deleted_from_table:%s', id);
    END IF;

    FOR f IN SELECT * FROM jsonb_array_elements(change -> 'data_files') LOOP
        file := nextval('pg_sluice.file_id');
        UPDATE pg_ducklake.ducklake_table_stats SET
            record_count = record_count + (f ->> 'record_count')::bigint,
            next_row_id = next_row_id + (f ->> 'record_count')::bigint,
            file_size_bytes = file_size_bytes + (f ->> 'size_bytes')::bigint
            WHERE table_id = id RETURNING next_row_id - (f ->> 'record_count')::bigint INTO STRICT first_row;
        INSERT INTO pg_ducklake.ducklake_data_file VALUES (
            file, id, snapshot, NULL, NULL, f ->> 'path', true, 'parquet', (f ->> 'record_count')::bigint,
            (f ->> 'size_bytes')::bigint, (f ->> 'footer_size')::bigint, first_row, NULL, NULL, NULL, NULL);
        INSERT INTO pg_ducklake.ducklake_file_column_stats
            SELECT file, id, s.key::bigint, (s.value ->> 'size_bytes')::bigint, (s.value ->> 'value_count')::bigint,
                   (s.value ->> 'null_count')::bigint, s.value ->> 'minimum', s.value ->> 'maximum',
                   (s.value ->> 'contains_nan')::boolean, NULL
            FROM jsonb_each(f -> 'statistics') s;
        PERFORM pg_sluice.widen(id, file);
    END LOOP;
    IF jsonb_array_length(change -> 'data_files') > 0 THEN
        changes := changes || format('inserted_into_table:%s', id);
    END IF;

    FOR f IN SELECT * FROM jsonb_array_elements(change -> 'delete_files') LOOP
        SELECT d.data_file_id INTO file FROM pg_ducklake.ducklake_data_file d
            WHERE d.table_id = id AND d.end_snapshot IS NULL AND CASE
                WHEN f ->> 'data_file_id' IS NULL THEN d.begin_snapshot = snapshot AND d.path = f ->> 'data_path'
                ELSE d.data_file_id = (f ->> 'data_file_id')::bigint END;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'could not serialize access due to concurrent delete'
                USING ERRCODE = 'serialization_failure';
        END IF;
        SELECT d.delete_file_id INTO live FROM pg_ducklake.ducklake_delete_file d
            WHERE d.data_file_id = file AND d.end_snapshot IS NULL;
        IF live IS DISTINCT FROM (f ->> 'replaces')::bigint THEN
            RAISE EXCEPTION 'could not serialize access due to concurrent update'
                USING ERRCODE = 'serialization_failure';
        END IF;
        UPDATE pg_ducklake.ducklake_delete_file SET end_snapshot = snapshot WHERE delete_file_id = live;
        INSERT INTO pg_ducklake.ducklake_delete_file VALUES (
            nextval('pg_sluice.file_id'), id, snapshot, NULL, file, f ->> 'path', true, 'parquet',
            (f ->> 'delete_count')::bigint, (f ->> 'size_bytes')::bigint, (f ->> 'footer_size')::bigint, NULL, NULL);
    END LOOP;
    IF jsonb_array_length(change -> 'delete_files') > 0 THEN
        changes := changes || format('deleted_from_table:%s', id);
    END IF;
    UPDATE pg_sluice.relation SET changed_snapshot = snapshot WHERE table_id = id;
    RETURN changes;
END $$;


-- Widen the table's column statistics by those of a new file. A file of nothing but NULLs widens no bound.
CREATE FUNCTION pg_sluice.widen(of_table bigint, file bigint) RETURNS void LANGUAGE sql
SET search_path = pg_catalog AS $$
    UPDATE pg_ducklake.ducklake_table_column_stats t SET
        contains_null = t.contains_null OR s.null_count > 0,
        contains_nan = t.contains_nan OR s.contains_nan,
        min_value = pg_sluice.bound(k.column_type, -1, t.min_value, s.min_value),
        max_value = pg_sluice.bound(k.column_type, 1, t.max_value, s.max_value)
    FROM pg_ducklake.ducklake_file_column_stats s
    JOIN pg_ducklake.ducklake_column k
        ON k.table_id = of_table AND k.column_id = s.column_id AND k.end_snapshot IS NULL
    WHERE s.table_id = of_table AND s.data_file_id = file AND t.table_id = of_table AND t.column_id = s.column_id
        AND (s.null_count < s.value_count OR s.null_count > 0 OR s.min_value IS NOT NULL);
    INSERT INTO pg_ducklake.ducklake_table_column_stats
        SELECT of_table, s.column_id, s.null_count > 0, s.contains_nan, s.min_value, s.max_value, NULL
        FROM pg_ducklake.ducklake_file_column_stats s
        WHERE s.table_id = of_table AND s.data_file_id = file AND NOT EXISTS (
            SELECT FROM pg_ducklake.ducklake_table_column_stats t
            WHERE t.table_id = of_table AND t.column_id = s.column_id);
$$;


CREATE FUNCTION pg_sluice.publish() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    snapshot bigint; changes text[]; schema_changes text[]; row_changes text[]; d record; s record; version bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_sluice.dirty) AND NOT EXISTS (SELECT FROM pg_sluice.staged) THEN
        RETURN NULL;  -- an earlier firing in this COMMIT has published everything
    END IF;
    PERFORM pg_sluice.lock_changed();
    LOCK TABLE pg_sluice.head IN EXCLUSIVE MODE;
    -- What was staged for a table that the transaction itself has dropped since.
    DELETE FROM pg_sluice.staged gone USING pg_sluice.dirty made
        WHERE gone.relid = made.relid AND NOT EXISTS (SELECT FROM pg_class WHERE oid = gone.relid);
    snapshot := nextval('pg_sluice.snapshot_id');
    IF EXISTS (SELECT FROM pg_sluice.dirty) THEN
        version := nextval('pg_sluice.schema_version');
        FOR d IN SELECT DISTINCT namespace FROM pg_sluice.dirty WHERE namespace IS NOT NULL LOOP
            schema_changes := schema_changes || pg_sluice.publish_schema(snapshot, d.namespace);
        END LOOP;
        FOR d IN SELECT DISTINCT relid FROM pg_sluice.dirty WHERE relid <> 0 ORDER BY relid LOOP
            schema_changes := schema_changes || pg_sluice.publish_table(snapshot, d.relid);
            PERFORM pg_sluice.record_steps(snapshot, d.relid);
        END LOOP;
        DELETE FROM pg_sluice.dirty;
    ELSE
        SELECT last_value INTO version FROM pg_sluice.schema_version;
    END IF;
    FOR s IN SELECT DISTINCT relid FROM pg_sluice.staged ORDER BY relid LOOP
        row_changes := row_changes || pg_sluice.publish_rows(snapshot, pg_sluice.squashed(s.relid));
    END LOOP;
    DELETE FROM pg_sluice.staged;
    SELECT array_agg(DISTINCT change) INTO changes FROM unnest(schema_changes || row_changes) change
        WHERE change IS NOT NULL;
    IF changes IS NULL THEN
        RETURN NULL;  -- such as GRANT: the lake does not hold it
    END IF;
    INSERT INTO pg_ducklake.ducklake_snapshot VALUES (
        snapshot, clock_timestamp(), version,
        (SELECT last_value + 1 FROM pg_sluice.catalog_id), (SELECT last_value + 1 FROM pg_sluice.file_id));
    INSERT INTO pg_ducklake.ducklake_snapshot_changes
        VALUES (snapshot, array_to_string(changes, ','), session_user, NULL, NULL);
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER publish AFTER INSERT ON pg_sluice.dirty DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.publish();
CREATE CONSTRAINT TRIGGER publish AFTER INSERT ON pg_sluice.staged DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.publish();

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pg_sluice FROM PUBLIC;
GRANT USAGE ON SCHEMA pg_sluice TO PUBLIC;
GRANT EXECUTE ON FUNCTION
    pg_sluice.describe(oid[]), pg_sluice.stage(text, jsonb), pg_sluice.uncommitted(text, oid[]),
    pg_sluice.prepare_commit(text, jsonb), pg_sluice.shadow_rows(text, oid, text, text),
    pg_sluice.shadow_scans() TO PUBLIC;

CREATE EVENT TRIGGER pg_sluice_ddl ON ddl_command_end EXECUTE FUNCTION pg_sluice.on_ddl();
CREATE EVENT TRIGGER pg_sluice_drop ON sql_drop EXECUTE FUNCTION pg_sluice.on_drop();
CREATE EVENT TRIGGER pg_sluice_rewrite ON table_rewrite EXECUTE FUNCTION pg_sluice.on_rewrite();
-- Members of an extension are left out of pg_dump.
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_ddl;
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_drop;
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_rewrite;
