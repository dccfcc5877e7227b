"""The fetcher threads of a broker: which of them copies a partition, and what it is called.

Source: seed 004; `AbstractFetcherManager.getFetcherId` in Kafka. A broker has num.replica.fetchers
threads for each leader that it follows; a partition's thread is

    abs(31 * hash of the topic's name + partition) % num.replica.fetchers

with Java's hash and in 32 bits, where abs of the least number is 0. A thread asks for all its
partitions at once (`copying.fetches`). Its name has the two numbers that the seed asks about:
ReplicaFetcherThread-<fetcher id>-<the leader's broker id>.
"""

from brokertwin.state.core.java_hashes import java_hash

_LEAST = -(2**31)


def fetcher_id(topic: str, partition: int, num_replica_fetchers: int) -> int:
    """The number of the thread that copies a partition."""
    wrapped = (31 * java_hash(topic) + partition - _LEAST) % 2**32 + _LEAST
    return (0 if wrapped == _LEAST else abs(wrapped)) % num_replica_fetchers


def thread_name(fetcher: int, leader: int) -> str:
    """The name of a thread, by its number and the broker that it fetches from."""
    return f"ReplicaFetcherThread-{fetcher}-{leader}"
