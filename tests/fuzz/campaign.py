"""`make fuzz`: plays cases of every target, or of one, seed after seed. A finding is printed, and ends it."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.engine import Finding, run
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=sorted(TARGETS), help="only this one")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--cases", type=int, default=5_000, help="of each target from each seed")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin with further seeds for so long")
    parser.add_argument("--all", action="store_true", help="go on after a finding, and show each different one")
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    names = [arguments.target] if arguments.target else sorted(TARGETS)
    seed = arguments.seed
    found: list[Finding] | None = [] if arguments.all else None
    while True:
        for name in names:
            begun = time.monotonic()
            try:
                played = run(TARGETS[name], seed, arguments.cases, found)
            except Finding as finding:
                sys.stdout.write(f"{finding}\n")
                return 1
            for each in found or ():
                sys.stdout.write(f"{each}\n")
            found = [] if arguments.all else None
            took = time.monotonic() - begun
            pace = f", {1000 * took / played:.2f} ms each" if played else ""
            sys.stdout.write(f"{name} seed {seed}: {played} cases in {took:.1f} s{pace}\n")
            sys.stdout.flush()
        seed += 1
        if time.monotonic() >= end:
            return 0


if __name__ == "__main__":
    sys.exit(main())
