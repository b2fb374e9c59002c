-- A session's backend waits here while its statement runs elsewhere (gateway/session/cancel_listener.py), because
-- PostgreSQL ignores a cancel at an idle backend. It says that it waits: a signal from then on ends the wait, and is no
-- error.
CREATE FUNCTION pg_sluice.attend() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE INFO 'attending';
    PERFORM pg_sleep('infinity');
EXCEPTION WHEN query_canceled THEN
    NULL;
END $$;
