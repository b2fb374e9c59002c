-- Sluice's part of the catalog database: which relations are lake tables, and how a transaction of the session's
-- backend publishes schema and rows together, as one DuckLake snapshot, at its COMMIT.
--
--   DDL by a client ──► event triggers ──► relation, attribute (IDs) + dirty
--   rows by the gateway ──► stage(change) ──► staged
--   COMMIT ──► deferred trigger on dirty and staged ──► publish(): one snapshot, all or nothing
--
-- Everything is transactional, so ROLLBACK and ROLLBACK TO SAVEPOINT undo it without further code.

CREATE SCHEMA pg_sluice;

-- Return the first of so many next numbers of a sequence of Sluice's own. Not by nextval(): the client's lastval()
-- would report it at whose backend this runs; setval() leaves that alone. The subtransaction, which is undone, releases
-- the lock at once; numbers stay taken.
CREATE TABLE pg_sluice.numbering ();
CREATE FUNCTION pg_sluice.take_numbers(numbers regclass, how_many bigint DEFAULT 1) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first bigint;
BEGIN
    LOCK TABLE pg_sluice.numbering IN EXCLUSIVE MODE;
    first := coalesce(pg_sequence_last_value(numbers) + 1, (SELECT seqstart FROM pg_sequence WHERE seqrelid = numbers));
    PERFORM setval(numbers, first + how_many - 1);
    RAISE SQLSTATE 'SL000';
EXCEPTION WHEN SQLSTATE 'SL000' THEN
    RETURN first;
END $$;

CREATE TABLE pg_sluice.setting (name text PRIMARY KEY, value text NOT NULL);

-- datatypes.py, as rows: the DuckLake name of each scalar type that a lake column may have.
CREATE TABLE pg_sluice.datatype (type_oid oid PRIMARY KEY, array_oid oid UNIQUE NOT NULL, ducklake text NOT NULL);

-- Carried types whose equal values have equal texts: those of datatypes.EQUAL_BY_TEXT with the typmod 1, those of
-- EQUAL_BY_NUMBERS, where zeros at the end of numbers do not count, with 2.
CREATE TABLE pg_sluice.equal_by_text (type_oid oid PRIMARY KEY, typmod integer NOT NULL);

CREATE TABLE pg_sluice.relation (
    relid oid PRIMARY KEY,
    table_id bigint UNIQUE NOT NULL,
    table_uuid uuid NOT NULL DEFAULT gen_random_uuid(),
    path text NOT NULL,                 -- below its schema's folder
    schema_path text NOT NULL,
    next_column_id bigint NOT NULL DEFAULT 1,
    changed_snapshot bigint NOT NULL DEFAULT 0, -- the last snapshot that changed schema or rows
    described_snapshot bigint NOT NULL DEFAULT 0, -- the last snapshot that may have changed its `describe`
    schema_version bigint NOT NULL DEFAULT 0,   -- the last step of its schema (enlistment.sql)
    -- How many rows statements have added, replaced and removed so far (pg_stat_all_tables).
    inserted bigint NOT NULL DEFAULT 0, updated bigint NOT NULL DEFAULT 0, deleted bigint NOT NULL DEFAULT 0
);

CREATE TABLE pg_sluice.attribute (
    relid oid NOT NULL REFERENCES pg_sluice.relation ON DELETE CASCADE,
    attnum smallint NOT NULL,
    column_id bigint NOT NULL,          -- DuckLake column ID = Parquet field ID; nested fields follow it
    type_oid oid NOT NULL,
    typmod integer NOT NULL,
    initial_default text,               -- what rows written before the column hold (pg_attribute.attmissingval)
    computed boolean NOT NULL DEFAULT false, -- rows that were there before the column were written anew
    PRIMARY KEY (relid, attnum)
);

CREATE TABLE pg_sluice.dirty (relid oid NOT NULL, namespace name);
CREATE SEQUENCE pg_sluice.staged_id;
CREATE TABLE pg_sluice.staged (
    staged_id bigint NOT NULL DEFAULT pg_sluice.take_numbers('pg_sluice.staged_id'), relid oid NOT NULL,
    change jsonb NOT NULL);
CREATE INDEX ON pg_sluice.staged (relid, staged_id);

-- A session that replaces many rows of a table locks its row here against all others (row_locks.sql). That row may
-- outlive the table: a DROP does not wait for sessions that change its rows.
CREATE TABLE pg_sluice.writer (relid oid PRIMARY KEY);

-- IDs come from sequences, so that no commit reads max() + 1. Gaps are harmless; order is that of the lock on
-- `head`, which publish() takes last, after those of lock_changed, and holds until COMMIT.
CREATE TABLE pg_sluice.head ();
CREATE SEQUENCE pg_sluice.snapshot_id MINVALUE 0;
CREATE SEQUENCE pg_sluice.schema_version MINVALUE 0;
CREATE SEQUENCE pg_sluice.catalog_id;
CREATE SEQUENCE pg_sluice.file_id MINVALUE 0;


-- The DuckLake type of a column, or NULL if lake tables cannot hold it (datatypes.lake_form).
CREATE FUNCTION pg_sluice.column_type(type_oid oid, typmod integer) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k record; digits integer; scale integer;
BEGIN
    k := pg_sluice.kept_type($1, $2);
    IF k.type_oid >= 16384 AND EXISTS (SELECT FROM pg_type e WHERE e.oid = k.type_oid AND e.typtype = 'e') THEN
        RETURN (SELECT d.ducklake FROM pg_sluice.datatype d WHERE d.type_oid = 'anyenum'::regtype);
    ELSIF k.type_oid = 1700 AND k.typmod >= 4 THEN
        digits := ((k.typmod - 4) >> 16) & 65535;
        scale := (((k.typmod - 4) & 2047) # 1024) - 1024;
        IF digits <= 38 AND scale BETWEEN 0 AND digits THEN
            RETURN format('decimal(%s,%s)', digits, scale);
        END IF;
    ELSIF EXISTS (SELECT FROM pg_sluice.datatype d WHERE d.array_oid = k.type_oid) THEN
        RETURN 'list';
    END IF;
    RETURN (SELECT d.ducklake FROM pg_sluice.datatype d WHERE d.type_oid = k.type_oid);
END $$;


-- The DuckLake columns that one attribute becomes, itself first, then the fields nested in it, depth first.
CREATE FUNCTION pg_sluice.fields(
    name text, type_oid oid, typmod integer, column_id bigint, parent bigint,
    OUT field_id bigint, OUT field_name text, OUT field_type text, OUT parent_id bigint
) RETURNS SETOF record LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    element oid;
BEGIN
    SELECT k.type_oid, k.typmod INTO type_oid, typmod FROM pg_sluice.kept_type(fields.type_oid, fields.typmod) k;
    element := (SELECT d.type_oid FROM pg_sluice.datatype d WHERE d.array_oid = fields.type_oid);
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
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.relid, jsonb_build_object(
        'relid', r.relid::bigint, 'table_id', r.table_id, 'schema', n.nspname, 'name', c.relname,
        'materialized', c.relkind = 'm', 'populated', c.relispopulated,
        'triggered', EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = r.relid AND NOT t.tgisinternal AND pg_sluice.is_of_users(t)),
        'stilled', EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = r.relid AND t.tgenabled IN ('A', 'R') AND pg_sluice.is_of_users(t)),
        'defers', EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = r.relid AND t.tgdeferrable AND NOT t.tgisinternal),
        'path', r.schema_path || r.path, 'changed', r.changed_snapshot, 'schema_version', r.schema_version,
        'columns', (SELECT jsonb_agg(jsonb_build_object(
                'attnum', a.attnum, 'column_id', l.column_id, 'name', a.attname, 'type', k.type_oid::bigint,
                'typmod', k.typmod, 'labels', pg_sluice.labels(k.type_oid),
                'domain', pg_sluice.domain(a.atttypid), 'array', CASE WHEN k.type_oid <> 2276 THEN pg_sluice.user_array(a.atttypid) END,
                'carried', CASE WHEN k.type_oid = 2276 THEN pg_sluice.carried(a.atttypid, m.typmod) END,
                'nullable', NOT a.attnotnull, 'not_null', pg_sluice.is_not_null(a), 'initial_default', l.initial_default,
                'generated', a.attgenerated, 'identity', a.attidentity,
                'default', (SELECT d.adbin::text FROM pg_attrdef d WHERE d.adrelid = r.relid AND d.adnum = a.attnum)
            ) ORDER BY a.attnum)
            FROM pg_attribute a JOIN pg_sluice.attribute l ON l.relid = a.attrelid AND l.attnum = a.attnum
            CROSS JOIN LATERAL pg_sluice.kept_typmod(a) m (typmod)
            CROSS JOIN LATERAL pg_sluice.kept_type(a.atttypid, m.typmod) k
            WHERE a.attrelid = r.relid AND NOT a.attisdropped),
        'checks', (SELECT jsonb_agg(jsonb_build_object('name', k.conname, 'expression', k.conbin::text)
                                    ORDER BY k.conname)
            FROM pg_constraint k WHERE k.conrelid = r.relid AND k.contype = 'c' AND k.conenforced),
        'sort_key', (SELECT jsonb_agg(jsonb_build_array(k.attnum, k.descending, k.nulls_first) ORDER BY k.place)
                     FROM pg_sluice.sort_key(r.relid) k),
        'partition_key', (SELECT jsonb_agg(jsonb_build_array(k.attnum, k.transform) ORDER BY k.place)
                          FROM pg_sluice.partition_key(r.relid) k),
        'indexes', pg_sluice.indexes(r.relid),
        'keys', pg_sluice.keys(r.relid), 'computed_keys', pg_sluice.computed_keys(r.relid),
        'exclusions', pg_sluice.exclusions(r.relid), 'foreign_keys', pg_sluice.foreign_keys(r.relid))
    FROM pg_sluice.relation r
    JOIN pg_class c ON c.oid = r.relid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE r.relid = ANY (relids)
$$;
