-- Locks on rows of the lake are PostgreSQL's own: each row to be locked has a row here. A change of it, or SELECT … FOR
-- UPDATE, NO KEY UPDATE, SHARE or KEY SHARE, locks that one in the same mode. So waits, deadlocks, NOWAIT, SKIP LOCKED,
-- lock_timeout and savepoints are PostgreSQL's.
--
-- The rows are inserted beforehand, in a transaction of the gateway's own, so that all sessions see them at once;
-- unlocked ones are removed later. A session that replaces many rows of a table locks its row of `writer` against all
-- others instead.
--
-- A row of the lake that gets other values, and keeps its key, is then at another place. So the changing transaction
-- moves the row here to that place. In PostgreSQL holders of the key, present and future, follow it. A data file has
-- its number (gateway/execution/locks/row_locks.py) before it is published, and keeps it.
CREATE UNLOGGED TABLE pg_sluice.row_lock (file bigint, position bigint);
-- Partial only so that PostgreSQL does not take the place for a key: a change of the place does not block holders of
-- the key.
CREATE UNIQUE INDEX row_lock_place ON pg_sluice.row_lock (file, position) WHERE file IS NOT NULL;

-- The moves of rows that have got other values and kept their keys. A session that holds only a key, by a snapshot in
-- which the row is at its old place, holds it at the new place. `seen` is a time by which the move was committed: later
-- transactions do not need it (catalog/row_locks.py).
CREATE UNLOGGED TABLE pg_sluice.row_move (
    file bigint NOT NULL, position bigint NOT NULL, new_file bigint NOT NULL, new_position bigint NOT NULL, seen timestamptz);
CREATE INDEX row_move_from ON pg_sluice.row_move (file, position);

-- Insert missing lockable rows. A row that is being moved still exists, and is not waited for: a move between the check
-- and the insertion makes this check again.
CREATE FUNCTION pg_sluice.put_row_locks(files bigint[], positions bigint[], of_constraint oid, keys bytea[])
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
BEGIN
    LOOP
        BEGIN
            INSERT INTO pg_sluice.row_lock
            SELECT w.f, w.p FROM (
                SELECT * FROM unnest(files, positions) u (f, p)
                UNION SELECT k.f, k.p FROM pg_sluice.key_places(of_constraint, keys) k) w
            WHERE NOT EXISTS (SELECT FROM pg_sluice.row_lock l WHERE l.file = w.f AND l.position = w.p)
            ORDER BY w.f, w.p
            ON CONFLICT DO NOTHING;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;
END $$;


-- The same for rows of the transaction's own that replace others or may do so.
CREATE FUNCTION pg_sluice.put_own_row_locks(files bigint[], positions bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('put_own_row_locks');
    PERFORM pg_sluice.put_row_locks(files, positions, 0::oid, '{}');
END $$;

-- Lock rows; return their numbers from 1 in the given order. With SKIP LOCKED these may be fewer than asked for. NULL
-- if some have been removed since they were inserted: insert them again, and repeat.
--
-- A place that a row has left is not locked, and counts as if it were: who asks sees that the row is another one by now,
-- and waits for it at its new place. Else one transaction could hold the old place and another the new one, and each
-- wait for the other's.
CREATE FUNCTION pg_sluice.lock_rows(
    shadow oid, files bigint[], positions bigint[], strength text, waiting text
) RETURNS integer[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found integer[]; left_places integer[]; present bigint;
BEGIN
    PERFORM pg_sluice.authorize('lock_rows', 'lock_referenced', 'lock_keys');
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
            JOIN pg_sluice.row_lock l ON l.file = w.f AND l.position = w.p
            WHERE NOT EXISTS (SELECT FROM pg_sluice.row_move m WHERE m.file = w.f AND m.position = w.p)
            ORDER BY l.file, l.position FOR %s OF l %s) locked $q$, strength, waiting)
        INTO found USING files, positions;
    SELECT coalesce(array_agg(w.n::integer), '{}') INTO left_places
        FROM unnest(files, positions) WITH ORDINALITY w (f, p, n)
        WHERE EXISTS (SELECT FROM pg_sluice.row_move m WHERE m.file = w.f AND m.position = w.p)
            AND w.n <> ALL (found);
    found := found || left_places;
    IF cardinality(found) < cardinality(positions) THEN
        SELECT count(*) INTO present FROM unnest(files, positions) w (f, p)
            JOIN pg_sluice.row_lock l ON l.file = w.f AND l.position = w.p;
        IF waiting <> 'SKIP LOCKED' OR present < cardinality(positions) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN found;
END $$;

-- Rows have replaced others, which the transaction has locked, and whose keys they have.
CREATE FUNCTION pg_sluice.move_row_locks(
    files bigint[], positions bigint[], new_files bigint[], new_positions bigint[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('move_row_locks');
    UPDATE pg_sluice.row_lock l SET file = w.new_f, position = w.new_p
        FROM unnest(files, positions, new_files, new_positions) w (f, p, new_f, new_p)
        WHERE l.file = w.f AND l.position = w.p;
    INSERT INTO pg_sluice.row_move SELECT * FROM unnest(files, positions, new_files, new_positions);
END $$;

-- The present places of these rows, as far as they have kept their keys: all files, then all positions.
CREATE FUNCTION pg_sluice.moved_rows(files bigint[], positions bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('moved_rows');
    RETURN (
        WITH RECURSIVE place AS (
            SELECT w.n, 0 AS moves, w.f, w.p FROM unnest(files, positions) WITH ORDINALITY w (f, p, n)
            UNION ALL
            SELECT w.n, w.moves + 1, m.new_file, m.new_position FROM place w
            JOIN pg_sluice.row_move m ON m.file = w.f AND m.position = w.p
        ), newest AS (SELECT DISTINCT ON (n) n, f, p FROM place ORDER BY n, moves DESC)
        SELECT array_agg(f ORDER BY n) || array_agg(p ORDER BY n) FROM newest);
END $$;

-- Lock every row of a table against all others; false if that is to be skipped.
CREATE FUNCTION pg_sluice.lock_all_rows(shadow oid, waiting text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    present bigint;
BEGIN
    PERFORM pg_sluice.authorize('lock_all_rows');
    IF waiting NOT IN ('', 'NOWAIT', 'SKIP LOCKED') THEN
        RAISE EXCEPTION 'no such lock: %', waiting USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM FROM pg_sluice.placed p WHERE p.relid = shadow FOR KEY SHARE;
    EXECUTE format('SELECT count(*) FROM (SELECT FROM pg_sluice.writer WHERE relid = $1 FOR UPDATE %s) w', waiting)
        INTO present USING shadow;
    RETURN present > 0;
END $$;

-- A replaced row leaves its locks behind, but referring transactions must still hold it. So beside the row its key has
-- a row here, for each foreign key, in place of file and position.
CREATE FUNCTION pg_sluice.key_places(of_constraint oid, keys bytea[], OUT f bigint, OUT p bigint) RETURNS SETOF record
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT - of_constraint::bigint, hashbyteaextended(k, 0) FROM unnest(keys) k
$$;

-- Lock rows that new ones refer to, and their keys, as PostgreSQL does for a foreign key; return whether the table has
-- changed since the snapshot in which they were found. NULL as with lock_rows.
CREATE FUNCTION pg_sluice.lock_referenced(
    shadow oid, files bigint[], positions bigint[], of_constraint oid, keys bytea[], since bigint
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key_files bigint[]; key_positions bigint[];
BEGIN
    PERFORM pg_sluice.lock_tables(ARRAY[shadow], 'ROW SHARE', false);
    SELECT array_agg(f), array_agg(p) INTO key_files, key_positions FROM pg_sluice.key_places(of_constraint, keys);
    IF pg_sluice.lock_rows(shadow, files || key_files, positions || key_positions, 'KEY SHARE', '') IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN coalesce((SELECT r.changed_snapshot > since FROM pg_sluice.relation r WHERE r.relid = shadow), true);
END $$;

-- Keys are removed: wait for transactions that refer to them. NULL as with lock_rows.
CREATE FUNCTION pg_sluice.lock_keys(shadow oid, of_constraint oid, keys bytea[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    files bigint[]; places bigint[];
BEGIN
    SELECT array_agg(f), array_agg(p) INTO files, places FROM pg_sluice.key_places(of_constraint, keys);
    RETURN CASE WHEN pg_sluice.lock_rows(shadow, files, places, 'UPDATE', '') IS NOT NULL THEN true END;
END $$;
