-- What errors and notices of a foreign key's action tell, where the client asks for parameters in them.
CREATE SCHEMA ctx; SET search_path = ctx;
SET log_parameter_max_length_on_error = -1; SET log_parameter_max_length = -1;
CREATE TABLE parent (id integer PRIMARY KEY);
CREATE TABLE child (id integer PRIMARY KEY, p integer NOT NULL REFERENCES parent ON DELETE SET NULL ON UPDATE CASCADE, secret text CHECK (p < 100));
INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (1, 1, 'told to nobody'), (2, 2, 'nor this');
CREATE ROLE ctx_low; GRANT ctx_low TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;
GRANT USAGE ON SCHEMA ctx TO ctx_low; GRANT SELECT, UPDATE, DELETE ON parent TO ctx_low;
SET ROLE ctx_low;
DELETE FROM parent WHERE id = 1;
UPDATE parent SET id = 101 WHERE id = 1;
SELECT * FROM child;
RESET ROLE;
DELETE FROM parent WHERE id = 1;
UPDATE parent SET id = 101 WHERE id = 1;
SELECT * FROM child ORDER BY id;
DROP TABLE child, parent; DROP SCHEMA ctx CASCADE; DROP ROLE ctx_low;
