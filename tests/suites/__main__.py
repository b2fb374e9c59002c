"""By hand: `python -m tests.suites NAME [--source FOLDER] [--only PATTERN] [--seconds N] [--reports FOLDER]
[--urls GATEWAY POSTGRES]`.

Without URLs it starts a gateway and a PostgreSQL by itself. The exit code is 1 if a test passes on PostgreSQL alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers import GatewayProcess, open_directory, start_oracle
from tests.suites.bringing import bring, bring_libraries
from tests.suites.catalogue import SUITES
from tests.suites.running import run
from tests.suites.suite import Run


def main() -> int:
    given = _given()
    suite = SUITES[given.name]
    folder, version = bring(given.name, suite, given.source)
    libraries = bring_libraries(given.name, suite)
    reports = given.reports or Path(tempfile.mkdtemp(prefix="sluice-suites-"))
    reports.mkdir(parents=True, exist_ok=True)
    with _servers(given.urls) as urls:
        results = {
            name: run(
                suite, Run(folder, url, given.only, reports / f"{given.name}-{name}.xml"), libraries, given.seconds
            )
            for name, url in urls.items()
        }
    print(f"{given.name} ({suite.package} {version}); reports in {reports}")
    for path, reason in {**suite.ignored, **suite.deselected}.items():
        print(f"left out: {path}: {reason}")
    short = different(results["postgres"], results["gateway"])
    print("\n".join(f"only on PostgreSQL: {test}" for test in short))
    print(summary(results))
    return 1 if short else 0


def different(postgres: Mapping[str, str], gateway: Mapping[str, str]) -> list[str]:
    """What passes on PostgreSQL, and does not on Sluice."""
    return sorted(test for test, outcome in postgres.items() if outcome == "passed" != gateway.get(test))


def summary(results: Mapping[str, Mapping[str, str]]) -> str:
    """The counts, side by side."""
    counts = {server: Counter(outcomes.values()) for server, outcomes in results.items()}
    lines = [f"{'':10}{'passed':>8}{'failed':>8}{'skipped':>8}"]
    for server, count in counts.items():
        lines.append(f"{server:10}{count['passed']:8}{count['failed']:8}{count['skipped']:8}")
    short = different(results["postgres"], results["gateway"])
    whole = counts["postgres"]["passed"]
    share = 100 * (whole - len(short)) / whole if whole else 0.0
    return "\n".join([*lines, f"Of {whole} that pass on PostgreSQL, {whole - len(short)} do on Sluice: {share:.2f} %"])


@contextmanager
def _servers(urls: list[str] | None) -> Iterator[Mapping[str, str]]:
    if urls:
        gateway_url, postgres_url = urls
        yield {"postgres": postgres_url, "gateway": gateway_url}
        return
    with open_directory("suites") as directory:
        postgres, server = start_oracle(directory)
        try:
            with GatewayProcess(directory / "lake") as gateway:
                yield {"postgres": server.url, "gateway": gateway.server.url}
        finally:
            asyncio.run(postgres.stop())


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    parser.add_argument("name", choices=SUITES)
    parser.add_argument("--source", type=Path, help="a checkout, where no distribution has the tests")
    parser.add_argument("--only", help="as pytest's -k")
    parser.add_argument("--seconds", type=float, help="the longest that the suite may take at one server")
    parser.add_argument("--reports", type=Path, help="where pytest's reports and output go")
    parser.add_argument("--urls", nargs=2, metavar=("GATEWAY", "POSTGRES"), help="of servers that run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
