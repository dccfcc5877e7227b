"""Conversion of a group between the classic and the consumer protocol.

Source: `GroupMetadataManager.validateOnlineUpgrade`, `convertToConsumerGroup`,
`validateOnlineDowngrade…`, `convertToClassicGroup`, `ConsumerGroup.fromClassicGroup`,
`ClassicGroup.fromConsumerGroup` in Kafka; KIP-848. group.consumer.migration.policy allows it.

    upgrade    a consumer of the new protocol joins a classic group: the generation becomes the
               group epoch, and the leader's assignment the target of all members
    downgrade  the last consumer of the new protocol leaves: the group epoch becomes the generation,
               and the target the assignment
"""

import base64
from collections.abc import Iterable
from typing import NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.protocol.primitives import MalformedError
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Refused
from brokertwin.state.groups import consumer_protocol, target_assignment
from brokertwin.state.groups.assignments import Target, in_hash_order
from brokertwin.state.groups.classic_group import (
    CONSUMER,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
)
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember, classic_metadata
from brokertwin.state.groups.consumer_protocol import Partitions

BOTH_WAYS, UP, DOWN, DISABLED = "bidirectional", "upgrade", "downgrade", "disabled"
"""Values of group.consumer.migration.policy."""


def migration_policy(broker: Broker) -> str:
    return broker.settings.group_consumer_migration_policy.lower()


# Up


class _UserDataError(ValueError):
    """Assignments have user data of a custom assignor, which would be lost."""


class _SharedError(ValueError):
    """The leader has assigned a partition to two members."""


def upgrade(broker: Broker, group: ClassicGroup) -> ConsumerGroup:
    """Return the consumer group for a classic group with members.

    Pending joins and syncs are rejected even if the conversion fails, as in Kafka.
    """
    why = _upgrade_error(broker, group)
    if why is not None:
        what = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
        raise Refused(Error.GROUP_ID_NOT_FOUND, what)
    if group.protocol_name is None:
        raise Refused(Error.UNKNOWN_SERVER_ERROR)
    try:
        return _converted(broker, group, group.protocol_name)
    except MalformedError:
        why = "the embedded consumer protocol is malformed."
    except _SharedError:
        raise Refused(Error.UNKNOWN_SERVER_ERROR) from None
    except _UserDataError:
        why = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade."
        )
    what = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    raise Refused(Error.GROUP_ID_NOT_FOUND, what)


def ends_pending_requests(broker: Broker, group: ClassicGroup) -> bool:
    return _upgrade_error(broker, group) is None


def _upgrade_error(broker: Broker, group: ClassicGroup) -> str | None:
    if migration_policy(broker) not in (BOTH_WAYS, UP):
        return "online upgrade is disabled"
    if group.protocol_type != CONSUMER:
        return "the group does not use the consumer embedded protocol"
    if len(group.members) > broker.settings.group_consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


def _converted(broker: Broker, group: ClassicGroup, protocol_name: str) -> ConsumerGroup:
    """Convert. Raises MalformedError, _UserDataError or _SharedError."""
    epoch = group.generation_id
    converted = ConsumerGroup(group.group_id, group_epoch=epoch, assignment_epoch=epoch)
    for member in group.in_hash_order():
        target = _target_of(broker, member)
        if any(converted.has_owner(t, each) for t, numbers in target.items() for each in numbers):
            raise _SharedError
        metadata = consumer_protocol.subscription_of(
            base64.b64decode(member.metadata(protocol_name))
        )
        converted.target[member.member_id] = target
        converted.put(
            ConsumerMember(
                member.member_id,
                member_epoch=epoch,
                previous_member_epoch=epoch,
                instance_id=member.group_instance_id,
                rack_id=metadata.rack_id or None,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(set(metadata.topics)),
                assigned={t: dict.fromkeys(numbers, epoch) for t, numbers in target.items()},
                classic_member_metadata=classic_metadata(
                    member.session_timeout_ms, member.protocols
                ),
            )
        )
    converted.metadata_hash = target_assignment.metadata_hash(broker, converted.subscribers)
    return converted


def _target_of(broker: Broker, member: ClassicMember) -> Target:
    """Return a member's assignment by topic id; unknown topics are dropped."""
    if not member.assignment:
        return {}
    assigned = consumer_protocol.assignment_of(base64.b64decode(member.assignment))
    if assigned.has_user_data:
        raise _UserDataError
    return target_by_topic_id(broker, assigned.partitions)


def target_by_topic_id(broker: Broker, partitions: Partitions) -> Target:
    """Return partitions by topic id, of existing topics, in Kafka's order."""
    target: Target = {}
    for name, numbers in partitions.items():
        topic = broker.topic_by_name(name)
        if topic is not None:
            target[topic.topic_id] = list(set(numbers))
    return in_hash_order(target)


# Down


class Downgrade(NamedTuple):
    """The members that leave, and the member that rejoins, in a downgrade."""

    leaving: frozenset[str]
    joining: ConsumerMember | None = None


def may_downgrade(broker: Broker, group: ConsumerGroup, leaving: Iterable[ConsumerMember]) -> bool:
    leaving_members = list(leaving)
    remaining = len(group.members) - len(leaving_members)
    classic = group.classic_members - sum(each.uses_classic_protocol for each in leaving_members)
    return classic == remaining and remaining > 0 and _is_allowed(broker, remaining)


def may_downgrade_without(broker: Broker, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    is_last = group.classic_members == len(group.members) - 1
    is_consumer = not replaced.uses_classic_protocol
    return is_last and is_consumer and _is_allowed(broker, len(group.members))


def _is_allowed(broker: Broker, member_count: int) -> bool:
    is_open = migration_policy(broker) in (BOTH_WAYS, DOWN)
    return is_open and member_count <= broker.settings.group_max_size


def downgrade(broker: Broker, group: ConsumerGroup, downgrade_spec: Downgrade) -> ClassicGroup:
    """Return the classic group for a consumer group: stable, with its targets."""
    joining = downgrade_spec.joining
    replaced = None if joining is None else group.static_member(joining.instance_id)
    remaining_members = [
        each for each in group.in_order() if each.member_id not in downgrade_spec.leaving
    ]
    if joining is not None:
        remaining_members = [*(each for each in remaining_members if each != replaced), joining]
    classic = ClassicGroup(
        group.group_id,
        state=ClassicGroupState.STABLE,
        state_timestamp=broker.now,
        generation_id=group.group_epoch,
    )
    for member in remaining_members:
        classic.add(_classic_member(member), CONSUMER)
    classic.protocol_name = classic.chosen_protocol()
    classic.subscribed = classic.subscriptions()
    for each in classic.members.values():
        is_joining = joining is not None and each.member_id == joining.member_id
        former = replaced.member_id if is_joining and replaced is not None else each.member_id
        metadata = base64.b64decode(each.metadata(classic.protocol_name))
        each.assignment = assignment_text(broker, group.target.get(former, {}), metadata)
    return classic


def _classic_member(member: ConsumerMember) -> ClassicMember:
    metadata = member.classic_member_metadata
    assert metadata is not None, member.member_id
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        metadata.session_timeout_ms,
        [
            (each.name, base64.b64encode(each.metadata).decode())
            for each in metadata.supported_protocols
        ],
    )


def assignment_text(broker: Broker, partitions: Target, subscription: bytes) -> str:
    """Return an assignment in base64, in the version of the subscription."""
    named: Partitions = {}
    for topic_id, numbers in in_hash_order(partitions).items():
        topic = broker.topic_by_id(topic_id)
        if topic is not None:
            named[topic.name] = numbers
    version = consumer_protocol.version_of(subscription)
    return base64.b64encode(consumer_protocol.assignment_bytes(named, version)).decode()
