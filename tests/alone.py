"""The last try of what a run of tests has left: one after the other, with nothing beside them.

    python -m tests.alone --ended 1 --most 3

`make test` asks for it behind the pure tests, which are tried once beside each other, and behind
those with real brokers and Spark. More failures than a busy machine explains are none of its
business, nor is a run that was broken off: what it has not come to was not tried at all.
"""

import argparse
import json
import sys
from pathlib import Path

import pytest

FAILED = Path(".pytest_cache/v/cache/lastfailed")
"""What pytest remembers of the last run, from the directory of the project."""


def main() -> int:
    """Try the tests that failed last. Returns pytest's exit code, 1 where they are too many."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--most", type=int, default=3, help="tests that are tried at most")
    parser.add_argument("--ended", type=int, default=1, help="the exit code of the run: 1")
    given = parser.parse_args()
    ended: int = given.ended
    most: int = given.most
    if ended != pytest.ExitCode.TESTS_FAILED:
        sys.stdout.write(f"the tests ended with {ended}: none is tried alone\n")
        return ended
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if not 0 < len(failed) <= most:
        sys.stdout.write(f"{len(failed)} tests have failed: none is tried alone\n")
        return 1
    sys.stdout.write("\n  ".join(["tried once more, alone:", *failed]) + "\n")
    sys.stdout.flush()
    return int(pytest.main(["-v", "-n", "0", *failed]))


if __name__ == "__main__":
    sys.exit(main())
