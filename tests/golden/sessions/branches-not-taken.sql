-- Subqueries of branches that are not taken have no errors, whichever engine computes.
create table part (id integer, zero integer, name text);
insert into part select n, 0, 'part ' || n from generate_series(1, 5) as n;
set sluice.engine = 'spark';
select coalesce(id, (select id / zero from part limit 1)) from part order by 1;
select case when id > 0 then id else (select id / zero from part limit 1) end from part order by 1;
select case when zero <> 0 then (select p.id / p.zero) else 7 end from part as p;
select id, id > 0 or (select id / zero from part limit 1) > 1 as yes from part order by id;
select id from part where id > 0 or (select id / zero from part limit 1) > 1 order by id;
select case when zero <> 0 then (select max(q.id / p.zero) from part as q) else 0 end from part as p;
select case when zero <> 0 then id in (select q.id / q.zero from part as q) else false end from part as p;
select case when zero <> 0 then exists (select from part as q where q.id / p.zero = 1) else false end from part as p;
select case when id = 3 then array(select p.id / q.zero from part as q where q.id > 9) end from part as p order by id;
-- One that may return several rows.
select id, case when zero <> 0 then (select q.id from part as q) else 0 end from part as p order by id;
select coalesce(id, (select id from part)) from part order by 1;
select id, case when id = 1 then (select q.name from part as q where q.id <= p.id) end from part as p order by id;
-- A value that is none.
select id, case when id > 9 then (select name::integer from part where id = p.id) else 1 end from part as p order by id;
-- Aggregates of branches that PostgreSQL leaves out before it begins.
select case 1 when 2 then sum(id / zero) else count(*) end from part;
select coalesce(7, max(id / zero)) from part;
-- What is needed has its error.
select case when count(*) > 0 then sum(id / zero) end from part;
select case when id > 0 then (select id / zero from part limit 1) else id end from part;
select (select id from part) from part;
select id from part where id = (select id from part);
select id, case when id = 2 then (select q.name from part as q where q.id <= p.id) end from part as p order by id;
-- An error's text is the error's own, whatever the query and its values look like.
select (select generate_series(1, 2)) from part;
update part set zero = (select generate_series(1, id));
select ('SLUICE:57P01:gone ' || name)::integer from part where id = 1;
-- Changes, copies and cursors.
update part as p set name = case when id > 9 then (select name from part) else 'new ' || id end where id > 3;
insert into part select id + 10, coalesce(zero, (select id / zero from part limit 1)), name from part where id > 4;
delete from part where id = 15 or id = 99 and (select id / zero from part limit 1) = 1;
update part set name = (select name from part) where id = 1;
copy (select coalesce(id, (select id / zero from part limit 1)), name from part order by id) to stdout;
create table made as select coalesce(id, (select id / zero from part limit 1)) as id from part;
select count(*) from made;
begin;
declare c cursor for select coalesce(id, (select id / zero from part limit 1)) from part order by id;
fetch 2 from c;
commit;
drop table made;
-- The first in an order is the one that any_value takes, and sums of floats are made in theirs.
create table float (id integer, grouped integer, d double precision, t text);
insert into float values (1, 1, 1e16, 'b'), (2, 1, 1, 'a'), (3, 1, -1e16, null), (4, 2, 1, 'd'), (null, 2, 1e-17, 'c');
select any_value(id order by id desc), any_value(id order by id desc nulls last), any_value(t order by id desc) from float;
select grouped, any_value(t order by d), any_value(t order by d desc) filter (where id > 1) from float group by 1 order by 1;
select any_value(distinct t), any_value(distinct t order by t desc), any_value(t order by id) from float where id < 9;
select any_value(id order by id) from float where id > 9;
select grouped, sum(d order by id), sum(d order by d), avg(d order by t desc) from float group by 1 order by 1;
select id, any_value(t) over (order by id desc rows between 1 preceding and current row) from float order by id;
drop table float, part;
