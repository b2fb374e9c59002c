"""Whether a schema change did what its text says: a parsed change beside the trial's outcome. Pure."""

from __future__ import annotations

from planner.schema.change_kinds import CONSEQUENCES
from planner.schema.simple_change import NOTHING, CompoundChange, SimpleChange


def differences(parsed: CompoundChange, outcome: CompoundChange) -> list[str]:
    """Return what one of them has and the other has not, in words.

    What follows from a change is none (`CONSEQUENCES`), and nothing is if a part of the statement is unparsed.
    """
    left = list(outcome.changes)
    missing = []
    for change in parsed.changes:
        found = next((each for each in left if _is_of(change, each)), None)
        if found is not None:
            left.remove(found)
        elif NOTHING not in change.or_kinds:
            missing.append(f"{_words(change)} is not in the outcome")
    if parsed.unparsed:
        return missing
    following = set[str]()
    for change in parsed.changes:
        following |= CONSEQUENCES.get(change.step.kind, frozenset())
    return missing + [f"{_words(each)} is not in the text" for each in left if each.step.rule.kind not in following]


def _is_of(change: SimpleChange, outcome: SimpleChange) -> bool:
    """Whether the outcome's change may be that of the text. One of another part has that part's name."""
    named = change.subject if outcome.kind.part is change.kind.part else ""
    return (
        outcome.step.rule.kind in {change.step.kind, *change.or_kinds}
        and change.table == outcome.table
        and change.schema in {"", outcome.schema}
        and named in {"", outcome.subject}
    )


def _words(change: SimpleChange) -> str:
    return f'{change.step.rule.kind} "{change.subject}" of {change.table}'
