-- Prepared statements outlive a table's being dropped and made anew: they go by its name.
CREATE TABLE kept (x text);
ALTER TABLE kept ADD COLUMN y int \parse add
ALTER TABLE kept ALTER COLUMN x TYPE int USING x::int \parse retype
CREATE INDEX kept_x ON kept (x) \parse index
ALTER TABLE kept ADD PRIMARY KEY (x) \parse key
TRUNCATE kept \parse emptied
ALTER TABLE kept RENAME TO moved \parse moved
LOCK TABLE kept \parse locked
ANALYZE kept \parse analysed
SELECT x FROM kept \parse read
SELECT * FROM kept \parse whole
INSERT INTO kept VALUES ($1) RETURNING x \parse put
UPDATE kept SET x = '3' RETURNING x \parse changed
DELETE FROM kept RETURNING x \parse gone
\bind_named add \g
\bind_named retype \g
\bind_named index \g
\bind_named key \g
\bind_named put 5 \g
\bind_named whole \g
DROP TABLE kept;
\bind_named add \g
\bind_named read \g
CREATE TABLE kept (x text);
INSERT INTO kept VALUES ('1');
\bind_named whole \g
\bind_named put 2 \g
\bind_named read \g
\bind_named add \g
\bind_named whole \g
\bind_named retype \g
\bind_named read \g
\bind_named index \g
\bind_named key \g
\bind_named analysed \g
\bind_named locked \g
BEGIN;
\bind_named locked \g
\bind_named emptied \g
\bind_named put 7 \g
ROLLBACK;
DROP TABLE kept;
CREATE TABLE kept (x text);
INSERT INTO kept VALUES ('1'), ('2');
BEGIN;
\bind_named add \g
\bind_named add \g
\bind_named read \g
ROLLBACK;
\bind_named changed \g
\bind_named gone \g
\bind_named moved \g
SELECT * FROM moved;
\bind_named read \g
\close_prepared read
\bind_named read \g
DEALLOCATE put;
\bind_named put 1 \g
DISCARD ALL;
\bind_named add \g
DROP TABLE moved;
