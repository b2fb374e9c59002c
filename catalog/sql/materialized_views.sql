-- Materialized views. The shadow is PostgreSQL's own, and always empty: the gateway computes the rows and stages them as
-- those of a table (gateway/lake/materialized.py). With what is here
--
--   note_populated      keeps since when, and until when, there were none
--   populate            says that there are rows, or none any more, as REFRESH does
--   make_query          shows its query to the gateway
--   check_as_owner      asks whether the owner may run the query
--   make_twin           has PostgreSQL compute the rows, where Spark cannot
--   open_shadow         lets rows be copied into the shadow, for queries that PostgreSQL computes

-- The snapshots in which a view could not be read, for who reads the lake as it was.
CREATE TABLE pg_sluice.unpopulated (table_id bigint NOT NULL, begin_snapshot bigint NOT NULL, end_snapshot bigint);
CREATE UNIQUE INDEX unpopulated_now ON pg_sluice.unpopulated (table_id) WHERE end_snapshot IS NULL;

-- At COMMIT: which of the two the view is from that snapshot on. What is no view is always populated.
CREATE FUNCTION pg_sluice.note_populated(snapshot bigint, r pg_sluice.relation) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
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
CREATE FUNCTION pg_sluice.populate(token text, shadow oid, populated boolean) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog SET allow_system_table_mods = on AS $$
BEGIN
    PERFORM pg_sluice.authorize(token);
    UPDATE pg_class SET relispopulated = populated WHERE oid = shadow AND relkind = 'm';
    INSERT INTO pg_sluice.dirty VALUES (shadow, NULL);
END $$;


-- A view of the same query and owner, whose tree the gateway can ask for: so whoever refreshes it needs no rights on what
-- the query names. Returns its OID, and the owner. The savepoint around it undoes that.
CREATE FUNCTION pg_sluice.make_query(token text, shadow oid) RETURNS TABLE (query bigint, owner name) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text := format('pg_sluice.query_%s', pg_backend_pid());
BEGIN
    PERFORM pg_sluice.authorize(token);
    EXECUTE format('CREATE VIEW %s AS %s', name, pg_get_viewdef(shadow));
    SELECT pg_get_userbyid(c.relowner) INTO owner FROM pg_class c WHERE c.oid = shadow;
    EXECUTE format('ALTER VIEW %s OWNER TO %I', name, owner);
    query := name::regclass::oid::bigint;
    RETURN NEXT;
END $$;

-- Raise what keeps the owner from running the query: EXPLAIN asks for all privileges. Only a function that the owner owns
-- acts as the owner.
CREATE FUNCTION pg_sluice.check_as_owner(token text, query oid) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    name text := format('pg_sluice.check_as_owner_%s', pg_backend_pid());
BEGIN
    PERFORM pg_sluice.authorize(token);
    EXECUTE format('CREATE FUNCTION %s() RETURNS void LANGUAGE plpgsql SECURITY DEFINER '
                   'SET search_path = pg_catalog, pg_temp AS %L', name,
                   format('BEGIN EXECUTE ''EXPLAIN (COSTS OFF) SELECT * FROM %s''; END', query::regclass));
    EXECUTE format('ALTER FUNCTION %s() OWNER TO %s', name,
                   (SELECT relowner::regrole FROM pg_class WHERE oid = query));
    EXECUTE format('SELECT %s()', name);
END $$;


-- Another materialized view of the same query, columns and owner, which PostgreSQL fills: nobody sees it, and nobody waits
-- for it, before the savepoint around it is undone.
CREATE FUNCTION pg_sluice.make_twin(token text, shadow oid) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text := format('pg_sluice.twin_%s', pg_backend_pid());
BEGIN
    PERFORM pg_sluice.authorize(token);
    EXECUTE format('CREATE MATERIALIZED VIEW %s AS %s WITH NO DATA', name, rtrim(pg_get_viewdef(shadow), ';'));
    EXECUTE format('ALTER MATERIALIZED VIEW %s OWNER TO %s', name,
                   (SELECT relowner::regrole FROM pg_class WHERE oid = shadow));
    EXECUTE format('REFRESH MATERIALIZED VIEW %s', name);
    RETURN name::regclass::oid::bigint;
END $$;


-- PostgreSQL lets nobody write into a materialized view. To this transaction its shadow is a table, until the savepoint
-- around it is undone; who does the same meanwhile waits for that, though not for long.
CREATE FUNCTION pg_sluice.open_shadow(token text, shadow oid) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog SET allow_system_table_mods = on SET lock_timeout = '5s' AS $$
BEGIN
    PERFORM pg_sluice.authorize(token);
    UPDATE pg_class SET relkind = 'r', relhasrules = false WHERE oid = shadow AND relkind = 'm';
END $$;

REVOKE ALL ON FUNCTION
    pg_sluice.note_populated(bigint, pg_sluice.relation), pg_sluice.populate(text, oid, boolean), pg_sluice.make_query(text, oid), pg_sluice.check_as_owner(text, oid),
    pg_sluice.make_twin(text, oid), pg_sluice.open_shadow(text, oid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    pg_sluice.populate(text, oid, boolean), pg_sluice.make_query(text, oid), pg_sluice.check_as_owner(text, oid),
    pg_sluice.make_twin(text, oid), pg_sluice.open_shadow(text, oid) TO PUBLIC;
