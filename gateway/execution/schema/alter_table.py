"""ALTER TABLE: PostgreSQL changes the shadow, the gateway validates and rewrites existing rows.

In a block it is deferred (`gateway.transaction.transactional_ddl`). Outside of a block, it is first tried and undone,
which makes the plan of its new elements. `gateway.execution.schema.stepwise_change` carries out the plan: elements pass
their states as steps that other sessions see. Then the statement is executed, with all elements in place.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from catalog.schema.changing_elements import ChangingElement, element_from_json
from catalog.schema.schema_changes import Origin, SchemaChange
from gateway.backend import catalog_calls
from gateway.backend.connection import Result
from gateway.backend.lock_backoff import patiently_between
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.changes.shadow_execution import send_own
from gateway.execution.constraints.constraint_validation import (
    meet,
    nulls_found,
    obligations,
    obligations_of,
    vouch,
)
from gateway.execution.constraints.expression_keys import check_computable
from gateway.execution.schema.catch_up import until_little_is_left
from gateway.execution.schema.change_at_once import at_once, is_alone
from gateway.execution.schema.change_in_block import Outcome, in_block
from gateway.execution.schema.deferred_validation import Deferral, rewriting_before
from gateway.execution.schema.rewrite_in_block import Rewriting
from gateway.execution.schema.stepwise_change import StepwiseChange, StepwisePlan
from gateway.execution.schema.table_rewrite import Reorganisation
from gateway.execution.shadow.function_guard import guarding, relay_rows, send_statement
from gateway.session.offload import offloaded
from gateway.session.pending_constraints import refuse_pending
from gateway.session.session_timeouts import STATEMENT_TIMEOUT
from gateway.session.visibility import latest
from gateway.statement.portal import StatementPortal
from gateway.statement.range_variable import resolve
from gateway.statement.statement_parts import command_reader
from gateway.transaction.ddl_sequences import Counted, owned_sequences
from gateway.wire.messages.backend import CommandComplete
from planner.syntax.alter_text import (
    collates,
    constrains,
    defaulted_later,
    numbered_later,
    past_guards,
    referenced,
    restarts_columns,
    using_expressions,
)
from planner.syntax.table_options import altered_layout, without_own_options
from planner.tree.nodes import Node
from planner.tree.references import calls_users

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed

_HAS_REFERENCES: Final = (
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_constraint"
    " WHERE contype OPERATOR(pg_catalog.=) 'f'"
    " AND $1::bigint::pg_catalog.oid OPERATOR(pg_catalog.=) ANY (ARRAY[conrelid, confrelid]))"
)
_VIOLATION: Final = "23"
# Checked while others wait.
_ROWS_AT_ONCE: Final = 100_000
# Where rows have come since, to a table that had none: 40001, and the statement is carried out anew.
_TIMEOUT: Final = Statement(f"SELECT {STATEMENT_TIMEOUT}")


class AlterPortal(StatementPortal):
    """A change of one table's schema."""

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        [self._relid] = routed.lake
        assert routed.query is not None
        self._utility = routed.query.utilityStmt
        self._using = using_expressions(self._utility, partial(analysis.taken_apart, command_reader(session)))
        self._calls_users = calls_users(self._utility, session.gateway.builtins)
        self._only_restarts = restarts_columns(self._utility)
        self._referenced = referenced(self._utility)
        self._constrains = constrains(self._utility)
        self._makes_index = self._utility.type == "INDEXSTMT"
        self._numbered_later = numbered_later(self._utility)
        self._later = told_later(self._relid, self._utility, self._using)
        self._layout = altered_layout(self._utility)
        self._sql = without_own_options(analysis.sql) if self._layout else analysis.sql
        self._answers: list[bytes] = []
        self._tag = ""
        # Between the steps in a block.
        self._columns: Reorganisation | None = None
        self._counted: Counted | None = None
        self._rewriting: Rewriting | None = None

    async def run(self) -> None:
        await self._pass_guards()
        if not (await self._commits_at_once() or await self._is_made_in_block()):
            await self._carry_out()
        for answer in self._answers:
            self.session.client.write(answer)
        self.session.client.send(CommandComplete(self._tag))

    async def _pass_guards(self) -> None:
        """TRIGGER ALL would include the gateway's own triggers (catalog/sql/ddl.sql), which clients must not see.
        PostgreSQL itself refuses the client its foreign key triggers.
        """
        changed = await offloaded(
            self.session, len(self._sql), past_guards, self._utility, self._sql, command_reader(self.session)
        )
        if changed != self._sql:
            [result] = await self.session.backend.run(Statement(_HAS_REFERENCES, (str(self._relid),)))
            if result.rows[0][0] == b"f":
                self._sql = changed

    async def _commits_at_once(self) -> bool:
        """Whether it was carried out in one message. What needs the gateway, or certainly rows, is not tried."""
        needs_gateway = self._calls_users or self._later or self._layout or self._numbered_later
        if (
            needs_gateway
            or self._constrains
            or collates(self._utility)
            or self._sql != self.analysis.sql
            or not is_alone(self)
        ):
            return False
        first, then = catalog_calls.order_at_once(self._relid), catalog_calls.confirm_at_once(self._relid)
        answer = await at_once(self, (first,), (then,))
        if answer is None:
            return False
        self._answers, self._tag = [notice.encode() for notice in answer.notices], answer.tag
        return True

    async def _is_made_in_block(self) -> bool:
        locked = [self._relid, *await self._parents()]
        acts = self._made_or_tried, self._files_rewritten, self._made_with_files
        return await in_block(self, locked, *acts, discard=self._discard_files)

    async def _made_or_tried(self) -> Deferral | Outcome:
        session = self.session
        await self._begin(alone=False)
        before = (await latest(session, self._relid)).table
        owned = await owned_sequences(session.backend, [self._relid])
        noted, of_columns = await self._relay((TRIAL.begin,), self._obligations())
        counted = Counted(owned, await owned_sequences(session.backend, [self._relid]))
        if session.transaction.deferred.makes(counted.begun_anew):
            await session.backend.run(*TRIAL.undo)
            return Outcome.SETTLING
        if self._makes_index or before.computed_keys:
            check_computable(session, (await latest(session, self._relid)).table)
        wanted = obligations_of(noted)
        columns = await Reorganisation.plan(session, self._relid, self._using, before, of_columns)
        if columns is not None:
            self._columns, self._counted = columns, counted
            return Outcome.NEXT_STEP
        await session.backend.run(TRIAL.release, self._vouch_columns())
        restarted = [counted.after[owner] for owner in counted.begun_anew] if self._only_restarts else []
        return Deferral(
            tables=[before],
            wanted=wanted,
            renames=self._makes_index,
            statements=self._repeated(),
            sequences=[*counted.made, *restarted],
            recounts=len(restarted) < len(counted.begun_anew),
        )

    async def _parents(self) -> list[int]:
        """The tables that it references, in a block; at its end PostgreSQL's locks of them last."""
        if not self.session.transaction.open:
            return []
        return [oid for each in self._referenced if (oid := await resolve(self.session, each)) is not None]

    def _repeated(self) -> list[Statement]:
        """The statements that `_relay` executes."""
        return [Statement(self._sql), *self._later, *self._laying_out()]

    def _laying_out(self) -> list[Statement]:
        return catalog_calls.set_layout(self._relid, self._layout, lasting=False)

    async def _files_rewritten(self) -> Outcome:
        """For a shared table."""
        session, deferred, columns = self.session, self.session.transaction.deferred, self._columns
        assert columns is not None
        shared = await session.gateway.store.lake_relations([self._relid])
        # A sequence that exists only in the window gives no numbers outside of it.
        if not shared or any(map(deferred.was_made, columns.draws)):
            return Outcome.SETTLING
        emptied = deferred.is_emptied(self._relid)
        self._rewriting = Rewriting(session, columns, rewriting_before(session, self._relid), emptied=emptied)
        await self._rewriting.write()
        return Outcome.NEXT_STEP

    async def _made_with_files(self) -> Deferral:
        columns, counted, rewriting = self._columns, self._counted, self._rewriting
        assert columns is not None
        assert counted is not None
        assert rewriting is not None
        await self._relay()
        await rewriting.stage()
        numbered = {each.owner: each for each in columns.sequences.values()}
        return Deferral(
            tables=[columns.old],
            wanted=await obligations(self.session),
            statements=self._repeated(),
            rewriting=rewriting,
            sequences=[numbered.get(each.owner, each) for each in counted.made],
            recounts=bool(counted.begun_anew),
        )

    async def _discard_files(self) -> None:
        if self._rewriting is not None and self._columns is not None:
            await self._columns.discard()

    def _obligations(self) -> tuple[Statement, Statement]:
        return catalog_calls.obligations(), catalog_calls.column_obligations(self._relid)

    def _vouch_columns(self) -> Statement:
        return catalog_calls.vouch_columns(self._relid)

    async def _carry_out(self, *, in_steps: bool = True) -> None:
        session, transaction = self.session, self.session.transaction
        alone = in_steps and not transaction.open and session.ends_with_statement
        await self._begin(alone=alone)
        transaction.fresh = alone  # nothing is uncommitted yet
        version = await latest(session, self._relid)
        before = version.table
        transaction.fresh = False
        noted, of_columns = await self._relay((TRIAL.begin,), self._obligations())
        if self._makes_index or before.computed_keys:
            check_computable(session, (await latest(session, self._relid)).table)
        wanted = obligations_of(noted)
        elements = await self._elements() if alone and (wanted or self._makes_index) else []
        columns = await Reorganisation.plan(session, self._relid, self._using, before, of_columns)
        plan = StepwisePlan.of(before, elements, wanted, columns)
        if alone and not plan.is_empty:
            await transaction.roll_back()
            try:
                await self._step_by_step(plan)
            except SluiceError as error:
                # Few rows tell at once what PostgreSQL would have found first.
                if error.sqlstate[:2] != _VIOLATION or not plan.checks_more or version.row_count > _ROWS_AT_ONCE:
                    raise
                await self._carry_out(in_steps=False)
        else:
            if columns is None:
                *_, noted = await session.backend.run(TRIAL.release, self._vouch_columns(), catalog_calls.obligations())
                left = obligations_of(noted)
            else:
                try:
                    await until_little_is_left(columns.catch_up)
                    await self._relay()
                    await columns.publish()
                except BaseException:
                    await columns.discard()
                    raise
                order = {each.identity: place for place, each in enumerate(wanted)}
                left = sorted(await obligations(session), key=lambda each: order.get(each.identity, 0))
            await meet(session, left)
            if transaction.implicit and session.ends_with_statement:
                await transaction.commit()

    async def _begin(self, *, alone: bool) -> None:
        """Begin when no other session changes the table, after undoing an unfinished change of a dead gateway."""
        session, transaction = self.session, self.session.transaction
        order = _order(self._relid)
        while True:
            timeout, abandoned = await transaction.begin(_TIMEOUT, order)
            transaction.fresh = False
            self.limit_time(int(timeout.rows[0][0] or 0) / 1000 or None)
            if abandoned.rows[0][0] == b"f":
                return
            if not alone:
                raise _unfinished()
            await transaction.roll_back()
            await session.gateway.store.undo_abandoned(self._relid)

    async def _relay(self, first: Sequence[Statement] = (), then: Sequence[Statement] = ()) -> list[Result]:
        """Let PostgreSQL execute the client's statement between others; return the answers to those after it."""
        backend = self.session.backend
        _, answers = await patiently_between(backend, self._relay_once, first, then)
        return answers

    async def _relay_once(self) -> None:
        self._answers.clear()
        # A default is computed once, for all existing rows.
        async with (
            self.session.cursors.occupying([self._relid]),
            guarding(self.session, self._relid) if self._calls_users else nullcontext(),
        ):
            await self._send()
            self._tag = await relay_rows(self.session, self._answers)
        await refuse_pending(self.session, self._tag, [self._relid])
        if self._later:
            await self.session.backend.run(*self._later)
        if self._layout:
            await self.session.backend.run(*self._laying_out())
        if self._numbered_later:
            await self._check_numbered()

    async def _check_numbered(self) -> None:
        """Raise 23502 if there are rows that PostgreSQL would not number."""
        version = await latest(self.session, self._relid)
        if version.row_count:
            raise nulls_found(version.table.schema, version.table.name, self._numbered_later[0])

    async def _send(self) -> None:
        if self._sql == self.analysis.sql:
            await send_statement(self.session, self.binding)
        else:
            await send_own(self.session, self._sql, self.binding, self.analysis.parameter_types)

    async def _elements(self) -> list[ChangingElement]:
        [result] = await self.session.backend.run(catalog_calls.elements())
        value = result.rows[0][0]
        assert value is not None
        return [element_from_json(each) for each in json.loads(value)]

    async def _step_by_step(self, plan: StepwisePlan) -> None:
        """Carry out the plan; execute the statement when only its commit is left."""
        session = self.session
        origin = Origin(self._relid, self.analysis.sql, session.user, session.backend.process_id)
        change = StepwiseChange(session, plan)
        await change.carry_out(origin, partial(self._conclude, columns=plan.columns))

    async def _conclude(self, change: SchemaChange, columns: Reorganisation | None) -> None:
        """Execute the client's statement; its commit makes the elements PUBLIC."""
        session, transaction = self.session, self.session.transaction
        await transaction.begin()
        transaction.fresh = False
        try:
            await session.backend.run(catalog_calls.conclude(change.change_id))
            await self._relay()
            if columns is None:
                await session.backend.run(catalog_calls.vouch_for_no_rows(self._relid))
            else:
                await columns.publish()
            left = await obligations(session)
            added = [each for each in left if any(each.is_of(of.relid, of.name) for of in change.elements)]
            await vouch(session, added)
            await meet(session, [each for each in left if each not in added])
        except BaseException:
            await transaction.roll_back()
            raise
        await transaction.commit()


def told_later(relid: int, utility: Node, using: Collection[str]) -> list[Statement]:
    """After a change, what PostgreSQL does not tell of values in existing rows: columns with a USING are computed anew,
    even those whose files might stay; new ones have no value of a default that came later.
    """
    defaulted = defaulted_later(utility)
    computed = [catalog_calls.recompute_columns(relid, using)] if using else []
    return [*computed, catalog_calls.forget_defaults(relid, defaulted)] if defaulted else computed


async def order_changes(session: SessionContext, relid: int) -> None:
    """Until the transaction ends, no other session changes the table, as in `_begin` of a change that is not alone."""
    [abandoned] = await session.backend.run(_order(relid))
    if abandoned.rows[0][0] != b"f":
        raise _unfinished()


def _order(relid: int) -> Statement:
    return catalog_calls.order_changes(relid)


def _unfinished() -> SluiceError:
    return SluiceError(
        SqlState.OBJECT_NOT_IN_PREREQUISITE_STATE,
        "a change of the table was left unfinished",
        hint="Change the table outside of a transaction block first: that undoes it.",
    )
