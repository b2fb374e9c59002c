-- Words without a blank that are longer than a line of PostgreSQL's printed trees, in what it prints as it was written.
CREATE SCHEMA long_words;
SET search_path = long_words;
DO $$ BEGIN RAISE NOTICE 'from https://example.org/a/path/that/is/longer/than/one/line/of/a/printed/tree?with=parameters&and=more&of=them#end'; END $$;
DO $$ BEGIN
    ------------------------------------------------------------------------------------------------
    -- これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある
    RAISE NOTICE 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある';
END $$;
CREATE FUNCTION url() RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'from https://example.org/a/path/that/is/longer/than/one/line/of/a/printed/tree?with=parameters&and=more&of=them#end' $$;
CREATE FUNCTION ruler(n integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
================================================================================================
$$;
CREATE FUNCTION ruler(n integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
--==============================================================================================
BEGIN RETURN n + 1; END $$;
SELECT url(), ruler(1);
CREATE TABLE t (
    id integer, url text DEFAULT 'from https://example.org/a/path/that/is/longer/than/one/line/of/a/printed/tree?with=parameters&and=more&of=them#end', note text DEFAULT 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある',
    CHECK (note <> 'not https://example.org/a/path/that/is/longer/than/one/line/of/a/printed/tree?with=parameters&and=more&of=them#end' AND url <> 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある')
);
INSERT INTO t VALUES (1), (2, 'two', 'two');
INSERT INTO t VALUES (3, 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある');
ALTER TABLE t ALTER note SET DEFAULT 'a {"id":1234567,"name":"somebody","tags":["one","","three"],"address":{"city":"Bern","zip":"3000"}}';
INSERT INTO t (id) VALUES (4);
CREATE INDEX ON t (id) WHERE note <> 'a {"id":1234567,"name":"somebody","tags":["one","","three"],"address":{"city":"Bern","zip":"3000"}}';
CREATE VIEW v AS SELECT id, url = 'from https://example.org/a/path/that/is/longer/than/one/line/of/a/printed/tree?with=parameters&and=more&of=them#end' AS a, note = 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある' AS b, note = 'a {"id":1234567,"name":"somebody","tags":["one","","three"],"address":{"city":"Bern","zip":"3000"}}' AS c FROM t;
SELECT * FROM v ORDER BY id;
COPY (SELECT id, 'a {"id":1234567,"name":"somebody","tags":["one","","three"],"address":{"city":"Bern","zip":"3000"}}' AS j, 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある' AS k FROM t WHERE url <> 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがあるこれは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある' ORDER BY id) TO STDOUT;
PREPARE p (integer, text) AS SELECT id, note = $2 FROM t WHERE id = $1;
EXECUTE p (1, 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある');
EXECUTE p (4, 'a {"id":1234567,"name":"somebody","tags":["one","","three"],"address":{"city":"Bern","zip":"3000"}}');
CREATE PROCEDURE said(what text) LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', length(what); END $$;
CALL said('a {"id":1234567,"name":"somebody","tags":["one","","three"],"address":{"city":"Bern","zip":"3000"}}');
CALL said('これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがあるこれは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがあるこれは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある');
COMMENT ON TABLE t IS 'a https://example.org/a/path/that/is/longer/than/one/line/of/a/printed/tree?with=parameters&and=more&of=them#end and これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある';
SELECT obj_description('t'::regclass);
CREATE DOMAIN d AS text DEFAULT 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある' CHECK (VALUE <> 'a {"id":1234567,"name":"somebody","tags":["one","","three"],"address":{"city":"Bern","zip":"3000"}}');
SELECT 'a {"id":1234567,"name":"somebody","tags":["one","","three"],"address":{"city":"Bern","zip":"3000"}}'::d;
EXPLAIN (COSTS OFF) SELECT 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある';
DECLARE c CURSOR WITH HOLD FOR SELECT 'a {"id":1234567,"name":"somebody","tags":["one","","three"],"address":{"city":"Bern","zip":"3000"}}' AS a, 'これは百文字を超える日本語の文章であり空白を一つも含まないので改行の位置が文字の途中に来ることがある' AS b, id FROM t ORDER BY id;
FETCH ALL c;
CLOSE c;
SET client_encoding = 'SJIS';
DO $$ BEGIN RAISE NOTICE 'from https://example.org/a/path/that/is/longer/than/one/line/of/a/printed/tree?with=parameters&and=more&of=them#end'; END $$;
RESET client_encoding;
DROP SCHEMA long_words CASCADE;
