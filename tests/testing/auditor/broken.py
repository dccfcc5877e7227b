"""Clients that are broken on purpose: changes of the adapter for confluent-kafka.

    python -m tests.testing.auditor.broken     # a line for each; exit code 1 if one is not found

Each is examined with the default options of `brokertwin exam-client`.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.support.sources import ROOT

ADAPTER = ROOT / "examples" / "exam_client" / "confluent.py"


class BrokenClient(NamedTuple):
    """A change of the adapter, and the promises it breaks."""

    name: str
    before: str
    after: str
    promises: tuple[str, ...]


READ = """            print("read", message.partition(), message.offset(), value, flush=True)
            with suppress(KafkaException):  # after a rebalance the new owner reads it again
                consumer.commit(message, asynchronous=False)
"""

BROKEN = (
    BrokenClient(
        "retries without idempotence",
        '"enable.idempotence": True',
        '"enable.idempotence": False',
        ("records",),
    ),
    BrokenClient(
        "reports a record before its response",
        "        producer.poll(0.005)\n    raise SystemExit(producer.flush() > 0)",
        '        print("acked", value, flush=True)\n        if number % 20 == 19:\n'
        "            producer.purge()\n    raise SystemExit(0)",
        ("records",),
    ),
    BrokenClient("reads aborted records", '"read_committed"', '"read_uncommitted"', ("records",)),
    BrokenClient(
        "commits before it reads, and drops what a rebalance interrupts",
        READ,
        READ.replace("message, asynchronous", "offsets=ahead(message), asynchronous"),
        ("commits", "progress"),
    ),
    BrokenClient(
        "commits records without processing them in the second member",
        '            print("read"',
        '            if NAME != "member-2" or message.offset() % 5:\n              print("read"',
        ("commits",),
    ),
    BrokenClient(
        "reports each transaction as committed",
        "            end(producer.abort_transaction)\n"
        '            print("aborted", number, flush=True)\n            continue',
        "            end(producer.abort_transaction)\n"
        '            print("committed", number, flush=True)\n            continue',
        ("records",),
    ),
    BrokenClient(
        "skips what was there before the group", '"earliest"', '"latest"', ("progress", "commits")
    ),
    BrokenClient(
        "skips to the end after each rebalance",
        "    consumer.subscribe([TOPIC])",
        "    consumer.subscribe([TOPIC], on_assign=skip)",
        ("progress", "commits"),
    ),
    BrokenClient(
        "commits in the middle of a transaction",
        "            producer.produce(TOPIC, value, partition=partition)\n        if number % 3",
        "            producer.produce(TOPIC, value, partition=partition)\n"
        "            if index == 1:\n"
        "                end(producer.commit_transaction)\n"
        "                producer.begin_transaction()\n        if number % 3",
        ("records",),
    ),
    BrokenClient(
        "reports wrong offsets",
        "message.offset(), value",
        "message.offset() + 1, value",
        ("records",),
    ),
    BrokenClient(
        "does not wait for responses",
        '"enable.idempotence": True',
        '"enable.idempotence": False, "acks": 0',
        ("records",),
    ),
    BrokenClient(
        "reports a transaction as committed whose commit has failed",
        "            if not error.args[0].txn_requires_abort():\n                raise\n"
        "            end(producer.abort_transaction)\n"
        '            print("aborted", number, flush=True)\n\n\ndef end',
        '            print("committed", number, flush=True)\n'
        "            if error.args[0].fatal():\n                raise SystemExit(0) from None\n"
        "            with suppress(KafkaException):\n"
        "                end(producer.abort_transaction)\n\n\ndef end",
        ("records",),
    ),
    BrokenClient(
        "commits older offsets",
        READ,
        READ.replace("message, asynchronous", "offsets=behind(message), asynchronous"),
        ("commits",),
    ),
)

HELPERS = """

def ahead(message):
    return [TopicPartition(TOPIC, message.partition(), message.offset() + 4)]


def behind(message):
    place = message.offset() + 1 - 3 * (message.offset() % 7 == 0)
    return [TopicPartition(TOPIC, message.partition(), max(0, place))]


def skip(consumer, places):
    for place in places:
        low, high = consumer.get_watermark_offsets(place, 10)
        place.offset = high
    consumer.assign(places)


ended = []
"""


def adapter_of(broken: BrokenClient) -> str:
    text = ADAPTER.read_text(encoding="utf-8")
    assert broken.before in text, broken.name
    return text.replace(broken.before, broken.after).replace("\n\nended = []\n", HELPERS)


def promises_in(output: str) -> set[str]:
    """Return the promises that a run of `exam-client` reports as broken."""
    return set(re.findall(r"^ +broken: (\w+):", output, re.MULTILINE))


def main() -> int:
    """Examine all; returns 1 if one is not found."""
    missed = 0
    for number, broken in enumerate(BROKEN):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "adapter.py")
            path.write_text(adapter_of(broken), encoding="utf-8")
            words = ["exam-client", "--keep", directory, "--", sys.executable, str(path)]
            command = [sys.executable, "-m", "brokertwin", *words]
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        promises = promises_in(done.stdout)
        is_found = bool(promises & set(broken.promises))
        missed += not is_found
        shown = next((line for line in done.stdout.splitlines() if "broken:" in line), "NOT FOUND")
        sys.stdout.write(f"{number + 1}. {broken.name}: exit {done.returncode}, {shown.strip()}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(BROKEN) - missed} of {len(BROKEN)} found\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
