-- Locks on rows of the lake are PostgreSQL's own: each row that somebody wants to lock has a row here, and whoever
-- changes it, or says SELECT … FOR UPDATE, NO KEY UPDATE, SHARE or KEY SHARE, locks that one in the same mode. So what
-- waits for what, deadlocks, NOWAIT, SKIP LOCKED, lock_timeout and savepoints are as everywhere in PostgreSQL.
--
-- The rows are put here beforehand, in a transaction of the gateway's own, so that everybody sees them at once; where
-- nobody has them locked any more they are swept away. Who replaces many rows of a table locks its row of `writer`
-- against all others instead.
CREATE UNLOGGED TABLE pg_sluice.row_lock (
    data_file_id bigint, position bigint, PRIMARY KEY (data_file_id, position));


-- Lock rows, whose numbers from 1 in the order given are returned; with SKIP LOCKED that may be fewer than were asked
-- for. NULL where some have been swept away since they were put there: put them there again, and repeat.
CREATE FUNCTION pg_sluice.lock_rows(
    token text, shadow oid, data_file_ids bigint[], positions bigint[], strength text, waiting text
) RETURNS integer[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    found integer[]; present bigint;
BEGIN
    PERFORM pg_sluice.authorize(token);
    IF strength NOT IN ('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE') OR waiting NOT IN ('', 'NOWAIT', 'SKIP LOCKED')
    THEN
        RAISE EXCEPTION 'no such lock: % %', strength, waiting USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM FROM pg_sluice.placed p WHERE p.relid = shadow FOR KEY SHARE;  -- rows stay where they are (maintenance.sql)
    EXECUTE format('SELECT count(*) FROM (SELECT FROM pg_sluice.writer WHERE relid = $1 FOR KEY SHARE %s) w', waiting)
        INTO present USING shadow;
    IF present = 0 THEN
        RETURN '{}';  -- somebody has all of them
    END IF;
    EXECUTE format($q$
        SELECT coalesce(array_agg(n), '{}') FROM (
            SELECT w.n::integer FROM unnest($1, $2) WITH ORDINALITY w (f, p, n)
            JOIN pg_sluice.row_lock l ON l.data_file_id = w.f AND l.position = w.p
            ORDER BY l.data_file_id, l.position FOR %s OF l %s) locked $q$, strength, waiting)
        INTO found USING data_file_ids, positions;
    IF cardinality(found) < cardinality(positions) THEN
        SELECT count(*) INTO present FROM unnest(data_file_ids, positions) w (f, p)
            JOIN pg_sluice.row_lock l ON l.data_file_id = w.f AND l.position = w.p;
        IF waiting <> 'SKIP LOCKED' OR present < cardinality(positions) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN found;
END $$;

-- Lock every row of a table against all others; false where that is to be skipped.
CREATE FUNCTION pg_sluice.lock_all_rows(token text, shadow oid, waiting text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    present bigint;
BEGIN
    PERFORM pg_sluice.authorize(token);
    IF waiting NOT IN ('', 'NOWAIT', 'SKIP LOCKED') THEN
        RAISE EXCEPTION 'no such lock: %', waiting USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM FROM pg_sluice.placed p WHERE p.relid = shadow FOR KEY SHARE;
    EXECUTE format('SELECT count(*) FROM (SELECT FROM pg_sluice.writer WHERE relid = $1 FOR UPDATE %s) w', waiting)
        INTO present USING shadow;
    RETURN present > 0;
END $$;

-- A row that is replaced leaves its locks behind, but who refers to it must hold it still. So beside the row its key
-- has a row here, for each foreign key, in place of file and position.
CREATE FUNCTION pg_sluice.key_places(of_constraint oid, keys bytea[], OUT f bigint, OUT p bigint) RETURNS SETOF record
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
    SELECT DISTINCT - of_constraint::bigint, hashbyteaextended(k, 0) FROM unnest(keys) k
$$;

-- Keep rows that new ones refer to, and their keys, as PostgreSQL does for a foreign key: whether the table has changed
-- since the snapshot in which they were found. NULL as with lock_rows.
CREATE FUNCTION pg_sluice.lock_referenced(
    token text, shadow oid, data_file_ids bigint[], positions bigint[], of_constraint oid, keys bytea[], since bigint
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    files bigint[]; places bigint[];
BEGIN
    PERFORM pg_sluice.lock_tables(token, ARRAY[shadow], 'ROW SHARE', false);
    SELECT array_agg(f), array_agg(p) INTO files, places FROM pg_sluice.key_places(of_constraint, keys);
    IF pg_sluice.lock_rows(token, shadow, data_file_ids || files, positions || places, 'KEY SHARE', '') IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN coalesce((SELECT r.changed_snapshot > since FROM pg_sluice.relation r WHERE r.relid = shadow), true);
END $$;

-- Keys are taken away: wait for who refers to them. NULL as with lock_rows.
CREATE FUNCTION pg_sluice.lock_keys(token text, shadow oid, of_constraint oid, keys bytea[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    files bigint[]; places bigint[];
BEGIN
    SELECT array_agg(f), array_agg(p) INTO files, places FROM pg_sluice.key_places(of_constraint, keys);
    RETURN CASE WHEN pg_sluice.lock_rows(token, shadow, files, places, 'UPDATE', '') IS NOT NULL THEN true END;
END $$;

REVOKE ALL ON FUNCTION
    pg_sluice.lock_rows(text, oid, bigint[], bigint[], text, text),
    pg_sluice.lock_all_rows(text, oid, text), pg_sluice.key_places(oid, bytea[]),
    pg_sluice.lock_referenced(text, oid, bigint[], bigint[], oid, bytea[], bigint),
    pg_sluice.lock_keys(text, oid, oid, bytea[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    pg_sluice.lock_rows(text, oid, bigint[], bigint[], text, text),
    pg_sluice.lock_all_rows(text, oid, text),
    pg_sluice.lock_referenced(text, oid, bigint[], bigint[], oid, bytea[], bigint),
    pg_sluice.lock_keys(text, oid, oid, bytea[]) TO PUBLIC;
