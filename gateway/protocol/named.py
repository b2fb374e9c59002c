"""A session's prepared statements and lake portals, by name, as the extended protocol knows them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.session.name_journal import ByName
from gateway.statement.passthrough_command import PassthroughCommand
from gateway.statement.portal import Binding, Portal
from gateway.statement.prepared_statements import Prepared
from gateway.statement.window_rules import Place
from gateway.wire.messages import backend as answers
from gateway.wire.messages.layout import Message


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A prepared statement, which the backend has by the same name.

    `lake` is its analysis if it may touch lake tables, and None if the backend executes it. `command` is its effect on
    the transaction or the session. `place` says where it runs in a block with deferred changes. `publishes`: it
    changes the lake's catalog. `naming` is the session's count of namings when the backend is known to have prepared
    `lake` by this name. `text` is the beginning of its text. `snapshot`: PostgreSQL takes a snapshot for its Parse and
    its Bind.
    """

    lake: Prepared | None = None
    command: PassthroughCommand | None = None
    place: Place | None = None
    publishes: bool = False
    naming: int = 0
    text: str = ""
    snapshot: bool = False


_UNKNOWN = PreparedStatement()


class PreparedStatements(ByName[PreparedStatement]):
    """Prepared statements by name; the journal records each change of one."""

    def known(self, name: str) -> PreparedStatement:
        """The statement of that name; an empty record for one that the gateway has not seen, such as one of SQL's
        PREPARE.
        """
        return self.get(name, _UNKNOWN)

    def change(self, name: str, **changes: object) -> None:
        """Replace fields of the statement's record."""
        self[name] = replace(self.known(name), **changes)  # type: ignore[arg-type]


@dataclass(slots=True)
class BoundPortal:
    """A portal of the lake, with the prepared statement and the Bind that made it."""

    portal: Portal
    prepared: Prepared
    binding: Binding


def description(columns: tuple[answers.FieldDescription, ...] | None) -> Message:
    """The answer to Describe of a portal with these columns."""
    return answers.NoData() if columns is None else answers.RowDescription(columns)
