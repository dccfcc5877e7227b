"""A group becomes one of the other kind while it has members, by group.consumer.migration.policy.

Source: `GroupMetadataManager.validateOnlineUpgrade`, `convertToConsumerGroup`,
`validateOnlineDowngrade…`, `convertToClassicGroup`, `ConsumerGroup.fromClassicGroup`,
`ClassicGroup.fromConsumerGroup` in Kafka; KIP-848.

    up     the first consumer that joins finds a classic group of consumers: its generation becomes
           the group epoch, what the leader assigned the target, and all are at it
    down   the last consumer of KIP-848 goes, and those who stay use the classic protocol: the group
           epoch becomes the generation, the target what each member is assigned
"""

import base64
from collections.abc import Iterable
from typing import NamedTuple

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.errors import Error
from brokertwin.state.core.group_records import ClassicMemberMetadata
from brokertwin.state.core.wire.primitives import MalformedError
from brokertwin.state.groups import consumer_protocol, target_assignment
from brokertwin.state.groups.assignments import Target, in_hash_order
from brokertwin.state.groups.classic_group import CONSUMER, ClassicGroup, GroupState, Member
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember, Refused
from brokertwin.state.groups.consumer_protocol import Partitions

BOTH_WAYS, UP, DOWN, DISABLED = "bidirectional", "upgrade", "downgrade", "disabled"
"""The values of group.consumer.migration.policy."""


def policy(broker: Broker) -> str:
    """Which ways groups may go."""
    return broker.settings.group_consumer_migration_policy.lower()


# Up


class _UserDataError(ValueError):
    """An assignor of a client's own has put data into assignments, which would be lost."""


class _SharedError(ValueError):
    """The leader has assigned a partition to two members."""


def upgraded(broker: Broker, group: ClassicGroup) -> ConsumerGroup | Refused:
    """The consumer group that a classic one with members becomes.

    Who waits in a join or a sync is told to come again, also where the group turns out to be one
    that cannot be converted, as in Kafka.
    """
    why = _upgrade_refusal(broker, group)
    if why is not None:
        what = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
        return Refused(Error.GROUP_ID_NOT_FOUND, what)
    if group.protocol_name is None:
        return Refused(Error.UNKNOWN_SERVER_ERROR, None)
    try:
        return _converted(broker, group, group.protocol_name)
    except MalformedError:
        why = "the embedded consumer protocol is malformed."
    except _SharedError:
        return Refused(Error.UNKNOWN_SERVER_ERROR, None)
    except _UserDataError:
        why = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade."
        )
    what = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return Refused(Error.GROUP_ID_NOT_FOUND, what)


def is_attempted(broker: Broker, group: ClassicGroup) -> bool:
    """Whether a group is looked into so far that those who wait in it are told."""
    return _upgrade_refusal(broker, group) is None


def _upgrade_refusal(broker: Broker, group: ClassicGroup) -> str | None:
    if policy(broker) not in (BOTH_WAYS, UP):
        return "online upgrade is disabled"
    if group.protocol_type != CONSUMER:
        return "the group does not use the consumer embedded protocol"
    if len(group.members) > broker.settings.group_consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


def _converted(broker: Broker, group: ClassicGroup, protocol_name: str) -> ConsumerGroup:
    """The group as one of KIP-848. Raises MalformedError, _UserDataError or _SharedError."""
    epoch = group.generation_id
    converted = ConsumerGroup(group.group_id, group_epoch=epoch, assignment_epoch=epoch)
    for member in group.in_hash_order():
        target = _target_of(broker, member)
        if any(converted.has_owner(t, each) for t, numbers in target.items() for each in numbers):
            raise _SharedError
        said = consumer_protocol.subscription_of(base64.b64decode(member.metadata(protocol_name)))
        converted.target[member.member_id] = target
        converted.put(
            ConsumerMember(
                member.member_id,
                member_epoch=epoch,
                previous_member_epoch=epoch,
                instance_id=member.group_instance_id,
                rack_id=said.rack_id or None,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(set(said.topics)),
                assigned={t: dict.fromkeys(numbers, epoch) for t, numbers in target.items()},
                classic_member_metadata=ClassicMemberMetadata(
                    member.session_timeout_ms, member.protocols
                ),
            )
        )
    converted.metadata_hash = target_assignment.metadata_hash(broker, converted.subscribers)
    return converted


def _target_of(broker: Broker, member: Member) -> Target:
    """What the leader assigned to a member, by the ids of topics that exist."""
    if not member.assignment:
        return {}
    assigned = consumer_protocol.assignment_of(base64.b64decode(member.assignment))
    if assigned.has_user_data:
        raise _UserDataError
    return by_id(broker, assigned.partitions)


def by_id(broker: Broker, partitions: Partitions) -> Target:
    """Partitions by the ids of topics, of those that exist, each once; in Kafka's order."""
    target: Target = {}
    for name, numbers in partitions.items():
        topic = broker.topic_by_name(name)
        if topic is not None:
            target[topic.topic_id] = list(set(numbers))
    return in_hash_order(target)


# Down


class Change(NamedTuple):
    """Who goes, and who comes in the place of whom, when a group becomes classic."""

    leaving: frozenset[str]
    joining: ConsumerMember | None = None


def may_downgrade(broker: Broker, group: ConsumerGroup, leaving: Iterable[ConsumerMember]) -> bool:
    """Whether the group becomes classic when these members go."""
    gone = list(leaving)
    left = len(group.members) - len(gone)
    classic = group.classic_members - sum(each.uses_classic_protocol for each in gone)
    return classic == left and left > 0 and _is_allowed(broker, left)


def may_downgrade_without(broker: Broker, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Whether the group becomes classic when a classic member takes the place of this one."""
    is_last = group.classic_members == len(group.members) - 1
    is_consumer = not replaced.uses_classic_protocol
    return is_last and is_consumer and _is_allowed(broker, len(group.members))


def _is_allowed(broker: Broker, member_count: int) -> bool:
    is_open = policy(broker) in (BOTH_WAYS, DOWN)
    return is_open and member_count <= broker.settings.group_max_size


def downgraded(broker: Broker, group: ConsumerGroup, change: Change) -> ClassicGroup:
    """The classic group that a consumer group becomes: stable, each member with its target."""
    joining = change.joining
    replaced = None if joining is None else group.static_member(joining.instance_id)
    staying = [each for each in group.in_order() if each.member_id not in change.leaving]
    if joining is not None:
        staying = [*(each for each in staying if each != replaced), joining]
    classic = ClassicGroup(
        group.group_id,
        state=GroupState.STABLE,
        state_timestamp=broker.now,
        generation_id=group.group_epoch,
    )
    for member in staying:
        classic.add(_classic_member(member), CONSUMER)
    classic.protocol_name = classic.chosen_protocol()
    classic.subscribed = classic.subscriptions()
    for each in classic.members.values():
        is_joining = joining is not None and each.member_id == joining.member_id
        former = replaced.member_id if is_joining and replaced is not None else each.member_id
        metadata = base64.b64decode(each.metadata(classic.protocol_name))
        each.assignment = assignment_text(broker, group.target.get(former, {}), metadata)
    return classic


def _classic_member(member: ConsumerMember) -> Member:
    said = member.classic_member_metadata
    assert said is not None, member.member_id
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        said.session_timeout_ms,
        said.supported_protocols,
    )


def assignment_text(broker: Broker, partitions: Target, subscription: bytes) -> str:
    """Partitions as a classic member is told, in base64, in the version of its subscription."""
    named: Partitions = {}
    for topic_id, numbers in in_hash_order(partitions).items():
        topic = broker.topic_by_id(topic_id)
        if topic is not None:
            named[topic.name] = numbers
    version = consumer_protocol.version_of(subscription)
    return base64.b64encode(consumer_protocol.assignment_bytes(named, version)).decode()
