"""The time of the order search, next to handling the events alone.

    python bench/replay.py [FILE ...] [--broker-config FILE] [--rounds 3]

Without files it takes the captures of the tests in turn. Processor time is listed for reading, for
the search (which handles every event, compares its response and checks the ids that the machine
would have chosen), and for handling the same events in the order found. `beyond` is the search's
extra time as a multiple of the last. A run is valid only if both gave the same responses.
"""

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from brokertwin.kafka_io import properties
from brokertwin.recordings.replay import local, recording
from brokertwin.recordings.replay.plan import plan
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core.settings import BrokerSettings

CAPTURES = Path(__file__).resolve().parent.parent / "tests" / "captures"


def measured(files: Sequence[Path], settings: BrokerSettings) -> Counter[str]:
    """Return the seconds of each part, and the number of exchanges."""
    taken: Counter[str] = Counter()
    for file in files:
        clocks = [time.process_time()]
        history = recording.read([file])
        clocks.append(time.process_time())
        planned = plan(history, "recorded", settings, is_compared=True)
        clocks.append(time.process_time())
        answers = local.run(planned.documents, planned.settings)
        clocks.append(time.process_time())
        searched = planned.schedule.answers or {}
        assert all(
            searched[one.id] == answers[one.id] for one in history.exchanges if one.id in searched
        )
        parts = zip(("reading", "search", "deciding"), clocks, clocks[1:], strict=False)
        taken.update({name: end - begin for name, begin, end in parts})
        taken["exchanges"] += len(history.exchanges)
    return taken


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--broker-config", type=Path, default=CAPTURES / "broker.properties")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    settings, _ = parse(properties.read(given.broker_config))
    files = given.files or sorted(CAPTURES.glob("*.jsonl.gz"))
    for _ in range(given.rounds):
        taken = measured(files, settings)
        beyond = taken["search"] / taken["deciding"] - 1
        parts = " ".join(
            f"{name} {taken[name]:.2f} s" for name in ("reading", "search", "deciding")
        )
        print(f"{taken['exchanges']} exchanges: {parts}, beyond {beyond:.2f}")


if __name__ == "__main__":
    main()
