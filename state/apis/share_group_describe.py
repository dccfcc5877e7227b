"""ShareGroupDescribe (key 77, version 1): share groups and members.

Source: `GroupMetadataManager.shareGroupDescribe`, `ShareGroup.asDescribedGroup`,
`KafkaApis.handleShareGroupDescribe` in Kafka; KIP-932. `describing.py` has the errors of a group
and their order. Partitions of deleted topics are omitted.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.share_group_describe import (
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseAssignment,
    ShareGroupDescribeResponseDescribedGroup,
    ShareGroupDescribeResponseMember,
    ShareGroupDescribeResponseTopicPartitions,
)
from brokertwin.state.cluster import features
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import describing, share_offsets
from brokertwin.state.groups.describing import DescribeSpec
from brokertwin.state.groups.share_group import ShareGroup, ShareGroupMember
from brokertwin.state.groups.simple_assignor import SIMPLE


def handle(broker: Broker, request: Request) -> Decision:
    """Respond without writing records."""
    described = describing.describe(broker, request, _SHARES)
    return Decision(response=ShareGroupDescribeResponse(groups=described))


def _of(broker: Broker, group: ShareGroup) -> ShareGroupDescribeResponseDescribedGroup:
    return ShareGroupDescribeResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=SIMPLE,
        members=[_member(broker, member) for member in group.in_order()],
    )


def _topics_in(described: ShareGroupDescribeResponseDescribedGroup) -> set[str]:
    return {
        place.topic_name
        for member in described.members
        for place in member.assignment.topic_partitions
    }


def _member(broker: Broker, member: ShareGroupMember) -> ShareGroupDescribeResponseMember:
    topics = {topic_id: broker.topic_by_id(topic_id) for topic_id in member.assigned}
    assignment = ShareGroupDescribeResponseAssignment(
        topic_partitions=[
            ShareGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=numbers
            )
            for topic_id, numbers in member.assigned.items()
            if (topic := topics[topic_id]) is not None
        ]
    )
    return ShareGroupDescribeResponseMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics_in_order(),
        assignment=assignment,
    )


_SHARES = DescribeSpec(
    features.SHARE,
    ShareGroup,
    "a share group",
    ShareGroupDescribeResponseDescribedGroup,
    _of,
    _topics_in,
    messages=share_offsets.ERROR_MESSAGES,
)

API = Api(kafka_apis.SHARE_GROUP_DESCRIBE, handle)
