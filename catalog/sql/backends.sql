-- Who is at work: rows of ours name the backend of whoever holds them, by its number and when it was started. Such a
-- holder is alive as long as PostgreSQL has that backend. Numbers are used again; both together are not.

-- Whether that backend is there. What the transaction has seen of others so far is forgotten first: PostgreSQL would show
-- it again, without those that came later. One of which we may not see when it was started counts as alive.
CREATE FUNCTION pg_sluice.lives(number integer, started bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_stat_clear_snapshot();
    RETURN EXISTS (
        SELECT FROM pg_stat_get_activity(number) a
        WHERE coalesce((extract(epoch FROM a.backend_start) * 1000000)::bigint = started, true));
END $$;
