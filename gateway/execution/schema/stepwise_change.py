"""The driver of a schema change that is carried out step by step: its plan, and the walk through the states.

The plan is a value. Each element passes the states of `catalog.schema.states`, each step a commit of its own that
other sessions see, while they go on working. Spark checks existing rows, sidecars of files are made, and columns are
written anew. An error undoes everything step by step. Source: "Online, Asynchronous Schema Change in F1".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from catalog.background import end
from catalog.errors import SluiceError
from catalog.schema.changing_elements import ChangingElement, passing_elements
from catalog.schema.schema_change_progress import Progress
from catalog.schema.schema_changes import Origin, SchemaChange
from catalog.schema.states import RULE_OF, Element, State, path
from gateway.execution.constraints.constraint_validation import ROW_BY_ROW, Obligation, look
from gateway.execution.reading.change_progress import watch
from gateway.execution.schema.catch_up import until_little_is_left
from gateway.node.sidecar_building import fill
from gateway.session.cancel_listener import attending

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.execution.schema.table_rewrite import Reorganisation
    from gateway.session.session_context import SessionContext


# An index is made of so many files at a time, as PostgreSQL's workers make one together.
_FILES_TOGETHER: Final = 2


@dataclass(frozen=True, slots=True)
class StepwisePlan:
    """What a statement needs before its own commit: `elements` that pass states, `obligations` of existing rows, and
    `columns` that are written anew.
    """

    elements: tuple[ChangingElement, ...]
    obligations: tuple[Obligation, ...]
    columns: Reorganisation | None

    @classmethod
    def of(
        cls,
        before: Table,
        elements: Sequence[ChangingElement],
        obligations: Sequence[Obligation],
        columns: Reorganisation | None,
    ) -> StepwisePlan:
        """Return the plan of a change of the table `before`, from what a trial found."""
        passing = passing_elements(elements, {index.name for index in before.indexes})
        return cls(tuple(passing), tuple(obligations), columns)

    @property
    def is_empty(self) -> bool:
        """Whether the statement's own commit does everything."""
        return not self.elements and self.columns is None

    @property
    def passing(self) -> list[Obligation]:
        """The obligations of elements."""
        elements = {(element.relid, element.name) for element in self.elements}
        return [each for each in self.obligations if (each.relid, each.name) in elements]

    @property
    def checks_more(self) -> bool:
        """Whether rows are checked for NOT NULL and CHECK as they become, which the old ones do not tell."""
        passing = self.passing
        return any(each.kind in ROW_BY_ROW and each not in passing for each in self.obligations)


class StepwiseChange:
    """Carries out one plan."""

    def __init__(self, session: SessionContext, plan: StepwisePlan) -> None:
        self._session, self._plan = session, plan
        self._progress = Progress()
        self._passing = plan.passing

    async def carry_out(self, origin: Origin, conclude: Callable[[SchemaChange], Awaitable[None]]) -> None:
        """Pass all states before PUBLIC; then `conclude` executes the statement, whose commit makes all PUBLIC."""
        store, columns = self._session.gateway.store, self._plan.columns
        change = await store.begin_change(origin, self._plan.elements)
        if columns is not None:
            columns.progress = self._progress
        try:
            watching = asyncio.create_task(watch(self._session, change, self._progress))
            try:
                for element in change.elements:
                    if not self._comes_last(element):
                        await self._add(change, element)
                await self._catch_up()
                last = [element for element in change.elements if self._comes_last(element)]
                for element in last:
                    await self._add(change, element)
                if last:
                    await self._catch_up()
                await store.report(change.change_id, self._progress)
                async with attending(self._session):
                    await change.proceed()
            finally:
                await end(watching)
            await conclude(change)
        except BaseException as error:
            if columns is not None:
                await columns.discard()
            await change.undo(_reason(error))
            raise
        finally:
            await change.close()

    def _comes_last(self, element: ChangingElement) -> bool:
        """Whether PostgreSQL makes it once columns are written: an index, or a reference."""
        return self._plan.columns is not None and (element.kind is Element.INDEX or bool(element.other_relid))

    async def _catch_up(self) -> None:
        if self._plan.columns is not None:
            await until_little_is_left(self._plan.columns.catch_up)

    async def _add(self, change: SchemaChange, element: ChangingElement) -> None:
        """Pass all states of an element before PUBLIC."""
        for _, after in pairwise(path(element.kind, element.origin)):
            if after is State.PUBLIC:
                return
            self._progress.begin(f'{after} "{element.name}"', 0, 0)
            async with attending(self._session):
                await change.advance(element, after)
                if RULE_OF[after].works:
                    await change.proceed()
            if RULE_OF[after].works:
                await self._work(change, element)

    async def _work(self, change: SchemaChange, element: ChangingElement) -> None:
        """Process existing rows: check them, or make the sidecars of their files."""
        for each in self._plan.obligations:
            if each.is_of(element.relid, element.name):
                await look(self._session, each, self._progress, beside=self._passing)
        if element.kind is Element.INDEX:
            await self._fill(change, element)

    async def _fill(self, change: SchemaChange, element: ChangingElement) -> None:
        """Make the sidecars of existing files."""
        gateway = self._session.gateway
        index = await gateway.store.sidecars.find(element.relid, element.name)

        async def progress(done: int, total: int) -> None:
            self._progress.files_done, self._progress.files_total = done, total
            await change.proceed()

        if index is not None:
            async with attending(self._session):
                await fill(
                    gateway, element.relid, index, self._session.tag, progress=progress, together=_FILES_TOGETHER
                )


def _reason(error: BaseException) -> str:
    """Return the reason why a change was undone, for later readers."""
    if isinstance(error, asyncio.CancelledError):
        return "the statement was ended"  # by a timeout, or together with its session
    return error.message if isinstance(error, SluiceError) else f"{type(error).__name__}: {error}"
