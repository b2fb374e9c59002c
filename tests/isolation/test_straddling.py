"""Transactions that straddle a change of schema: each row of the table of compatibility, and each of the rules.

PostgreSQL would let the change wait for them, so these transcripts are Sluice's own; they stand beside their schedules.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.compatibility import COMPATIBILITY
from tests.isolation.schedule import answers, read, run
from tests.servers import Server

_SCHEDULES = sorted((Path(__file__).parent.parent / "golden" / "straddling").glob("*.txt"))
# Changes that are still refused, or that come in states which nothing makes yet: tests/catalog judges them.
_REFUSED = {
    "add constraint": "ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0)",
    "set not null": "ALTER TABLE t ALTER COLUMN n SET NOT NULL",
    "add required column": "ALTER TABLE t ADD COLUMN m integer NOT NULL",
    "widen type": "ALTER TABLE t ALTER COLUMN n TYPE bigint",
    "change type": "ALTER TABLE t ALTER COLUMN n TYPE text",
}


@pytest.mark.parametrize("path", _SCHEDULES, ids=lambda path: path.stem)
def test_transcript(gateway: Server, schema: str, path: Path) -> None:
    transcript = run(gateway, schema, read(path, "READ COMMITTED"), messages=True)
    assert transcript == answers(path)


def test_every_kind_of_change_that_can_be_made_is_straddled() -> None:
    in_states = {"suspend constraint", *(rule.kind for rule in COMPATIBILITY if "index" in rule.kind)}
    in_states |= {"check constraint", "validate constraint", "publish constraint"}
    makeable = {rule.kind for rule in COMPATIBILITY} - in_states - set(_REFUSED)
    assert makeable <= {path.stem.replace("-", " ") for path in _SCHEDULES}


@pytest.mark.parametrize("statement", _REFUSED.values(), ids=_REFUSED.keys())
def test_the_others_are_refused(gateway: Server, schema: str, statement: str) -> None:
    gateway.psql("-qc", f"CREATE TABLE {schema}.t (n integer)")
    refused = gateway.psql(
        "-qv", "VERBOSITY=sqlstate", "-c", f"SET search_path = {schema}", "-c", statement, check=False
    )
    assert "0A000" in refused.stderr
