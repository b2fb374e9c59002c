-- Notices with any SQLSTATE come through, the gateway's own among them.
\set VERBOSITY verbose
\set SHOW_CONTEXT never
SET client_min_messages = info;
DO $$ BEGIN RAISE NOTICE 'one' USING ERRCODE = 'SLU01'; END $$;
DO $$ BEGIN RAISE INFO 'two' USING ERRCODE = 'SLU01', DETAIL = 'no number'; END $$;
DO $$ BEGIN RAISE WARNING 'three' USING ERRCODE = 'SLU01', DETAIL = '-1', HINT = 'none'; END $$;
DO $$ BEGIN RAISE WARNING 'four' USING ERRCODE = 'SLU01', DETAIL = '99999999999999999999999999'; END $$;
SELECT 1 \bind \g
