"""The parts of random statements: roles, keys, values and conditions over a world."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.security.identities.objects import CLIENT, OWNER, THIRD, World


@dataclass
class Choices:
    """Keys of new rows are never used twice, nor are names."""

    chance: random.Random
    world: World
    last_key: int = 100
    last_name: int = 0

    def _key(self) -> int:
        self.last_key += 1
        return self.last_key

    def _name(self) -> str:
        self.last_name += 1
        return f"{self.world.schema}.made_{self.last_name}"

    @property
    def _t(self) -> str:
        return f"{self.world.schema}.t"

    @property
    def _parent(self) -> str:
        return f"{self.world.schema}.parent"

    def _reader(self) -> str:
        return self.chance.choice((OWNER, CLIENT, CLIENT, THIRD))

    def _writer(self) -> str:
        return self.chance.choice((OWNER, CLIENT, CLIENT))

    def _value(self) -> str:
        """Of type integer, over columns of t."""
        function = self.chance.choice(self.world.of_integer)
        return self.chance.choice(("id", "1", f"{function}(id)", f"{function}(2)", f"coalesce(n, {function}(0))"))

    def _condition(self) -> str:
        world, chance = self.world, self.chance
        amounts = f"'{{1,2,3}}'::{world.schema}.amount[]"
        return chance.choice(
            (
                "id > 0",
                f"{chance.choice(world.conditions)}(id)",
                f"{chance.choice(world.conditions)}(1)",
                f"d = ANY ({amounts})",
                f"id {world.operators[0]} m",
                f"id {world.operators[1]} n",
                f"{self._value()} > 0",
            )
        )

    def _cast(self) -> str:
        """Of a column of t, by a cast of a user's where there is one from an enumeration."""
        targets = [target for source, target in self.world.casts if source != "integer"]
        return f"m::{self.chance.choice(targets)}" if targets else "m::text"

    def _query(self) -> str:
        chance, world = self.chance, self.world
        aggregate, condition = world.aggregates[0], self._condition()
        return chance.choice(
            (
                f"SELECT id, {self._value()} FROM {self._t} WHERE {condition}",
                f"SELECT id, {self._cast()} FROM {self._t} WHERE {condition}",
                f"SELECT {aggregate}(id) FROM {self._t} WHERE {condition}",
                f"SELECT id, {aggregate}(n) OVER (ORDER BY id) FROM {self._t} WHERE {condition}",
                f"SELECT m, {aggregate}(id) FROM {self._t} GROUP BY m",
                f"SELECT a.id FROM {self._t} a JOIN {self._t} b ON a.id {world.operators[1]} b.n WHERE a.id < 5",
                f"SELECT id, d, g FROM {self._t} ORDER BY {self._value()} LIMIT 3",
                f"SELECT id, d + 1, d::{world.schema}.inner_one FROM {self._t}",
                f"SELECT {self._value()}, count(*) FROM {self._t} GROUP BY 1",
                f"SELECT r.id, (SELECT max({self._value()}) FROM {self._t} WHERE p = r.id) FROM {self._parent} r",
                f"SELECT * FROM {self._t} WHERE {condition}",
            )
        )
