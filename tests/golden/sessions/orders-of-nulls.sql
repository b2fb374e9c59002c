-- Where NULLs come, in orders, in the rows that a limit leaves, and in windows.
CREATE TABLE ranked (id integer, n integer, t text);
INSERT INTO ranked VALUES (1, 10, 'a'), (2, NULL, 'b'), (3, 30, NULL), (4, NULL, NULL), (5, 20, 'c');
SELECT n, id FROM ranked ORDER BY n, id;
SELECT n, id FROM ranked ORDER BY n DESC, id;
SELECT n, id FROM ranked ORDER BY n NULLS FIRST, id;
SELECT n, id FROM ranked ORDER BY n DESC NULLS LAST, id;
SELECT n, t FROM ranked ORDER BY t DESC NULLS FIRST, n NULLS FIRST;
SELECT n, id FROM ranked ORDER BY n DESC, id DESC LIMIT 3;
SELECT n, id FROM ranked ORDER BY n NULLS FIRST, id OFFSET 1 LIMIT 2;
SELECT id, row_number() OVER (ORDER BY n DESC, id), first_value(id) OVER (ORDER BY n NULLS FIRST, id) FROM ranked ORDER BY id;
SELECT array_agg(id ORDER BY n DESC, id), string_agg(coalesce(t, '-'), '' ORDER BY t NULLS FIRST, id) FROM ranked;
SELECT DISTINCT n FROM ranked ORDER BY n DESC;
SELECT n, count(*) FROM ranked GROUP BY n ORDER BY n DESC;
SELECT n FROM ranked UNION ALL SELECT NULL ORDER BY 1 DESC;
SELECT (SELECT id FROM ranked i WHERE i.id <> o.id ORDER BY n DESC, id LIMIT 1) FROM ranked o ORDER BY id;
DROP TABLE ranked;
