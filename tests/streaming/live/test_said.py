"""The rows and findings of `live` about recordings are what they were before."""

import gzip
import json

import pytest

from brokertwin.streaming.live.reading import TopicLine
from tests.recordings.test_said import RECORDINGS
from tests.support.live import CLUSTER, LiveTopics, cut
from tests.support.said import assert_said

NAMES = ("busy_fencing", "group_kp", "leader_kill", "raw_fetch_errors", "raw_produce_errors")
NAMES += ("share_sessions", "static_members_classic", "streams_groups", "txn_isolation")
NAMES += ("accident-broker_frozen", "accident-consumer_protocol", "accident-denied")
NAMES += ("accident-past_max_poll", "accident-topic_made_again", "accident-transaction_left_open")
LINES_MAX = 1_500
"""Maximum number of lines of a log."""


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_are_written_about_a_recording(name: str) -> None:
    lines = []
    for number, path in enumerate(RECORDINGS[name]):
        broker = number + 1 if path.name.endswith("request.log.gz") else None
        texts = gzip.decompress(path.read_bytes()).splitlines()[:LINES_MAX]
        lines += [TopicLine(f"logs/{number}", n, t, CLUSTER, broker) for n, t in enumerate(texts)]
    lines.sort(key=lambda each: each.offset)
    topics = LiveTopics()
    for part in cut(lines, seed=7):
        topics.batch(part)
    topics.end()
    rows = {
        table: [value.decode() for value in rows.values() if value is not None]
        for table, rows in sorted(topics.rows.items())
    }
    counts = [f"{name} {count}" for name, count in sorted(topics.counts.items())]
    found = [json.dumps(each) for each in topics.findings]
    assert_said(f"live-{name}", {**rows, "counts": counts, "every finding": found})
