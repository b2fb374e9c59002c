-- Columns, keys and tables whose names are key words, so that they stand in quotes in all that PostgreSQL is asked.
create table "only" ("from" integer primary key, "case" text not null default 'x', "join" bigint check ("join" > 0), "into" text collate "C");
insert into "only" values (1, 'a', 2, 'b'), (2, default, 3, 'c') returning "from", "case";
insert into "only" ("from", "into", "join") select "from" + 10, "case", "join" from "only" returning *;
insert into "only" values (1, 'z', 1, 'z') on conflict ("from") do update set "case" = excluded."case" returning *;
update "only" set "case" = upper("case"), "join" = "only"."join" + 1 where "into" like 'b%';
delete from "only" where "from" = 2;
merge into "only" using (values (1, 'm'), (5, 'n')) as "update" ("from", "on") on "only"."from" = "update"."from"
    when matched then update set "into" = "on" when not matched then insert values ("update"."from", "on", 1, "on");
create table "select" ("where" integer references "only" on delete cascade, "with" integer generated always as ("where" * 2) stored);
insert into "select" values (1), (5);
insert into "select" values (4);
alter table "only" add "update" text default 'u', alter "join" type integer;
copy "only" from stdin (format csv);
30,in,7,"x",y
\.
select * from "only" order by "from";
select "from"."from", "only"."only" from "only" as "from" join (select 1 as "only") as "only" on "from"."from" = "only"."only";
create unique index "natural" on "only" ("into", "update");
insert into "only" values (31, 'i', 7, 'x', 'y');
delete from "only" where "from" in (select "where" from "select" where "with" = 2);
select * from "select";
drop table "only", "select";
-- Values of the session, whose type is name, beside rows.
create table "user" (id integer, owner name);
insert into "user" select n, 'somebody' from generate_series(1, 3) as n;
set sluice.engine = 'spark';
select current_user, id, session_user as s from "user" order by id;
select current_schema, current_catalog, user, current_role from "user" where id = 1;
select "current_user", count(*) from (select current_user, id from "user") as u group by 1;
insert into "user" select id + 10, current_user from "user" returning owner = current_user;
update "user" set owner = session_user where id = 1;
create table made as select current_user as "user", id from "user" where id < 3;
select "user" = current_user, pg_typeof("user"), id from made order by id;
copy (select current_schema, id from "user" order by id) to stdout;
begin;
declare c cursor for select current_schema, id from "user" order by id;
fetch 2 from c;
rollback;
create temporary table kept as select current_schema, id from "user";
select * from kept order by id;
select current_schema, id from "user" where id = 1 \gdesc
drop table "user", made, kept;
