-- Materialized views. The shadow is PostgreSQL's own, and always empty: the gateway computes the rows and stages them
-- like those of a table (gateway/execution/schema/materialized_view.py). The functions here:
--
--   note_populated      records from and to which snapshot the view was empty
--   populate            marks the view as populated or not, as REFRESH does
--   make_query          shows its query to the gateway
--   check_as_owner      checks whether the owner may run the query
--   make_twin           lets PostgreSQL compute the rows, if Spark cannot
--   open_shadow         lets rows be copied into the shadow, for queries that PostgreSQL computes

-- The snapshots in which a view was not readable, for reads of old snapshots.
CREATE TABLE pg_sluice.unpopulated (table_id bigint NOT NULL, begin_snapshot bigint NOT NULL, end_snapshot bigint);
CREATE UNIQUE INDEX unpopulated_now ON pg_sluice.unpopulated (table_id) WHERE end_snapshot IS NULL;

-- At COMMIT: whether the view is populated from that snapshot on. Any other relation always is.
CREATE FUNCTION pg_sluice.note_populated(snapshot bigint, r pg_sluice.relation) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    populated boolean := (SELECT c.relispopulated FROM pg_class c WHERE c.oid = r.relid);
BEGIN
    IF populated IS NULL THEN
        DELETE FROM pg_sluice.unpopulated WHERE table_id = r.table_id;  -- it is dropped
    ELSIF populated THEN
        UPDATE pg_sluice.unpopulated SET end_snapshot = snapshot WHERE table_id = r.table_id AND end_snapshot IS NULL;
    ELSE
        INSERT INTO pg_sluice.unpopulated VALUES (r.table_id, snapshot, NULL) ON CONFLICT DO NOTHING;
    END IF;
END $$;


-- The relation's row is locked until the transaction ends: other changes of the same view wait, readers do not.
CREATE FUNCTION pg_sluice.populate(shadow oid, populated boolean) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('populate');
    PERFORM pg_sluice.set_populated(shadow, populated);
    INSERT INTO pg_sluice.dirty VALUES (shadow, NULL);
END $$;


-- A view of the same query and owner, whose tree the gateway can ask for. So REFRESH needs no rights on the objects
-- that the query names. Returns its OID, and the owner. The savepoint around it undoes that.
CREATE FUNCTION pg_sluice.make_query(shadow oid) RETURNS TABLE (query bigint, owner name) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('make_query');
    RETURN QUERY SELECT pg_sluice.make_alike(shadow, format('query_%s', pg_backend_pid()), false)::bigint,
                        pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = shadow;
END $$;

-- Raise the error that keeps the owner from running the query: EXPLAIN checks all privileges.
CREATE FUNCTION pg_sluice.check_as_owner(query oid) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('check_as_owner ' || query);
    PERFORM pg_sluice.as_owner(query, format('EXPLAIN (COSTS OFF) SELECT * FROM %s', query::regclass));
END $$;


-- Another materialized view of the same query, columns and owner, which PostgreSQL fills. No other session sees it or
-- waits for it before the savepoint around it is undone.
CREATE FUNCTION pg_sluice.make_twin(shadow oid) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    twin oid;
BEGIN
    PERFORM pg_sluice.authorize('make_twin ' || shadow);
    twin := pg_sluice.make_alike(shadow, format('twin_%s', pg_backend_pid()), true);
    PERFORM pg_sluice.view_shadow(twin);
    PERFORM pg_sluice.refresh(twin);
    RETURN twin::bigint;
END $$;


-- Let rows be copied into the shadow, until the savepoint around it is undone.
CREATE FUNCTION pg_sluice.open_shadow(shadow oid) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('open_shadow');
    PERFORM pg_sluice.as_table(shadow);
END $$;
