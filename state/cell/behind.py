"""Answers with nothing to write that wait all the same, for what their coordinator wrote before.

What they tell may come of records that no follower has yet: of a member, say, of whom a new
coordinator would know nothing. So they are told when the high watermark has passed all that is in
the group's log, or with 15 when offsets.commit.timeout.ms is over (`committing.py`).

    heartbeats                      what ends one at once (25, 22, 69, 110) does not wait
    LeaveGroup                      of a group that there is
    OffsetDelete, DeleteGroups      unless the group's error ends it (OffsetDelete: 69, 68)
    OffsetCommit                    where metadata is too long (12)

JoinGroup and SyncGroup wait for their own records only, and readers (OffsetFetch, Describe) for
none. Source: `CoordinatorRuntime.CoordinatorContext.append` in Kafka; a real one was asked.
"""

from collections.abc import Callable
from typing import Any

from brokerstream.state.apis import (
    consumer_group_heartbeat,
    delete_groups,
    heartbeat,
    leave_group,
    offset_commit,
    offset_delete,
    share_group_heartbeat,
    streams_group_heartbeat,
)
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.decision import Request
from brokerstream.state.core.errors import Error
from brokerstream.state.groups import groups
from brokerstream.state.replication import copying, internal_logs
from brokerstream.state.replication.copying import Place
from brokerstream.state.replication.internal_logs import Required

ACCEPTED: frozenset[Error] = frozenset({Error.NONE})


def required(broker: Broker, request: Request, response: Any) -> list[Required]:
    """What has to be committed before an answer without records is told; nothing where all is."""
    waits = _WAITING.get(request.header.request_api_key)
    places = dict.fromkeys(
        internal_logs.group_place(broker, group_id)
        for group_id in (waits(broker, request, response) if waits is not None else ())
    )
    found = []
    for place in places:
        log = broker.log(*place) if place is not None and _leads(broker, place) else None
        if place is not None and log is not None and log.high_watermark < log.log_end_offset:
            found.append(Required(*place, log.log_end_offset))
    return found


def _leads(broker: Broker, place: Place) -> bool:
    partition = copying.partition_of(broker, place)
    return partition is not None and partition.leader == broker.id


def accepted(api_key: int) -> frozenset[Error]:
    """The errors that an API's answer has as results: where time is up, they are 15 as well."""
    return _RESULTS.get(api_key, ACCEPTED)


def _heartbeat(_broker: Broker, request: Request, response: Any) -> list[str]:
    is_told = response.error_code not in (Error.NONE, Error.REBALANCE_IN_PROGRESS)
    return [] if is_told else [request.body.group_id]


def _leave(broker: Broker, request: Request, _response: Any) -> list[str]:
    group_id = request.body.group_id
    return [group_id] if groups.find(broker, group_id) is not None else []


def _commit(_broker: Broker, request: Request, response: Any) -> list[str]:
    codes = {each.error_code for topic in response.topics for each in topic.partitions}
    return [request.body.group_id] if Error.OFFSET_METADATA_TOO_LARGE in codes else []


def _delete_offsets(_broker: Broker, request: Request, response: Any) -> list[str]:
    return [] if response.error_code else [request.body.group_id]


def _delete_groups(_broker: Broker, _request: Request, response: Any) -> list[str]:
    own = _RESULTS[delete_groups.API.key]
    return [each.group_id for each in response.results if each.error_code in own]


_WAITING: dict[int, Callable[[Broker, Request, Any], list[str]]] = {
    heartbeat.API.key: _heartbeat,
    consumer_group_heartbeat.API.key: _heartbeat,
    share_group_heartbeat.API.key: _heartbeat,
    streams_group_heartbeat.API.key: _heartbeat,
    leave_group.API.key: _leave,
    offset_commit.API.key: _commit,
    offset_delete.API.key: _delete_offsets,
    delete_groups.API.key: _delete_groups,
}
"""Of whose groups an answer waits for the records, by API."""

_RESULTS = {
    heartbeat.API.key: ACCEPTED | {Error.REBALANCE_IN_PROGRESS},
    offset_commit.API.key: ACCEPTED | {Error.OFFSET_METADATA_TOO_LARGE},
    delete_groups.API.key: ACCEPTED | {Error.GROUP_ID_NOT_FOUND, Error.NON_EMPTY_GROUP},
}

WHOLE = frozenset({leave_group.API.key, offset_delete.API.key})
"""APIs whose answers say nothing of their parts where time is up."""
