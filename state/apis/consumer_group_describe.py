"""ConsumerGroupDescribe (key 69, versions 0 to 1): describe groups.

Source: `GroupMetadataManager.consumerGroupDescribe`, `KafkaApis.handleConsumerGroupDescribe` in
Kafka; KIP-848, KIP-1043. Errors are in `state/groups/describing.py`. For a classic group the error
is `69 GROUP_ID_NOT_FOUND`, because Java's admin client then retries with DescribeGroups. The
assignment of a member includes partitions that it has yet to revoke. Partitions of deleted topics
are omitted.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from brokertwin.state.cluster import features
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import consumer_group, describing, target_assignment
from brokertwin.state.groups.assignments import Target, in_hash_order
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember
from brokertwin.state.groups.describing import DescribeSpec

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def handle(broker: Broker, request: Request) -> Decision:
    described = describing.describe(broker, request, _CONSUMERS)
    return Decision(response=ConsumerGroupDescribeResponse(groups=described))


def _of(broker: Broker, group: ConsumerGroup) -> ConsumerGroupDescribeResponseDescribedGroup:
    return ConsumerGroupDescribeResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor(target_assignment.offered(broker)[0]),
        members=[_member(broker, group, member) for member in group.in_order()],
    )


def _member(
    broker: Broker, group: ConsumerGroup, member: ConsumerMember
) -> ConsumerGroupDescribeResponseMember:
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=consumer_group.in_order(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(broker, in_hash_order(member.assigned, member.pending_revocation)),
        target_assignment=_assignment(
            broker, in_hash_order(group.target.get(member.member_id, {}))
        ),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(broker: Broker, partitions: Target) -> ConsumerGroupDescribeResponseAssignment:
    topics = {topic_id: broker.topic_by_id(topic_id) for topic_id in partitions}
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=numbers
            )
            for topic_id, numbers in partitions.items()
            if (topic := topics[topic_id]) is not None
        ]
    )


def _topics_in(described: ConsumerGroupDescribeResponseDescribedGroup) -> set[str]:
    return {
        place.topic_name
        for member in described.members
        for assignment in (member.assignment, member.target_assignment)
        for place in assignment.topic_partitions
    }


_CONSUMERS = DescribeSpec(
    features.GROUP,
    ConsumerGroup,
    "a consumer group",
    ConsumerGroupDescribeResponseDescribedGroup,
    _of,
    _topics_in,
)

API = Api(kafka_apis.CONSUMER_GROUP_DESCRIBE, handle)
