"""Shuffled blocks, for tests: Spark gets the blocks of a table out of order, as on a cluster.

On one machine Spark reads the blocks of a table in the order of its files, and small tables have one block. An answer
that depends on the order of arrival looks right there. A `Shuffle` distributes the rows of each scan over several
blocks anew, and varies how Spark joins and groups them. Its effect on a statement depends only on the seed and the
statement's text, except in half of the statements, in which each read of a scan has another order.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

BLOCKS_MAX: Final = 7
# It changes each time that it is computed. Spark takes it for a constant, and so still reads a WITH query twice.
_ANYTHING: Final = "aes_encrypt('', '0123456789abcdef')"


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The shuffles of one statement."""

    settings: Mapping[str, str]
    _chance: random.Random = field(repr=False)
    _salt: str

    @classmethod
    def of(cls, seed: int, sql: str) -> Shuffle:
        """Return the shuffle of this statement's text under the seed."""
        chance = random.Random(f"{seed} {sql}")  # noqa: S311
        settings = {
            "spark.sql.adaptive.enabled": chance.choice(("true", "false")),
            "spark.sql.shuffle.partitions": str(chance.randint(1, BLOCKS_MAX)),
            "spark.sql.autoBroadcastJoinThreshold": chance.choice(("-1", "10485760")),
        }
        return cls(settings, chance, chance.choice((_ANYTHING, "0")))

    def rows(self, relation: str) -> str:
        """Return a query of the relation's rows, distributed over blocks."""
        blocks, number = self._chance.randint(2, BLOCKS_MAX), self._chance.getrandbits(31)
        return (
            f"SELECT * EXCEPT (dealt) FROM (SELECT /*+ REPARTITION({blocks}, dealt) */ *, "
            f"xxhash64({number}, {self._salt}, *) AS dealt FROM {relation})"
        )
