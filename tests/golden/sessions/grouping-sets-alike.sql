-- Keys of grouping sets that mean the same are keys of their own, whichever engine computes.
create table sale (a integer, b integer, c integer, x boolean, y boolean, s text, r text, d double precision);
insert into sale values (1, 1, 1, true, false, 'p', 'q', 1e16), (2, 2, 2, false, true, 'q', 'p', -1e16),
    (2, 1, 3, true, true, 'p', 'p', 1), (null, 1, 4, null, true, null, 'p', null);
set sluice.engine = 'spark';
select a + b, b, sum(c) from sale group by grouping sets ((a + b), (b + a), (b)) order by 1, 2, 3;
select a + b, b + a, sum(c) from sale group by rollup (a + b, b + a) order by 1, 2, 3;
select a + b, b + a, grouping(a + b), grouping(b + a), grouping(b + a, a + b), sum(c) from sale
    group by grouping sets ((a + b), (b + a)) order by 1, 2, 3, 4, 5, 6;
select a = b, b = a, count(*) from sale group by cube ((a = b), (b = a)) order by 1, 2, 3;
select a > b, count(*) from sale group by grouping sets ((a > b), (b < a), (not (a <= b))) order by 1, 2;
select x and y, count(*) from sale group by grouping sets ((x and y), (y and x), ()) order by 1, 2;
select greatest(a, b), count(*) from sale group by grouping sets ((greatest(a, b)), (greatest(b, a))) order by 1, 2;
select a in (1, 2), count(*) from sale group by grouping sets ((a in (1, 2)), (a in (2, 1))) order by 1, 2;
select s || '' = r, sum(c), sum(a + b) from sale group by grouping sets ((s || '' = r), (r = s || '')) order by 1, 2;
select coalesce(a + b, 0), count(*) from sale group by grouping sets ((a + b), (b + a)) having a + b is not null order by 1;
select a + b, a, count(*) filter (where a + b > 2), sum(b + a) from sale group by grouping sets ((a + b, a), (b + a)) order by 1, 2, 3, 4;
select a, a, sum(c) from sale group by rollup (a, a) order by 1, 3;
select p.a, count(*) from sale p join sale q on p.a = q.a group by grouping sets ((p.a), (q.a)) order by 1, 2;
select (d + p.e) + p.f, d + (p.e + p.f), count(*) from sale, (values (-1e16::double precision, 1::double precision)) as p (e, f)
    group by grouping sets (((d + p.e) + p.f), (d + (p.e + p.f))) order by 1, 2, 3;
select (select count(*) from (select a + t.b from sale group by grouping sets ((a + t.b), (t.b + a))) as g) from sale as t order by 1;
drop table sale;
