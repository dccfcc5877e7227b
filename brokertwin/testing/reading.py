"""Content of a test's broker, read from its state."""

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.records import internal_batches
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.record_batches import as_stored
from brokertwin.state.cluster.image import Topic
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.groups import committed_offsets as offsets
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroupState
from brokertwin.state.groups.consumer_group import ConsumerGroupState
from brokertwin.state.groups.share_group import ShareGroupState
from brokertwin.state.groups.streams_group import StreamsGroupState
from brokertwin.state.logs import log as logs
from brokertwin.testing.engine import FaultyEngine
from brokertwin.testing.records import StoredRecord, records_in
from brokertwin.wording import counted

DEAD = "Dead"
_KINDS = (ClassicGroupState, ConsumerGroupState, ShareGroupState, StreamsGroupState)
GROUP_STATES = (*dict.fromkeys(str(state.value) for kind in _KINDS for state in kind), DEAD)
"""States of groups of all kinds."""


def topic_of(engine: FaultyEngine, name: str) -> Topic:
    """Return a topic. Raises UserError if it does not exist."""
    topic = engine.topic(name)
    if topic is None:
        raise UserError(
            f"Topic {name} does not exist.", "Call create_topic(), or let the client create it."
        )
    return topic


def leader(engine: FaultyEngine, name: str, partition: int) -> int:
    """Return a partition's leader. Raises UserError if it does not exist."""
    topic = topic_of(engine, name)
    if not 0 <= partition < len(topic.partitions):
        partitions = counted(len(topic.partitions), "partition")
        raise UserError(f"Topic {name} has {partitions}; partition {partition} does not exist.")
    return topic.partitions[partition].leader


async def records(engine: FaultyEngine, name: str, partition: int | None) -> list[StoredRecord]:
    """Return the records of a topic, by partition and offset. Raises UserError."""
    topic = topic_of(engine, name)
    indexes = range(len(topic.partitions)) if partition is None else [partition]
    result: list[StoredRecord] = []
    for index in indexes:
        broker = leader(engine, name, index)
        log = engine.tables.logs.get(logs.log_key(broker, topic.topic_id, index), logs.Log)
        assert log is not None, "a leader has a log"
        for batch in await _batches(engine, broker, log):
            stored = internal_batches.own_bytes(batch)
            if stored is None:
                data = await engine.get(batch.locator) if batch.locator else None
                if data is None:
                    continue
                stored = bytes(as_stored(data, batch))
            result += records_in(name, index, stored, log.log_start_offset)
    return result


async def _batches(engine: FaultyEngine, broker: int, log: logs.Log) -> list[Batch]:
    """Return the batch headers of a log, including sealed segments."""
    batches: list[Batch] = []
    for segment in logs.sealed_segments(engine.tables.of(broker), log):
        sealed = await engine.segment(log.topic_id, log.partition, segment.base_offset)
        batches += msgspec.convert(sealed or [], list[Batch])
    indexed = logs.batches_from(engine.tables.of(broker), log, log.log_start_offset)
    return batches + [stored.header() for stored in indexed]


def committed_offsets(engine: FaultyEngine, group: str) -> dict[tuple[str, int], int]:
    """Return a group's committed offsets from any coordinator, or from ZooKeeper."""
    result = {}
    for broker in (*engine.brokers, CONTROLLER):
        for topic, partitions in offsets.partitions_of(engine.tables.of(broker), group):
            for partition in partitions:
                offset = offsets.offset(engine.tables.of(broker), group, topic, partition)
                assert offset is not None, (group, topic, partition)
                result[topic, partition] = offset.offset
    return result


def group_state(engine: FaultyEngine, group: str) -> tuple[str, int]:
    """Return state and number of members of a group; a missing one is dead."""
    for broker in engine.brokers:
        found = groups.find(engine.tables.of(broker), group)
        if found is not None:
            return str(found.state.value), len(found.members)
    return DEAD, 0
