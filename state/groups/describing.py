"""Groups of one kind as the requests that describe them are answered, whatever that kind is.

Source: `KafkaApis.handleConsumerGroupDescribe`, `.handleShareGroupDescribe`,
`.handleStreamsGroupDescribe` in Kafka. A group is refused, in this order:

    the kind's feature is at level 0                35 UNSUPPORTED_VERSION
    the client may not DESCRIBE the group           30 GROUP_AUTHORIZATION_FAILED
    the name ""                                     24 INVALID_GROUP_ID
    this broker does not coordinate it              16 NOT_COORDINATOR
    no such group, or one of another kind           69 GROUP_ID_NOT_FOUND
    it shows a topic that the client may not        29 TOPIC_AUTHORIZATION_FAILED
    DESCRIBE

Those without rights come first, then those without a name, then the others by the partition of
`__consumer_offsets` that they belong to.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Request
from brokertwin.state.core.errors import Error
from brokertwin.state.groups import groups


class GroupDescription(Protocol):
    """A group in an answer."""

    authorized_operations: int


Description = TypeVar("Description", bound=GroupDescription)


class DescribeSpec(NamedTuple, Generic[Description]):
    """What is asked for of a kind of groups.

    Attributes:
        feature: without which there are none.
        kind: the struct of its groups.
        name: "a consumer group".
        refused: a group's error, by its id, with words.
        shown: a group as it is told.
        topics: the topics that this names.
        hidden: what is said where the client may not see them.
        words: what is said of a coordinator's errors; of consumer and streams groups nothing.
    """

    feature: str
    kind: type
    name: str
    refused: Callable[[str, Error, str | None], Description]
    shown: Callable[[Broker, Any], Description]
    topics: Callable[[Description], Iterable[str]]
    hidden: str = "The group has described topic(s) that the client is not authorized to describe."
    words: Mapping[Error, str] = {}


def describe(
    broker: Broker, request: Request, kind: DescribeSpec[Description]
) -> list[Description]:
    """What is told of the groups that a request names."""
    group_ids: list[str] = request.body.group_ids
    if not broker.has_feature(kind.feature):
        return [kind.refused(each, Error.UNSUPPORTED_VERSION, None) for each in group_ids]
    denied: list[Description] = []
    nameless: list[Description] = []
    asked: list[str] = []
    for group_id in group_ids:
        if not broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            denied.append(kind.refused(group_id, Error.GROUP_AUTHORIZATION_FAILED, None))
        elif not group_id:
            nameless.append(kind.refused(group_id, Error.INVALID_GROUP_ID, None))
        else:
            asked.append(group_id)
    ordered = coordinators.in_partition_order(broker, asked)
    return denied + nameless + [_describe(broker, request, kind, each) for each in ordered]


def _describe(
    broker: Broker, request: Request, kind: DescribeSpec[Description], group_id: str
) -> Description:
    error = coordinators.group_error(broker, group_id)
    if error is not Error.NONE:
        return kind.refused(group_id, error, kind.words.get(error))
    group = groups.find_if_stored(broker, group_id)
    if not isinstance(group, kind.kind):
        why = "not found." if group is None else f"is not {kind.name}."
        return kind.refused(group_id, Error.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}")
    shown = kind.shown(broker, group)
    if broker.denied_topics(request, Operation.DESCRIBE, kind.topics(shown)):
        return kind.refused(group_id, Error.TOPIC_AUTHORIZATION_FAILED, kind.hidden)
    if request.body.include_authorized_operations:
        shown.authorized_operations = broker.authorized_operations(
            request, ResourceType.GROUP, group_id
        )
    return shown
