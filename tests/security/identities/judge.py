"""Whether users' code ran as a role as which PostgreSQL would not have run it."""

from __future__ import annotations

from typing import Final

from tests.security.identities.objects import OWNER, ROLES
from tests.security.identities.script import Script
from tests.security.identities.stage import Run
from tests.security.identities.witness import TRAP, Record

# Steps of schema changes run as the owner, over a connection that a gateway has logged in on (docs/security.md).
_STEPS: Final = ("sluice_gateway", "postgres")
# The action of a foreign key, which is the table owner's, makes the whole row anew: so more of its code than there. So
# does what the owner does himself.
_OF_ROWS: Final = ("CHECK of", "DEFAULT of", "generated column", "index of t", "partial index")
# What a statement itself calls, as who sends it.
_OF_STATEMENTS: Final = ("a function in", "a condition in", "operator", "transition of", "end of the aggregate")
# Values of domains are checked again where a client writes them into a table of his own.
# Where PostgreSQL computes over copied rows, the table's owner puts them into the shadow, and its own code runs so.
_OF_COPIES: Final = ("CHECK of", "generated column", "index of t", "partial index")
# A refused change of a column's type leaves it a domain, whose CHECK runs as who writes the column.
_OF_DOMAINS: Final = "CHECK of the domain"
_RETYPED: Final = "ALTER TYPE"


def findings(script: Script, theirs: Run, ours: Run) -> list[str]:
    """One line for each identity that PostgreSQL's own run does not show, and each forbidden thing that worked."""
    known = {(record.code, record.current, record.session) for record in theirs.records}
    found = []
    parted = min((place for place in ours.refused if script.steps[place].kind == _RETYPED), default=len(script.steps))
    for place, told in sorted(ours.told.items()):
        kind, role = (
            (script.steps[place].kind, script.steps[place].role) if 0 <= place < len(script.steps) else ("", "")
        )
        wrong = [
            record
            for record in sorted(told)
            if record.could
            or (
                not _is_allowed(record, known, script, kind, role)
                and not (place > parted and _is_of_domain(record, script, role))
            )
        ]
        found += [_line(script, place, record) for record in wrong]
    return found


def _is_allowed(record: Record, known: set[tuple[int, str, str]], script: Script, kind: str, role: str) -> bool:
    if record.code == TRAP:
        return record.current in ROLES
    if (record.code, record.current, record.session) in known:
        return True
    function = script.world.by_code[record.code]
    if function.definer:
        return record.current == function.owner and record.session in (*ROLES, *_STEPS)
    if record.session in _STEPS:
        return any((code, current) == (record.code, record.current) for code, current, _ in known)
    if function.use.startswith(_OF_STATEMENTS) and record.current == record.session == role:
        return True
    if kind == "temporary table" and record.current == record.session == role:
        return function.use.endswith("domain")
    if kind == "foreign key's action":
        return record.current == OWNER and function.use.startswith(_OF_ROWS)
    if record.current == record.session == role == OWNER:
        return function.use.startswith(_OF_ROWS)
    return record.current == OWNER and function.use.startswith(_OF_COPIES)


def _is_of_domain(record: Record, script: Script, role: str) -> bool:
    function = script.world.by_code.get(record.code)
    return function is not None and function.use == _OF_DOMAINS and record.current == record.session == role


def _line(script: Script, place: int, record: Record) -> str:
    function = script.world.by_code.get(record.code)
    use = function.use if function else "a name that stands in for PostgreSQL's"
    step = script.steps[place].statements if 0 <= place < len(script.steps) else "the schema that is made or dropped"
    role = script.steps[place].role if 0 <= place < len(script.steps) else ""
    could = f", and could {record.could}" if record.could else ""
    return f"{use} ran as {record.current} of {record.session}{could}, at {role} {step}"
