"""The generator: a seed determines everything, and every feature occurs."""

from __future__ import annotations

import re

import pytest

from tests.answers.asking import QUERIES_PER_WORLD, query_of, world_of
from tests.answers.changing import change_of
from tests.answers.features import FEATURES, has_correlated
from tests.answers.partitions import partition_of
from tests.answers.queries import Query
from tests.answers.types import KINDS

pytestmark = pytest.mark.turns(together=True)

_QUERIES = 2000


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    worlds = {place: world_of("features g", place) for place in range(_QUERIES // QUERIES_PER_WORLD + 1)}
    return [query_of("features g", number, worlds[number // QUERIES_PER_WORLD]) for number in range(_QUERIES)]


def test_every_feature_is_asked(queries: list[Query]) -> None:
    counts = {name: sum(1 for query in queries if shows(query)) for name, shows in FEATURES.items()}
    assert [name for name, count in counts.items() if count == 0] == [], counts


def test_a_third_is_correlated(queries: list[Query]) -> None:
    share = sum(map(has_correlated, queries)) / len(queries)
    assert share > 1 / 3, share


def test_a_seed_says_it_all() -> None:
    for number in (0, 7, 61):
        once, again = world_of("s", number), world_of("s", number)
        assert list(once.statements()) == list(again.statements())
        assert query_of("s", number, once).sql() == query_of("s", number, again).sql()
        assert change_of("s", number, once).sql() == change_of("s", number, again).sql()
        assert partition_of("s", number, once).parts() == partition_of("s", number, again).parts()
    assert query_of("s", 1, once).sql() != query_of("t", 1, once).sql()


def test_tables_have_every_type_and_a_history() -> None:
    tables = world_of("s", 0).tables
    assert {column.kind for column in tables[0].columns} == set(KINDS)
    texts = [str(statement) for statement in world_of("s", 0).statements()]
    for pattern in (
        "ADD COLUMN",
        "DROP COLUMN",
        r"ALTER COLUMN \w+ TYPE",
        "DELETE FROM",
        "COPY",
        "INSERT INTO",
        "NULL",
    ):
        assert any(re.search(pattern, text) for text in texts), pattern


def test_every_change_is_made() -> None:
    tables = world_of("s", 0)
    patterns = (
        "^INSERT", "^UPDATE", "^DELETE", "^MERGE", r"\) FROM t\d AS a2 WHERE", "USING", "DO NOTHING", "DO UPDATE",
        "RETURNING", "NOT MATCHED BY SOURCE", "merge_action", r"\bold\.", r"\(SELECT", "^SAVEPOINT", "ROLLBACK TO",
        "RELEASE", "ALTER TABLE", "^WITH changed", r"RETURNING WITH \(OLD AS", r"SET \([^)]*\) = ROW",
        r"SET \([^)]*\) = \(SELECT", "ON CONSTRAINT", "ON CONFLICT DO NOTHING", "BY SOURCE AND .* THEN DELETE",
        r"USING \(SELECT", r"FROM t\d AS a\d+ (INNER|LEFT) JOIN t\d",
        r"^INSERT INTO \S+ AS \S+ \([^)]*\) VALUES .*DEFAULT", r"VALUES .*DO UPDATE",
        r"^(INSERT INTO|UPDATE|DELETE FROM|MERGE INTO) view3",
    )  # fmt: skip
    texts = [change_of("s", number, tables).sql() for number in range(300)]
    for pattern in patterns:
        assert any(re.search(pattern, text) for text in texts), pattern
