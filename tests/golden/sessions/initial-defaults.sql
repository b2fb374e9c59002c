-- What rows that are there get in a new column with a constant default: whatever the calendar has, too.
create table visit (id integer primary key);
insert into visit values (1), (2);
alter table visit add opens time default '08:30', add closes time default '24:00',
    add since date default '-infinity', add until timestamp default 'infinity', add found date default '0044-03-15 BC',
    add seen timestamptz default '294246-01-01 00:00:00+00', add born timestamp default '4713-01-01 00:00:00.25 BC',
    add far date default '12345-06-07', add changed timestamptz default '2020-01-01 00:00:00+05:30';
insert into visit (id, opens) values (3, '09:15');
set timezone to 'UTC';
select * from visit order by id;
select id from visit where closes = '24:00' and until > '9999-12-31' and found < '0001-01-01' order by id;
select opens, count(*) from visit group by opens order by opens;
-- Files are written anew with it.
alter table visit add pause interval default '1 hour 30 minutes';
update visit set opens = '10:00' where id = 2;
select * from visit order by id;
alter table visit alter opens type text, alter found type text, alter seen type text;
select id, opens, found, seen from visit order by id;
alter table visit add unique (id, closes, until);
insert into visit (id) values (1);
insert into visit (id, closes) values (1, '12:00');
vacuum full visit;
select id, opens, closes, since, until, found, seen, born, far, changed from visit order by id;
drop table visit;
-- And where Spark reads the files.
create table many (id integer primary key, note text);
insert into many select n, repeat('x', 100) from generate_series(1, 5000) n;
alter table many add opens time default '08:30', add closes time default '24:00', add until timestamp default 'infinity',
    add found date default '0044-03-15 BC', add seen timestamptz default '-infinity', add bits bytea default '\x00ff',
    add open boolean default true, add price numeric(10, 2) default 1.5, add any_price numeric default 'NaN';
delete from many where id % 1000 = 7;
select count(*), opens, closes, until, found, seen, bits, open, price, any_price
    from many group by opens, closes, until, found, seen, bits, open, price, any_price;
select id, closes from many where id between 4005 and 4009 order by id;
select count(*) from many where closes = '08:30' or not open;
alter table many add pause interval default '1 day';
select count(*), closes, found, pause from many group by closes, found, pause;
drop table many;
