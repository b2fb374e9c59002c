"""The command line: `sluice serve`, `sluice check`, `sluice attach`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from catalog.errors import SluiceError
from gateway.check import check
from gateway.data_directory import DataDirectory
from gateway.serve import Options, attach_statement, serve

_DEFAULT_LISTEN: Final = "127.0.0.1:5433"


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command; the exit status is 0 where it did what it says."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    # A dead JVM or PostgreSQL is reported where a statement meets it, in one line.
    for name in ("py4j", "asyncpg"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    directory = DataDirectory(options.data_dir)
    try:
        match options.command:
            case "serve":
                host, _, port = options.listen.rpartition(":")
                uvloop.run(
                    serve(directory, Options(host, int(port), options.catalog, options.spark, options.data_path))
                )
            case "check":
                faults = uvloop.run(check(directory, options.catalog))
                for fault in faults:
                    print(fault)
                print(f"{len(faults)} faults" if faults else "the lake is consistent")
                return 1 if faults else 0
            case "attach":
                print(attach_statement(directory, options.catalog))
    except SluiceError as error:
        print(f"sluice: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluice", description="PostgreSQL in front, Spark behind.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve_command = commands.add_parser("serve", help="run a gateway")
    check_command = commands.add_parser("check", help="verify that catalog and files agree")
    attach_command = commands.add_parser("attach", help="print the statement with which DuckDB reads the lake")
    for command in (serve_command, check_command, attach_command):
        command.add_argument("--data-dir", type=Path, default=Path("sluice-data"), metavar="DIR")
        command.add_argument("--catalog", metavar="DSN", help="a PostgreSQL 18, in place of the embedded one")
    serve_command.add_argument("--listen", default=_DEFAULT_LISTEN, type=_address, metavar="HOST:PORT")
    serve_command.add_argument("--spark", default="local[*]", metavar="URL", help="Spark's master")
    serve_command.add_argument("--data-path", metavar="PATH", help="the lake's root, in place of DIR/lake")
    return parser


def _address(text: str) -> str:
    host, separator, port = text.rpartition(":")
    if not (separator and host and port.isdigit() and int(port) < 65536):
        raise argparse.ArgumentTypeError("expected HOST:PORT")
    return text


if __name__ == "__main__":
    sys.exit(main())
