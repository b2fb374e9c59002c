"""The rows of the table of compatibility that transcripts straddle, and the outcomes.

A golden file says in its first lines `-- straddled: kinds` of changes across which a transaction commits, and `--
forbidden: kinds` of those that keep one from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg

from catalog.schema.compatibility import COMPATIBILITY, RULES, SchemaStep, forbidding_step
from catalog.schema.states import PATHS, STEPS, WORK_OF, Direction, Element, State, step, undo_path
from tests.servers import GatewayProcess

_SAYS = {"-- straddled: ": True, "-- forbidden: ": False}
# A constraint that is NOT VALID is made in the state CHECK, and may be validated in a block, at once.
_AT_ONCE = ("check constraint", "publish constraint")


@dataclass(frozen=True, order=True)
class Claim:
    """A transaction commits across a change of this kind, or does not."""

    kind: str
    commits: bool


def claims(path: Path) -> set[Claim]:
    """What a golden file says."""
    return {
        Claim(kind, commits)
        for line in path.read_text().splitlines()
        for words, commits in _SAYS.items()
        if line.startswith(words)
        for kind in line.removeprefix(words).split(", ")
    }


def wanted() -> set[Claim]:
    """Every row of the table; of elements that come and go in states, whatever any transaction may meet beside them."""
    ways = [_AT_ONCE, *(tuple(kinds) for element in Element for kinds in _ways(element))]
    in_states = {each.kind for each in STEPS} - {"drop constraint"}
    found = {Claim(rule.kind, rule.forward_compatible) for rule in COMPATIBILITY if rule.kind not in in_states}
    for way in ways:
        for begin in range(len(way)):
            for end in range(begin + 1, len(way) + 1):
                met = way[begin:end]
                bad = forbidding_step([SchemaStep(0, kind, "element") for kind in met])
                if bad is None or bad.kind == met[-1]:
                    found.add(Claim(met[-1], bad is None))
    return found


def _ways(element: Element) -> Iterator[list[str]]:
    """The kinds of the steps of an element that is added, and of those by which it is undone from any state."""
    adding = PATHS[WORK_OF[element], Direction.ADDING]
    for states in (adding, *(undo_path(element, reached, State.ABSENT) for reached in adding[1:-1])):
        yield [step(element, *pair).kind for pair in pairwise(states)]


@contextmanager
def as_claimed(process: GatewayProcess, path: Path) -> Iterator[None]:
    """Meanwhile the file's transcript is made, and with it steps are published of all kinds that it says."""
    with psycopg.connect(process.catalog_url, autocommit=True) as catalog:
        [last] = catalog.execute("SELECT coalesce(max(step_id), 0) FROM pg_sluice.schema_step").fetchone() or (0,)
        yield
        query = "SELECT step_id, kind, subject, detail FROM pg_sluice.schema_step WHERE step_id > %s"
        published = {SchemaStep(*row).rule.kind for row in catalog.execute(query, [last])}
    assert {claim.kind for claim in claims(path)} <= published


def shown(path: Path, claim: Claim) -> bool:
    """Whether the transcript has an answer by which the claim is to be seen."""
    lines = path.read_text().splitlines()
    if claim.commits:
        return any(line.endswith(": COMMIT -> COMMIT") for line in lines)
    before, _, after = RULES[claim.kind].phrase.partition('"{subject}"')
    said = [line for line in lines if " -> ERROR 40001 " in line]
    return any(before.lower() in line.lower() and after in line for line in said)
