"""What tests leave behind on a server that serves many of them.

Names in the schema `public`, roles and settings are everybody's: one that is left makes another test fail, or pass,
by the order in which they run. Each file's tests have to leave a server as they found it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

import psycopg
from psycopg import sql

from tests.servers import Server

# `pg_depend` has all that a schema contains. Schemas are not counted: each has a name of its test's own.
_OBJECTS: Final = """
SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
WHERE refclassid = 'pg_namespace'::regclass AND refobjid = to_regnamespace('public')
UNION ALL SELECT format('right %s of %s on schema %s', privilege_type, grantee::regrole, nspname)
          FROM pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) WHERE nspname = 'public'
UNION ALL SELECT format('right %s of %s on the database', privilege_type, grantee::regrole)
          FROM pg_database, aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE datname = current_database()
UNION ALL SELECT 'schema public with OID ' || oid FROM pg_namespace WHERE nspname = 'public'
UNION ALL SELECT 'role ' || rolname FROM pg_roles
UNION ALL SELECT format('membership of %s in %s', member::regrole, roleid::regrole) FROM pg_auth_members
UNION ALL SELECT format('setting %s of %s in %s', setconfig, setrole::regrole, setdatabase) FROM pg_db_role_setting
UNION ALL SELECT 'setting ' || name FROM pg_file_settings WHERE sourcefile ~ 'auto.conf'
UNION ALL SELECT 'default right of ' || defaclrole::regrole FROM pg_default_acl
UNION ALL SELECT 'extension ' || extname FROM pg_extension
UNION ALL SELECT 'event trigger ' || evtname FROM pg_event_trigger
UNION ALL SELECT 'wrapper ' || fdwname FROM pg_foreign_data_wrapper
UNION ALL SELECT 'server ' || srvname FROM pg_foreign_server
UNION ALL SELECT 'publication ' || pubname FROM pg_publication
UNION ALL SELECT 'language ' || lanname FROM pg_language
UNION ALL SELECT format('cast %s to %s', castsource::regtype, casttarget::regtype) FROM pg_cast WHERE oid >= 16384
UNION ALL SELECT 'large object ' || oid FROM pg_largeobject_metadata
UNION ALL SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts
"""
_SCHEMAS: Final = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'"
_NEW_ROLES: Final = "SELECT rolname FROM pg_roles WHERE oid >= 16384 AND rolname <> ALL (%s)"
_DROP_ROLE: Final = ("DROP OWNED BY {} CASCADE", "DROP ROLE {}")
# The schema itself stays: its OID is one that tests of `regnamespace` print.
_IN_PUBLIC: Final = """
SELECT CASE type WHEN 'composite type' THEN 'type' WHEN 'statistics object' THEN 'statistics' ELSE type END, identity
FROM pg_depend, pg_identify_object(classid, objid, objsubid)
WHERE refclassid = 'pg_namespace'::regclass AND refobjid = to_regnamespace('public') AND deptype = 'n'
"""
_RIGHTS_OF_PUBLIC: Final = (
    "ALTER SCHEMA public OWNER TO pg_database_owner",
    "GRANT ALL ON SCHEMA public TO pg_database_owner",
    "REVOKE ALL ON SCHEMA public FROM PUBLIC",
    "GRANT USAGE ON SCHEMA public TO PUBLIC",
)


class Leftovers:
    """What was on a server at the beginning. `url` is a superuser's, to the server's own PostgreSQL."""

    def __init__(self, server: Server, url: str) -> None:
        self.server = server
        self._url = url
        self._known = self.found()
        self._schemas = self._names(_SCHEMAS)
        self._roles = sorted(name.removeprefix("role ") for name in self._known if name.startswith("role "))

    def found(self) -> AbstractSet[str]:
        """All that is there now, in words."""
        return self._names(_OBJECTS)

    def _names(self, query: str) -> AbstractSet[str]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            return {name for (name,) in connection.execute(query.encode())}

    def differences(self) -> list[str]:
        """What is more or less than at the beginning. Asked again, it tells what came since."""
        found = self.found()
        more, less = sorted(found - self._known), sorted(self._known - found)
        self._known = found
        return [*(f"left on {self.server.name}: {name}" for name in more), *(f"gone: {name}" for name in less)]

    def clear(self) -> None:
        """Drop the schemas and roles that were not there at the beginning, and what is in the schema `public`.

        A client drops the schemas, the superuser the roles: one that another role has made need not be the client's.
        """
        with (
            psycopg.connect(self._url, autocommit=True) as superuser,
            psycopg.connect(self.server.url, autocommit=True) as client,
        ):
            for kind, identity in superuser.execute(_IN_PUBLIC.encode()).fetchall():
                client.execute(f"DROP {kind} IF EXISTS {identity} CASCADE".encode())
            if self.found() != self._known:
                for statement in _RIGHTS_OF_PUBLIC:
                    client.execute(statement.encode())
            for name in sorted(self._names(_SCHEMAS) - self._schemas):
                client.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
            for (name,) in superuser.execute(_NEW_ROLES, (self._roles,)).fetchall():
                for statement in _DROP_ROLE:
                    superuser.execute(sql.SQL(statement).format(sql.Identifier(name)))
