"""The command line: `sluice serve`, `sluice check`, `sluice changes`, `sluice attach`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from catalog.errors import SluiceError
from gateway.admission import Limits
from gateway.data_directory import DataDirectory
from gateway.serve_options import GRACE_SECONDS, Options
from gateway.stack_depth import begin_with_deep_stack
from storage.spill import TEMP_FILE_LIMIT_BYTES
from storage.unread import LIMIT_BYTES

_DEFAULT_LISTEN: Final = "127.0.0.1:5433"
_AUTHENTICATION_SECONDS_MAX: Final = 600


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command; the exit status is 0 where it did what it says."""
    options = _parser().parse_args(arguments)
    # Whatever this process or one that it starts makes, files of the lake and temporary ones, is for its user alone.
    os.umask(0o077)
    _log_to_stderr()
    directory = DataDirectory(options.data_dir)
    try:
        match options.command:
            # Each command imports what it needs: Spark and the planner alone take a second.
            case "serve":
                begin_with_deep_stack()
                from gateway.serve import serve  # noqa: PLC0415

                host, port = options.listen
                served = Options(
                    host,
                    port,
                    options.catalog,
                    options.spark,
                    options.data_path,
                    maintenance=not options.no_maintenance,
                    grace=options.grace,
                    limits=Limits(
                        options.max_connections, options.reserved_connections, options.authentication_timeout
                    ),
                    shuffled=options.shuffled,
                    unread_limit=options.unread_limit * 2**20,
                    temp_file_limit=options.temp_file_limit * 2**20,
                )
                uvloop.run(serve(directory, served))
            case "check":
                from gateway.check import check  # noqa: PLC0415

                faults = uvloop.run(check(directory, options.catalog))
                for fault in faults:
                    print(fault)
                print(f"{len(faults)} faults" if faults else "the lake is consistent")
                return 1 if faults else 0
            case "changes":
                from gateway.changes import show_changes  # noqa: PLC0415

                uvloop.run(show_changes(directory, options.catalog, sys.stdout, watch=options.watch))
            case "attach":
                from gateway.attach import attach_statement  # noqa: PLC0415

                print(attach_statement(directory, options.catalog))
    except SluiceError as error:
        print(f"sluice: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _log_to_stderr() -> None:
    """Warnings go to stderr, but for those of the JVM's and PostgreSQL's clients: that one of these is dead is reported
    where a statement meets it, in one line."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    for name in ("py4j", "asyncpg"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # What Py4J meets while it sends, it says to the root logger.
    logging.getLogger().addFilter(lambda record: Path(record.pathname).parent.name != "py4j")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluice", description="PostgreSQL in front, Spark behind.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve_command = commands.add_parser("serve", help="run a gateway")
    check_command = commands.add_parser("check", help="verify that catalog and files agree")
    changes_command = commands.add_parser("changes", help="show the changes of schemas at work, and the last ones done")
    attach_command = commands.add_parser("attach", help="print the statement with which DuckDB reads the lake")
    for command in (serve_command, check_command, changes_command, attach_command):
        command.add_argument("--data-dir", type=Path, default=Path("sluice-data"), metavar="DIR")
        command.add_argument("--catalog", metavar="DSN", help="a PostgreSQL 18, in place of the embedded one")
    changes_command.add_argument("--watch", action="store_true", help="go on showing them until Ctrl-C")
    serve_command.add_argument("--listen", default=_DEFAULT_LISTEN, type=_address, metavar="HOST:PORT")
    serve_command.add_argument("--spark", default="local[*]", metavar="URL", help="Spark's master")
    serve_command.add_argument(
        "--shuffled", type=int, metavar="SEED", help="for tests: Spark gets the rows of tables out of order"
    )
    serve_command.add_argument("--data-path", metavar="PATH", help="the lake's root, in place of DIR/lake")
    serve_command.add_argument(
        "--no-maintenance", action="store_true", help="leave compaction and expiry to other gateways, and to VACUUM"
    )
    serve_command.add_argument(
        "--grace", default=GRACE_SECONDS, type=float, metavar="SECONDS", help="how long SIGTERM lets statements go on"
    )
    limits = Limits()
    serve_command.add_argument("--max-connections", default=limits.max_connections, type=int, metavar="NUMBER")
    serve_command.add_argument(
        "--reserved-connections",
        default=limits.reserved_connections,
        type=int,
        metavar="NUMBER",
        help="the last ones, for roles with the privileges of pg_use_reserved_connections",
    )
    serve_command.add_argument(
        "--authentication-timeout",
        default=limits.authentication_timeout,
        type=_login_seconds,
        metavar="SECONDS",
        help="how long a client may take to log in",
    )
    serve_command.add_argument(
        "--unread-limit",
        default=LIMIT_BYTES // 2**20,
        type=int,
        metavar="MEGABYTES",
        help="how much disk the rows of results may take that clients have not read",
    )
    serve_command.add_argument(
        "--temp-file-limit",
        default=TEMP_FILE_LIMIT_BYTES // 2**20,
        type=int,
        metavar="MEGABYTES",
        help="how much disk a session's rows may take that are kept until its statement is over",
    )
    return parser


def _login_seconds(text: str) -> float:
    """As long as PostgreSQL allows at most."""
    seconds = float(text)
    if not 0 < seconds <= _AUTHENTICATION_SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"expected seconds, {_AUTHENTICATION_SECONDS_MAX} at most")
    return seconds


def _address(text: str) -> tuple[str, int]:
    """Host and port; an IPv6 address may stand in brackets, as in URLs."""
    host, separator, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (separator and host and port.isdecimal() and int(port) < 65536):
        raise argparse.ArgumentTypeError("expected HOST:PORT")
    return host, int(port)


if __name__ == "__main__":
    sys.exit(main())
