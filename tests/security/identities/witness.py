"""The functions by which users' code reports its role, its possibilities, and what it leaves behind.

A record is a sequence's value, so nothing undoes it: `witness.counter` says how many there are, and the record k is the
value of `witness.slot_(k mod SLOTS)`. It has the code's number, the two roles, and the forbidden acts that were
possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import psycopg

SLOTS: Final = 500
# Roles' numbers in a record are OIDs; here they have names.
_OID_BITS: Final = 20
_FORBIDDEN: Final = (
    "FROM pg_catalog.pg_authid",
    "FROM pg_sluice.setting",
    "FROM pg_ducklake.ducklake_table",
    "FROM witness.secret",
    "pg_catalog.pg_read_file('PG_VERSION')",
    "pg_sluice.set_populated(0::oid, false)",
    "pg_catalog.set_config('role', 'sluice_gateway', false)",
    "pg_catalog.set_config('role', 'sluice_metadata', false)",
    "pg_catalog.set_config('role', 'sluice_shadow', false)",
)
_TRIES: Final = "\n".join(
    f"    BEGIN EXECUTE $try$SELECT {what}$try$; could := could | {1 << place};\n"
    f"    EXCEPTION WHEN OTHERS THEN NULL; END;"
    for place, what in enumerate(_FORBIDDEN)
)
# By the owner of the database, the same on both sides: nobody else may read the secret.
MAKE: Final = f"""
CREATE SCHEMA witness;
GRANT USAGE ON SCHEMA witness TO PUBLIC;
CREATE SEQUENCE witness.counter;
CREATE SEQUENCE witness.names;
DO $$ BEGIN
    FOR i IN 0 .. {SLOTS - 1} LOOP
        EXECUTE format('CREATE SEQUENCE witness.slot_%s', i);
    END LOOP;
END $$;
GRANT ALL ON ALL SEQUENCES IN SCHEMA witness TO PUBLIC;
CREATE SEQUENCE witness.secret;
CREATE FUNCTION witness.note(code integer) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    could bigint := 0;
BEGIN
{_TRIES}
    PERFORM pg_catalog.setval(format('witness.slot_%s', nextval('witness.counter') % {SLOTS})::regclass,
        1 + ((could << 54) | (code::bigint << 40) | (quote_ident(current_user)::regrole::oid::bigint << 20)
             | quote_ident(session_user)::regrole::oid::bigint));
END $$;
CREATE FUNCTION witness.pass(code integer, value anyelement) RETURNS anyelement LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM witness.note(code); RETURN value; END $$;

-- What is done at COMMIT: a held cursor's query, a deferred trigger.
CREATE FUNCTION witness.hold(code integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM witness.note(code);
    EXECUTE format('DECLARE held_%s CURSOR WITH HOLD FOR SELECT witness.note(%s)', nextval('witness.names'), code);
EXCEPTION WHEN OTHERS THEN NULL;
END $$;
CREATE FUNCTION witness.noting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM witness.note(NEW.code); RETURN NEW; END $$;
CREATE FUNCTION witness.defer(code integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text := format('pg_temp.later_%s', nextval('witness.names'));
BEGIN
    PERFORM witness.note(code);
    EXECUTE format('CREATE TEMPORARY TABLE %s (code integer) ON COMMIT DROP', name);
    EXECUTE format('CREATE CONSTRAINT TRIGGER later AFTER INSERT ON %s DEFERRABLE INITIALLY DEFERRED '
                   'FOR EACH ROW EXECUTE FUNCTION witness.noting()', name);
    EXECUTE format('INSERT INTO %s VALUES (%s)', name, code);
EXCEPTION WHEN OTHERS THEN NULL;
END $$;

-- Names that stand in for PostgreSQL's in what comes later in the same session.
CREATE SCHEMA trap;
GRANT USAGE ON SCHEMA trap TO PUBLIC;
CREATE FUNCTION trap.same(a oid, b oid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN PERFORM witness.note(1); RETURN a OPERATOR(pg_catalog.=) b; END $$;
CREATE FUNCTION trap.same(a name, b text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN PERFORM witness.note(1); RETURN a OPERATOR(pg_catalog.=) b; END $$;
CREATE FUNCTION trap.same(a text, b text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN PERFORM witness.note(1); RETURN a OPERATOR(pg_catalog.=) b; END $$;
CREATE OPERATOR trap.= (FUNCTION = trap.same, LEFTARG = oid, RIGHTARG = oid);
CREATE OPERATOR trap.= (FUNCTION = trap.same, LEFTARG = name, RIGHTARG = text);
CREATE OPERATOR trap.= (FUNCTION = trap.same, LEFTARG = text, RIGHTARG = text);
CREATE FUNCTION trap.format(a text, VARIADIC b text[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN PERFORM witness.note(1); RETURN pg_catalog.format(a, VARIADIC b); END $$;
CREATE FUNCTION trap.current_setting(a text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN PERFORM witness.note(1); RETURN pg_catalog.current_setting(a); END $$;
CREATE FUNCTION witness.lay(code integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM witness.note(code);
    PERFORM pg_catalog.set_config('search_path', 'trap, pg_catalog', false);
END $$;
"""
# The trap's own number, which no object's code has.
TRAP: Final = 1


@dataclass(frozen=True, order=True)
class Record:
    """That code ran as `current` in a session of `session`; `could` is what it was able to do then."""

    code: int
    current: str
    session: str
    could: tuple[str, ...] = ()


@dataclass
class Witness:
    """Reads what has been told since it was asked last, over a connection of the superuser's."""

    connection: psycopg.Connection[Any]
    seen: int = 0
    lost: int = 0

    def told(self) -> set[Record]:
        query = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM witness.counter"
        now = int(self.connection.execute(query.encode()).fetchall()[0][0])
        first = max(self.seen, now - SLOTS)
        self.lost += first - self.seen
        names = [f"slot_{place % SLOTS}" for place in range(first + 1, now + 1)]
        self.seen = now
        if not names:
            return set()
        found = self.connection.execute(
            b"SELECT DISTINCT last_value - 1 FROM pg_sequences WHERE schemaname = 'witness' "
            b"AND sequencename = ANY (%s) AND last_value IS NOT NULL",
            [names],
        ).fetchall()
        rows = self.connection.execute(b"SELECT oid::bigint, rolname FROM pg_roles").fetchall()
        roles = {oid: str(name) for oid, name in rows}
        return {_record(value, roles) for (value,) in found}


def _record(value: int, roles: dict[int, str]) -> Record:
    mask = (1 << _OID_BITS) - 1
    could = tuple(what for place, what in enumerate(_FORBIDDEN) if (value >> 54) & (1 << place))
    return Record((value >> 40) & ((1 << 14) - 1), roles[(value >> 20) & mask], roles.get(value & mask, "gone"), could)
