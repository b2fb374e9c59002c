-- Procedures and code blocks that end transactions, by every statement around COMMIT and ROLLBACK.
CREATE SCHEMA ending;
SET search_path = ending;
create table t (id int primary key, v text, n numeric(8,2) default 1.5);
create table log (at int, m text);
-- batches
create procedure purge(batch int, inout total int default 0) language plpgsql as $$
declare n int;
begin
  loop
    delete from t where id in (select id from t order by id limit batch);
    get diagnostics n = row_count;
    exit when n = 0;
    total := total + n;
    insert into log values (total, format('batch of %s', n));
    commit;
  end loop;
end
$$;
insert into t select i, 'v' || i from generate_series(1, 25) i;
call purge(10);
call purge(10, null);
select * from log order by 1; select count(*) from t;
insert into t select i, 'v' || i from generate_series(1, 25) i;
-- loops of all kinds
do $$
declare r t%rowtype; a int; b text; c cursor (x int) for select * from t where id <= x order by id; q record; arr int[] := array[3,1,2]; e int;
begin
  for r in select * from t order by id limit 3 loop
    update t set v = r.v || '!' where id = r.id; commit;
  end loop;
  for a, b in select id, v from t order by id limit 2 loop raise notice '% %', a, b; rollback; end loop;
  for x in c(2) loop raise notice 'x %', x; update t set n = n + 1 where id = x.id; commit; end loop;
  raise notice 'found %', found;
  foreach e in array arr loop insert into log values (e, 'e'); commit; end loop;
  for i in reverse 5..1 by 2 loop insert into log values (i, 'rev'); if i = 3 then rollback; else commit; end if; end loop;
  for q in execute 'select id, v from t where id < $1 order by 1' using 3 loop raise notice 'q %', q; commit; end loop;
  for q in select * from t where id = -1 loop commit; end loop;
  raise notice 'none % %', found, q;
  while a < 5 loop a := a + 1; continue when a = 4; insert into log values (a, 'while'); commit; end loop;
  <<o>> for i in 1..3 loop
    for j in 1..3 loop
      continue o when j = 2; exit o when i = 3; insert into log values (i*10+j, 'nest'); commit;
    end loop;
  end loop;
  case when a = 5 then commit; insert into log values (5, 'case'); else rollback; end case;
  case a when 1, 2 then commit; when 5 then insert into log values (55, 'case'); commit; end case;
end $$;
select * from log order by at, m; select * from t where id < 5 order by id;
do $$ begin case 1 when 2 then commit; end case; end $$;
do $$ begin for i in null..3 loop commit; end loop; end $$;
do $$ begin for i in 1..3 by 0 loop commit; end loop; end $$;
do $$ declare a int[]; x int; begin foreach x in array a loop commit; end loop; end $$;
do $$ begin for i in 1..3 loop commit; perform 1/(2-i); end loop; end $$;
-- exit label of blocks, return
do $$
<<outer>>
declare v int := 1;
begin
  <<inner>>
  declare v int := 2; w constant text := 'w' || outer.v; d date not null := date '2020-01-01';
  begin
    raise notice '% % % %', v, outer.v, w, d; commit;
    v := v + 1; outer.v := 10; d := d + 1; commit;
    raise notice '% % % %', inner.v, outer.v, w, d;
    exit inner; raise notice 'not here';
  end;
  commit; raise notice 'v %', v; 
  if v = 10 then return; end if; raise notice 'never';
end $$;
-- unique violations and exceptions between
do $$
begin
  insert into t values (100, 'x'); commit;
  begin insert into t values (100, 'y'); exception when unique_violation then raise notice 'caught %', sqlerrm; end;
  commit;
  insert into t values (101, 'z'); commit;
  insert into t values (100, 'w');
end $$;
select id, v from t where id >= 100 order by 1;
-- handlers
do $$
begin
  for i in 1..3 loop
    begin
      insert into t values (99 + i, 'h' || i);
    exception when unique_violation then insert into log values (99 + i, 'dup ' || sqlstate); commit;
    end;
  end loop;
end $$;
select id, v from t where id >= 100 order by 1; select * from log where at >= 99 order by 1;
-- nested
create procedure leaf(i int, out o text) language plpgsql as $$ begin insert into log values (i, 'leaf'); commit; o := 'out' || i; if i = 3 then raise exception 'three'; end if; end $$;
create procedure mid(a int, b int default 7, inout c text default 'd') language plpgsql as $$ declare z text; begin call leaf(a, z); c := c || z || b; call leaf(i => b, o => c); raise notice '% %', z, c; end $$;
call mid(200);
call mid(201, c => 'k');
call mid(b => 3, a => 202);
select * from log where at in (3, 7) or at >= 200 order by 1, 2;
do $$ begin execute 'call leaf(300, null)'; commit; end $$;
do $x$ begin do $y$ begin insert into log values (301, 'do'); commit; perform 1/0; end $y$; end $x$;
select * from log where at >= 300 order by 1;
begin; call leaf(1, null); rollback;
create function bad() returns int language plpgsql as $$ begin call leaf(1, null); return 1; end $$;
select bad();
create procedure definer() language plpgsql security definer as $$ begin commit; end $$;
call definer();
create procedure setting() language plpgsql set work_mem = '1MB' as $$ begin commit; end $$;
call setting();
create procedure callsdefiner() language plpgsql as $$ begin insert into log values (400, 'before'); commit; call definer(); end $$;
call callsdefiner(); select * from log where at = 400;
-- isolation
do $$ begin commit; set transaction isolation level serializable; raise notice '%', current_setting('transaction_isolation'); commit; raise notice '%', current_setting('transaction_isolation'); set transaction isolation level repeatable read;  raise notice '%', current_setting('transaction_isolation'); commit and chain; raise notice '%', current_setting('transaction_isolation'); commit; set transaction read only; insert into log values (1,'ro'); end $$;
-- types
create type mood as enum ('sad', 'ok'); create type pair as (a int, b text);
do $$
declare m mood := 'ok'; p pair := row(1, 'x,"y'); f float8 := 0.1::float8 + 0.2; ts timestamptz := '2020-02-03 04:05:06.789+02'; iv interval := '1 mon -2 days 03:04:05'; b bytea := '\x00ff'; j jsonb := '{"a": "it''s \\ back"}'; ar text[] := array['a,b', null, 'c"d', '\']; nn numeric(5,2) := 3.14159; ch char(5) := 'ab'; r record; em text := ''; u uuid := '6f1e7f70-0000-4000-8000-000000000001';
begin
  select 1 as one, 'two' as two, null::date as three, array[1,2] as four into r;
  commit;
  raise notice '% % % % % % % % % [%] % [%] %', m, p, f, ts, iv, b, j, ar, nn, ch, r, em, u;
  r.two := 'zwei'; p.b := 'new'; ar[2] := 'set'; commit;
  raise notice '% % % %', r, p, ar, pg_typeof(r.one);
  set datestyle = 'German'; set local intervalstyle = 'sql_standard'; ts := ts + iv; commit; raise notice '% %', ts, iv;
end $$;
reset datestyle;
-- ddl and temp
do $$ begin create table made (y int unique deferrable initially deferred); commit; insert into made values (1); commit; insert into made values (1); insert into made values (2); commit; insert into made values (3); end $$;
select * from made;
do $$ begin create temp table tt (x int); insert into tt values (1); commit; insert into tt select x+1 from tt; commit; end $$; select * from tt order by 1;
-- syntax errors before anything
do $$ begin insert into log values (500, 'x'); commit; selec 1; end $$;
select * from log where at = 500;
do $$ begin insert into log values (501, 'x'); commit; perform nothing_such(); end $$;
select * from log where at = 501;
do $$ begin commit; return 1; end $$;
do $$ declare r record; begin commit; raise notice '%', r.x; end $$;
do $$ declare r record; begin raise notice '%', r; commit; raise notice '%', r; end $$;
call leaf(1);
call leaf('x', null);
call leaf(1/0, null);
-- privileges
create procedure poly(a anyelement, inout b anyelement) language plpgsql as $$ begin commit; b := a; end $$;
call poly(3, 4); call poly('a'::text, 'b');
create procedure vari(variadic x int[]) language plpgsql as $$ begin commit; insert into log select e, 'vari' from unnest(x) e; commit; end $$;
call vari(601, 602); call vari(variadic array[603]); select * from log where at > 600 order by 1;
create procedure noname(int, text) language plpgsql as $$ begin insert into log values ($1, $2); commit; insert into log values ($1 + 1, $2); end $$;
call noname(701, 'nn'); select * from log where at > 700 order by 1;
DROP SCHEMA ending CASCADE;
