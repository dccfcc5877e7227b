"""A broker's fetcher threads: id and name.

Source: seed 004; `AbstractFetcherManager.getFetcherId` in Kafka. A broker has num.replica.fetchers
threads for each leader. A partition is fetched by the thread

    abs(31 * hash of the topic's name + partition) % num.replica.fetchers

with Java's hash and 32-bit arithmetic; the abs of the least int32 is 0. A thread fetches all its
partitions in one request (`copying.fetches`).
"""

from collections.abc import Collection

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.java_hashes import java_hash
from brokertwin.state.core.records import Record
from brokertwin.state.eras import replication_lines

NO_LEADER = -1
_LEAST = -(2**31)


def fetcher_id(topic: str, partition: int, num_replica_fetchers: int) -> int:
    wrapped = (31 * java_hash(topic) + partition - _LEAST) % 2**32 + _LEAST
    return (0 if wrapped == _LEAST else abs(wrapped)) % num_replica_fetchers


def thread_name(fetcher: int, leader: int) -> str:
    """Kafka's name of a fetcher thread."""
    return f"ReplicaFetcherThread-{fetcher}-{leader}"


def lines_of_new_fetches(
    broker: Broker, places: Collection[tuple[Uuid, int]], is_start: bool = False
) -> list[Record]:
    """Log lines of a follower whose partitions have a new leader; none without tracing.

    At the start of the broker no fetcher thread runs yet.
    """
    if not broker.settings.brokertwin_trace_replication:
        return []
    lines = [each for place in places if (each := _new_fetch(broker, place)) is not None]
    others = [
        (topic.topic_id, number)
        for topic in (broker.all_topics() if not is_start else ())
        for number in range(len(topic.partitions))
        if (topic.topic_id, number) not in places
    ]
    running = {each.thread for place in others if (each := _new_fetch(broker, place)) is not None}
    return list(replication_lines.followed(broker, lines, running))


def _new_fetch(broker: Broker, place: tuple[Uuid, int]) -> replication_lines.NewFetch | None:
    topic, log = broker.topic_by_id(place[0]), broker.log(*place)
    if topic is None or log is None:
        return None
    leader = topic.partitions[place[1]].leader
    if leader in (broker.id, NO_LEADER):
        return None
    count = broker.settings.num_replica_fetchers
    fetcher = fetcher_id(log.topic, log.partition, count)
    thread = thread_name(fetcher, leader)
    leader_at = broker.registration(leader)
    return replication_lines.NewFetch(log, thread, leader, leader_at.host, leader_at.port)
