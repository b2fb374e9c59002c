"""A pipeline keeps only those of its messages whose answers are still to come."""

from __future__ import annotations

from gateway.session.name_journal import ByName
from gateway.session.pipeline import Pipeline
from gateway.wire.framing import Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend

_PARSE = Frame(frontend.Parse.type, b"")
_PARSED = Frame(answers.ParseComplete.type, b"")
_ERROR = Frame(answers.ErrorResponse.type, b"")


def test_a_pipeline_without_end_keeps_what_is_outstanding() -> None:
    pipeline = Pipeline()
    known: ByName[int] = ByName(pipeline.journal)
    for number in range(1000):
        pipeline.begin()
        known["name"] = number
        pipeline.sent(_PARSE)
        if number > 2:
            pipeline.answered(_PARSED)
    assert pipeline
    assert len(pipeline.journal._changes) == 3
    pipeline.answered(_PARSED)
    pipeline.answered(_ERROR)
    assert known["name"] == 997
    assert not pipeline


def test_a_message_that_is_not_relayed_fails_alone() -> None:
    pipeline = Pipeline()
    known: ByName[int] = ByName(pipeline.journal)
    pipeline.begin()
    known["relayed"] = 1
    pipeline.sent(_PARSE)
    pipeline.begin()
    known["failed"] = 2
    pipeline.answered(_PARSED)
    pipeline.fail()
    assert dict(known) == {"relayed": 1}
