"""A broker's fetcher threads: id and name.

Source: seed 004; `AbstractFetcherManager.getFetcherId` in Kafka. A broker has num.replica.fetchers
threads for each leader. A partition is fetched by the thread

    abs(31 * hash of the topic's name + partition) % num.replica.fetchers

with Java's hash and 32-bit arithmetic; the abs of the least int32 is 0. A thread fetches all its
partitions in one request (`copying.fetches`).
"""

from brokertwin.state.core.java_hashes import java_hash

_LEAST = -(2**31)


def fetcher_id(topic: str, partition: int, num_replica_fetchers: int) -> int:
    """Id of the thread that fetches a partition."""
    wrapped = (31 * java_hash(topic) + partition - _LEAST) % 2**32 + _LEAST
    return (0 if wrapped == _LEAST else abs(wrapped)) % num_replica_fetchers


def thread_name(fetcher: int, leader: int) -> str:
    """Kafka's name of a fetcher thread."""
    return f"ReplicaFetcherThread-{fetcher}-{leader}"
