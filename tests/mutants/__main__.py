"""`python -m tests.mutants [--check] [--some COUNT] [TEXT ...]`; see the package's docstring."""

from __future__ import annotations

import argparse
import sys
import time

from tests.mutants.guard import guards, stale, unlisted
from tests.mutants.runner import some_of, try_all


def main() -> int:
    """Print what is not watched, and a line of counts; 1 where there is anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Try the guards.")
    parser.add_argument("texts", nargs="*", help="only guards whose file or name holds one of these")
    parser.add_argument("--check", action="store_true", help="only look whether the tables fit the code")
    parser.add_argument("--some", type=int, metavar="COUNT", help="only so many, other ones each day")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    listed = guards()
    if faults := [*stale(listed), *unlisted(listed)]:
        print(*faults, sep="\n")
        return 1
    if options.check:
        print(f"guards: {len(listed)}, all there")
        return 0
    chosen = [
        guard
        for guard in listed
        if not options.texts or any(text in f"{guard.path}: {guard}" for text in options.texts)
    ]
    if options.some:
        chosen = some_of(chosen, options.some, day=int(time.time() // 86_400))
    watched = 0
    for guard, fault in try_all(chosen, processes=options.processes):
        watched += not fault
        print(fault or f"  {guard}", flush=True)
    print(f"guards: {len(chosen)} tried of {len(listed)}, {watched} watched")
    return int(watched < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
