-- Dates that are no timestamps: what PostgreSQL makes one of is 22008.
CREATE TABLE far (id integer, d date);
INSERT INTO far VALUES (1, '2024-02-29'), (2, 'infinity'), (3, '300000-03-04'), (4, '294276-12-31'), (5, NULL);
SELECT date_part('month', d) FROM far WHERE id = 3;
SELECT id, date_part('month', d), date_part('year', d) FROM far WHERE id <> 3 ORDER BY id;
SELECT id, extract(month FROM d) FROM far ORDER BY id;
