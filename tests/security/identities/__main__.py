"""By hand: `python -m tests.security.identities --seed N --scripts N [--first N] [--steps N] [--verbose]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.security.identities.judge import findings
from tests.security.identities.script import script_of
from tests.security.identities.stage import started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--scripts", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--verbose", action="store_true", help="with each error, and each difference of outcomes")
    given = parser.parse_args()
    outcomes: Counter[str] = Counter()
    paths: Counter[str] = Counter()
    failed = told = 0
    with started() as (oracle, lake):
        for number in range(given.first, given.first + given.scripts):
            script = script_of(given.seed, number, given.steps)
            began = time.monotonic()
            theirs = oracle.run(script)
            ours = lake.run(script)
            found = findings(script, theirs, ours)
            for (_, outcome), count in ours.outcomes.items():
                outcomes[outcome] += count
            paths.update(ours.paths)
            told += len(ours.records)
            failed += bool(found)
            print(
                f"{number}: {time.monotonic() - began:.0f} s, {len(ours.records)} of {len(theirs.records)} identities, "
                f"{ours.done} of {theirs.done} done",
                flush=True,
            )
            for line in found:
                print("  FOUND", line)
            if found:
                print("  ", script.replay)
            if given.verbose:
                print(*(f"  theirs {line}" for line in theirs.messages), sep="\n")
                print(*(f"  ours   {line}" for line in ours.messages), sep="\n")
        print(f"{failed} of {given.scripts} scripts show another identity; {told} identities told")
        print(dict(outcomes.most_common()), dict(paths), f"lost {oracle.witness.lost} {lake.witness.lost}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
