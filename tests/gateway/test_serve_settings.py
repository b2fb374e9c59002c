"""Settings of `sluice` by option, by variable and by file, and the Spark settings that users may choose."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

import psycopg
import pytest

from catalog.errors import SluiceError, SqlState
from gateway.cli.main import _parser
from gateway.cli.serve_settings import SETTINGS, as_table, resolved
from storage.spark.jvm import EngineSettings, spark_settings
from storage.spark.spark_conf import CHOOSABLE, default_driver_memory, read_defaults
from tests.forks import ask_sluice
from tests.servers import SLUICE, GatewayProcess, free_port

ROOT = Path(__file__).parents[2]


def given(*arguments: str) -> dict[str, object]:
    return vars(_parser().parse_args(["serve", *arguments]))


def test_what_holds_where_nothing_is_said() -> None:
    values = resolved(given(), {}, None)
    assert given()["data_dir"] == Path("sluice-data")
    assert values == {
        "listen": ("127.0.0.1", 5433),
        "catalog": None,
        "data_path": None,
        "s3_endpoint": None,
        "s3_region": None,
        "s3_path_style": True,
        "copies_limit": 20_480,
        "spark": "local[*]",
        "driver_memory": None,
        "spark_conf": (),
        "spark_defaults": None,
        "spark_ui": False,
        "engine": "auto",
        "maintenance": True,
        "grace": 8.0,
        "max_connections": 100,
        "reserved_connections": 3,
        "authentication_timeout": 60.0,
        "unread_limit": 8192,
        "temp_file_limit": 8192,
        "shuffled": None,
    }


def test_the_command_line_wins_over_variables_and_these_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sluice.toml"
    file.write_text(
        'max-connections = 7\ngrace = 1.5\nspark = "spark://file:1"\nmaintenance = false\nspark-ui = true\n'
        '[spark-conf]\nspark.executor.memory = "3g"\nspark.a = 1\n"spark.b.c" = true\n'
    )
    environment = {
        "SLUICE_MAX_CONNECTIONS": "8",
        "SLUICE_SPARK": "spark://variable:1",
        "SLUICE_SPARK_CONF": "spark.a=2 'spark.d=x y=z'",
        "SLUICE_SPARK_UI": "off",
    }
    values = resolved(given("--spark", "local[3]", "--spark-conf", "spark.a=3", "--maintenance"), environment, file)
    assert (values["max_connections"], values["grace"], values["spark"]) == (8, 1.5, "local[3]")
    assert (values["maintenance"], values["spark_ui"]) == (True, False)
    assert dict(values["spark_conf"]) == {
        "spark.executor.memory": "3g",
        "spark.a": "3",
        "spark.b.c": "true",
        "spark.d": "x y=z",
    }


@pytest.mark.turns
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("max-connection = 1", 'there is no setting "max-connection"'),
        ("max-connections = -1", "max-connections: expected a number, 0 or more"),
        ("max-connections = true", "max-connections: expected a number, 0 or more"),
        ("max-connections = [1]", "max-connections: expected a single value"),
        ("[grace]\na = 1", "grace: expected a single value"),
        ('spark-ui = "yes, please"', "spark-ui: expected true or false"),
        ('driver-memory = "lots"', "driver-memory: expected a size, as 512m or 8g"),
        ("grace = nan", "grace: expected seconds, 0 or more"),
        ("grace = ", "Invalid value"),
        ('spark-conf = "spark.a"', "spark-conf: expected NAME=VALUE"),
    ],
)
def test_a_file_that_says_nothing_that_is_known(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "sluice.toml"
    file.write_text(content)
    with pytest.raises(SluiceError) as caught:
        resolved({}, {}, file)
    assert caught.value.sqlstate == SqlState.INVALID_PARAMETER_VALUE
    assert caught.value.message.startswith(f"{file}: ")
    assert said in caught.value.message


@pytest.mark.turns
@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("SLUICE_SPARK_CONF", "spark.a='1", "SLUICE_SPARK_CONF: No closing quotation"),
        ("SLUICE_SPARK_UI", "perhaps", "SLUICE_SPARK_UI: spark-ui: expected true or false"),
        ("SLUICE_LISTEN", "5433", "SLUICE_LISTEN: listen: expected HOST:PORT"),
        ("SLUICE_CATALOG", "", "SLUICE_CATALOG: catalog: expected a value"),
    ],
)
def test_a_variable_that_says_nothing_that_is_known(variable: str, text: str, said: str) -> None:
    with pytest.raises(SluiceError) as caught:
        resolved({}, {variable: text}, None)
    assert caught.value.message == said


def test_a_file_that_is_not_there() -> None:
    done = ask_sluice("check", "--config", "/nowhere/sluice.toml")
    assert (done.returncode, done.stderr) == (
        1,
        "sluice: cannot read /nowhere/sluice.toml: No such file or directory\n",
    )


def test_the_help_and_the_documentation_are_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    text = ask_sluice("serve", "--help").stdout
    for setting in SETTINGS:
        assert f"--{setting.name}" in text
        assert setting.variable in text
    documented = (ROOT / "docs" / "operations.md").read_text()
    assert as_table() in documented, "print it anew: gateway.cli.serve_settings.as_table()"


@pytest.mark.turns
@pytest.mark.parametrize(
    "name",
    [
        "spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.legacy.timeParserPolicy", "spark.master",
        "spark.driver.memory", "spark.local.dir", "spark.ui.enabled",
        "spark.ui.killEnabled", "spark.scheduler.mode", "spark.sql.warehouse.dir", "spark.sql.variable.substitute",
        "spark.hadoop.fs.permissions.umask-mode", "spark.rdd.limit.initialNumPartitions", "java.class.path",
    ],
)  # fmt: skip
def test_settings_of_spark_that_are_not_the_users(name: str) -> None:
    done = ask_sluice("serve", "--spark-conf", f"{name}=x")
    assert done.returncode == 1
    assert re.fullmatch(rf"sluice: {re.escape(name)} cannot be set: \S.*\n", done.stderr)


def test_settings_of_spark_that_are() -> None:
    own = spark_settings(EngineSettings(), Path("/scratch"))
    assert set(own) >= CHOOSABLE
    chosen = {
        "spark.executor.memory": "3g",
        "spark.sql.shuffle.partitions": "7",
        "spark.driver.extraJavaOptions": "-Da=b",
    }
    settings = spark_settings(EngineSettings(spark=chosen), Path("/scratch"))
    options = f"{own['spark.driver.extraJavaOptions']} -Da=b"
    assert settings == {**own, **chosen, "spark.driver.extraJavaOptions": options}


def test_the_file_of_sparks_own_form(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text("# what all jobs have\n\nspark.a   1\nspark.b=2 3\n  spark.c\t-Dx=y\nspark.d :  e=f\n")
    assert read_defaults(file) == [("spark.a", "1"), ("spark.b", "2 3"), ("spark.c", "-Dx=y"), ("spark.d", "e=f")]
    file.write_text("spark.a 1\nspark.b\n")
    with pytest.raises(SluiceError, match="line 2: expected a name and a value"):
        read_defaults(file)


def test_the_drivers_memory_is_a_part_of_the_machines() -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    gigabytes = int(default_driver_memory().removesuffix("g"))
    assert 1 <= gigabytes <= max(1, machine // 4 // 2**30)


def test_a_gateway_that_is_told(data_dir: Path) -> None:
    """Its Spark has the settings; the page is there for this machine alone, and nobody ends a job by it."""
    port = free_port()
    data_dir.mkdir(mode=0o700, exist_ok=True)
    (data_dir / "sluice.toml").write_text(f"max-connections = 5\n[spark-conf]\nspark.ui.port = {port}\n")
    defaults = data_dir / "spark-defaults.conf"
    defaults.write_text("spark.sql.shuffle.partitions 3\nspark.app.name file\n")
    told = {"SLUICE_SPARK_DEFAULTS": str(defaults), "SLUICE_SPARK_CONF": "spark.app.name=variable"}
    arguments = ("--spark", "local[1]", "--spark-ui", "--driver-memory", "700m", "--reserved-connections", "1")
    with GatewayProcess(data_dir, arguments=arguments, environment=told, program=(str(SLUICE),)) as gateway:
        with psycopg.connect(gateway.server.url) as client:
            client.execute("CREATE TABLE t (a integer)")
            client.execute("INSERT INTO t VALUES (1)")
            client.commit()
            assert client.execute("SELECT sum(a) FROM t GROUP BY a").fetchone() == (1,)
        interface = f"http://127.0.0.1:{port}/api/v1/applications"
        with urllib.request.urlopen(interface, timeout=30) as page:
            [application] = json.load(page)
        with urllib.request.urlopen(f"{interface}/{application['id']}/environment", timeout=30) as page:
            properties = dict(json.load(page)["sparkProperties"])
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/jobs/job/kill/?id=0", data=b"", timeout=30)
        listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    names = ("spark.app.name", "spark.sql.shuffle.partitions", "spark.driver.memory")
    assert [properties[name] for name in names] == ["variable", "3", "700m"]
    addresses = re.findall(rf"\d+: (\w+):{port:04X} \w+:0000 0A ", listening)
    assert addresses
    assert all(address.endswith("0100007F") for address in addresses)
