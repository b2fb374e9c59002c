"""Every schema operation (tests/golden/operations): its steps, and what other sessions do and see beside it."""

from __future__ import annotations

import pytest

from catalog.schema.compatibility import RULES
from catalog.schema.states import STEPS
from tests.changes.operations import Area, areas, carry_out, drop, dump, execute, prepare
from tests.servers import GatewayProcess, Server

_AREAS = areas()
_OPERATIONS = [each for area in _AREAS for each in area.operations]


@pytest.mark.turns
@pytest.mark.parametrize("area", _AREAS, ids=lambda area: area.name)
def test_transcript(gateway_process: GatewayProcess, oracle: Server, area: Area) -> None:
    """PostgreSQL gives the same answers, and ends up with the same schema."""
    gateway = gateway_process.server
    try:
        for server in (gateway, oracle):
            prepare(server, area)
        assert carry_out(gateway_process, area) == area.text
        for each in area.operations:
            if each.is_refused:
                for server in (gateway, oracle):
                    server.psql("-qc", f"SET client_min_messages = error; DROP SCHEMA {each.schema} CASCADE")
            else:
                assert execute(oracle, each) == each.answer.replace("{schema}", each.schema), each.name
        assert dump(gateway, area) == dump(oracle, area)
    finally:
        for server in (gateway, oracle):
            drop(server, area)


def test_every_simple_change_is_explained() -> None:
    """What a change of a schema can be made of is in some operation of these files."""
    in_states = {step.kind for step in STEPS} - {"drop constraint", "drop index"}
    makeable = {rule.kind.title() for rule in RULES.values()} - {kind.title() for kind in in_states} | {"Add Index"}
    explained = {line for each in _OPERATIONS for line in each.explained if line.startswith("->")}
    assert {kind for kind in makeable if not any(f"->  {kind} " in f"{line} " for line in explained)} == _NOT_MADE


# What widens a type keeps its values; what does not is another column. A view is no table of the lake's.
_NOT_MADE = {"Change Type", "Replace View"}


def test_every_state_is_stopped_in() -> None:
    stopped = {state for each in _OPERATIONS for state in each.states}
    assert stopped >= {step.before for step in STEPS} - {"public"}
