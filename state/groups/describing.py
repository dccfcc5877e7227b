"""Common part of ConsumerGroup-, ShareGroup- and StreamsGroupDescribe.

Source: `KafkaApis.handleConsumerGroupDescribe`, `.handleShareGroupDescribe`,
`.handleStreamsGroupDescribe` in Kafka. Errors, in this order:

    the feature of the kind has level 0              35 UNSUPPORTED_VERSION
    the client may not DESCRIBE the group            30 GROUP_AUTHORIZATION_FAILED
    the group id is ""                               24 INVALID_GROUP_ID
    this broker is not the coordinator               16 NOT_COORDINATOR
    no such group, or a group of another kind        69 GROUP_ID_NOT_FOUND
    the group names a topic that the client may      29 TOPIC_AUTHORIZATION_FAILED
    not DESCRIBE

Order of the response: denied groups, groups with an empty id, then the others by their partition of
`__consumer_offsets`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from brokertwin.protocol.errors import Error
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Request
from brokertwin.state.groups import groups


class GroupDescription(Protocol):
    authorized_operations: int


Description = TypeVar("Description", bound=GroupDescription)


class DescribeSpec(NamedTuple, Generic[Description]):
    """How a kind of group is described.

    Attributes:
        feature: feature that the kind requires.
        kind: struct of its groups.
        name: the kind in an error message, for example "a consumer group".
        described: struct of a description.
        describe: description of a group.
        topics: topics in a description.
        denied_message: error message for topics that the client may not describe.
        messages: error messages of coordinator errors, if any.
    """

    feature: str
    kind: type
    name: str
    described: Callable[..., Description]
    describe: Callable[[Broker, Any], Description]
    topics: Callable[[Description], Iterable[str]]
    denied_message: str = (
        "The group has described topic(s) that the client is not authorized to describe."
    )
    messages: Mapping[Error, str] = {}


def describe(
    broker: Broker, request: Request, kind: DescribeSpec[Description]
) -> list[Description]:
    group_ids: list[str] = request.body.group_ids
    if not broker.has_feature(kind.feature):
        return [_refused(kind, each, Error.UNSUPPORTED_VERSION) for each in group_ids]
    denied: list[Description] = []
    empty_ids: list[Description] = []
    requested: list[str] = []
    for group_id in group_ids:
        if not broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            denied.append(_refused(kind, group_id, Error.GROUP_AUTHORIZATION_FAILED))
        elif not group_id:
            empty_ids.append(_refused(kind, group_id, Error.INVALID_GROUP_ID))
        else:
            requested.append(group_id)
    ordered = coordinators.in_partition_order(broker, requested)
    return denied + empty_ids + [_describe(broker, request, kind, each) for each in ordered]


def _refused(
    kind: DescribeSpec[Description], group_id: str, error: Error, message: str | None = None
) -> Description:
    return kind.described(group_id=group_id, error_code=error, error_message=message)


def _describe(
    broker: Broker, request: Request, kind: DescribeSpec[Description], group_id: str
) -> Description:
    error = coordinators.group_error(broker, group_id)
    if error is not Error.NONE:
        return _refused(kind, group_id, error, kind.messages.get(error))
    group = groups.find_if_stored(broker, group_id)
    if not isinstance(group, kind.kind):
        why = "not found." if group is None else f"is not {kind.name}."
        return _refused(kind, group_id, Error.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}")
    description = kind.describe(broker, group)
    if broker.denied_topics(request, Operation.DESCRIBE, kind.topics(description)):
        error = Error.TOPIC_AUTHORIZATION_FAILED
        return _refused(kind, group_id, error, kind.denied_message)
    if request.body.include_authorized_operations:
        description.authorized_operations = broker.authorized_operations(
            request, ResourceType.GROUP, group_id
        )
    return description
