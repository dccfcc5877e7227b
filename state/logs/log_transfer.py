"""A follower takes over its leader's whole log if it needs sealed batches.

Source: KIP-405, `ReplicaFetcherTierStateMachine` in Kafka: a follower that needs records in remote
storage takes the leader's epochs and producers from there and fetches the local records. Here the
sealed batches are in the topic `segments`, which all replicas share. The follower takes the bounds
of the sealed segments, the rest of the index, and the producers.
"""

from collections.abc import Mapping

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs import log as logs
from brokertwin.state.logs import producer

_KINDS = {"logs": ("chunk", "sealed", "aborted", "rolled"), "producers": ("producer",)}
"""Kinds of items of a log, by table."""

Items = Mapping[str, Mapping[str, bytes]]
"""Encoded items by table, and by key without the machine."""


def items(at: MachineTables, topic_id: Uuid, partition: int) -> dict[str, dict[str, bytes]]:
    place = f"{topic_id}/{partition}"
    kept = {name: [f"{at.id}/{kind}/{place}/" for kind in kinds] for name, kinds in _KINDS.items()}
    result = {
        name: {
            key.removeprefix(f"{at.id}/"): at.tables[name].encoded(key)
            for prefix in prefixes
            for key in at.tables[name].keys(prefix)
        }
        for name, prefixes in kept.items()
    }
    result["logs"][f"log/{place}"] = at.tables.logs.encoded(f"{at.id}/log/{place}")
    return result


def take(at: MachineTables, topic_id: Uuid, partition: int, taken: Items) -> None:
    """Replace a broker's log with its leader's."""
    log_key = logs.log_key(at.id, topic_id, partition)
    directory = at.tables.logs.change(log_key, logs.Log).directory
    logs.remove(at, topic_id, partition)
    producer.remove_partition(at, topic_id, partition)
    for name, encoded in taken.items():
        for key, item in encoded.items():
            at.tables[name].put_encoded(f"{at.id}/{key}", item)
    log = at.tables.logs.change(log_key, logs.Log)
    log.directory, log.deleted = directory, []
