"""Requests for models: the bodies that every model needs."""

import base64
from hashlib import blake2b
from typing import Any

from brokertwin.simulation.explore.api import Send

TIMEOUT_MS = 30_000
TRANSACTION_MS = 60_000
BATCH_BYTES = 70
MEMBER_EPOCH = 9
"""First version of OffsetCommit with member epochs (KIP-848)."""


def topic_id(topic: str) -> str:
    """Return the id of a topic of `Cluster.topics`, for requests that name topics by id."""
    digest = blake2b(topic.encode(), digest_size=16).digest()
    return "T" + base64.urlsafe_b64encode(digest).decode().rstrip("=")[1:]


def init_producer_id(
    transactional_id: str | None = None,
    *,
    version: int = 4,
    producer_id: int = -1,
    epoch: int = -1,
    timeout_ms: int = TRANSACTION_MS,
    broker: int = 1,
) -> Send:
    """InitProducerId; with a producer id and epoch it bumps that epoch (KIP-360)."""
    body: dict[str, Any] = {
        "transactionalId": transactional_id,
        "transactionTimeoutMs": timeout_ms,
    }
    if version >= 3:
        body |= {"producerId": producer_id, "producerEpoch": epoch}
    return Send(
        api="INIT_PRODUCER_ID", version=version, body=body, label="InitProducerId", broker=broker
    )


def add_partitions(
    transactional_id: str, producer_id: int, epoch: int, topic: str, *partitions: int
) -> Send:
    """AddPartitionsToTxn of a client before KIP-890."""
    body = {
        "v3AndBelowTransactionalId": transactional_id,
        "v3AndBelowProducerId": producer_id,
        "v3AndBelowProducerEpoch": epoch,
        "v3AndBelowTopics": [{"name": topic, "partitions": list(partitions)}],
    }
    return Send(api="ADD_PARTITIONS_TO_TXN", version=3, body=body, label="AddPartitionsToTxn")


def produce(
    topic: str,
    partition: int,
    record: str,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional_id: str | None = None,
    version: int = 9,
    leader_time: int = 1_700_000_000_000,
    broker: int = 1,
    acks: int = -1,
) -> Send:
    """Produce a batch; the names of several records are separated by commas."""
    count = len(record.split(","))
    batch = {
        "baseOffset": 0,
        "lastOffsetDelta": count - 1,
        "producerId": producer_id,
        "producerEpoch": epoch,
        "baseSequence": sequence,
        "baseTimestamp": leader_time,
        "maxTimestamp": leader_time,
        "sizeInBytes": BATCH_BYTES,
        "recordCount": count,
        "isTransactional": transactional_id is not None,
        "locator": record,
    }
    body = {
        "transactionalId": transactional_id,
        "acks": acks,
        "timeoutMs": TIMEOUT_MS,
        "topicData": [{"name": topic, "partitionData": [{"index": partition, "batches": [batch]}]}],
    }
    return Send(api="PRODUCE", version=version, body=body, label=f"Produce {record}", broker=broker)


def end_txn(
    transactional_id: str, producer_id: int, epoch: int, committed: bool, *, version: int = 3
) -> Send:
    """EndTxn; version 5 bumps the epoch (KIP-890)."""
    body = {
        "transactionalId": transactional_id,
        "producerId": producer_id,
        "producerEpoch": epoch,
        "committed": committed,
    }
    word = "commit" if committed else "abort"
    return Send(api="END_TXN", version=version, body=body, label=f"EndTxn {word}")


def txn_offset_commit(
    transactional_id: str,
    producer_id: int,
    epoch: int,
    group: str,
    topic: str,
    partition: int,
    offset: int,
    *,
    version: int = 3,
    generation: int = -1,
    member_id: str = "",
) -> Send:
    """TxnOffsetCommit; without a generation before version 3 (KIP-447)."""
    body: dict[str, Any] = {
        "transactionalId": transactional_id,
        "groupId": group,
        "producerId": producer_id,
        "producerEpoch": epoch,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partitionIndex": partition,
                        "committedOffset": offset,
                        "committedMetadata": "",
                    }
                ],
            }
        ],
    }
    if version >= 3:
        body |= {"generationId": generation, "memberId": member_id}
    label = f"TxnOffsetCommit {offset}"
    return Send(api="TXN_OFFSET_COMMIT", version=version, body=body, label=label)


def add_offsets(transactional_id: str, producer_id: int, epoch: int, group: str) -> Send:
    """AddOffsetsToTxn of a client before KIP-890."""
    body = {
        "transactionalId": transactional_id,
        "producerId": producer_id,
        "producerEpoch": epoch,
        "groupId": group,
    }
    return Send(api="ADD_OFFSETS_TO_TXN", version=3, body=body, label="AddOffsetsToTxn")


def offset_fetch(group: str, topic: str, partition: int) -> Send:
    body = {
        "groupId": group,
        "topics": [{"name": topic, "partitionIndexes": [partition]}],
        "requireStable": True,
    }
    return Send(api="OFFSET_FETCH", version=7, body=body, label=f"OffsetFetch {topic}-{partition}")


def offset_commit(
    group: str,
    topic: str,
    partition: int,
    offset: int,
    *,
    generation: int = -1,
    member_id: str = "",
    version: int = 6,
    instance: str | None = None,
) -> Send:
    partitions = [{"partitionIndex": partition, "committedOffset": offset, "committedMetadata": ""}]
    body: dict[str, Any] = {
        "groupId": group,
        "topics": [{"name": topic, "partitions": partitions}],
        "generationIdOrMemberEpoch": generation,
        "memberId": member_id,
    }
    if version >= 7:
        body["groupInstanceId"] = instance
    label = f"OffsetCommit {offset} {topic}-{partition}"
    if generation >= 0:
        label += f" {'epoch' if version >= MEMBER_EPOCH else 'generation'} {generation}"
    return Send(api="OFFSET_COMMIT", version=version, body=body, label=label)


def fetch(
    topic: str,
    partition: int,
    offset: int,
    *,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    is_committed: bool = False,
    version: int = 12,
    broker: int = 1,
) -> Send:
    """Fetch without a session; leader epochs since version 9 and 12 (KIP-320, KIP-595)."""
    part: dict[str, Any] = {
        "partition": partition,
        "fetchOffset": offset,
        "partitionMaxBytes": 2**20,
    }
    if version >= 9:
        part["currentLeaderEpoch"] = leader_epoch
    if version >= 12:
        part["lastFetchedEpoch"] = last_epoch
    body: dict[str, Any] = {
        "maxWaitMs": 0,
        "minBytes": 0,
        "maxBytes": 2**20,
        "isolationLevel": int(is_committed),
        "topics": [{"topic": topic, "partitions": [part]}],
    }
    return Send(
        api="FETCH", version=version, body=body, label=f"Fetch from {offset}", broker=broker
    )
