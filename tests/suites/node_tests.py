"""The tests of drivers for Node.js: their work folder, made from a checkout, and their commands."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.suites.suite import Run, Suite

_PROGRAMS: Final = Path(__file__).parent / "node"
_PACKAGES: Final = ("pg", "pg-pool", "pg-cursor", "pg-query-stream")  # under test: the checkout's own
# What they and their tests import. pg-protocol and pg-connection-string would have to be built.
_LIBRARIES: Final = (
    "@types/chai@4 @types/mocha@10 @types/node@20 @types/pg@8 JSONStream@1.3.5 async@2.6.4 bluebird@3.7.2 co@4.6.0 "
    "concat-stream@1.0.1 expect.js@0.3.1 lodash@4 mocha@11 pg-cloudflare@1 pg-connection-string@2 "
    "pg-copy-streams@0.3.0 pg-protocol@1 pg-types@2.2.0 pgpass@1.0.5 stream-spec@0.3.5 ts-node@10 typescript@5"
)


def npm_version(file: str) -> Callable[[Path], str]:
    """As a package's file has it."""
    return lambda source: str(json.loads((source / file).read_text())["version"])


def node_postgres_folder(source: Path, folder: Path) -> None:
    """The packages, and node_modules with the libraries from the npm registry and links to the packages."""
    for package in _PACKAGES:
        shutil.copytree(source / "packages" / package, folder / "packages" / package)
    (folder / "package.json").write_text('{"private": true}')
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run([*npm, *_LIBRARIES.split()], cwd=folder, check=True)
    for package in _PACKAGES:
        link = folder / "node_modules" / package
        shutil.rmtree(link, ignore_errors=True)
        link.symlink_to(Path("..") / "packages" / package)


def files_command(_: Suite, run: Run) -> list[str]:
    """The package pg: each file is a program."""
    program = 'cd packages/pg && exec node "$0" "$@"'
    return ["sh", "-c", program, str(_PROGRAMS / "files.mjs"), *([run.only] if run.only else [])]


def mocha_command(suite: Suite, run: Run) -> list[str]:
    """The other packages: `suite.tests` begins with the package's name."""
    package, *tests = suite.tests
    mocha = ["../../node_modules/.bin/mocha", "--exit", "--reporter", "xunit", "--reporter-option"]
    mocha.append(f"output={run.report}")
    only = ["--grep", run.only] if run.only else []
    return ["sh", "-c", f'cd packages/{package} && exec "$0" "$@"', *mocha, *only, *tests]


# Databases and roles of their own: a lake has one database, and the client may not make roles.
_OWN_NAMES: Final = (
    ("user: 'postgres_js_test'", "user: process.env.PGUSER"),
    ("db: 'postgres_js_test'", "db: process.env.PGDATABASE"),
    ("database: 'postgres_js_test'", "database: process.env.PGDATABASE"),
)


def postgres_js_folder(source: Path, folder: Path) -> None:
    """Its tests, at the server's own database and role, and with a harness that goes on after a failure."""
    shutil.copytree(source / "src", folder / "src")
    shutil.copytree(source / "tests", folder / "tests")
    shutil.copy(source / "package.json", folder)
    tests = folder / "tests" / "index.js"
    text = tests.read_text()
    for name, own in _OWN_NAMES:
        text = text.replace(name, own)
    tests.write_text(text)
    (folder / "tests" / "bootstrap.js").write_text("export function exec() {}\n")
    shutil.copy(_PROGRAMS / "postgres_js.mjs", folder / "tests" / "test.js")


def postgres_js_command(_: Suite, __: Run) -> list[str]:
    """All of them: they are one file, and it has no pattern to choose by."""
    return ["node", "tests/index.js"]
