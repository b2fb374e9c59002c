-- Indexes. The shadow has each as PostgreSQL's own. In the lake an index consists of *sidecars*: one sorted Parquet
-- file (keys, position) beside each data file that is worth it (storage/indexes/sidecars.py). A data file never
-- changes, so neither does its sidecar, and a deletion writes nothing to it. A file without a sidecar is read whole: so
-- sidecars belong to no snapshot, and come and go independently.

-- `index_id` identifies the index for its sidecars. It stays if PostgreSQL rebuilds the same index under another OID;
-- an index over other columns or expressions gets another. `unused` says why an index has no sidecars, if it can have
-- none. `labels` are the keys of a UNIQUE one over expressions, or over some rows, as errors spell them.
CREATE SEQUENCE pg_sluice.index_id;
CREATE TABLE pg_sluice.lake_index (
    index_id bigint PRIMARY KEY DEFAULT pg_sluice.take_numbers('pg_sluice.index_id'),
    relid oid NOT NULL,
    index_oid oid UNIQUE NOT NULL,
    name name NOT NULL,
    form jsonb NOT NULL,
    unused text,
    labels text[]
);
CREATE INDEX lake_index_relid ON pg_sluice.lake_index (relid);

-- Rows of a dropped index or data file list sidecars that are still to be removed. `since_snapshot`: the sidecar lacks
-- rows that had been deleted by then.
CREATE TABLE pg_sluice.sidecar (
    index_id bigint NOT NULL,
    data_file_id bigint NOT NULL,
    path text NOT NULL,                 -- below the data path
    record_count bigint NOT NULL,
    size_bytes bigint NOT NULL,
    footer_size bigint NOT NULL,
    statistics jsonb NOT NULL,          -- of its columns, as those of a staged data file (publish.sql)
    since_snapshot bigint NOT NULL,
    PRIMARY KEY (index_id, data_file_id)
);

-- UNIQUE indexes that are no constraints: those whose keys all rows of the lake are known to satisfy, and, like
-- constraints in obligations.sql, those that a transaction has created.
CREATE TABLE pg_sluice.index_known (index_oid oid PRIMARY KEY, relid oid NOT NULL);
CREATE TABLE pg_sluice.index_obligation (index_oid oid PRIMARY KEY, relid oid NOT NULL);


-- The keys of an index, by column IDs: two indexes of one form have the same sidecars. Expressions are node texts.
CREATE FUNCTION pg_sluice.index_form(i pg_index) RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'method', (SELECT m.amname FROM pg_class c JOIN pg_am m ON m.oid = c.relam WHERE c.oid = i.indexrelid),
        'keys', (SELECT jsonb_agg(jsonb_build_object(
                'attnum', u.attnum, 'type', k.type_oid::bigint, 'typmod', k.typmod,
                'plain', coalesce(o.collisdeterministic, true)) ORDER BY u.n)
            FROM unnest(i.indkey) WITH ORDINALITY u (attnum, n)
            JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum = u.n
            LEFT JOIN pg_attribute t ON t.attrelid = i.indrelid AND t.attnum = u.attnum
            LEFT JOIN pg_collation o ON o.oid = a.attcollation
            CROSS JOIN LATERAL pg_sluice.kept_type(
                coalesce(t.atttypid, a.atttypid), CASE WHEN t.attnum IS NULL THEN a.atttypmod ELSE pg_sluice.kept_typmod(t) END) k
            WHERE u.n <= i.indnkeyatts),
        'columns', (SELECT jsonb_object_agg(l.attnum, l.column_id) FROM pg_sluice.attribute l
            WHERE l.relid = i.indrelid AND (l.attnum = ANY (i.indkey::smallint[]) OR EXISTS (
                SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                    AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid AND d.refobjsubid = l.attnum))),
        'expressions', regexp_replace(i.indexprs::text, E':location -?\\d+', ':location -1', 'g'),
        'predicate', regexp_replace(i.indpred::text, E':location -?\\d+', ':location -1', 'g'))
$$;

-- The indexes of a table that readers may use, as JSON for catalog.indexes.
CREATE FUNCTION pg_sluice.indexes(shadow oid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(jsonb_build_object('oid', x.index_oid::bigint, 'index_id', x.index_id, 'name', c.relname,
                                        'form', x.form, 'unused', x.unused) ORDER BY x.index_id)
    FROM pg_sluice.lake_index x JOIN pg_index i ON i.indexrelid = x.index_oid JOIN pg_class c ON c.oid = x.index_oid
    WHERE x.relid = shadow AND i.indrelid = shadow AND i.indisvalid AND x.form = pg_sluice.index_form(i)
$$;


-- After a change of a table: its UNIQUE indexes that must hold over unchecked rows. One that passes the states is
-- checked on its way.
CREATE FUNCTION pg_sluice.note_indexes(shadow oid) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    i record; type text;
BEGIN
    FOR i IN SELECT x.* FROM pg_index x WHERE x.indrelid = shadow AND x.indisunique
             AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = shadow AND k.conindid = x.indexrelid
                             AND k.contype IN ('p', 'u', 'x'))
             AND NOT EXISTS (SELECT FROM pg_sluice.index_known n WHERE n.index_oid = x.indexrelid) LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_sluice.element e JOIN pg_class c ON c.relname = e.name
                              WHERE e.relid = shadow AND c.oid = i.indexrelid AND e.state <> 'public');
        SELECT format_type(a.atttypid, a.atttypmod) INTO type FROM pg_attribute a
            LEFT JOIN pg_collation o ON o.oid = a.attcollation
            LEFT JOIN pg_attribute t ON t.attrelid = shadow AND t.attnum = i.indkey[a.attnum - 1]
            WHERE a.attrelid = i.indexrelid AND a.attnum <= i.indnkeyatts
                AND (pg_sluice.key_class(a.atttypid, CASE WHEN t.attnum IS NULL THEN a.atttypmod
                                                     ELSE pg_sluice.kept_typmod(t) END) IS NULL OR NOT coalesce(o.collisdeterministic, true))
            LIMIT 1;
        IF FOUND THEN
            PERFORM pg_sluice.refuse(format('a key of type %s', type));
        END IF;
        INSERT INTO pg_sluice.index_known VALUES (i.indexrelid, shadow);
        IF EXISTS (SELECT FROM pg_sluice.published_shape s WHERE s.relid = shadow) OR pg_sluice.has_rows(shadow) THEN
            INSERT INTO pg_sluice.index_obligation VALUES (i.indexrelid, shadow) ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;

-- Those of them that are not met, in the form of `obligations`; indexes have their OIDs below 0.
CREATE FUNCTION pg_sluice.index_obligations() RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_sluice.index_obligation) THEN
        RETURN '[]';
    END IF;
    RETURN (SELECT coalesce(jsonb_agg(jsonb_build_object(
        'constraint', -i.indexrelid::bigint, 'kind', 'u', 'name', x.relname, 'relid', i.indrelid::bigint,
        'schema', n.nspname, 'table', c.relname, 'parent', NULL, 'parent_relid', NULL, 'columns', to_jsonb(k.labels),
        'query', format('SELECT %1$s FROM %2$s WHERE %3$s AND %4$s GROUP BY %1$s HAVING count(*) > 1 LIMIT 1',
            array_to_string(k.labels, ', '), i.indrelid::regclass,
            CASE WHEN i.indnullsnotdistinct THEN 'true'
            ELSE array_to_string(ARRAY(SELECT format('%s IS NOT NULL', l) FROM unnest(k.labels) l), ' AND ') END,
            coalesce('(' || pg_get_expr(i.indpred, i.indrelid) || ')', 'true'))) ORDER BY i.indexrelid), '[]')
    FROM pg_sluice.index_obligation o JOIN pg_index i ON i.indexrelid = o.index_oid
    JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL (SELECT pg_sluice.index_labels(i) AS labels) k);
END $$;

-- The keys as PostgreSQL's errors spell them.
CREATE FUNCTION pg_sluice.index_labels(i pg_index) RETURNS text[] LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(pg_get_indexdef(i.indexrelid, n, true) ORDER BY n) FROM generate_series(1, i.indnkeyatts) n
$$;


-- The indexes that the transaction has created on tables with rows, as elements to be added one by one before it.
-- Without indexes of constraints (schema_changes.sql) and rebuilt ones.
CREATE FUNCTION pg_sluice.index_elements() RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'relid', i.indrelid::bigint, 'other_relid', 0, 'name', c.relname, 'constraint', -i.indexrelid::bigint,
        'kind', 'index', 'of_column', NULL, 'definition', pg_get_indexdef(i.indexrelid), 'origin', 'absent')
        ORDER BY i.indexrelid), '[]')
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid IN (SELECT d.relid FROM pg_sluice.dirty d)
        AND EXISTS (SELECT FROM pg_sluice.published_shape s WHERE s.relid = i.indrelid)
        AND pg_sluice.has_rows(i.indrelid)
        AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = i.indrelid AND k.conindid = i.indexrelid
                        AND k.contype IN ('p', 'u', 'x'))
        AND NOT EXISTS (SELECT FROM pg_sluice.lake_index x WHERE x.relid = i.indrelid
                        AND (x.index_oid = i.indexrelid OR x.name = c.relname))
$$;


-- At COMMIT: the table's present indexes. Those that PostgreSQL has rebuilt keep their sidecars.
CREATE FUNCTION pg_sluice.publish_indexes(shadow oid) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = shadow)
        AND NOT EXISTS (SELECT FROM pg_sluice.lake_index x WHERE x.relid = shadow)
        AND NOT EXISTS (SELECT FROM pg_sluice.index_known n WHERE n.relid = shadow) THEN
        RETURN;
    END IF;
    UPDATE pg_sluice.lake_index x SET index_oid = i.indexrelid
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE x.relid = shadow AND i.indrelid = shadow AND c.relname = x.name AND i.indexrelid <> x.index_oid
            AND NOT EXISTS (SELECT FROM pg_index w WHERE w.indexrelid = x.index_oid)
            AND NOT EXISTS (SELECT FROM pg_sluice.lake_index w WHERE w.index_oid = i.indexrelid)
            AND pg_sluice.index_form(i) = x.form;
    DELETE FROM pg_sluice.lake_index x WHERE x.relid = shadow AND NOT EXISTS (
        SELECT FROM pg_index i
        WHERE i.indrelid = shadow AND i.indexrelid = x.index_oid AND pg_sluice.index_form(i) = x.form);
    INSERT INTO pg_sluice.lake_index (relid, index_oid, name, form, unused)
        SELECT shadow, i.indexrelid, c.relname, pg_sluice.index_form(i),
               CASE WHEN m.amname NOT IN ('btree', 'hash') THEN format('%s indexes are not looked up', m.amname) END
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
        WHERE i.indrelid = shadow AND NOT EXISTS (SELECT FROM pg_sluice.lake_index x WHERE x.index_oid = i.indexrelid);
    UPDATE pg_sluice.lake_index x SET name = c.relname FROM pg_class c
        WHERE x.relid = shadow AND c.oid = x.index_oid AND c.relname <> x.name;
    UPDATE pg_sluice.lake_index x SET labels = l.labels
        FROM pg_index i CROSS JOIN LATERAL (SELECT pg_sluice.index_labels(i) AS labels) l
        WHERE x.relid = shadow AND i.indexrelid = x.index_oid AND i.indisunique
            AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND l.labels IS DISTINCT FROM x.labels;
    DELETE FROM pg_sluice.index_known n WHERE n.relid = shadow
        AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = n.index_oid);
END $$;


-- The data files for which an index lacks sidecars, among those of so many rows or more: each is worth one.
CREATE FUNCTION pg_sluice.files_lacking(of_index bigint, rows_min bigint) RETURNS TABLE (data_file_id bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.data_file_id FROM pg_sluice.lake_index x JOIN pg_sluice.relation r ON r.relid = x.relid
    JOIN pg_sluice.data_file f ON f.table_id = r.table_id
    WHERE x.index_id = of_index AND f.end_snapshot IS NULL AND f.record_count >= rows_min
        AND NOT EXISTS (SELECT FROM pg_sluice.sidecar s WHERE s.index_id = of_index AND s.data_file_id = f.data_file_id)
    ORDER BY f.data_file_id
$$;

-- Add a sidecar for readers. False if there is one already, or if the gateway counts as dead.
CREATE FUNCTION pg_sluice.add_sidecar(made pg_sluice.sidecar) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    writer integer := pg_sluice.writer_of(regexp_replace(made.path, '^.*/', ''));
BEGIN
    IF writer IS NOT NULL THEN
        PERFORM FROM pg_sluice.gateway g WHERE g.gateway_id = writer AND g.ended IS NULL FOR SHARE;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO pg_sluice.sidecar SELECT made.* ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

-- Sidecars of dropped indexes and data files.
CREATE VIEW pg_sluice.superseded_sidecar AS
    SELECT s.* FROM pg_sluice.sidecar s
    WHERE NOT EXISTS (SELECT FROM pg_sluice.lake_index x WHERE x.index_id = s.index_id)
        OR NOT EXISTS (SELECT FROM pg_sluice.data_file f WHERE f.data_file_id = s.data_file_id);


-- The indexes of lake tables, for all roles: how many of the files that are worth it have sidecars.
CREATE VIEW pg_sluice.indexes AS
    SELECT x.index_oid::regclass AS index, x.relid::regclass AS relation, x.unused,
           count(s.data_file_id) AS files_done, count(f.data_file_id) AS files_total, coalesce(sum(s.size_bytes), 0) AS size_bytes
    FROM pg_sluice.lake_index x JOIN pg_sluice.relation r ON r.relid = x.relid
    LEFT JOIN pg_sluice.data_file f ON f.table_id = r.table_id AND f.end_snapshot IS NULL
        AND f.record_count >= (SELECT value::bigint FROM pg_sluice.setting WHERE name = 'sidecar_rows_min')
    LEFT JOIN pg_sluice.sidecar s ON s.index_id = x.index_id AND s.data_file_id = f.data_file_id
    GROUP BY x.index_id;
GRANT SELECT ON pg_sluice.indexes TO PUBLIC;
