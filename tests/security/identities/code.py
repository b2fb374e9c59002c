"""Random functions of users, each of which reports its role under a number of its own."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

# What a function does beside telling: mostly nothing.
_TRICKS: Final = ("hold", "defer", "lay")
_TRICK_SHARE: Final = 0.3
_FIRST_CODE: Final = 10


@dataclass(frozen=True)
class Function:
    """`use` is the object that it is made for: `check of t`."""

    code: int
    use: str
    owner: str
    name: str
    sql: str
    definer: bool = False


@dataclass
class Functions:
    """Makes them in `schema`, for roles that take turns by chance."""

    chance: random.Random
    schema: str
    owners: tuple[str, ...]
    tricks: bool
    made: list[Function] = field(default_factory=list)

    def make(
        self, use: str, arguments: str, returns: str, result: str, *, steady: bool = False, owner: str = ""
    ) -> str:
        """Its name, with the schema. `steady` is what PostgreSQL demands to be IMMUTABLE."""
        chance = self.chance
        code = _FIRST_CODE + len(self.made)
        name = f"{self.schema}.f{code}"
        volatility = "IMMUTABLE" if steady else chance.choices(("IMMUTABLE", "STABLE", "VOLATILE"), (6, 3, 2))[0]
        language, body = self._body(code, returns, result)
        definer = chance.random() < 0.2
        parts = [
            f"CREATE FUNCTION {name}({arguments}) RETURNS {returns} LANGUAGE {language} {volatility}",
            f"PARALLEL {chance.choice(('SAFE', 'UNSAFE', 'RESTRICTED'))} COST {chance.choice((1, 100, 10000))}",
            "SECURITY DEFINER" if definer else "SECURITY INVOKER",
            chance.choice(("", "", f"SET search_path = {self.schema}, pg_catalog", "SET search_path = pg_catalog")),
            body,
        ]
        self.made.append(Function(code, use, owner or chance.choice(self.owners), name, " ".join(parts), definer))
        return name

    def _body(self, code: int, returns: str, result: str) -> tuple[str, str]:
        tell = f"witness.note({code})"
        if self.tricks and self.chance.random() < _TRICK_SHARE:
            tell = f"witness.{self.chance.choice(_TRICKS)}({code})"
        shape = self.chance.choices(("plpgsql", "sql", "atomic", "inline"), (5, 2, 1, 2))[0]
        if shape == "plpgsql":
            return "plpgsql", f"AS $$ BEGIN PERFORM {tell}; RETURN {result}; END $$"
        if shape == "sql":
            return "sql", f"AS $$ SELECT {tell}; SELECT {result} $$"
        if shape == "atomic":
            return "sql", f"BEGIN ATOMIC SELECT {tell}; SELECT {result}; END"
        return "sql", f"AS $$ SELECT witness.pass({code}, ({result})::{returns}) $$"
