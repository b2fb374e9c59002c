-- A key, and a foreign key that refers to it, in one statement; over rows that are there.
create table part (id integer not null, parent integer, name text);
insert into part values (1, null, 'car'), (2, 1, 'wheel'), (3, 2, 'rim');
alter table part add primary key (id), add foreign key (parent) references part;
insert into part values (4, 9, 'seat');
delete from part where id = 1;
\d part
alter table part drop constraint part_pkey cascade;
alter table part add foreign key (parent) references part (id), add unique (id);
update part set id = 7 where id = 2;
alter table part drop constraint part_id_key cascade;
-- What does not hold is said, and nothing is left behind.
insert into part values (4, 9, 'seat');
alter table part add primary key (id), add constraint whole foreign key (parent) references part on delete cascade;
\d part
update part set parent = 1 where id = 4;
insert into part values (4, 1, 'door');
alter table part add constraint whole foreign key (parent) references part (id), add constraint known unique (id);
delete from part where name = 'door';
alter table part add primary key (id), add constraint whole foreign key (parent) references part on delete cascade,
    add check (id > 0), alter name type varchar(20);
delete from part where id = 2;
select * from part order by id;
drop table part;
-- A key by an index that is there, and another type for its column.
create table stock (id integer, place text, amount integer);
insert into stock values (1, 'a', 10), (2, 'b', 20);
create unique index stock_id on stock (id);
create unique index stock_place on stock (place);
alter table stock add primary key using index stock_id, alter id type bigint, alter amount type text;
alter table stock add constraint placed unique using index stock_place, alter place type varchar(10),
    add constraint some check (amount <> '');
insert into stock values (1, 'c', '5');
insert into stock values (3, 'b', '5');
insert into stock values (3, 'c', '5');
select * from stock order by id;
\d stock
drop table stock;
