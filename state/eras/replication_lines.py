"""Log lines about replication, as written by brokers of Kafka 0.10.

Source: seed 004; `ReplicaManager.tryCompleteDelayedProduce`, `ReplicaFetcherThread` in Kafka 0.10.
Enabled by `brokertwin.trace.replication`. Each line is a LineLogged in the topic `records`:

    a partition changed           number of its pending requests that were completed
    a fetch response arrived      bytes received and appended, and the high watermark
    partitions have a new leader  fetcher threads that start, and the first fetch offsets
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from brokertwin.state.core.decision import FollowedPartition
from brokertwin.state.core.records import LineLogged
from brokertwin.state.core.tables import CellTables, MachineTables
from brokertwin.state.logs.log import Log, log_key

_PURGATORIES = {"PRODUCE": "producer", "FETCH": "fetch"}
"""APIs whose requests wait for partitions, with their names in the lines."""


def unblocked(
    tables: CellTables, watched: str, log_key: str, completed: Mapping[str, int]
) -> Iterator[LineLogged]:
    """Lines for the requests completed, by API, after a change of a log or a session."""
    log = tables.logs.get(log_key, Log)
    broker = log_key.partition("/")[0]
    if log is None:
        return
    for api, name in _PURGATORIES.items():
        if watched == log_key or completed.get(api):
            yield LineLogged(
                f"[Replica Manager on Broker {broker}]: Request key {log.topic}-{log.partition}"
                f" unblocked {completed.get(api, 0)} {name} requests."
            )


class NewFetch(NamedTuple):
    """A partition that a follower begins to fetch, and its fetcher thread."""

    log: Log
    thread: str
    leader: int
    host: str
    port: int


def followed(
    at: MachineTables, fetches: Sequence[NewFetch], running: Collection[str] = ()
) -> Iterator[LineLogged]:
    """Lines for partitions that a broker begins to follow; `running` are its threads."""
    for each in fetches:
        key = log_key(at.id, each.log.topic_id, each.log.partition)
        yield from unblocked(at.tables, key, key, {})
    for thread in dict.fromkeys(each.thread for each in fetches if each.thread not in running):
        yield LineLogged(f"[{thread}], Starting")
    if fetches:
        added = ", ".join(
            f"[{each.log.topic}-{each.log.partition}, initOffset {each.log.log_end_offset} to"
            f" broker BrokerEndPoint({each.leader},{each.host},{each.port})]"
            for each in fetches
        )
        yield LineLogged(
            f"[ReplicaFetcherManager on broker {at.id}] Added fetcher for partitions List({added})"
        )


def copied(broker: int, thread: str, log: Log, response: FollowedPartition) -> Iterator[LineLogged]:
    """Lines for a fetch response that a follower handles; `log` is its log before that."""
    name = f"{log.topic}-{log.partition}"
    follower = f"[{thread}], Follower {broker}"
    size = sum(batch.size_in_bytes for batch in response.batches)
    end = response.batches[-1].last_offset + 1 if response.batches else log.log_end_offset
    high_watermark = min(response.high_watermark, end)
    yield LineLogged(
        f"{follower} has replica log end offset {log.log_end_offset} for partition {name}."
        f" Received {size} messages and leader hw {response.high_watermark}"
    )
    yield LineLogged(
        f"{follower} has replica log end offset {end} after appending {size} bytes of messages for"
        f" partition {name}"
    )
    yield LineLogged(
        f"{follower} set replica high watermark for partition [{log.topic},{log.partition}]"
        f" to {high_watermark}"
    )
