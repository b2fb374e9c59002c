"""Spark's parser counts the states that it remembers, and forgets them before they fill the heap."""

from __future__ import annotations

from storage.spark.engine import SparkEngine
from storage.spark.jvm import SparkJvm
from tests.storage.conftest import Reader


def _states(jvm: SparkJvm) -> int:
    companion = getattr(jvm.view.org.apache.spark.sql.catalyst.parser, "AbstractParser$")
    return int(getattr(companion, "MODULE$").getDFACacheNumStates())


async def test_what_the_parser_remembers_is_bounded(engine: SparkEngine, reader: Reader) -> None:
    """Spark counts only where it is to forget, and forgets all at once where the ratio is exceeded."""
    assert await reader.column("SELECT 1 + 1 AS two") == [2]
    assert engine._spark is not None
    jvm = engine._spark.jvm
    assert _states(jvm) > 0
    session = jvm.session
    ratio = str(session.conf().get("spark.sql.parser.parserDfaCacheFlushRatio"))
    try:
        session.conf().set("spark.sql.parser.parserDfaCacheFlushRatio", "0.0001")
        session.sql("SELECT 2 + 2")
        assert _states(jvm) == 0
    finally:
        session.conf().set("spark.sql.parser.parserDfaCacheFlushRatio", ratio)
