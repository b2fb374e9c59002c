-- Backends as owners of rows: a row of Sluice names its owner's backend by process number and start time. The owner is
-- alive as long as PostgreSQL has that backend. Numbers are used again; both together are not.

-- Whether that backend lives. It first drops the transaction's cached view of other backends: PostgreSQL would return
-- it again, without later ones. A backend whose start is hidden from us counts as alive.
CREATE FUNCTION pg_sluice.lives(number integer, started bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_stat_clear_snapshot();
    RETURN EXISTS (
        SELECT FROM pg_stat_get_activity(number) a
        WHERE coalesce((extract(epoch FROM a.backend_start) * 1000000)::bigint = started, true));
END $$;
