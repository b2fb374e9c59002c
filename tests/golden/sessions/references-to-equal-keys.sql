-- A key becomes another that is equal to it, and yet not the same: actions of foreign keys follow.
create table unit (x numeric primary key, f float8 unique, c char(4) unique, n integer);
create table measure (id integer primary key, x numeric references unit on update cascade,
    f float8 references unit (f) on update cascade, c char(4) references unit (c) on update restrict);
insert into unit values (1.0, '-0', 'ab', 1), (2, 'NaN', 'cd', 1);
insert into measure values (1, 1, 0, 'ab'), (2, 2.00, 'NaN', 'cd');
update unit set x = 1.00, f = '0', c = 'ab ' where n = 1 and x = 1;
select * from measure order by id;
update unit set f = '-0' where x = 1;
update unit set f = f, x = x, c = c, n = 2;
select * from measure order by id;
alter table measure drop constraint measure_x_fkey, add foreign key (x) references unit on update restrict;
update unit set x = 1.000 where x = 1;
update unit set x = 1.00 where x = 1;
alter table measure drop constraint measure_x_fkey, add foreign key (x) references unit on update no action;
update unit set x = 1.000 where x = 1;
alter table measure drop constraint measure_x_fkey, add foreign key (x) references unit on update set null;
update unit set x = 1.000, n = 3 where x = 1;
update unit set x = 2.0 where x = 2;
select * from measure order by id;
select * from unit order by x;
drop table measure, unit;
