"""The settings of `sluice` in one table: as option, environment variable or file entry.

The command line wins over variables (`SLUICE_MAX_CONNECTIONS` for `--max-connections`), these over the file
(`max-connections = 200` in `sluice.toml`), and that over the default. The help and docs/operations.md are printed from
the table.
"""

from __future__ import annotations

import argparse
import math
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from catalog.errors import SluiceError, SqlState
from gateway.cli.serve_options import DEFAULT_ENGINE, GRACE_SECONDS
from gateway.server.admission import Limits
from planner.plans.placement import Engine
from storage.parquet.object_store import COPIES_BYTES_MAX, StoreSettings, checked_endpoint
from storage.spark.spark_conf import memory_size
from storage.spool.spill import TEMP_FILE_LIMIT_BYTES
from storage.spool.unread_rows import LIMIT_BYTES

FILE_NAME: Final = "sluice.toml"
_AUTHENTICATION_SECONDS_MAX: Final = 600
_LIMITS: Final = Limits()
_TRUE: Final = {"true", "on", "yes", "1"}
_FALSE: Final = {"false", "off", "no", "0"}


def _text(text: str) -> str:
    if not text:
        raise ValueError("expected a value")
    return text


def _address(text: str) -> tuple[str, int]:
    """Host and port; an IPv6 address may stand in brackets, as in URLs."""
    host, separator, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (separator and host and port.isdecimal() and int(port) < 65536):
        raise ValueError("expected HOST:PORT")
    return host, int(port)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("expected a number, 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError("expected seconds, 0 or more")
    return seconds


def _login_seconds(text: str) -> float:
    """At most as long as PostgreSQL allows."""
    seconds = _seconds(text)
    if not 0 < seconds <= _AUTHENTICATION_SECONDS_MAX:
        raise ValueError(f"expected seconds, more than 0 and {_AUTHENTICATION_SECONDS_MAX} at most")
    return seconds


def _truth(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError("expected true or false")
    return text.lower() in _TRUE


def _engine(text: str) -> Engine:
    try:
        return Engine(text)
    except ValueError:
        raise ValueError("expected auto, postgres or spark") from None


def _endpoint(text: str) -> str:
    try:
        return checked_endpoint(text)
    except SluiceError as error:
        raise ValueError(error.message) from None


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (separator and name):
        raise ValueError("expected NAME=VALUE")
    return name.strip(), value.strip()


@dataclass(frozen=True, slots=True)
class Setting:
    """`read` makes a value of a text, or raises ValueError. A setting that is `several` may be given repeatedly: its
    value is a tuple. `described` names the default if its value does not.
    """

    name: str
    metavar: str
    meaning: str
    read: Callable[[str], Any] = _text
    default: Any = None
    described: str = ""
    several: bool = False

    @property
    def key(self) -> str:
        """Its name in Python."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"SLUICE_{self.key.upper()}"

    @property
    def default_text(self) -> str:
        """The default, for documentation."""
        if self.described or self.default is None:
            return self.described
        if isinstance(self.default, bool):
            return "true" if self.default else "false"
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


SETTINGS: Final = (
    Setting("listen", "HOST:PORT", "where clients come in", _address, ("127.0.0.1", 5433), "127.0.0.1:5433"),
    Setting("catalog", "DSN", "a PostgreSQL 18, in place of the embedded one"),
    Setting("data-path", "PATH", "the lake's root, in place of DIR/lake: a folder, or s3://bucket/prefix"),
    Setting("s3-endpoint", "URL", "the server of an object store that is not Amazon's", _endpoint),
    Setting("s3-region", "NAME", "the region of the bucket", described="the AWS SDK's"),
    Setting(
        "s3-path-style",
        "BOOLEAN",
        "whether such a server has the bucket's name in the path, and not in the host's name",
        _truth,
        True,
    ),
    Setting(
        "copies-limit",
        "MEGABYTES",
        "how much disk local copies of an object store's files may take",
        _count,
        COPIES_BYTES_MAX // 2**20,
    ),
    Setting("spark", "URL", "Spark's master", default="local[*]"),
    Setting(
        "driver-memory",
        "SIZE",
        "the heap of Spark's driver, as 512m or 8g",
        memory_size,
        described="a quarter of the machine's",
    ),
    Setting(
        "spark-conf",
        "NAME=VALUE",
        "a setting of Spark's; may be given more than once",
        _pair,
        (),
        "none",
        several=True,
    ),
    Setting("spark-defaults", "FILE", "settings of Spark's, as in spark-defaults.conf", Path),
    Setting("spark-ui", "BOOLEAN", "whether Spark shows its jobs in a browser", _truth, False),
    Setting(
        "engine",
        "NAME",
        "who computes queries over few rows where sluice.engine is not set: auto, postgres or spark",
        _engine,
        DEFAULT_ENGINE,
    ),
    Setting(
        "maintenance",
        "BOOLEAN",
        "whether this gateway compacts and expires; false leaves it to others and to VACUUM",
        _truth,
        True,
    ),
    Setting("grace", "SECONDS", "how long SIGTERM lets statements go on", _seconds, GRACE_SECONDS),
    Setting("max-connections", "NUMBER", "how many sessions there may be", _count, _LIMITS.max_connections),
    Setting(
        "reserved-connections",
        "NUMBER",
        "the last ones, for roles with the privileges of pg_use_reserved_connections",
        _count,
        _LIMITS.reserved_connections,
    ),
    Setting(
        "authentication-timeout",
        "SECONDS",
        "how long a client may take to log in",
        _login_seconds,
        _LIMITS.authentication_timeout,
    ),
    Setting(
        "unread-limit",
        "MEGABYTES",
        "how much disk the rows of results may take that clients have not read",
        _count,
        LIMIT_BYTES // 2**20,
    ),
    Setting(
        "temp-file-limit",
        "MEGABYTES",
        "how much disk a session's rows may take that are kept until its statement is over",
        _count,
        TEMP_FILE_LIMIT_BYTES // 2**20,
    ),
    Setting("shuffled", "SEED", "for tests: Spark gets the rows of tables out of order", _count),
)
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
assert len(_BY_NAME) == len(SETTINGS), "a setting stands twice in the table"
# Settings of other commands than `serve`, too.
COMMON: Final = ("catalog", "s3-endpoint", "s3-region", "s3-path-style", "copies-limit")


def add_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add an option for each of these settings. Options that are not given are not in the parser's result."""
    for name in names:
        setting = _BY_NAME[name]
        default = f"; {setting.default_text}" if setting.default_text else ""
        words: dict[str, Any] = {"default": argparse.SUPPRESS}
        if setting.read is _truth:
            words["action"] = argparse.BooleanOptionalAction
        else:
            words["metavar"] = setting.metavar
            words["type"] = _option(setting)
            words["action"] = "append" if setting.several else "store"
        parser.add_argument(f"--{name}", help=f"{setting.meaning} ({setting.variable}{default})", **words)


def resolved(given: Mapping[str, Any], environment: Mapping[str, str], file: Path | None) -> dict[str, Any]:
    """The value of every setting, by its `key`. Texts are read here; `given` are the command line's, already read.

    Repeatable settings are joined, the strongest source last. 22023 for an invalid value or an unknown name; 58030 if
    the file cannot be read.
    """
    in_file = {} if file is None else _of_file(file)
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        found: list[Any] = []
        if setting.name in in_file:
            found.append([_read(setting, text, str(file)) for text in in_file[setting.name]])
        if setting.variable in environment:
            text = environment[setting.variable]
            texts = _words(setting, text) if setting.several else [text]
            found.append([_read(setting, text, setting.variable) for text in texts])
        if setting.key in given:
            value = given[setting.key]
            found.append(value if setting.several else [value])
        if setting.several:
            values[setting.key] = tuple(value for values in found for value in values)
        else:
            values[setting.key] = found[-1][-1] if found else setting.default
    return values


def store_settings(values: Mapping[str, Any]) -> StoreSettings:
    """How to reach an object store, by these values."""
    return StoreSettings(
        endpoint=values["s3_endpoint"],
        region=values["s3_region"],
        path_style=values["s3_path_style"],
        copies_bytes_max=values["copies_limit"] * 2**20,
    )


def as_table() -> str:
    """The table for the documentation, in Markdown."""
    lines = ["| option | variable | default | what it says |", "|---|---|---|---|"]
    for setting in SETTINGS:
        default = (
            f"`{setting.default_text}`"
            if setting.default is not None and not setting.several
            else (setting.default_text)
        )
        lines.append(f"| `--{setting.name} {setting.metavar}` | `{setting.variable}` | {default} | {setting.meaning} |")
    return "\n".join(lines)


def _option(setting: Setting) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return setting.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def _read(setting: Setting, text: str, where: str) -> Any:
    try:
        return setting.read(text)
    except ValueError as error:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"{where}: {setting.name}: {error}") from error


def _words(setting: Setting, text: str) -> list[str]:
    """The words of a variable with several values."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"{setting.variable}: {error}") from error


def _of_file(file: Path) -> dict[str, list[str]]:
    """The texts of a file's settings, by name."""
    try:
        with file.open("rb") as stream:
            content = tomllib.load(stream)
    except OSError as error:
        raise SluiceError(SqlState.IO_ERROR, f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"{file}: {error}") from error
    texts: dict[str, list[str]] = {}
    for name, value in content.items():
        if name not in _BY_NAME:
            raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'{file}: there is no setting "{name}"')
        if isinstance(value, dict) and _BY_NAME[name].several:
            texts[name] = [f"{key}={text}" for key, text in _flat(value)]
        elif isinstance(value, str | int | float):
            texts[name] = [_toml_text(value)]
        else:
            raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"{file}: {name}: expected a single value")
    return texts


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """TOML reads the dots of `spark.executor.memory = "8g"` as nested tables."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _toml_text(value)


def _toml_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
