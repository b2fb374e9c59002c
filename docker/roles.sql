-- Run by the catalog's image when its database is new, in that database, as its superuser: the role of clients. It is no
-- superuser: a superuser's SQL could reach the gateways' own metadata.
\getenv password SLUICE_PASSWORD
CREATE ROLE sluice LOGIN CREATEROLE PASSWORD :'password' IN ROLE pg_monitor;
-- It administers other roles, so it has the last connections of each gateway, and may give them to others.
GRANT pg_use_reserved_connections TO sluice WITH ADMIN OPTION;
ALTER DATABASE sluice OWNER TO sluice;
