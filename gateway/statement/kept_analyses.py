"""Which prepared statements over lake tables are executed by their last analysis: names mean what they meant
(gateway/backend/meanings.py), and a Bind needs no check by PostgreSQL.

A schema that another session has changed since is met where the tables are used: their versions are those of the
analysis, or it is made again (gateway/transaction/enlistment.py). The client's rights are asked for each execution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.backend.arrays import number_array
from gateway.backend.bind_parameters import are_valid
from gateway.backend.own_statement import Statement
from gateway.statement.temporary_tables import is_calm, names_only
from planner.plans.routes import Route
from planner.tree.references import domains

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis, SchemaMark
    from gateway.session.session_context import SessionContext
    from gateway.statement.prepared_statements import Prepared
    from gateway.statement.routed import Routed
    from gateway.wire.messages import frontend
    from planner.tree.builtins import Builtins

_ROUTES: Final = frozenset({Route.SELECT, Route.INSERT, Route.UPDATE, Route.DELETE})
# A larger statement is not worth it.
_TREE_MAX: Final = 100_000
# Whether policies of the table apply to a client depends on its role's attributes too, which any session may change.
_HAS_POLICIES: Final = (
    "SELECT pg_catalog.bool_or(relrowsecurity) FROM pg_catalog.pg_class"
    " WHERE oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])"
)


def is_plain(analysis: Analysis, routed: Routed, builtins: Builtins) -> bool:
    """Whether the statement reads and changes lake tables alone, by PostgreSQL's own functions and without effects
    beside. A large one is not looked at, because other sessions would wait.
    """
    query = routed.query
    if analysis.tree.size > _TREE_MAX or routed.route not in _ROUTES or query is None or query.hasRowSecurity:
        return False
    return is_calm(query, builtins) and not domains(query) and names_only(query, frozenset(routed.lake))


async def keep(session: SessionContext, prepared: Prepared, mark: SchemaMark, *, sync: bool) -> None:
    """Keep the analysis of a statement that was just found to mean what it meant, if that is possible."""
    routed, epoch = prepared.routed, session.meanings.epoch
    prepared.kept_at = None
    if mark.own or not is_plain(prepared.analysis, routed, session.gateway.builtins):
        return
    if prepared.open_at != mark:
        asked = Statement(_HAS_POLICIES, (number_array(routed.lake),))
        [answer] = await session.backend.run(asked, sync=sync)
        if answer.rows[0][0] != b"f":
            return
        prepared.open_at = mark
    prepared.kept_at = epoch


def is_kept(session: SessionContext, prepared: Prepared | None, message: frontend.Bind) -> bool:
    """Whether a Bind of the statement needs neither an analysis nor a check."""
    if prepared is None or prepared.kept_at is None or prepared.kept_at != session.meanings.epoch:
        return False
    if message.portal or session.encoding.converts or session.transaction.deferred.pending:
        return False
    columns = prepared.analysis.columns or ()
    formats = message.result_formats
    if len(formats) not in (0, 1, len(columns)) or not all(each in (0, 1) for each in formats):
        return False
    return are_valid(prepared.analysis.parameter_types, message.parameters, message.parameter_formats)
