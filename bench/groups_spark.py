"""Many groups that commit, with Kafka and Spark.

    python bench/groups_spark.py [--groups 5000] [--partitions 20] [--clusters 1]

`groups.py` with a job: each group commits all its partitions in one request, twice. With several
clusters the groups are distributed over their cells. Seconds are Spark's `triggerExecution` of all
micro-batches of a round; `state` is the size of all cells' state rows. A run is valid only if every
response is without an error and the final offsets are those committed last.
"""

import argparse
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from fetch_sessions_spark import ALL, run, started
from groups import TOPIC, commit_body
from growth import START

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.topic_reader import read_all, without_repeats
from brokertwin.kafka_io.topic_writer import NewRow, write_all
from brokertwin.settings import Settings, load
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import RESPONSES
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.checkpoint import snapshots, state_reader
from brokertwin.streaming.job import runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CREATE_TOPICS, FIND_COORDINATOR, OFFSET_COMMIT = (19, 7), (10, 4), (8, 8)
_ERROR = re.compile(rb'"errorCode":(-?[1-9][0-9]*)')


class Round(NamedTuple):
    """Requests, seconds and number of their micro-batches, and the state's bytes."""

    requests: int
    seconds: float
    batches: int
    state_bytes: int


def event(cluster: str, event_id: str, api: tuple[int, int], body: object) -> bytes:
    """Return a request as an edge writes it."""
    header = {"requestApiKey": api[0], "requestApiVersion": api[1], "clientId": "b"}
    return msgspec.json.encode(
        {
            "id": event_id,
            "cluster": cluster,
            "broker": 1,
            "time": START,
            "connection": "c",
            "nonce": event_id,
            "requestHeader": header,
            "request": body,
        }
    )


def send(settings: Settings, rows: list[tuple[str, bytes]]) -> None:
    """Write events to the partition of their cell."""
    with runner.prepared(settings, BrokerSettings()) as job:
        name = topics.full_name(settings.prefix, topics.REQUESTS)
        count = settings.requests_partitions
        write_all(
            job.client,
            name,
            (NewRow(key, value, partition_of(key.encode(), count)) for key, value in rows),
        )


def first_rows(clusters: tuple[str, ...], partitions: int) -> list[tuple[str, bytes]]:
    """Return the events that create a topic and the offsets topic in each cluster."""
    topic = {"name": TOPIC, "numPartitions": partitions, "replicationFactor": 1}
    body = {"topics": [topic], "timeoutMs": 1000}
    asked = {"keyType": 0, "coordinatorKeys": ["g"]}
    return [
        (each, event(each, f"{api[0]}-{each}", api, content))
        for each in clusters
        for api, content in ((CREATE_TOPICS, body), (FIND_COORDINATOR, asked))
    ]


def rounds(
    given: argparse.Namespace, flags: dict[str, object], session: "SparkSession"
) -> list[Round]:
    """Measure two rounds of commits."""
    settings = load(flags).settings
    run(flags, ALL, session)  # creates the topics
    send(settings, first_rows(settings.clusters, given.partitions))
    run(flags, ALL, session)
    found = []
    for offset in (1, 2):
        rows = []
        for group in range(given.groups):
            cluster = settings.clusters[group % len(settings.clusters)]
            body = commit_body(group, offset, given.partitions)
            rows.append((cluster, event(cluster, f"g{group}-{offset}", OFFSET_COMMIT, body)))
        send(settings, rows)
        batches = [each for each in run(flags, ALL, session) if each.events]
        seconds = sum(each.seconds for each in batches)
        found.append(Round(len(rows), seconds, len(batches), batches[-1].state_bytes))
    return found


def fault(given: argparse.Namespace, flags: dict[str, object]) -> str | None:
    """Return the first fault in the responses or offsets, if any."""
    settings = load(flags).settings
    with runner.prepared(settings, BrokerSettings()) as job:
        rows = read_all(job.client, topics.full_name(settings.prefix, RESPONSES))
        answers = [row.value or b"" for row in without_repeats(rows)]
    made = b'"requestApiKey":10,'  # # 15 COORDINATOR_NOT_AVAILABLE while the topic is created
    wrong = [each for each in answers if _ERROR.search(each) and made not in each]
    if wrong:
        return wrong[0][:500].decode()
    wanted = 2 * (given.groups + len(settings.clusters))
    if len(answers) != wanted:
        return f"{len(answers)} answers to {wanted} requests"
    offsets = snapshots.offsets_of(state_reader.read_cells(settings.checkpoint_dir))
    if len(offsets) != given.groups * given.partitions or any(each.offset != 2 for each in offsets):
        return f"{len(offsets)} offsets, not all of them 2"
    return None


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--clusters", type=int, default=1)
    given = parser.parse_args()
    with started(*(f"c{number}" for number in range(given.clusters))) as (flags, session):
        found = rounds(given, flags, session)
        why = fault(given, flags)
    if why is not None:
        print(f"no figures: {why}", file=sys.stderr)
        return 1
    print("round  requests  seconds  requests/s  micro-batches         state")
    for number, each in enumerate(found, 1):
        print(
            f"{number:>5} {each.requests:>9,} {each.seconds:>8.1f}"
            f" {each.requests / each.seconds:>11,.0f} {each.batches:>14} {each.state_bytes:>11,} B"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
