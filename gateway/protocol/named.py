"""What the extended protocol's session knows by name: its prepared statements, and its portals of the lake."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.session.name_journal import ByName
from gateway.statement.passthrough_command import RelayedCommand
from gateway.statement.portal import Binding, Portal
from gateway.statement.prepared_statements import Prepared
from gateway.statement.statement_windows import Place


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A prepared statement, which the backend has by the same name.

    `lake` is its analysis where it may touch lake tables; None where the backend carries it out. `command` is what it
    does to the transaction or the session; `place` is where it is carried out in a block that has deferred changes;
    `publishes`: it changes what the lake's catalog says.
    """

    lake: Prepared | None = None
    command: RelayedCommand | None = None
    place: Place | None = None
    publishes: bool = False


_UNKNOWN = PreparedStatement()


class PreparedStatements(ByName[PreparedStatement]):
    """Prepared statements by name; each change of one is journalled."""

    def known(self, name: str) -> PreparedStatement:
        """What is known of it: nothing of one that the gateway has not seen, as one of SQL's PREPARE."""
        return self.get(name, _UNKNOWN)

    def change(self, name: str, **changes: object) -> None:
        """Something else is known of it."""
        self[name] = replace(self.known(name), **changes)  # type: ignore[arg-type]


@dataclass(slots=True)
class BoundPortal:
    """A portal of the lake, and what it was made of."""

    portal: Portal
    prepared: Prepared
    binding: Binding
