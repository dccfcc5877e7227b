"""Runs one scenario and compares its transcript with the golden.

    python -m tests.conformance.runs HOST:PORT [SCENARIO…]

is for hand use; `tests/gateway/test_conformance.py` runs them all.
"""

import difflib
import importlib
import json
import sys
import uuid
from pathlib import Path

from tests.conformance.harness import S
from tests.conformance.transcript import REGISTRY
from tests.conformance.wire import ConnClosed

HERE = Path(__file__).parent
SUBJECTS = ("admin", "fetch_eviction", "fetch_sessions", "groups", "idempotent", "malformed")
for _subject in (*SUBJECTS, "transactions"):
    importlib.import_module(f"tests.conformance.scenarios.{_subject}")

SCENARIOS = sorted(REGISTRY)
"""Every scenario's name."""


def difference(name: str, host: str, port: int, patience: float = 1.0) -> str:
    """Return the differences of a server from the golden as a diff; empty if there are none."""
    scenario = REGISTRY[name]
    golden = HERE / "golden" / scenario["subject"] / f"{name}.json"
    context = S(host, port, name, uuid.uuid4().hex[:6], patience, scenario["limit"])
    ended = []
    try:
        scenario["fn"](context)
    except (ConnClosed, OSError, ValueError, RuntimeError, LookupError) as error:
        ended = [f"{type(error).__name__}: {error}"]
    finally:
        context.close()
    got = json.dumps(context.transcript, indent=1, sort_keys=True).splitlines() + ended
    wanted = golden.read_text(encoding="utf-8").splitlines()
    return "\n".join(difflib.unified_diff(wanted, got, "golden", "server", lineterm=""))


def main() -> None:
    """Run the scenarios that are named, or all."""
    host, _, port = sys.argv[1].rpartition(":")
    for name in sys.argv[2:] or SCENARIOS:
        found = difference(name, host, int(port))
        sys.stdout.write(f"{'differs' if found else 'pass'} {name}\n{found}\n")


if __name__ == "__main__":
    main()
