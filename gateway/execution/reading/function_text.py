"""The text of a function of a client's, as an SQL expression over `pg_proc p`: names and words to be searched.

A body in SQL-standard form has no text. `pg_get_function_sqlbody` makes one, but fails while another session drops what
the body uses; so the names of what it depends on stand for it. PostgreSQL records no dependency on its own functions:
those that act beside rows are found by their OIDs in the parsed body.
"""

from __future__ import annotations

from typing import Final

# set_config, pg_notify and pg_export_snapshot, whose OIDs PostgreSQL never changes.
_ACTING: Final = "2078|3036|3809"
TEXT: Final = f"""
CASE WHEN p.prosqlbody IS NULL THEN p.prosrc ELSE pg_catalog.concat_ws(' ', 'insert update delete merge',
    CASE WHEN p.prosqlbody::pg_catalog.text OPERATOR(pg_catalog.~) ':funcid ({_ACTING}) ' THEN 'set_config' END,
    (SELECT pg_catalog.string_agg(pg_catalog.concat(n.nspname, '.', coalesce(c.relname, f.proname)), ' ')
     FROM pg_catalog.pg_depend d
     LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) d.refobjid
         AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
     LEFT JOIN pg_catalog.pg_proc f ON f.oid OPERATOR(pg_catalog.=) d.refobjid
         AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
     JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) coalesce(c.relnamespace, f.pronamespace)
     WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
         AND d.objid OPERATOR(pg_catalog.=) p.oid)) END
"""
