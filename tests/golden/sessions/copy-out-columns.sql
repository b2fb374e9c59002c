-- Which columns COPY of a table gives, and what it says of those that it does not.
CREATE SCHEMA copied_out;
SET search_path = copied_out;
CREATE TABLE c (a int, b text, g int GENERATED ALWAYS AS (a * 2) STORED, w int GENERATED ALWAYS AS (a * 3) VIRTUAL);
INSERT INTO c VALUES (1, 'x'), (2, NULL);
COPY c TO STDOUT;
COPY c TO STDOUT (FORMAT csv, HEADER);
COPY c (b, a) TO STDOUT (FORMAT csv, HEADER);
COPY (SELECT * FROM c ORDER BY a) TO STDOUT;
COPY c (g) TO STDOUT;
COPY c (w) TO STDOUT;
COPY c (a, nosuch) TO STDOUT;
COPY c (a, a) TO STDOUT;
COPY c (a, b) TO STDOUT (FORMAT csv, FORCE_QUOTE (b));
COPY c (a) TO STDOUT (FORMAT csv, FORCE_QUOTE (b));
COPY c TO STDOUT (FORMAT csv, FORCE_QUOTE (nosuch));
COPY (SELECT a FROM c) TO STDOUT (FORMAT csv, FORCE_QUOTE (b));
CREATE TABLE d (a int);
\copy c (a, b) to pstdout
