"""What the search for the order costs, beside the deciding alone.

    python bench/replay.py [FILE ...] [--broker-config FILE] [--rounds 3]

Without files it takes the captures of the tests, one by one. Processor time: reading, the search
(which decides every event, compares its answer and looks at the ids that the machine would have
picked), and deciding the same events in the order that was found and nothing else. `beyond` is what
the search takes beyond deciding, as a multiple of it. A run is valid only if both gave the same
answers.
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
    """Seconds of each part, and how many exchanges there were."""
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
    """Measure and print a line for each round."""
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
