"""Consumer groups beside a real broker: answers of random walks are the same, and rows, too.

`EXAMPLES=500` goes that many walks, others each time.
"""

import json
import re
from collections.abc import Iterator

import pytest

from brokerstream.cli.offset_sources import client_of
from brokerstream.gateway.local_rows import LocalRows
from brokerstream.kafka_io import group_offsets
from brokerstream.state.core.records import Record
from brokerstream.state.groups import group_rows
from tests.support.group_rows import Row, comparable, read_by_kafka
from tests.support.group_walks import TOPICS, Walk
from tests.support.walk_sides import Sides, both_sides, seeds

WALKS, STEPS = 25, 50
AT_ONCE = {"consumer.assignment.interval.ms": "0"}
"""Targets of the groups are computed at once."""


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    """Those of groups and offsets that ours would write to `offsets.<cluster>`, as they come."""
    found: list[Row] = []

    def note(_: LocalRows, record: Record) -> None:
        row = group_rows.encode(record)
        if row is not None:
            found.append(row)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalRows, "of_group", note)
        yield found


@pytest.fixture(scope="module")
def sides(kafka: str, rows: list[Row]) -> Iterator[Sides]:
    with both_sides(kafka, TOPICS) as found:
        yield found


def test_every_answer_and_row_of_a_random_walk_is_kafkas(
    kafka: str, sides: Sides, rows: list[Row]
) -> None:
    walks = {seed: Walk(seed, f"walk-{seed}") for seed in seeds(WALKS)}
    groups = [group for walk in walks.values() for group in walk.groups]
    heard = set()
    for side in sides:
        side.begin(groups, AT_ONCE)
    for seed, walk in walks.items():
        for at in range(STEPS):
            step = walk.step()
            ours, theirs = (side.answer(step, walk.groups) for side in sides)
            assert ours == theirs, f"seed {seed}, step {at}: {step}"
            walk.hear(step, theirs)
            heard |= {
                (step.api, code) for code in re.findall(r'"errorCode": (-?\d+)', json.dumps(ours))
            }
    wanted = {("CONSUMER_GROUP_HEARTBEAT", each) for each in ("0", "25", "42", "69", "110", "111")}
    wanted |= {("OFFSET_COMMIT", each) for each in ("0", "3", "12", "25", "35", "100", "113")}
    wanted |= {("OFFSET_DELETE", each) for each in ("0", "3", "24", "69", "86")}
    wanted |= {("OFFSET_FETCH", each) for each in ("0", "-1", "25", "100", "113")}
    assert wanted <= heard
    assert_rows_are_kafkas(kafka, rows, groups)


def assert_rows_are_kafkas(kafka: str, rows: list[Row], groups: list[str]) -> None:
    """Each group has left in `__consumer_offsets` what ours has, row by row."""
    real = [(row.key, row.value) for row in group_offsets.rows(client_of(kafka, None), {})]
    whose = [len(group).to_bytes(2, "big") + group.encode() for group in groups]
    left = [
        [row for group in whose for row in side if row[0].startswith(group, 2)]
        for side in (rows, real)
    ]
    ours, theirs = ([*map(comparable, read_by_kafka(side))] for side in left)
    assert ours == theirs
    assert {key[1] for key, _, _ in ours} == {1, 2, 3, 5, 6, 7, 8}
