"""By hand: `python -m tests.in_step --seed S --sequences N [--first N] [GATEWAY_URL POSTGRES_URL]`.

Without URLs it starts a gateway and a PostgreSQL by itself. Both databases lose their schema `step`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.in_step.trial import Trial
from tests.servers import GatewayProcess, Server, open_directory, start_oracle


def _server(name: str, url: str) -> Server:
    parts = urlsplit(url)
    assert parts.hostname, url
    assert parts.port, url
    assert parts.username, url
    return Server(name, parts.hostname, parts.port, parts.username, parts.path.strip("/"))


@contextmanager
def _started() -> Iterator[Trial]:
    with open_directory("oracle") as one, open_directory("gateway") as other:
        postgres, oracle = start_oracle(one)
        try:
            with GatewayProcess(other / "data") as process:
                yield Trial(oracle, process.server)
        finally:
            asyncio.run(postgres.stop())


@contextmanager
def _running(gateway: str, postgres: str) -> Iterator[Trial]:
    yield Trial(_server("postgres", postgres), _server("gateway", gateway))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway", nargs="?")
    parser.add_argument("postgres", nargs="?")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first sequence's number")
    parser.add_argument("--shrink-seconds", type=float, default=20.0)
    given = parser.parse_args()
    if (given.gateway is None) != (given.postgres is None):
        parser.error("it takes both URLs, or none")
    with _started() if given.gateway is None else _running(given.gateway, given.postgres) as trial:
        trial.shrink_seconds = given.shrink_seconds
        began = time.monotonic()
        for number in range(given.first, given.first + given.sequences):
            difference = trial.ask(f"{given.seed}/{number}")
            if difference is not None:
                print(difference, end="\n\n", flush=True)
        seconds = time.monotonic() - began
        print(f"{trial.asked} sequences, {trial.messages} messages, {trial.refused} refused, {seconds:.0f} s")
        print(f"{len(trial.differences)} differ")
        return 1 if trial.differences else 0


if __name__ == "__main__":
    sys.exit(main())
