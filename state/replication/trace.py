"""Lines that a broker of the seed's time writes to its log about replication.

Source: seed 004; `ReplicaManager.tryCompleteDelayedProduce`, `ReplicaFetcherThread` in Kafka 0.10.
With `brokertwin.trace.replication` they are in the topic `records`, each as a LineLogged:

    who of those who wait for a partition has been answered, whenever it has changed
    what a follower was answered, what it has appended, where its high watermark is
"""

from collections.abc import Iterator, Mapping

from brokertwin.state.core.decision import FollowedPartition
from brokertwin.state.core.records import LineLogged
from brokertwin.state.core.tables import Tables
from brokertwin.state.logs.log import Log
from brokertwin.state.replication import fetchers

_PURGATORIES = {"PRODUCE": "producer", "FETCH": "fetch"}
"""The APIs whose requests wait for partitions, and what the lines call them."""


def unblocked(
    tables: Tables, watched: str, log_key: str, answered: Mapping[str, int]
) -> Iterator[LineLogged]:
    """Who has been answered that waited for a log, or for a session that it concerns."""
    log = tables.logs.get(log_key, Log)
    broker = log_key.partition("/")[0]
    if log is None:
        return
    for api, name in _PURGATORIES.items():
        if watched == log_key or answered.get(api):
            yield LineLogged(
                f"[Replica Manager on Broker {broker}]: Request key {log.topic}-{log.partition}"
                f" unblocked {answered.get(api, 0)} {name} requests."
            )


def copied(
    broker: int, leader: int, num_replica_fetchers: int, log: Log, answer: FollowedPartition
) -> Iterator[LineLogged]:
    """A follower takes an answer; `log` is as it was before."""
    fetcher = fetchers.fetcher_id(log.topic, log.partition, num_replica_fetchers)
    name = f"{log.topic}-{log.partition}"
    follower = f"[{fetchers.thread_name(fetcher, leader)}], Follower {broker}"
    size = sum(batch.size_in_bytes for batch in answer.batches)
    end = answer.batches[-1].last_offset + 1 if answer.batches else log.log_end_offset
    high_watermark = min(answer.high_watermark, end)
    yield LineLogged(
        f"{follower} has replica log end offset {log.log_end_offset} for partition {name}."
        f" Received {size} messages and leader hw {answer.high_watermark}"
    )
    yield LineLogged(
        f"{follower} has replica log end offset {end} after appending {size} bytes of messages for"
        f" partition {name}"
    )
    yield LineLogged(
        f"{follower} set replica high watermark for partition [{log.topic},{log.partition}]"
        f" to {high_watermark}"
    )
