-- Every type, with nulls, extremes, infinities and NaN, by every way in; its order, its groups, and what equals what.
CREATE SCHEMA by_every_way;
SET search_path = by_every_way;
CREATE TABLE kind (
    k integer, i2 smallint, i4 integer, i8 bigint, n numeric(12, 3), w numeric(38, 10), m numeric, f4 real, f8 double precision, t text,
    v varchar(6), c char(4), b bytea, o boolean, d date, h time, ts timestamp, tz timestamptz, iv interval, u uuid, j json, jb jsonb,
    ai integer[], at text[], an numeric[], af double precision[], ab bytea[], ad date[], az timestamptz[], av interval[], aj jsonb[], au uuid[], ac char(3)[], ao boolean[]
);
COPY kind FROM STDIN;
1	-32768	-2147483648	-9223372036854775808	-999999999.999	-9999999999999999999999999999.9999999999	-Infinity	-Infinity	-Infinity			    	\\x	f	-infinity	00:00	-infinity	-infinity	-infinity	00000000-0000-0000-0000-000000000000	{}	{}	{}	{}	{}	{}	{}	{}	{}	{}	{}	{}	{}	{}
2	32767	2147483647	9223372036854775807	999999999.999	9999999999999999999999999999.9999999999	NaN	NaN	NaN	NULL	ünïcöd	ab	\\x00ff5c27	t	infinity	24:00	infinity	infinity	infinity	FFFFFFFF-ffff-ffff-ffff-ffffffffffff	{"a": [1, 2.50, null]}	{"b": 1.10, "a": "x"}	{2147483647,NULL,-2147483648}	{"a b","",NULL,"NULL","q\\"\\\\"}	{1.50,NaN,-Infinity,1e-30}	{NaN,-0,Infinity,5e-324}	{"\\\\x","\\\\x00ff",NULL}	{infinity,-infinity,"0044-03-15 BC"}	{infinity,"2024-02-29 12:00:00.000001+00"}	{"1 mon -1 days",infinity,NULL}	{"{\\"a\\": 1}",null,NULL}	{ffffffff-ffff-ffff-ffff-ffffffffffff,NULL}	{a,"   ",abc}	{t,f,NULL}
3	0	0	0	0	0	0.000	-0	-0	x	abc   	abc 	\\x00	\N	4713-01-01 BC	23:59:59.999999	4713-01-01 00:00:00 BC	4713-01-02 00:00:00+00 BC	-178000000 years	6BA7B810-9DAD-11D1-80B4-00C04FD430C8	 null 	null	{NULL}	{NULL}	{NULL}	{NULL}	{NULL}	{NULL}	{NULL}	{NULL}	{NULL}	{NULL}	{NULL}	{NULL}
4	1	1	1	0.001	0.0000000001	1e-131	1e-45	5e-324	\\N	\\	\\.	\\x41	t	5874897-12-31	12:34:56.5	294246-12-31 23:59:59.999999	294246-12-31 23:59:59.999999+00	178000000 years	00000000-0000-0000-0000-000000000001	"\\u00e9"	[1,  2]	{1}	{a}	{1}	{1}	{"\\\\x01"}	{2024-01-01}	{2024-01-01}	{"1 day"}	{"1"}	{00000000-0000-0000-0000-000000000001}	{x}	{t}
5	-1	-1	-1	-0.001	-0.0000000001	-1e100	3.4028235e38	1.7976931348623157e308	tab\tnew\nline\r "q" ' \\ € 😀	é😀	é😀	\\xdeadbeef	f	9999-12-31	00:00:00.000001	9999-12-31 23:59:59.999999	1883-11-18 12:00:00+00	-00:00:00.000001	12345678-1234-1234-1234-123456789abc	[]	"s"	{3,2,1}	{b,a}	{2.0,2.00}	{0.1,1e300}	{"\\\\x41"}	{9999-12-31}	{9999-12-31}	{"-1 day"}	{"[]"}	{12345678-1234-1234-1234-123456789abc}	{é}	{f}
6	1	1	1	1.000	1	1.00	1	1	a	a	a	\\x61	t	2000-01-01	06:00	2000-01-01 00:00:00	2000-01-01 00:00:00+00	30 days	00000000-0000-0000-0000-000000000002	1	1.0	{1}	{a}	{1.0}	{1}	{"\\\\x61"}	{2000-01-01}	{2000-01-01}	{"1 mon"}	{"1.0"}	{00000000-0000-0000-0000-000000000002}	{a}	{t}
7	1	1	1	1	1.0	1	0.1	0.1	A	A	A	\\x4142	t	2000-01-01	06:00	2000-01-01 00:00:00	2000-01-01 01:00:00+01	1 mon	00000000-0000-0000-0000-000000000002	1.0	1	{1,2}	{a,b}	{1}	{0.1}	{"\\\\x4142"}	{2000-01-01,2000-01-02}	{2000-01-01}	{"30 days"}	{"1"}	{00000000-0000-0000-0000-000000000002}	{A}	{t,t}
8	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N
\.
COPY kind TO STDOUT;
CREATE TABLE by_select AS SELECT * FROM kind WHERE k > 0;
COPY by_select TO STDOUT;
CREATE TABLE by_insert (LIKE kind);
INSERT INTO by_insert SELECT * FROM kind;
INSERT INTO by_insert SELECT k + 10, i2, i4, i8, n, w, m, f4, f8, t, v, c, b, o, d, h, ts, tz, iv, u, j, jb, ai, at, an, af, ab, ad, az, av, aj, au, ac, ao FROM kind WHERE i2 IS NOT NULL;
COPY (SELECT * FROM by_insert ORDER BY k) TO STDOUT;
UPDATE by_insert SET i2 = i2, m = m, f4 = f4, f8 = f8, t = t, c = c, b = b, d = d, h = h, ts = ts, tz = tz, iv = iv, u = u, j = j, jb = jb, ai = ai, at = at, an = an, av = av, aj = aj WHERE k < 10;
UPDATE by_insert i SET (i8, n, w, f8, ts, iv, az) = (k.i8, k.n, k.w, k.f8, k.ts, k.iv, k.az) FROM kind k WHERE k.k = i.k;
COPY (SELECT * FROM by_insert ORDER BY k) TO STDOUT (FORMAT csv, FORCE_QUOTE *, NULL '-');
CREATE TABLE by_values (LIKE kind);
INSERT INTO by_values SELECT * FROM kind WHERE k > 100;
PREPARE put (integer, real, double precision, numeric, timestamp, timestamptz, interval, bytea, text[], numeric[]) AS
    INSERT INTO by_values (k, f4, f8, m, ts, tz, iv, b, at, an) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING k, f4, f8, m, ts, tz, iv, b, at, an;
EXECUTE put (1, 'NaN', '-Infinity', 'NaN', 'infinity', '-infinity', 'infinity', '\x00', '{NULL,""}', '{NaN,1.50}');
EXECUTE put (2, '-0', '-0', '-0', '4713-01-01 BC', '0001-01-01 00:00+00 BC', '-1 mon +1 day -00:00:01', '', '{}', '{}');
EXECUTE put (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT * FROM by_values ORDER BY k;
-- Orders: each type's own, its nulls and its extremes.
SELECT k FROM kind ORDER BY i2, k;
SELECT k FROM kind ORDER BY i8 DESC, k;
SELECT k FROM kind ORDER BY n, k;
SELECT k FROM kind ORDER BY w DESC NULLS LAST, k;
SELECT k, m FROM kind ORDER BY m, k;
SELECT k, f4 FROM kind ORDER BY f4, k;
SELECT k, f8 FROM kind ORDER BY f8 DESC, k;
SELECT k, t FROM kind ORDER BY t, k;
SELECT k, c FROM kind ORDER BY c, k;
SELECT k, b FROM kind ORDER BY b DESC, k;
SELECT k, o FROM kind ORDER BY o, k;
SELECT k, d FROM kind ORDER BY d, k;
SELECT k, h FROM kind ORDER BY h DESC, k;
SELECT k, ts FROM kind ORDER BY ts, k;
SELECT k, tz FROM kind ORDER BY tz DESC, k;
SELECT k, iv FROM kind ORDER BY iv, k;
SELECT k, u FROM kind ORDER BY u, k;
SELECT k, jb FROM kind ORDER BY jb, k;
SELECT k, ai FROM kind ORDER BY ai, k;
SELECT k, at FROM kind ORDER BY at DESC, k;
SELECT k, an FROM kind ORDER BY an, k;
SELECT k, af FROM kind ORDER BY af, k;
SELECT k, ad FROM kind ORDER BY ad, k;
SELECT k, av FROM kind ORDER BY av, k;
SELECT k, j FROM kind ORDER BY j::text, k;
SELECT k FROM kind ORDER BY j;
-- What equals what.
SELECT a.k, b.k FROM kind a JOIN kind b ON a.n = b.n WHERE a.k < b.k ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.m = b.m WHERE a.k < b.k ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.f8 = b.f8 WHERE a.k <= b.k ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.f4 = b.f8 ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.m = b.n ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.iv = b.iv WHERE a.k < b.k ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.tz = b.tz WHERE a.k < b.k ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.jb = b.jb WHERE a.k < b.k ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.an = b.an WHERE a.k < b.k ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.av = b.av WHERE a.k < b.k ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.c = b.c WHERE a.k < b.k ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.t = b.c ORDER BY 1, 2;
SELECT a.k, b.k FROM kind a JOIN kind b ON a.d = b.ts ORDER BY 1, 2;
SELECT k FROM kind WHERE f8 = 'NaN' OR f4 = '-Infinity' OR m = 'NaN' OR iv = 'infinity' OR ts = '-infinity' ORDER BY k;
SELECT k FROM kind WHERE f8 > 1e308 ORDER BY k;
SELECT k FROM kind WHERE m > 1 OR m < -1 ORDER BY k;
SELECT k FROM kind WHERE f8 = 0 AND f4 >= 0 ORDER BY k;
SELECT k FROM kind WHERE d > '9999-12-31' OR d < '0001-01-01' ORDER BY k;
SELECT k FROM kind WHERE h = '24:00' OR h < '00:00:01' ORDER BY k;
SELECT k FROM kind WHERE c = 'a' OR c = 'abc' OR c = '' ORDER BY k;
SELECT k FROM kind WHERE v = 'abc' OR t = '' ORDER BY k;
SELECT k FROM kind WHERE iv = '1 mon' OR iv < '-100000 years' ORDER BY k;
SELECT k FROM kind WHERE b > '\x41' ORDER BY k;
SELECT k FROM kind WHERE ai = '{1}' OR at = '{}' OR an @> '{NaN}' ORDER BY k;
SELECT f8, count(*) FROM kind GROUP BY f8 ORDER BY f8;
SELECT n, count(*), min(k) FROM kind GROUP BY n ORDER BY n;
SELECT count(*), min(k) FROM kind GROUP BY m ORDER BY 2;
SELECT count(*), min(k) FROM kind GROUP BY iv ORDER BY 2;
SELECT count(*), min(k) FROM kind GROUP BY jb ORDER BY 2;
SELECT count(*), min(k) FROM kind GROUP BY an ORDER BY 2;
SELECT count(DISTINCT i2), count(DISTINCT f8), count(DISTINCT m), count(DISTINCT iv), count(DISTINCT c), count(DISTINCT jb), count(DISTINCT av), count(DISTINCT tz) FROM kind;
SELECT min(i2), max(i8), min(n), max(w), min(m), max(m), min(f4), max(f4), min(f8), max(f8) FROM kind;
SELECT min(t), max(t), min(c), max(v), min(b), max(b), min(d), max(d), min(h), max(h), min(ts), max(ts), min(tz), max(tz), min(iv), max(iv) FROM kind;
SELECT min(u), max(u), min(ai), max(ai), min(at), max(an), bool_and(o), bool_or(o) FROM kind;
SELECT DISTINCT m FROM kind WHERE k IN (2, 8) ORDER BY 1;
SELECT jb FROM kind UNION SELECT jb FROM by_insert ORDER BY 1;
SELECT i2::text, i8::text, n::text, m::text, f4::text, f8::text, o::text, d::text, h::text, ts::text, iv::text, u::text, b::text FROM kind ORDER BY k;
SELECT ai::text, at::text, an::text, af::text, ab::text, ad::text, az::text, av::text, aj::text, ac::text, ao::text FROM kind ORDER BY k;
DELETE FROM by_insert WHERE f8 = 'NaN' OR m = '-Infinity';
SELECT k FROM by_insert ORDER BY k;
SET client_min_messages = warning;
DROP SCHEMA by_every_way CASCADE;
