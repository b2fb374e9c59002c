-- PRIMARY KEY, UNIQUE and FOREIGN KEY over the lake. The shadow has them as PostgreSQL's own, for clients to see and
-- for the rows of one statement. The gateway enforces them over all rows, with the functions here:
--
--   claim_keys       a writer of the same key waits for the other's transaction, as at a unique index
--   lock_checked     before COMMIT: which tables have changed since their keys were looked up

CREATE UNLOGGED TABLE pg_sluice.key_claim (constraint_oid oid, key uuid, PRIMARY KEY (constraint_oid, key));


-- Columns of one class are equal exactly if their keys are (storage.indexes.keys); NULL for a type without keys.
CREATE FUNCTION pg_sluice.key_class(type_oid oid, typmod integer) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN k.type_oid = 2276 AND k.typmod IN (1, 2) THEN (pg_sluice.carried($1, $2) ->> 0)::oid::regtype::text
        WHEN k.type_oid = 2276 THEN NULL
        WHEN pg_sluice.column_type($1, $2) = 'list' THEN (
            SELECT pg_sluice.key_class(d.type_oid, k.typmod) || '[]' FROM pg_sluice.datatype d WHERE d.array_oid = k.type_oid)
        WHEN k.type_oid IN (20, 21, 23, 1700) THEN 'number'
        WHEN k.type_oid IN (700, 701) THEN 'float'
        WHEN k.type_oid IN (25, 1043) THEN 'text'
        WHEN k.type_oid >= 16384 AND pg_sluice.column_type($1, $2) IS NOT NULL
             OR k.type_oid IN (16, 17, 1042, 1082, 1083, 1114, 1184, 2950, 3802) THEN k.type_oid::regtype::text END
    FROM pg_sluice.kept_type($1, $2) k
$$;


-- The triggers of foreign keys run only while shadows are filled. The settings say so without a look at the table. As any
-- role may change them, the table decides where they do not say so; where they do and it does not, errors come about rows
-- that shadows do not have.
CREATE TABLE pg_sluice.filled_alone (unused integer);
CREATE TRIGGER filled_alone BEFORE UPDATE ON pg_sluice.filled_alone FOR EACH ROW
WHEN (coalesce(pg_catalog.current_setting('sluice.filled', true), '') OPERATOR(pg_catalog.=) 'on' OR pg_sluice.is_filled())
EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
-- The checks of new rows' references may be left out there too: then the gateway alone checks, at the end.
CREATE TRIGGER checked_alone BEFORE UPDATE ON pg_sluice.filled_alone FOR EACH ROW
WHEN (coalesce(pg_catalog.current_setting('sluice.filled', true), '') OPERATOR(pg_catalog.=) 'on'
      AND coalesce(pg_catalog.current_setting('sluice.unchecked', true), '') OPERATOR(pg_catalog.<>) 'on'
      OR pg_sluice.is_checked())
EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();

-- Refuse the constraints of a table that the lake cannot enforce; let no trigger of PostgreSQL look for referenced rows
-- in empty shadows.
CREATE FUNCTION pg_sluice.adopt_constraints(shadow regclass) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k record; a record;
BEGIN
    FOR k IN SELECT * FROM pg_constraint WHERE conrelid = shadow AND contype IN ('p', 'u', 'f', 'x') LOOP
        CONTINUE WHEN k.contype = 'x';  -- any (exclusions.sql)
        IF k.conperiod THEN
            PERFORM pg_sluice.refuse('a key with a period');
        ELSIF k.confmatchtype = 'f' AND cardinality(k.conkey) > 1 THEN
            PERFORM pg_sluice.refuse('MATCH FULL over several columns');
        END IF;
        FOR a IN SELECT c.attname, format_type(c.atttypid, c.atttypmod) AS type, o.collisdeterministic,
                        pg_sluice.key_class(c.atttypid, pg_sluice.kept_typmod(c)) AS class,
                        pg_sluice.key_class(p.atttypid, pg_sluice.kept_typmod(p)) AS parent_class
                 FROM unnest(k.conkey, k.confkey) AS u (attnum, parent_attnum)
                 JOIN pg_attribute c ON c.attrelid = k.conrelid AND c.attnum = u.attnum
                 LEFT JOIN pg_collation o ON o.oid = c.attcollation
                 LEFT JOIN pg_attribute p ON p.attrelid = k.confrelid AND p.attnum = u.parent_attnum LOOP
            IF a.class IS NULL OR NOT a.collisdeterministic THEN
                PERFORM pg_sluice.refuse(format('a key column of type %s', a.type));
            ELSIF k.contype = 'f' AND a.class IS DISTINCT FROM a.parent_class
                AND (a.class, a.parent_class) IS DISTINCT FROM ('character', 'text') THEN  -- without its blanks
                PERFORM pg_sluice.refuse(format('a foreign key between different types (column "%s")', a.attname));
            END IF;
        END LOOP;
        IF k.contype = 'f' THEN
            PERFORM pg_sluice.silence_foreign_key(k.oid);
        END IF;
    END LOOP;
END $$;


-- The keys of a table, as JSON for catalog.constraints; NULL for none. Writers of rows satisfy those of an index under
-- construction as soon as it is ready for them.
CREATE FUNCTION pg_sluice.keys(shadow oid) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(jsonb_build_object(
        'oid', coalesce(k.oid, c.oid)::bigint, 'name', c.relname,
        'attnums', (SELECT jsonb_agg(u.attnum ORDER BY u.n) FROM unnest(i.indkey) WITH ORDINALITY u (attnum, n)
                    WHERE u.n <= i.indnkeyatts),
        'nulls_distinct', NOT i.indnullsnotdistinct, 'public', i.indisvalid, 'exclusion', i.indisexclusion,
        'deferrable', coalesce(k.condeferrable, false), 'deferred', coalesce(k.condeferred, false))
        ORDER BY k.contype, k.oid, c.oid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = shadow AND k.contype IN ('p', 'u', 'x')
    WHERE i.indrelid = shadow AND (i.indisunique OR i.indisexclusion) AND i.indisready
        AND i.indexprs IS NULL AND i.indpred IS NULL
        AND (NOT i.indisexclusion OR pg_sluice.excludes_equals(i.indexrelid))
$$;

-- Those over expressions, or over some rows only, with their keys (indexes.sql). Spelling an expression takes the
-- table's lock, which another session may hold; so it is done if the transaction itself has changed the table, and when
-- that is published.
CREATE FUNCTION pg_sluice.computed_keys(shadow oid) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(jsonb_build_object(
        'oid', c.oid::bigint, 'name', c.relname, 'labels', to_jsonb(CASE
            WHEN x.labels IS NULL OR EXISTS (SELECT FROM pg_sluice.dirty d WHERE d.relid = shadow) THEN pg_sluice.index_labels(i)
            ELSE x.labels END),
        'form', pg_sluice.index_form(i), 'nulls_distinct', NOT i.indnullsnotdistinct, 'public', i.indisvalid,
        'index_id', x.index_id) ORDER BY c.oid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    LEFT JOIN pg_sluice.lake_index x ON x.index_oid = i.indexrelid AND x.form = pg_sluice.index_form(i)
    WHERE i.indrelid = shadow AND i.indisunique AND i.indisready AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
$$;

CREATE FUNCTION pg_sluice.foreign_key(k pg_constraint) RETURNS jsonb LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'oid', k.oid::bigint, 'name', k.conname, 'child', k.conrelid::bigint, 'attnums', k.conkey,
        'parent', k.confrelid::bigint, 'parent_attnums', k.confkey, 'on_delete', k.confdeltype,
        'on_update', k.confupdtype, 'deferrable', k.condeferrable,
        'deferred', k.condeferred, 'set_attnums', k.confdelsetcols, 'public', k.convalidated)
$$;

CREATE FUNCTION pg_sluice.foreign_keys(shadow oid) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(pg_sluice.foreign_key(k) ORDER BY k.conname)
    FROM pg_constraint k WHERE k.conrelid = shadow AND k.contype = 'f' AND k.conenforced
$$;

-- The foreign keys that refer to a table: they have triggers on it, and no index finds them by confrelid.
CREATE FUNCTION pg_sluice.referring(shadow oid) RETURNS jsonb LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(pg_sluice.foreign_key(k) ORDER BY k.conname), '[]')
    FROM pg_constraint k WHERE k.oid IN (SELECT t.tgconstraint FROM pg_trigger t WHERE t.tgrelid = shadow)
        AND k.confrelid = shadow AND k.contype = 'f' AND k.conenforced
$$;


-- Claim keys before they are written. Waits for other transactions that claim any of them.
CREATE FUNCTION pg_sluice.claim_keys(of_constraint oid, keys bytea[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('claim_keys');
    INSERT INTO pg_sluice.key_claim SELECT DISTINCT of_constraint, md5(k)::uuid FROM unnest(keys) k ORDER BY 2;
    DELETE FROM pg_sluice.key_claim c USING unnest(keys) k
        WHERE c.constraint_oid = of_constraint AND c.key = md5(k)::uuid;
END $$;


-- Before COMMIT, and before prepare_commit: lock the tables that the transaction has changed, and lock those whose keys
-- it has looked up against changes by others. `checked` maps the latter to the snapshot of the lookup. Returns those
-- changed since.
CREATE FUNCTION pg_sluice.lock_checked(checked jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    PERFORM pg_sluice.authorize('lock_checked', 'ready_to_commit');
    FOR r IN SELECT c.relid, bool_or(c.changes) AS changes
             FROM (SELECT s.relid, true FROM pg_sluice.staged s UNION SELECT d.relid, true FROM pg_sluice.dirty d
                   UNION SELECT k.key::oid, false FROM jsonb_each(checked) k) AS c (relid, changes)
             GROUP BY c.relid ORDER BY c.relid LOOP
        PERFORM pg_sluice.lock_for_commit(r.relid, CASE WHEN r.changes THEN 'UPDATE' ELSE 'SHARE' END);
    END LOOP;
    RETURN (SELECT coalesce(jsonb_agg(k.relid::bigint), '[]')
            FROM pg_sluice.relation k JOIN jsonb_each_text(checked) c ON c.key::oid = k.relid
            -- A table that the transaction has dropped took its constraints along.
            WHERE k.changed_snapshot > c.value::bigint AND EXISTS (SELECT FROM pg_class t WHERE t.oid = k.relid));
END $$;
