"""Dead letters of share groups (KIP-1191), in Kafka 4.4 with `share.version` 2.

A record that a member rejects, or that is returned at its last delivery, is ARCHIVING. When the
share coordinator has stored this, the partition leader writes a record to the topic that the
group's `errors.deadletterqueue.topic.name` names, to the partition with the same number (modulo
their count). Then the record is archived, even if the write has failed. Without a leader or a
response, or after 6 NOT_LEADER_OR_FOLLOWER, there are four more attempts. A batch has as many dead
letters as `max.message.bytes` allows, at least one; the next batch follows the response. A dead
letter has no key, so a compacted topic refuses it, and no value; its headers say where the original
is. A new leader goes on with ARCHIVING records.

A missing topic is created with `errors.deadletterqueue.auto.create.topics.enable`; its records stay
ARCHIVING meanwhile. Not written, and archived at once, if the topic does not exist, its
`errors.deadletterqueue.group.enable` is false, or its name does not start with the brokers'
`errors.deadletterqueue.topic.name.prefix`.

Source: `ShareGroupDLQStateManager`, `SharePartition.initiateDLQAndArchive`; records of Kafka 4.4.0.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.additions import RecordsSummary
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from brokertwin.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from brokertwin.protocol.primitives import write_varint
from brokertwin.state.cluster import features, group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import CONTROLLER, Message
from brokertwin.state.logs.deleted_times import HEADER_BYTES
from brokertwin.state.share.in_flight import DeadLetterCause
from brokertwin.state.share.share_partition import DeadLetters
from brokertwin.state.share.state_store import ShareKey

SINCE = 2
"""Level of `share.version` with dead letters."""

LEADER_ONLY = 1
"""Acks; Kafka waits for all in-sync replicas, which no client sees."""

MESSAGES = {
    DeadLetterCause.REJECTED: "Offset rejected by client.",
    DeadLetterCause.UNDELIVERED: "Offset delivery count exceeded the threshold.",
}


class WrittenLetters(msgspec.Struct, array_like=True, frozen=True):
    """The context of a Produce request: the share partition, its records, the written ones.

    States of former releases have no written ones: all records, in one batch.
    """

    share_key: ShareKey
    letters: DeadLetters
    first: int = -1
    last: int = 1 << 62


def are_enabled(broker: Broker, group_id: str) -> bool:
    """True if records of a group become dead letters."""
    if not broker.settings.is_4_4 or not group_configs.dead_letters_to(broker, group_id):
        return False
    return features.finalized(broker, broker.settings)[features.SHARE] >= SINCE


def write_request(
    broker: Broker, share_key: ShareKey, letters: DeadLetters, first: int
) -> Message | None:
    """Return the request that writes the dead letters from `first` on, or its first part.

    None if they cannot be written. Its receiver is -1 if the partition has no leader.
    """
    source = broker.topic_by_id(share_key[1])
    topic = group_configs.dead_letter_topic(broker, share_key[0])
    if topic is None or source is None:
        return None
    index = share_key[2] % len(topic.partitions)
    leader = topic.partitions[index].leader
    most = broker.rules_of(topic).max_message_bytes
    batch = _batch(broker.now, source.name, share_key, letters, first, most)
    produced = PartitionProduceData(
        index=index,
        batches=[batch],
        records_size_in_bytes=batch.size_in_bytes,
        records_seen=RecordsSummary(has_keyless=True),
    )
    topics = [TopicProduceData(topic_id=topic.topic_id, partition_data=[produced])]
    written = WrittenLetters(share_key, letters, first, first + batch.last_offset_delta)
    context = msgspec.json.encode(written).decode()
    body = ProduceRequest(acks=LEADER_ONLY, topic_data=topics)
    return Message(broker.id, leader, kafka_apis.PRODUCE.key, body, context)


def creation(broker: Broker, group_id: str) -> Message:
    """Return the request that creates the topic for a group's dead letters."""
    configs = [
        CreatableTopicConfig(name=group_configs.TAKES_DEAD_LETTERS, value="true"),
        CreatableTopicConfig(name="message.timestamp.type", value="CreateTime"),
    ]
    name = group_configs.dead_letters_to(broker, group_id)
    body = CreateTopicsRequest(topics=[CreatableTopic(name=name, configs=configs)])
    return Message(broker.id, CONTROLLER, kafka_apis.CREATE_TOPICS.key, body)


def _batch(
    now: int, topic: str, share_key: ShareKey, letters: DeadLetters, first: int, most: int
) -> Batch:
    group_id, _, partition = share_key
    packed, count = bytearray(), 0
    for delta, offset in enumerate(range(first, letters.last + 1)):
        headers = {
            "topic": topic,
            "partition": str(partition),
            "offset": str(offset),
            "group": group_id,
            "delivery.count": str(letters.delivery_count),
        }
        if text := MESSAGES.get(DeadLetterCause(letters.cause)):
            headers["message"] = text
        record = encoded(delta, headers)
        if count and HEADER_BYTES + len(packed) + len(record) > most:
            break
        packed += record
        count += 1
    return Batch(
        base_offset=0,
        last_offset_delta=count - 1,
        base_timestamp=now,
        max_timestamp=now,
        size_in_bytes=HEADER_BYTES + len(packed),
        record_count=count,
        packed=bytes(packed),
    )


def encoded(delta: int, headers: dict[str, str]) -> bytes:
    """Encode a record without key and value, with the batch's timestamp."""
    body = bytearray(b"\0\0")
    write_varint(body, delta)
    write_varint(body, -1)
    write_varint(body, -1)
    write_varint(body, len(headers))
    for name, text in headers.items():
        for part in (f"__dlq.errors.{name}", text):
            data = part.encode()
            write_varint(body, len(data))
            body += data
    sized = bytearray()
    write_varint(sized, len(body))
    return bytes(sized + body)
