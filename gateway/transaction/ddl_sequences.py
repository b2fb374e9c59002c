"""Sequences of serial and identity columns that deferred changes make or restart
(gateway/transaction/transactional_ddl.py).

Such a sequence disappears with each window, and the next window makes it again with another OID. So the end of a
window records its last number, and the next window continues there. Rows that need numbers between windows take them
from the record. As in PostgreSQL, no savepoint restores numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from catalog.errors import SluiceError, SqlState
from gateway.backend.arrays import number_array
from gateway.backend.connection import Backend
from gateway.backend.own_statement import Statement
from gateway.transaction.ddl_settings import Settings, under

# Each sequence with its owner: a column, or itself if it has none.
_OWNERS: Final = """
SELECT d.refobjid AS relation, d.refobjsubid AS number, d.deptype AS kind, d.objid AS sequence
FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) d.objid
    AND c.relkind OPERATOR(pg_catalog.=) 'S'
WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
    AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
    AND d.deptype OPERATOR(pg_catalog.=) ANY ('{a,i}'::pg_catalog."char"[])
    AND d.refobjsubid OPERATOR(pg_catalog.>) 0
UNION ALL
SELECT x.seqrelid, 0, 's', x.seqrelid FROM pg_catalog.pg_sequence x WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend d WHERE d.objid OPERATOR(pg_catalog.=) x.seqrelid
        AND d.refobjsubid OPERATOR(pg_catalog.>) 0
        AND d.deptype OPERATOR(pg_catalog.=) ANY ('{a,i}'::pg_catalog."char"[])
        AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass)
"""
# A sequence's file tells whether it has been restarted.
_FOUND: Final = f"""
SELECT o.relation::pg_catalog.int8, o.number, o.kind, c.oid::pg_catalog.int8,
    pg_catalog.pg_relation_filenode(c.oid)::pg_catalog.int8, c.relname,
    pg_catalog.format('%s.%I', c.relnamespace::pg_catalog.regnamespace, c.relname),
    s.seqincrement, s.seqmin, s.seqmax, s.seqcycle, v.last_value, v.is_called
FROM ({_OWNERS}) o
JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) o.sequence
JOIN pg_catalog.pg_sequence s ON s.seqrelid OPERATOR(pg_catalog.=) c.oid
CROSS JOIN LATERAL pg_catalog.pg_get_sequence_data(c.oid) v
"""
_OWNED: Final = (
    f"{_FOUND} WHERE o.relation OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.int8[]::pg_catalog.oid[]) ORDER BY c.oid"
)
_BY_OID: Final = f"{_FOUND} WHERE o.sequence OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid"
_TAKE_UP: Final = f"""
SELECT pg_catalog.setval(o.sequence, $4::pg_catalog.int8, $5::pg_catalog.bool) FROM ({_OWNERS}) o
WHERE o.relation OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid
    AND o.number OPERATOR(pg_catalog.=) $2::pg_catalog.int4
    AND o.kind OPERATOR(pg_catalog.=) $3::pg_catalog."char"
"""

Owner = tuple[int, int, str]


@dataclass(slots=True)
class OwnedSequence:
    """A sequence and its position. `owner` stays the same when it is made again: the table's OID, the column's number,
    and the kind of its dependency; without an owning column, its own OID, 0 and `s`. `last` is the last number given
    out, or the first to be if it is not `is_called`.
    """

    owner: Owner
    oid: int
    file: int
    name: str
    qualified: str
    increment: int
    minimum: int
    maximum: int
    cycles: bool
    last: int
    is_called: bool

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """The next numbers, as nextval gives them."""
        if not count:
            return np.empty(0, np.int64)
        first, end = (self.minimum, self.maximum) if self.increment > 0 else (self.maximum, self.minimum)
        following = self.last + self.increment if self.is_called else self.last
        room = max(0, (end - following) // self.increment + 1)
        if count > room and not self.cycles:
            bound = "maximum" if self.increment > 0 else "minimum"
            raise SluiceError(
                SqlState.SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                f'nextval: reached {bound} value of sequence "{self.name}" ({end})',
            )
        begun = min(room, count)
        size = (end - first) // self.increment + 1
        numbers = np.concatenate(
            [
                following + self.increment * np.arange(begun, dtype=np.int64) if begun else np.empty(0, np.int64),
                first + self.increment * (np.arange(count - begun, dtype=np.int64) % size),
            ]
        )
        self.last, self.is_called = int(numbers[-1]), True
        return numbers

    def restart(self) -> Statement:
        """Restart it, as TRUNCATE … RESTART IDENTITY does."""
        return Statement(f"ALTER SEQUENCE {self.qualified} RESTART")

    def taking_up(self) -> Statement:
        """The statement that continues the sequence at its position, if it exists."""
        table, column, kind = self.owner
        return Statement(_TAKE_UP, (str(table), str(column), kind, str(self.last), str(self.is_called)))


def owned(tables: Iterable[int]) -> Statement:
    """The question for `found`."""
    return Statement(_OWNED, (number_array(tables),))


def found(rows: Iterable[tuple[bytes | None, ...]]) -> dict[Owner, OwnedSequence]:
    """The present sequences of the tables' columns that the session's role may read, from the answer."""
    sequences = {}
    for row in rows:
        table, column, kind, oid, file, name, qualified, *numbers, cycles, last, is_called = (
            (each or b"").decode() for each in row
        )
        if not last:
            continue
        owner = (int(table), int(column), kind)
        increment, minimum, maximum = map(int, numbers)
        sequences[owner] = OwnedSequence(
            owner=owner,
            oid=int(oid),
            file=int(file),
            name=name,
            qualified=qualified,
            increment=increment,
            minimum=minimum,
            maximum=maximum,
            cycles=cycles == "t",
            last=int(last),
            is_called=is_called == "t",
        )
    return sequences


async def sequence_by_oid(backend: Backend, oid: int) -> OwnedSequence | None:
    """A sequence by its OID; None if the session's role may not read it."""
    [answer] = await backend.run(Statement(_BY_OID, (str(oid),)))
    return next(iter(found(answer.rows).values()), None)


async def owned_sequences(backend: Backend, tables: Iterable[int]) -> dict[Owner, OwnedSequence]:
    """The present sequences that columns of these tables own."""
    [answer] = await backend.run(owned(tables))
    return found(answer.rows)


@dataclass(frozen=True, slots=True)
class Counted:
    """A change's effect on the sequences that a table's columns own: those `before` and `after` it."""

    before: Mapping[Owner, OwnedSequence]
    after: Mapping[Owner, OwnedSequence]

    @property
    def made(self) -> list[OwnedSequence]:
        """New sequences."""
        known = {each.oid for each in self.before.values()}
        return [each for each in self.after.values() if each.oid not in known]

    @property
    def begun_anew(self) -> list[Owner]:
        """Rewritten sequences: RESTART, another type, other options."""
        known = {each.oid: each.file for each in self.before.values()}
        return [owner for owner, each in self.after.items() if known.get(each.oid, each.file) != each.file]


class SequencesOfChanges:
    """A transaction's sequences of deferred changes. Each change is given as its settings and its sequences."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._owners: dict[int, Owner] = {}

    def clear(self) -> None:
        """The transaction has ended."""
        self._owners.clear()

    async def note(self, changes: Sequence[tuple[Settings, Sequence[OwnedSequence]]], *, go: bool) -> None:
        """Record the positions of the present sequences; `go` says that they disappear afterwards."""
        latest = {each.owner: each for _, sequences in changes for each in sequences}
        for settings, sequences in changes:
            now = await self._found(settings, {each.owner[0] for each in sequences})
            for each in sequences:
                if each.owner in now and latest[each.owner] is each:
                    each.last, each.is_called = now[each.owner].last, now[each.owner].is_called
            if go:
                self._owners.update({each.oid: owner for owner, each in now.items() if owner in latest})

    async def _found(self, settings: Settings, tables: Iterable[int]) -> dict[Owner, OwnedSequence]:
        answers = await self._backend.run(*under(settings, [owned(tables)]))
        return found(answers[-2 if settings else -1].rows)

    def was_made(self, oid: int) -> bool:
        """Whether a change's sequence had this OID."""
        return oid in self._owners

    async def present(self, oid: int) -> int:
        """The present OID of the sequence that had this one at analysis."""
        owner = self._owners.get(oid)
        if owner is None:
            return oid
        return (await owned_sequences(self._backend, [owner[0]]))[owner].oid
