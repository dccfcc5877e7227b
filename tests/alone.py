"""The last try of what a run of tests has left: each alone, in processes of its own.

    python -m tests.alone --most 3

`make test` asks for it behind the pure tests, which are tried once beside each other, and behind
those with real brokers and Spark. More failures than a busy machine explains are none of its
business.
"""

import argparse
import json
import sys
from pathlib import Path

import pytest

FAILED = Path(".pytest_cache/v/cache/lastfailed")
"""What pytest remembers of the last run, from the directory of the project."""


def main() -> int:
    """Try the tests that failed last. Returns pytest's exit code, or 1 where they are too many."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--most", type=int, default=3, help="tests that are tried at most")
    most: int = parser.parse_args().most
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if not 0 < len(failed) <= most:
        sys.stdout.write(f"{len(failed)} tests have failed: none is tried alone\n")
        return 1
    sys.stdout.write("\n  ".join(["tried once more, alone:", *failed]) + "\n")
    sys.stdout.flush()
    return int(pytest.main(["-v", "-n", "0", *failed]))


if __name__ == "__main__":
    sys.exit(main())
