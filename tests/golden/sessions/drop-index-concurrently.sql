-- DROP INDEX CONCURRENTLY of what is not there, of a temporary table's, and of what it does not do.
create table ledger (id integer, note text);
insert into ledger values (1, 'a');
create index ledger_id on ledger (id);
create index concurrently ledger_note on ledger (note);
create temporary table scratch (id integer);
create index concurrently scratch_id on scratch (id);
drop index concurrently if exists no_such_index;
drop index concurrently no_such_index;
drop index concurrently scratch_id;
drop index concurrently no_such_index, scratch_id;
drop index concurrently if exists no_such_index, ledger_id;
drop index concurrently if exists ledger_id;
drop index concurrently if exists ledger_id;
drop index concurrently if exists no_such_schema.ledger_id;
begin;
drop index concurrently if exists no_such_index;
rollback;
begin;
drop index concurrently scratch_id;
rollback;
drop index concurrently ledger_note;
drop index concurrently ledger;
\d ledger
drop table ledger;
