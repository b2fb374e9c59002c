"""By hand: `python -m tests.functions --seed N --functions N [--first N] [GATEWAY_URL POSTGRES_URL]`.

Without the URLs it starts both by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import ExitStack

from tests.functions.running import Pair, Side
from tests.servers import GatewayProcess, open_directory, start_oracle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway", nargs="?")
    parser.add_argument("postgres", nargs="?")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--functions", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--options", default="", help="settings of the gateway's session, as in PGOPTIONS")
    parser.add_argument("--shrink-seconds", type=float, default=60.0)
    given = parser.parse_args()
    began = time.monotonic()
    with ExitStack() as stack:
        gateway, postgres = given.gateway, given.postgres
        if gateway is None:
            directory = stack.enter_context(open_directory("functions"))
            server, oracle = start_oracle(directory)
            stack.callback(lambda: asyncio.run(server.stop()))
            process = stack.enter_context(GatewayProcess(directory / "data"))
            gateway, postgres = process.server.url, oracle.url
        pair = Pair(Side(postgres), Side(gateway, given.options), given.shrink_seconds)
        shown = 0
        for number in range(given.first, given.first + given.functions):
            pair.ask(given.seed, number, 1)
            print(*pair.differences[shown:], sep="\n", end="\n" if len(pair.differences) > shown else "", flush=True)
            shown = len(pair.differences)
        pair.oracle.close()
        pair.sluice.close()
    for message, cases in pair.refused.items():
        print(f"refused {len(cases)} times, first {cases[0]}: {message}")
    print(f"same {pair.same}, refused {sum(map(len, pair.refused.values()))}, different {len(pair.differences)}")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if pair.differences else 0


if __name__ == "__main__":
    sys.exit(main())
