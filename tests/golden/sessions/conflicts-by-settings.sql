-- What ON CONFLICT stores does not hang on how the session reads texts
CREATE SCHEMA conflicts_by_settings;
SET search_path = conflicts_by_settings;
CREATE TABLE numbered (n serial, k integer PRIMARY KEY, t text[], v interval, w interval[]);
INSERT INTO numbered (k, t, v) VALUES (1, ARRAY['a', NULL], '-1 day +02:00');
SET array_nulls = off;
SET intervalstyle = sql_standard;
INSERT INTO numbered (k, t, v, w) VALUES (1, ARRAY['b', NULL], interval '1 day' - interval '2 hours', ARRAY[NULL::interval]),
    (2, ARRAY[NULL, 'c'], interval '1 day' - interval '2 hours', ARRAY[interval '1 day' - interval '2 hours'])
    ON CONFLICT (k) DO UPDATE SET t = excluded.t || numbered.t, v = excluded.v + numbered.v RETURNING k, v;
INSERT INTO numbered (k, t) VALUES (2, ARRAY['NULL', NULL]) ON CONFLICT (k) DO NOTHING;
INSERT INTO numbered (k, t) VALUES (2, ARRAY['d', NULL]) ON CONFLICT (k) DO UPDATE SET t = excluded.t;
RESET array_nulls;
SET intervalstyle = postgres;
SELECT k, t, t[1] IS NULL AS first, t[2] IS NULL AS second, v, w FROM numbered ORDER BY k;
DROP SCHEMA conflicts_by_settings CASCADE;
