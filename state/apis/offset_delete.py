"""OffsetDelete (key 47, version 0): delete a group's committed offsets.

Source: `OffsetMetadataManager.deleteOffsets`, `KafkaApis.handleOffsetDeleteRequest` in Kafka;
KIP-496. Errors of the whole request, in this order:

    no DELETE permission on the group             30 GROUP_AUTHORIZATION_FAILED
    group id ""                                   24 INVALID_GROUP_ID
    this broker does not coordinate the group     16 NOT_COORDINATOR
    no such group                                 69 GROUP_ID_NOT_FOUND
    it has members that are not consumers         68 NON_EMPTY_GROUP

Errors of a partition:

    no READ permission on the topic               29 TOPIC_AUTHORIZATION_FAILED
    no such topic or partition                    3 UNKNOWN_TOPIC_OR_PARTITION
    a member subscribes to the topic              86 GROUP_SUBSCRIBED_TO_TOPIC

Like in Kafka, partitions that the broker itself rejects come first. A rejected topic is in the
response even if the request names none of its partitions.

If ZooKeeper keeps the offsets, the coordinator checks the group's members and the controller
deletes the nodes: 69 GROUP_ID_NOT_FOUND if there is neither a group nor a node, and
15 COORDINATOR_NOT_AVAILABLE if the controller does not respond in time.

With `brokertwin.commit.while.loading` (seed 003) offsets can be deleted while the group loads. The
tombstones follow the records still to be loaded, so that the offsets stay deleted.
"""

from typing import NamedTuple

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Message, PendingRequest, Request
from brokertwin.state.core.records import OffsetDeleted, Record
from brokertwin.state.core.tables import decode_item
from brokertwin.state.eras import zookeeper_offsets
from brokertwin.state.groups import classic_rules, committed_offsets, groups
from brokertwin.state.groups.kinds import kind_of


class _PartitionOutcome(NamedTuple):
    topic: str
    partition: int
    error: Error


class PendingOffsetDeletions(msgspec.Struct):
    """The response that waits for ZooKeeper. `is_known` is set if the coordinator has the group."""

    response: OffsetDeleteResponse
    is_known: bool


def handle(machine: Machine, request: Request) -> Decision:
    """Delete offsets; the controller deletes those in ZooKeeper."""
    if not isinstance(machine, Broker):
        return zookeeper_offsets.delete_offsets(machine, request.body)
    broker, body = machine, request.body
    error = classic_rules.access_error(broker, request, body.group_id, Operation.DELETE)
    is_loading = error is Error.COORDINATOR_LOAD_IN_PROGRESS
    if is_loading and broker.settings.brokertwin_commit_while_loading:
        refused, decided = _split_partitions(broker, request, set())
        gone = [OffsetDeleted(body.group_id, each.topic, each.partition) for each in decided]
        return Decision(records=[*gone], response=_response(refused, decided))
    if error is not Error.NONE:
        raise Refused(error)
    group, is_elsewhere = groups.find(broker, body.group_id), zookeeper_offsets.is_enabled(broker)
    if group is not None:
        error = kind_of(group).delete_offsets_error(group)
    elif not is_elsewhere:
        error = Error.GROUP_ID_NOT_FOUND
    if error is not Error.NONE:
        raise Refused(error)
    subscribed = kind_of(group).subscribed_topics(group) if group is not None else set()
    refused, decided = _split_partitions(broker, request, subscribed)
    if is_elsewhere:
        state = PendingOffsetDeletions(_response(refused, decided), group is not None)
        return _forward_to_zookeeper(broker, body.group_id, decided, state)
    records = _tombstones(broker, body.group_id, decided)
    return Decision(records=records, response=_response(refused, decided))


def _forward_to_zookeeper(
    broker: Broker, group_id: str, decided: list[_PartitionOutcome], state: PendingOffsetDeletions
) -> Decision:
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for each in decided:
        if each.error is Error.NONE:
            partition = OffsetDeleteRequestPartition(partition_index=each.partition)
            topics.setdefault(each.topic, []).append(partition)
    body = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    timeout_ms = broker.settings.request_timeout_ms
    return zookeeper_offsets.forward(broker, API.key, body, timeout_ms, state)


def resume(
    _broker: Broker, waiting: PendingRequest, _message: Message, response: OffsetDeleteResponse
) -> Decision:
    """Respond: ZooKeeper has deleted the nodes."""
    state = decode_item(waiting.state, PendingOffsetDeletions)
    is_missing = response.error_code != Error.NONE and not state.is_known
    return Decision(response=response if is_missing else state.response)


def complete(_broker: Broker, _waiting: PendingRequest) -> Decision:
    """Respond when ZooKeeper's time is up."""
    return Decision(response=OffsetDeleteResponse(error_code=Error.COORDINATOR_NOT_AVAILABLE))


def _response(
    refused: dict[str, list[OffsetDeleteResponsePartition]], decided: list[_PartitionOutcome]
) -> OffsetDeleteResponse:
    """Return the response: first the partitions that the broker rejects."""
    for each in decided:
        partition = OffsetDeleteResponsePartition(
            partition_index=each.partition, error_code=each.error
        )
        refused.setdefault(each.topic, []).append(partition)
    topics = [
        OffsetDeleteResponseTopic(name=name, partitions=errors) for name, errors in refused.items()
    ]
    return OffsetDeleteResponse(topics=topics)


def _split_partitions(
    broker: Broker, request: Request, subscribed: set[str] | None
) -> tuple[dict[str, list[OffsetDeleteResponsePartition]], list[_PartitionOutcome]]:
    """Return rejected partitions by topic, and the group's results."""
    refused: dict[str, list[OffsetDeleteResponsePartition]] = {}
    decided: list[_PartitionOutcome] = []
    for topic in request.body.topics:
        of_topic = _refusal(broker, request, topic.name)
        if of_topic is not Error.NONE:
            refused.setdefault(topic.name, [])
        is_subscribed = subscribed is None or topic.name in subscribed
        of_group = Error.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else Error.NONE
        for partition in topic.partitions:
            index = partition.partition_index
            if of_topic is Error.NONE and _exists(broker, topic.name, index):
                decided.append(_PartitionOutcome(topic.name, index, of_group))
                continue
            error = of_topic or Error.UNKNOWN_TOPIC_OR_PARTITION
            response = OffsetDeleteResponsePartition(partition_index=index, error_code=error)
            refused.setdefault(topic.name, []).append(response)
    return refused, decided


def _refusal(broker: Broker, request: Request, name: str) -> Error:
    if not broker.allows_topic(request, Operation.READ, name):
        return Error.TOPIC_AUTHORIZATION_FAILED
    return Error.UNKNOWN_TOPIC_OR_PARTITION if broker.topic_by_name(name) is None else Error.NONE


def _exists(broker: Broker, name: str, partition: int) -> bool:
    topic = broker.topic_by_name(name)
    return topic is not None and 0 <= partition < len(topic.partitions)


def _tombstones(broker: Broker, group_id: str, decided: list[_PartitionOutcome]) -> list[Record]:
    return [
        OffsetDeleted(group_id, each.topic, each.partition)
        for each in decided
        if each.error is Error.NONE
        and committed_offsets.offset(broker, group_id, each.topic, each.partition)
    ]


API: Api = Api(
    kafka_apis.OFFSET_DELETE,
    handle,
    resume=resume,
    complete=complete,
    earlier_writes=earlier_writes.of_deleted_offsets,
    uncommitted=uncommitted.error_alone,
)
