-- Procedures that end transactions, beside types and functions with names of PostgreSQL's in the search path, and names
-- and values with quotes.
CREATE SCHEMA w;
create schema evil;
create domain evil.text as pg_catalog.text check (value <> 'x'); create domain evil.int4 as pg_catalog.int4 check (value > 100); create domain evil.refcursor as pg_catalog.text check (false);
create function evil.format(pg_catalog.text, variadic pg_catalog.text[]) returns pg_catalog.text language sql as 'select ''evil''';
create function evil.unnest(anyarray) returns setof anyelement language sql as 'select null where false';
create table w.et (a pg_catalog.int4, "q""'\u" pg_catalog.text);
set search_path = evil, w, pg_catalog;
do $$ <<"l""a'b">> declare "v""x'" pg_catalog.varchar := 'o''h\"$$'; r record; n pg_catalog.int8 := 0; begin insert into et values (1, 'a'), (2, 'b''c'); commit; for r in select * from et order by a loop n := n + 1; raise notice '% %', r, "l""a'b"."v""x'"; commit; end loop; foreach n in array array[5,6] loop raise notice '%', n; commit; end loop; raise notice '%', current_user; commit; end $$;
do $do$ declare t pg_catalog.varchar := '$sluice$ $$ $x$'; begin commit; raise notice '%', t; t := t || E'\\'' || chr(10) || '--'; commit; raise notice '%', t; end $do$;
drop schema evil cascade;
RESET search_path;
DROP SCHEMA w CASCADE;
