"""The story through PostgreSQL's JDBC driver, as Debian packages it: simple, extended text, extended binary."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.clients import story
from tests.clients.test_psql import text_format
from tests.servers import STATEMENT_SECONDS_MAX, Server

DRIVER = Path("/usr/share/java/postgresql.jar")
# What getObject gives for each type, by the driver's documentation. It has no BigDecimal for NaN.
CLASSES = {
    "smallint": "Integer", "integer": "Integer", "bigint": "Long", "numeric": "BigDecimal", "real": "Float",
    "double precision": "Double", "text": "String", "varchar": "String", "char": "String", "bytea": "byte[]",
    "boolean": "Boolean", "date": "Date", "time": "Time", "timestamp": "Timestamp", "timestamptz": "Timestamp",
    "interval": "PGInterval", "uuid": "UUID", "json": "PGobject", "jsonb": "PGobject", "integer[]": "PgArray",
    "text[]": "PgArray",
}  # fmt: skip
# A JVM that lives for a second gives back nothing of what its second compiler and its collector's threads take.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_UNESCAPES = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}

Field = str | None
Call = Sequence[Field]


def escape(field: Field) -> str:
    return "\\N" if field is None else field.translate(_ESCAPES)


def unescape(field: str) -> Field:
    if field == "\\N":
        return None
    characters: Iterator[str] = iter(field)
    return "".join(_UNESCAPES[next(characters)] if character == "\\" else character for character in characters)


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Story.class is."""
    home = os.environ.get("JAVA_HOME")
    compiler = shutil.which("javac", path=f"{home}/bin" if home else None) or shutil.which("javac")
    assert compiler is not None, "no javac: tests/run installs one"
    assert DRIVER.exists(), "no JDBC driver: tests/run installs it"
    directory = tmp_path_factory.mktemp("classes")
    source = Path(__file__).with_name("Story.java")
    subprocess.run([compiler, "-cp", str(DRIVER), "-d", str(directory), str(source)], check=True)
    return directory


class Java:
    """Story.java on one server with one set of driver options."""

    def __init__(self, classes: Path, server: Server, schema: str, options: str) -> None:
        self._classpath = f"{classes}:{DRIVER}"
        self._url = (
            f"jdbc:postgresql://{server.host}:{server.port}/{server.database}"
            f"?user={server.user}&currentSchema={schema}&{options}"
        )

    def perform(self, calls: Sequence[Call], memory: str = "256m") -> list[list[list[Field]]]:
        """What came of each call: lines of fields."""
        done = subprocess.run(
            ["java", *_SHORT_LIVED, f"-Xmx{memory}", "-Duser.timezone=UTC", "-cp", self._classpath, "Story", self._url],
            input="".join("\t".join(map(escape, call)) + "\n" for call in calls).encode(),
            capture_output=True,
            check=False,
            timeout=STATEMENT_SECONDS_MAX,
        )
        assert done.returncode == 0, done.stderr.decode()
        results: list[list[list[Field]]] = [[]]
        for line in done.stdout.decode().removesuffix("\n").split("\n"):
            if line == "end":
                results.append([])
            else:
                results[-1].append([unescape(field) for field in line.split("\t")])
        assert len(results) == len(calls) + 1
        return results[:-1]


SIMPLE, TEXT, BINARY = "preferQueryMode=simple", "prepareThreshold=0", "prepareThreshold=-1"


@pytest.fixture
def java(request: pytest.FixtureRequest, classes: Path, target: Server, target_schema: str) -> Java:
    return Java(classes, target, target_schema, request.param)


def load_calls(load: str) -> list[Call]:
    if load == "copy":
        return [("copy", "COPY reading FROM STDIN", text_format(story.ROWS, story.TYPES).removesuffix("\\.\n"))]
    placeholders = ", ".join(
        # The driver sends a String as varchar and an array's text untyped.
        "?"
        for _ in story.COLUMNS
    )
    texts = [text for row in story.ROWS for text in story.row_texts(story.TYPES, row)]
    return [("batch", f"INSERT INTO reading VALUES ({placeholders})", str(len(story.TYPES)), *story.TYPES, *texts)]


def run_call(step: story.Step) -> Call:
    sql = step.sql
    fields: list[Field] = []
    for number, parameter in enumerate(step.parameters, start=1):
        sql = sql.replace(f"${number}", "?")
        fields += [parameter.type_name, story.text_of(parameter.value, parameter.type_name)]
    return ("run", sql, *fields)


def check(step: story.Step, lines: list[list[Field]]) -> None:
    if not step.types:
        affected = step.tag.rpartition(" ")[2]
        assert lines == [["count", affected if affected.isdigit() else "0"]], step.sql
        return
    found = lines if step.ordered else sorted(lines, key=str)
    assert len(found) == len(step.rows), (step.sql, found)
    for line, row in zip(found, step.rows, strict=True):
        assert line[0] == "row", (step.sql, line)
        names, texts = line[1::2], line[2::2]
        wanted = story.row_texts(step.types, row)
        for type_name, class_name, text, expected in zip(step.types, names, texts, wanted, strict=True):
            base = type_name.partition("(")[0]
            if expected is None:
                assert text is None, (step.sql, text)
            elif base in {"real", "double precision"}:
                assert text is not None
                assert story.same(float(text), float(expected)), (step.sql, text, expected)
            else:
                assert text == expected, (step.sql, text, expected)
            if expected is not None and not (base == "numeric" and expected == "NaN"):
                assert class_name == CLASSES[base], (step.sql, base, class_name)


# No batch in simple mode: the driver writes these values into the statement in a form that PostgreSQL itself refuses.
@pytest.mark.turns
@pytest.mark.parametrize(
    ("java", "load"),
    [(SIMPLE, "copy"), (TEXT, "copy"), (TEXT, "batch"), (BINARY, "copy"), (BINARY, "batch")],
    indirect=["java"],
)
def test_story(java: Java, load: str) -> None:
    labels = ("copy", "COPY label FROM STDIN", text_format(story.LABELS, ("text", "text")).removesuffix("\\.\n"))
    steps = (*story.QUERIES, *story.CHANGES)
    calls: list[Call] = [
        *(("run", sql) for sql in story.CREATE),
        labels,
        *load_calls(load),
        *map(run_call, steps),
        *(("run", refusal.sql) for refusal in story.REFUSALS),
        run_call(story.AFTER_REFUSALS),
    ]
    results = iter(java.perform(calls))
    assert [next(results) for _ in range(4)] == [[["count", "0"]], [["count", "0"]], [["count", "3"]], [["count", "6"]]]
    for step in steps:
        check(step, next(results))
    for refusal in story.REFUSALS:
        assert next(results) == [["error", refusal.sqlstate, refusal.constraint, refusal.column]], refusal.sql
    check(story.AFTER_REFUSALS, next(results))


@pytest.mark.turns
@pytest.mark.parametrize("java", [SIMPLE, TEXT, BINARY], indirect=True)
def test_metadata(java: Java, target_schema: str) -> None:
    """DatabaseMetaData.getColumns of what was created."""
    *_, lines = java.perform([*(("run", sql) for sql in story.CREATE), ("columns", target_schema, "reading")])
    by_name = {line[1]: line[2:] for line in lines}
    assert list(by_name) == list(story.COLUMNS)
    assert by_name["price"] == ["numeric", "2", "12", "2", "YES", None, "NO"]
    assert by_name["name"][4] == "NO"
    assert by_name["active"][5] == "true"
    assert by_name["id"][6] == "YES"
    assert [by_name[name][0] for name in ("small", "code", "flag", "instant", "numbers")] == [
        "int2", "varchar", "bpchar", "timestamptz", "_int4",
    ]  # fmt: skip


# In simple mode the driver reads a result as a whole, on PostgreSQL too.
@pytest.mark.parametrize("java", [TEXT, BINARY], indirect=True)
def test_a_large_result_in_fetches(java: Java) -> None:
    """setFetchSize without autocommit: 150 MB through a driver that has 64 MB, with other statements between."""
    rows = 150_000
    query = "SELECT n, rpad(t, 1000, 'x') FROM wide"
    *_, lines = java.perform(
        [
            ("run", "CREATE TABLE wide (n bigint, t text)"),
            ("run", f"INSERT INTO wide SELECT n, 'row ' || n FROM generate_series(1, {rows}) n"),
            ("stream", query, "2000", "SELECT count(*) FROM wide WHERE n <= 10"),
        ],
        memory="64m",
    )
    assert lines == [["streamed", str(rows), str(rows * (rows + 1) // 2), str(rows * 1000), str(rows // 50_000 * 10)]]


# java.sql.Connection's numbers of READ COMMITTED, REPEATABLE READ and SERIALIZABLE.
@pytest.mark.turns
@pytest.mark.parametrize("level", ["2", "4", "8"])
@pytest.mark.parametrize("java", [SIMPLE, TEXT, BINARY], indirect=True)
def test_without_autocommit(java: Java, level: str) -> None:
    """Batches, savepoints, an error that is undone, rows in portions of three while they change, and both ends."""
    transacted = [["transacted", "10", "10", "23505", "1 2 3 4 5 6 7 8 9 10", level]]
    count = ("run", "SELECT count(*), count(*) FILTER (WHERE t = 'changed') FROM numbered")
    answers = java.perform(
        [
            ("run", "CREATE TABLE numbered (n integer PRIMARY KEY, t text)"),
            ("transact", "numbered", level, "rollback"),
            count,
            ("transact", "numbered", level, "commit"),
            count,
        ]
    )
    assert answers[1:] == [
        transacted,
        [["row", "Long", "0", "Long", "0"]],
        transacted,
        [["row", "Long", "10", "Long", "5"]],
    ]


_CODE = """
CREATE TABLE part (id integer PRIMARY KEY, name text);
INSERT INTO part VALUES (1, 'bolt'), (2, 'nut'), (3, 'cog');
CREATE FUNCTION name_of(n integer) RETURNS text LANGUAGE plpgsql
AS $$ BEGIN RETURN (SELECT name FROM part WHERE id = n); END $$;
CREATE FUNCTION parts(low integer) RETURNS refcursor LANGUAGE plpgsql
AS $$ DECLARE c refcursor; BEGIN OPEN c FOR SELECT id, name FROM part WHERE id >= low ORDER BY id; RETURN c; END $$;
CREATE FUNCTION both_of(INOUT n integer, OUT told text) LANGUAGE plpgsql
AS $$ BEGIN SELECT name INTO told FROM part WHERE id = n; n := n * 10; END $$;
CREATE PROCEDURE add_part(INOUT n integer, named text) LANGUAGE plpgsql
AS $$ BEGIN INSERT INTO part VALUES (n, named); n := n + 1; END $$;
CREATE PROCEDURE add_both(INOUT n integer, named text) LANGUAGE plpgsql
AS $$ BEGIN INSERT INTO part VALUES (n, named); COMMIT; INSERT INTO part VALUES (1, 'twice'); END $$
"""


# Not in simple mode: PostgreSQL itself finds no function for the texts that the driver then sends.
@pytest.mark.turns
@pytest.mark.parametrize("java", [TEXT, BINARY], indirect=True)
def test_callable_statements(java: Java) -> None:
    """CallableStatement: functions with a result, outputs and cursors; procedures, also such that commit."""
    called: dict[Call, list[list[Field]]] = {
        ("call", "{? = call name_of(?)}", "1:VARCHAR", "alone", "2", "integer", "2"): [["out", "nut"]],
        ("call", "{? = call parts(?)}", "1:REF_CURSOR", "block", "2", "integer", "2"): [
            ["row", "2", "nut"],
            ["row", "3", "cog"],
        ],
        ("call", "{call both_of(?, ?)}", "1:INTEGER,2:VARCHAR", "alone", "1", "integer", "3"): [
            ["out", "30"],
            ["out", "cog"],
        ],
        ("call", "CALL add_part(?, ?)", "1:INTEGER", "alone", "1", "integer", "4", "2", "text", "pin"): [["out", "5"]],
        ("call", "CALL add_part(?, ?)", "1:INTEGER", "block", "1", "integer", "5", "2", "text", "rod"): [["out", "6"]],
        ("call", "CALL add_both(?, ?)", "1:INTEGER", "alone", "1", "integer", "6", "2", "text", "cap"): [
            ["error", "23505", "part_pkey", None]
        ],
        ("call", "CALL add_both(?, ?)", "1:INTEGER", "block", "1", "integer", "7", "2", "text", "lid"): [
            ["error", "2D000", None, None]
        ],
    }
    code: list[Call] = [("run", sql) for sql in _CODE.split(";\nCREATE", maxsplit=1)[0].split(";\n")]
    code += [("run", f"CREATE{sql}") for sql in _CODE.split(";\nCREATE")[1:]]
    results = java.perform([*code, *called, ("run", "SELECT name FROM part ORDER BY id")])
    assert results[: len(code)] == [[["count", "0"]]] + [[["count", "3"]]] + [[["count", "0"]]] * 5
    assert results[len(code) : -1] == list(called.values())
    assert [line[2] for line in results[-1]] == ["bolt", "nut", "cog", "pin", "rod", "cap"]
