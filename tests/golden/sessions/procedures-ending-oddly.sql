-- Procedures and code blocks that end transactions: errors, calls within calls, cursors and settings.
CREATE SCHEMA ends;
SET search_path = ends;
create table t1 (a int, b text);
do $$ begin
 begin
  insert into t1 values (1); perform 1/0;
 exception when division_by_zero then
   insert into t1 values (2); commit; insert into t1 values(3); rollback; raise notice 'handler %', sqlerrm;
 end; end $$;
select * from t1;
do $$ begin
 begin
  insert into t1 values (1); commit;
 exception when division_by_zero then null;
 end; end $$;
create procedure p2() language plpgsql as $$ begin commit; end $$;
do $$ begin
 begin
  call p2();
 exception when division_by_zero then null;
 end; end $$;
create function f() returns int language plpgsql as $$ begin call p2(); return 1; end $$;
do $$ begin perform f(); end $$;
create procedure p3(a int, inout b text) language plpgsql as $$
declare r record; c constant int := 7;
begin
  insert into t1 values (a, b);
  commit;
  raise notice 'now % %', found, c;
  b := b || 'x';
  for r in select * from t1 order by 1 loop raise notice '%', r; commit; end loop;
  perform 1/(a-1);
end $$;
call p3(2, 'u');
call p3(1, 'v');
do $$ declare z text := 'q'; begin call p3(3, z); raise notice 'z %', z; end $$;
do $$ declare z text := 'q'; begin call p3(1, z); raise notice 'z %', z; end $$;
begin; call p2(); rollback;
do $$ begin execute 'commit'; end $$;
do $$ begin commit and chain; end $$;
do $$ begin set transaction isolation level serializable; raise notice '%', current_setting('transaction_isolation'); commit; raise notice '%', current_setting('transaction_isolation'); set transaction isolation level repeatable read;  raise notice '%', current_setting('transaction_isolation'); commit and chain; raise notice '%', current_setting('transaction_isolation'); end $$;
do $$ declare r record; begin for r in update t1 set a=a returning a loop commit; end loop; end $$;
do $$ declare c cursor for select a from t1 order by 1; begin for q in c loop raise notice '%', q; commit; end loop; raise notice '%', found; end $$;
do $$ declare n int; begin update t1 set a=a; commit; get diagnostics n = row_count; raise notice 'rc %', n; end $$;
do $$ begin savepoint x; end $$;
do $$ begin insert into t1 values (50,'k'); rollback; insert into t1 values (51); end $$; select * from t1;
call p2() \; select 1;
select 1 \; call p2();
do $$ begin commit; raise exception 'boo %', 1 using detail = 'd'; end $$;
create procedure twice(n int, word text) language plpgsql as $$
begin
  for i in 0..n loop
    insert into t1 values (i, word);
    if i % 2 = 0 then commit; else rollback; end if;
  end loop;
end $$;
call twice(5, 'foo'); select * from t1 where b = 'foo' order by a;
begin; call twice(5, 'never'); commit;
begin; do $$ begin rollback; end $$; commit;
create procedure by_block() language plpgsql as $$ begin do 'begin call twice(3, $x$baz$x$); end;'; end $$;
call by_block(); select * from t1 where b = 'baz' order by a;
create procedure by_text() language plpgsql as $$ begin execute 'call twice(3, $x$text$x$)'; end $$;
call by_text();
create function of_text() returns int language plpgsql as $$ begin execute 'do $x$ begin commit; end $x$'; return 1; end $$;
select of_text();
do $$ declare r record; begin
  for r in select a from t1 where b = 'baz' order by a loop insert into t1 values (12 / (r.a - 2), 'div'); commit; end loop;
end $$;
select a from t1 where b = 'div'; select name from pg_cursors;
do $$ declare r record; begin for r in update t1 set a = a + 1 where b = 'baz' returning a loop rollback; end loop; end $$;
do $$ declare r record; begin
  for r in with x as (select a from t1 where b = 'baz') select * from x order by a loop insert into t1 values (r.a, 'with'); commit; end loop;
  for r in select a from t1 where b = 'baz' order by a for update loop update t1 set a = a + 10 where a = r.a and b = 'baz'; commit; end loop;
end $$;
select a, b from t1 where b in ('with', 'baz') order by 2, 1;
-- more
do $$ declare x int := 1; begin
  begin raise exception 'a'; exception when others then get stacked diagnostics x = row_count; end; commit; end $$;
do $$ begin begin perform 1/0; exception when others then commit; raise; end; end $$;
do $$ declare m text; begin begin perform 1/0; exception when others then get stacked diagnostics m = message_text; raise notice '%', m; end; commit; end $$;
do $$ begin begin perform 1/0; exception when others then raise notice 'one %', sqlstate; commit; raise notice 'two % %', sqlstate, sqlerrm; begin perform 'x'::int; exception when others then raise notice 'three %', sqlerrm; end; raise notice 'four %', sqlerrm; rollback; end; commit; end $$;
do $$ declare i int := 0; begin <<a>> begin loop i := i + 1; begin if i = 3 then exit a; end if; if i = 2 then continue; end if; insert into t1 values (i, 'l'); exception when others then null; end; commit; end loop; end; raise notice 'i %', i; end $$;
select * from t1;
do $$ declare a text := 'x'; begin perform set_config('w.x', a, false); commit; raise notice '%', current_setting('w.x'); set local w.x = 'loc'; raise notice '%', current_setting('w.x'); commit; raise notice '%', current_setting('w.x'); end $$;
do $$ begin commit; rollback; commit; commit and chain; rollback and chain; end $$;
create procedure empty() language plpgsql as $$ begin end $$; call empty();
do $$ #variable_conflict use_column
declare a int := 5; begin insert into t1 values (77, 'vc'); commit; update t1 set b = 'got' where a = a and t1.a = 77; commit; end $$; select * from t1 where a = 77;
do $$ declare a int := 77; begin commit; delete from t1 where a = a; end $$;
select count(*) from t1;
\bind 3 'ext' \g
call twice($1, $2) \bind 3 'ext' \g
select * from t1 where b = 'ext' order by a;
create procedure getp(inout a int, inout b timestamptz default '2020-01-01 00:00+00', inout c numeric(5,1) default 2.55) language plpgsql as $$ begin commit; a := a + 1; end $$;
call getp($1) \bind 3 \g
call getp(4, null);
call getp(4) \; select 1;
select 1 \; call getp(4);
do $$ declare x int; y timestamptz; z numeric; begin x := 4; call getp(x, y, z); raise notice '% % %', x, y, z; call getp(c => z, a => x, b => y); raise notice '% % %', x, y, z; end $$;
do $$ begin call getp(4); end $$;
do $$ begin call nosuch(); commit; end $$;
do $$ begin call getp('x', now(), 1); commit; end $$;
do $$ declare x int[] := '{1,2}'; y record; begin select 1 as p, now() as q into y; call getp(x[2], y.q, y.p); commit; end $$;
do $$ declare x int[] := '{1,2}'; y record; t timestamptz; n numeric; begin select 1 as p into y; call getp(x[2], t, n); call getp(y.p, t, n); commit; raise notice '% %', x, y; end $$;
do $$ begin begin perform 1/0; exception when others then rollback; raise; end; end $$;
do $$ begin begin insert into t1 values (1, 'x'); raise exception using errcode='22222', message='m', detail='d', hint='h', table='tt'; exception when others then rollback; raise notice 'x'; if true then raise; end if; end; end $$;
do $$ declare m text; d text; s text; c text; begin begin perform 1/0; exception when division_by_zero then commit; get stacked diagnostics m = message_text, d := pg_exception_detail, s = returned_sqlstate, c = pg_exception_context; raise notice '% % % %', m, d, s, c; begin perform 'x'::int; exception when others then get stacked diagnostics m = message_text; raise notice '%', m; end; get stacked diagnostics m = message_text; raise notice '%', m; end; end $$;
do $$ begin commit; raise; end $$;
do $$ declare x text; begin commit; get stacked diagnostics x = message_text; end $$;
create procedure er() language plpgsql as $$
begin
  begin
    perform 1/0;
  exception when others then
    rollback;
    insert into t1 values (88, sqlerrm);
    commit;
    raise;
  end;
end $$;
call er(); select * from t1 where a = 88;
do $$ begin call er(); end $$;
do $$ declare a int[] := array[[1,2],[3,null]]; x int[]; begin foreach x slice 1 in array a loop raise notice '%', x; commit; end loop; raise notice '% %', found, x; end $$;
do $$ declare a text[] := array[['a"b', 'c,d'],['\', '']]; x text[]; begin <<l>> foreach x slice 2 in array a loop raise notice '%', x; commit; exit l; end loop; raise notice '% %', found, x; end $$;
do $$ declare a int[]; x int[]; begin foreach x slice 1 in array a loop commit; end loop; end $$;
do $$ declare a int[] := '{}'; x int[] := '{9}'; begin foreach x slice 1 in array a loop commit; end loop; raise notice '% %', found, x; end $$;
do $$ declare a int[] := '{1,2}'; x int[]; begin foreach x slice 2 in array a loop commit; end loop; end $$;
create procedure later(inout s timestamptz) language plpgsql as $$ begin commit; s := pg_catalog.statement_timestamp(); end $$;
do $$ declare s timestamptz := statement_timestamp(); t timestamptz := now(); u timestamptz; begin
  assert s = t; perform pg_sleep(0.001); commit; assert s = statement_timestamp (); assert now() > t; assert clock_timestamp() > s;
  execute 'select 1' into u; exception when others then raise notice 'not here %', sqlerrm; end $$;
do $$ declare s timestamptz := statement_timestamp(); u timestamptz; begin commit; perform pg_sleep(0.001); call later(u); assert s = u; raise notice 'same'; end $$;
do $$ declare r record; begin select from t1 limit 1 into r; commit; raise notice '% %', r, found; end $$;
set default_transaction_isolation = 'serializable';
do $$ begin commit; commit and chain; raise notice '%', current_setting('transaction_isolation'); rollback; set transaction isolation level read committed; commit and chain; raise notice '%', current_setting('transaction_isolation'); commit; raise notice '%', current_setting('transaction_isolation'); end $$;
reset default_transaction_isolation;
create procedure ends(inout k int) language plpgsql as $$ begin commit; k := k + 1; end $$;
do $$ declare r record; k int := 1; begin for r in update t1 set b = b where a = 1 returning * loop call ends(k); end loop; end $$;
do $$ declare r record; k int := 1; begin for r in delete from t1 returning * loop call ends(k => k); end loop; raise notice 'none %', k; end $$;
create procedure loops() language plpgsql as $$ declare r record; k int := 1; begin for r in update t1 set b = b returning * loop call ends(k); end loop; end $$;
call loops();
DROP SCHEMA ends CASCADE;
