-- Run by the catalog's image when its database is new, in that database, as its superuser: the role of clients. It is no
-- superuser: a superuser's SQL could reach the gateways' own metadata.
\getenv password SLUICE_PASSWORD
CREATE ROLE sluice LOGIN CREATEROLE PASSWORD :'password' IN ROLE pg_monitor;
ALTER DATABASE sluice OWNER TO sluice;
