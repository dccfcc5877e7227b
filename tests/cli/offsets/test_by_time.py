"""`brokertwin offsets export --by-time` between two gateways."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.batches import START, batch
from tests.support.console import brokertwin
from tests.support.gateways import running_gateway

SECONDS = {
    "orders": ([*range(10)], [*range(5, 10)]),
    "moved": ([*range(3)], [*range(5, 10)]),
    "shuffled": ([1, 0, 2], [1, 0, 2]),
}
"""Topic to the times of its records in the source and in the target.

The copy of `orders` begins at its sixth record. Producers of `moved` write to the target after
the third. The records of `shuffled` are not in the order of their timestamps.
"""


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    """Source and target."""
    with running_gateway() as source, running_gateway() as target:
        for place, running in enumerate((source, target)):
            with running.client() as client:
                for topic, seconds in SECONDS.items():
                    client.topic(topic)
                    times = [START + 1000 * each for each in seconds[place]]
                    for time in times:
                        client.produce(topic, batch(b"record", timestamps=[time]))
        yield source.bootstrap, target.bootstrap


@pytest.mark.parametrize(
    ("topic", "offset", "at_target", "verdict"),
    [
        ("orders", 2, 0, "the target begins after the record"),
        ("orders", 5, 0, "fine"),
        ("orders", 7, 2, "fine"),
        ("moved", 3, 0, "fine"),
        ("moved", 2, 0, "the target begins after the record"),
        ("shuffled", 1, 0, "fine"),
    ],
)
def test_offset_is_translated_unless_records_are_skipped(
    clusters: tuple[str, str],
    topic: str,
    offset: int,
    at_target: int,
    verdict: str,
    tmp_path: Path,
) -> None:
    source, target = clusters
    file = tmp_path / "offsets.csv"
    file.write_text(f"billing,{topic},0,{offset}\n")
    words = ("offsets", "export", file, "--to", target, "--by-time", source, "--json", "--dry-run")
    done = brokertwin(*words)
    step = json.loads(done.stdout)
    assert (step["target"], step["verdict"]) == (at_target, verdict)
    assert done.returncode == (0 if verdict == "fine" else 1)
