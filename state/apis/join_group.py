"""JoinGroup (key 11, versions 0 to 9): join a classic group.

Source: seed 001; KIP-62, KIP-345, KIP-394, KIP-814; `GroupMetadataManager.classicGroupJoin…`
in Kafka. Errors, in the order of the checks:

    no READ permission on the group               30 GROUP_AUTHORIZATION_FAILED
    group id ""                                   24 INVALID_GROUP_ID
    session timeout out of bounds                 26 INVALID_SESSION_TIMEOUT
    this broker does not coordinate the group     16 NOT_COORDINATOR
    member id given, but no such group            25 UNKNOWN_MEMBER_ID
    the group is full                             81 GROUP_MAX_SIZE_REACHED
    no protocol that all other members support    23 INCONSISTENT_GROUP_PROTOCOL
    no member id, no instance id, version >= 4    79 MEMBER_ID_REQUIRED, with an id to use
    a member id that does not own the instance    82 FENCED_INSTANCE_ID
    unknown member or instance id                 25 UNKNOWN_MEMBER_ID
    pending member id with an instance id         -1 UNKNOWN_SERVER_ERROR

The group's state selects the result for a known member (`_BY_STATE`). The member waits for the
rebalance, starts one, or gets the current generation. The leader and a member with changed
protocols start a rebalance. A join without a member id replaces the member of its instance id:
the former one is fenced with 82 FENCED_INSTANCE_ID.

An empty consumer group becomes a classic group. If a consumer group has members, a member of the
classic protocol joins it with an immediate response (`state/groups/classic_members.py`).
"""

import hashlib
import uuid
from collections.abc import Callable
from functools import partial

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.join_group import JoinGroupRequest, JoinGroupResponse
from brokertwin.protocol.generated.sync_group import SyncGroupResponse
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis import earlier_writes
from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import (
    classic_members,
    groups,
    modern_coordinator,
    streams_group_records,
)
from brokertwin.state.groups.classic_coordinator import ClassicGroupCoordinator
from brokertwin.state.groups.classic_group import ClassicGroupState, ClassicMember, JoinParameters
from brokertwin.state.groups.classic_responses import join_error, join_response, joined_members
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.groups.consumer_group_records import group_tombstones
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.streams_group import StreamsGroup

REBALANCE_TIMEOUT_SINCE = 1
MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
NO_MEMBER = ""


def handle(broker: Broker, request: Request) -> Decision:
    """Respond at once, or keep the request pending until the join ends."""
    body: JoinGroupRequest = request.body
    error = _early_error(broker, request)
    if error is not Error.NONE:
        return Decision(response=join_error(error, body.member_id, request.version))
    error = coordinators.group_error(broker, body.group_id)
    if error is not Error.NONE:
        return Decision(response=join_error(error, NO_MEMBER, request.version))
    group = groups.find(broker, body.group_id)
    if isinstance(group, ConsumerGroup) and group.members:
        return _join_consumers(broker, request, group)
    if isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and group.members):
        other = Error.INCONSISTENT_GROUP_PROTOCOL
        return Decision(response=join_error(other, body.member_id, request.version))
    coordinator = ClassicGroupCoordinator(broker, body.group_id)
    if coordinator.is_new and body.member_id:
        refused = join_error(Error.UNKNOWN_MEMBER_ID, body.member_id, request.version)
        return Decision(response=refused)
    if coordinator.is_new:
        coordinator.write_metadata()  # before the group has a member
    response = _Join(broker, request, coordinator).respond()
    if isinstance(group, ConsumerGroup):
        coordinator.records[:0] = group_tombstones(body.group_id)
    elif isinstance(group, StreamsGroup):
        coordinator.records[:0] = streams_group_records.group_tombstones(group.group_id)
    return coordinator.decision(response)


def _early_error(broker: Broker, request: Request) -> Error:
    body: JoinGroupRequest = request.body
    settings = broker.settings
    least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, body.group_id):
        return Error.GROUP_AUTHORIZATION_FAILED
    if not body.group_id:
        return Error.INVALID_GROUP_ID
    if not least <= body.session_timeout_ms <= most:
        return Error.INVALID_SESSION_TIMEOUT
    return Error.NONE


def _join_consumers(broker: Broker, request: Request, group: ConsumerGroup) -> Decision:
    """Add a member of the classic protocol to a consumer group."""
    body: JoinGroupRequest = request.body
    is_new = not body.member_id
    is_dynamic = body.group_instance_id is None
    joining = classic_members.Joining(
        member_id=body.member_id or modern_coordinator.new_member_id(request),
        has_id=not is_new,
        group_instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        parameters=_parameters_of(request),
        client_id=request.header.client_id or "",
        client_host=f"/{request.host}",
        needs_id=is_new and is_dynamic and request.version >= MEMBER_ID_REQUIRED_SINCE,
        denied=partial(broker.denied_topics, request, Operation.DESCRIBE),
    )
    join = classic_members.Join(broker, group, joining)
    response = join.respond()
    if isinstance(response, Error):
        return Decision(response=join_error(response, NO_MEMBER, request.version))
    if response.error_code:
        refused = join_error(Error.MEMBER_ID_REQUIRED, response.member_id, request.version)
        return Decision(response=refused)
    coordinator = join.coordinator
    return Decision(records=coordinator.records, response=response, resumed=coordinator.responses)


def _parameters_of(request: Request) -> JoinParameters:
    body: JoinGroupRequest = request.body
    is_early = request.version < REBALANCE_TIMEOUT_SINCE
    timeout = body.session_timeout_ms if is_early else body.rebalance_timeout_ms
    protocols = [(each.name, each.metadata) for each in body.protocols]
    return JoinParameters(
        protocols, timeout, body.session_timeout_ms, request.event_id, request.version
    )


class _Join:
    def __init__(
        self, broker: Broker, request: Request, coordinator: ClassicGroupCoordinator
    ) -> None:
        self._body: JoinGroupRequest = request.body
        self._request = request
        self._coordinator = coordinator
        self._group = coordinator.group
        self._max_size = broker.settings.group_max_size

    def respond(self) -> JoinGroupResponse | None:
        """Return the response; None if the request stays pending."""
        body, group = self._body, self._group
        if not self._has_room():
            self._coordinator.remove(body.member_id)
            return self._refuse(Error.GROUP_MAX_SIZE_REACHED, NO_MEMBER)
        if not group.supports(body.protocol_type, [each.name for each in body.protocols]):
            return self._refuse(Error.INCONSISTENT_GROUP_PROTOCOL, body.member_id)
        if not body.member_id:
            return self._new()
        if body.member_id in group.pending:
            if body.group_instance_id is not None:
                return self._refuse(Error.UNKNOWN_SERVER_ERROR, NO_MEMBER)
            return self._add(body.member_id)
        error = group.member_error(body.member_id, body.group_instance_id)
        if error is not Error.NONE:
            return self._refuse(error, body.member_id)
        return _BY_STATE[group.state](self, group.members[body.member_id])

    def _has_room(self) -> bool:
        """True if the member is in the group or the group is not full."""
        group = self._group
        member = group.members.get(self._body.member_id)
        if group.state is ClassicGroupState.EMPTY:
            return True
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and bool(member.join_id)
            return is_waiting or group.joining < self._max_size
        return member is not None or len(group.members) < self._max_size

    def _refuse(self, error: Error, member_id: str) -> JoinGroupResponse:
        return join_error(error, member_id, self._request.version)

    def _new(self) -> JoinGroupResponse | None:
        body = self._body
        member_id = self._new_id()
        if body.group_instance_id in self._group.static_members:
            former = self._group.static_members[body.group_instance_id]
            return self._replace(self._group.members[former], member_id)
        if body.group_instance_id is not None or self._request.version < MEMBER_ID_REQUIRED_SINCE:
            return self._add(member_id)
        self._group.pending[member_id] = True
        self._coordinator.expect_heartbeat(member_id, body.session_timeout_ms)
        return self._refuse(Error.MEMBER_ID_REQUIRED, member_id)

    def _new_id(self) -> str:
        """Return the chosen id, or client or instance id and a derived UUID."""
        chosen = self._request.choices.member_id
        if chosen is not None:
            return chosen
        digest = hashlib.sha256(f"{self._request.nonce}/member".encode()).digest()
        name = self._body.group_instance_id
        if name is None:
            client_id = self._request.header.client_id
            name = "null" if client_id is None else client_id
        return f"{name}-{uuid.UUID(bytes=digest[:16], version=4)}"

    def _add(self, member_id: str) -> JoinGroupResponse | None:
        body = self._body
        member = ClassicMember(
            member_id,
            body.group_instance_id,
            self._request.header.client_id or "",
            f"/{self._request.host}",
        )
        member.take_over(_parameters_of(self._request))
        self._coordinator.add_member(member, body.protocol_type)
        return None

    def _protocols(self) -> list[tuple[str, str]]:
        return [(protocol.name, protocol.metadata) for protocol in self._body.protocols]

    def wait(self, member: ClassicMember) -> JoinGroupResponse | None:
        self._coordinator.drop_pending(member.join_id)
        self._group.update_join(member, _parameters_of(self._request))
        self._coordinator.rebalance()
        return None

    def again_or_rebalance(self, member: ClassicMember) -> JoinGroupResponse | None:
        """Repeat the last response; rebalance if the protocols have changed."""
        if member.protocols == self._protocols():
            return join_response(self._group, member, member.member_id == self._group.leader_id)
        return self.wait(member)

    def rejoin(self, member: ClassicMember) -> JoinGroupResponse | None:
        """Rebalance a stable group for its leader or changed protocols."""
        is_leader = member.member_id == self._group.leader_id
        if is_leader or member.protocols != self._protocols():
            return self.wait(member)
        return join_response(self._group, member, False)

    def unknown(self, member: ClassicMember) -> JoinGroupResponse:
        """Reject the id: an empty group has no members."""
        return self._refuse(Error.UNKNOWN_MEMBER_ID, member.member_id)

    def _replace(self, former: ClassicMember, member_id: str) -> JoinGroupResponse | None:
        """Replace a static member that returns with a new member id; fence the former."""
        group, coordinator = self._group, self._coordinator
        leader_before = group.leader_id
        fenced = Error.FENCED_INSTANCE_ID
        coordinator.end_join(former, join_error(fenced, former.member_id, former.join_version))
        coordinator.end_sync(former, SyncGroupResponse(error_code=fenced))
        member = _renamed(former, member_id)
        coordinator.replace(former, member)
        group.update_join(member, _parameters_of(self._request))
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            coordinator.prepare_rebalance()
        elif (
            group.state is not ClassicGroupState.STABLE
            or group.chosen_protocol() != group.protocol_name
        ):
            coordinator.rebalance()
        else:
            coordinator.write_metadata()
            group.end_join(member)
            return self._taken_over(member, leader_before or "")
        return None

    def _taken_over(self, member: ClassicMember, leader_before: str) -> JoinGroupResponse:
        """Return the current generation; up to version 8, the former leader."""
        is_leader = member.member_id == self._group.leader_id
        response = join_response(self._group, member, False)
        if self._request.version < SKIP_ASSIGNMENT_SINCE:
            response.leader = leader_before
        elif is_leader:
            response.members = joined_members(self._group)
            response.skip_assignment = True
        return response


def _renamed(member: ClassicMember, member_id: str) -> ClassicMember:
    return ClassicMember(
        member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocols,
        member.assignment,
    )


_BY_STATE: dict[ClassicGroupState, Callable[[_Join, ClassicMember], JoinGroupResponse | None]] = {
    ClassicGroupState.EMPTY: _Join.unknown,
    ClassicGroupState.PREPARING_REBALANCE: _Join.wait,
    ClassicGroupState.COMPLETING_REBALANCE: _Join.again_or_rebalance,
    ClassicGroupState.STABLE: _Join.rejoin,
}
"""Handler of a known member's join, by group state."""

API = Api(kafka_apis.JOIN_GROUP, handle, earlier_writes=earlier_writes.of_member)
