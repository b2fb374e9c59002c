"""Random statements over a world: in each way of execution, by each role, at either gateway."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.security.identities.schema_statements import SchemaStatements
from tests.security.identities.step import Step

# Who carries a query out, by the first line of what EXPLAIN says.
PATHS: Final = {
    "Spark Select": "Spark",
    "PostgreSQL Select": "PostgreSQL over copied rows",
    "Gateway Select": "the gateway, from files",
    "Result": "relayed",
}


class Statements(SchemaStatements):
    """Makes steps."""

    def step(self) -> Step:
        makers = (
            self.select, self.select, self.view, self.insert, self.insert, self.insert_query, self.upsert, self.update,
            self.update, self.delete, self.merge, self.key_action, self.key_action, self.copy_in, self.copy_out,
            self.cursor, self.prepared, self.extended, self.explain, self.block, self.block, self.savepoint,
            self.table_as, self.temporary, self.with_changes, self.procedure, self.literal, self.locking,
            self.add_column, self.add_column, self.change_type, self.add_check, self.validate, self.not_null,
            self.make_index, self.make_index, self.change_in_block, self.change_in_block, self.refresh, self.refresh,
            self.alike, self.change_domain, self.vacuum, self.analyze, self.cluster, self.truncate, self.plain,
        )  # fmt: skip
        made = self.chance.choice(makers)()
        return replace(made, place=self.chance.randrange(2))

    def of_each_path(self) -> tuple[Step, ...]:
        """Queries that are carried out by each of those that can."""
        function = self.chance.choice(self.world.of_integer)
        return (
            self.plain(),
            Step(
                self._reader(),
                "SELECT of stored columns",
                ("SET sluice.engine = 'auto'", f"SELECT id FROM {self._parent}", "RESET sluice.engine"),
            ),
            Step(self._reader(), "SELECT", (f"SELECT (t.*)::text FROM {self._t} t",)),
            Step(self._reader(), "SELECT of a literal", (f"SELECT {function}(3)",)),
        )
