-- Rows that are referred to are deleted, and the table that refers to them is dropped, in one transaction.
CREATE TABLE author (id integer PRIMARY KEY, name text);
CREATE TABLE book (id integer PRIMARY KEY, author integer,
                   CONSTRAINT book_author FOREIGN KEY (author) REFERENCES author DEFERRABLE INITIALLY DEFERRED);
INSERT INTO author VALUES (1, 'Ada'), (2, 'Ben'), (3, 'Cy');
INSERT INTO book VALUES (1, 1);
BEGIN;
DELETE FROM author WHERE id = 1;
COMMIT;
BEGIN;
DELETE FROM author WHERE id = 1;
DROP TABLE book;
COMMIT;
SELECT * FROM author ORDER BY id;
CREATE TABLE book (id integer PRIMARY KEY, author integer,
                   CONSTRAINT book_author FOREIGN KEY (author) REFERENCES author DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO book VALUES (1, 99);
ALTER TABLE book DROP CONSTRAINT book_author;
ROLLBACK;
BEGIN;
INSERT INTO book VALUES (2, 99);
DROP TABLE book;
COMMIT;
INSERT INTO book VALUES (3, 3);
BEGIN;
DELETE FROM author WHERE id = 3;
SAVEPOINT before;
DROP TABLE book;
ROLLBACK TO before;
COMMIT;
SELECT * FROM author ORDER BY id;
DROP TABLE book;
DROP TABLE author;
