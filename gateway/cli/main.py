"""The command line: `sluice serve`, `sluice check`, `sluice changes`, `sluice attach`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import uvloop

from catalog.errors import SluiceError
from gateway.cli.serve_options import Options
from gateway.cli.serve_settings import COMMON, FILE_NAME, SETTINGS, add_options, resolved, store_settings
from gateway.node.stack_depth import begin_with_deep_stack
from gateway.server.admission import Limits
from gateway.server.data_directory import DataDirectory
from storage.parquet.layout import is_local
from storage.parquet.object_store import duckdb_secret
from storage.spark.spark_conf import default_driver_memory, read_defaults

_DIRECTORY_VARIABLE: Final = "SLUICE_DATA_DIR"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 if it succeeded."""
    options = _parser().parse_args(arguments)
    # All files of this process and its children, of the lake and temporary ones, are for its user only.
    os.umask(0o077)
    _log_to_stderr()
    directory = DataDirectory(options.data_dir)
    try:
        values = resolved(vars(options), os.environ, options.config or _file_in(options.data_dir))
        match options.command:
            # Each command imports only what it needs: Spark and the planner take a second.
            case "serve":
                begin_with_deep_stack()
                from gateway.cli.serve import serve  # noqa: PLC0415

                served = _served(values)
                uvloop.run(serve(directory, served))
            case "check":
                from gateway.cli.check import check  # noqa: PLC0415

                faults = uvloop.run(check(directory, values["catalog"], store_settings(values)))
                for fault in faults:
                    print(fault)
                print(f"{len(faults)} faults" if faults else "the lake is consistent")
                return 1 if faults else 0
            case "changes":
                from gateway.cli.schema_changes import show_changes  # noqa: PLC0415

                uvloop.run(show_changes(directory, values["catalog"], sys.stdout, watch=options.watch))
            case "attach":
                from gateway.cli.attach import attach_statement  # noqa: PLC0415

                if not is_local(values["data_path"] or ""):
                    print(duckdb_secret(store_settings(values)))
                print(attach_statement(directory, values["catalog"]))
    except SluiceError as error:
        print(f"sluice: {error.message}", *filter(None, [error.fields.get("H")]), sep="\n", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _file_in(directory: Path) -> Path | None:
    """The folder's settings file, if it has one."""
    file = directory / FILE_NAME
    return file if file.exists() else None


def _log_to_stderr() -> None:
    """Log warnings to stderr, except those of the clients of the JVM and PostgreSQL: a statement that finds one dead
    reports that in one line. sqlglot would warn of each statement that it does not parse.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    for name in ("py4j", "asyncpg", "sqlglot"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Py4J logs errors of sending to the root logger.
    logging.getLogger().addFilter(lambda record: Path(record.pathname).parent.name != "py4j")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluice", description="PostgreSQL in front, Spark behind.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve_command = commands.add_parser("serve", help="run a gateway")
    check_command = commands.add_parser("check", help="verify that catalog and files agree")
    changes_command = commands.add_parser("changes", help="show the changes of schemas at work, and the last ones done")
    attach_command = commands.add_parser("attach", help="print the statement with which DuckDB reads the lake")
    for command in (serve_command, check_command, changes_command, attach_command):
        command.add_argument(
            "--data-dir",
            type=Path,
            default=Path(os.environ.get(_DIRECTORY_VARIABLE, "sluice-data")),
            metavar="DIR",
            help=f"where catalog, lake and log are ({_DIRECTORY_VARIABLE}; sluice-data)",
        )
        command.add_argument("--config", type=Path, metavar="FILE", help=f"in place of DIR/{FILE_NAME}")
    for command in (check_command, changes_command, attach_command):
        add_options(command, COMMON)
    changes_command.add_argument("--watch", action="store_true", help="go on showing them until Ctrl-C")
    add_options(serve_command, [setting.name for setting in SETTINGS])
    return parser


def _served(values: dict[str, Any]) -> Options:
    host, port = values["listen"]
    defaults = [] if values["spark_defaults"] is None else read_defaults(values["spark_defaults"])
    return Options(
        host,
        port,
        values["catalog"],
        values["spark"],
        values["data_path"],
        maintenance=values["maintenance"],
        grace=values["grace"],
        limits=Limits(values["max_connections"], values["reserved_connections"], values["authentication_timeout"]),
        driver_memory=values["driver_memory"] or default_driver_memory(),
        spark_conf=dict([*defaults, *values["spark_conf"]]),
        spark_ui=values["spark_ui"],
        engine=values["engine"],
        shuffled=values["shuffled"],
        unread_limit=values["unread_limit"] * 2**20,
        temp_file_limit=values["temp_file_limit"] * 2**20,
        store=store_settings(values),
    )


if __name__ == "__main__":
    sys.exit(main())
