"""Answers with nothing to write that wait all the same, for what their coordinator wrote before.

What they tell may come of records that no follower has yet: of a member, say, of whom a new
coordinator would know nothing. So they are told when the high watermark has passed all that is in
the group's log, or the share group's state's; when their time is over they say so
(`not_committed.py`).

    heartbeats                       what ends one at once (25, 22, 69, 110) does not wait
    JoinGroup, SyncGroup             of a member of a consumer group; others wait for their own
                                     records only
    LeaveGroup                       of a classic or a consumer group that there is
    OffsetDelete, DeleteGroups       unless the group's error ends it (OffsetDelete: 69, 68)
    OffsetCommit, TxnOffsetCommit    where metadata is too long (12)
    OffsetFetch                      with requireStable, unless an error ends it: it tells what was
                                     written last
    AlterShareGroupOffsets           where no error ends it (68, 69)
    DeleteShareGroupOffsets          also where the group is not empty (68), or not there (69)
    states of share groups           whatever a share coordinator has found, errors as well

Readers (OffsetFetch, Describe) wait for nothing, nor do the APIs of a transaction's coordinator.
Source: `CoordinatorRuntime.CoordinatorContext.append` in Kafka; a real one was asked.
"""

from collections.abc import Callable, Iterable
from typing import Any

from brokertwin.state.apis import (
    alter_share_group_offsets,
    consumer_group_heartbeat,
    delete_groups,
    delete_share_group_offsets,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_heartbeat,
    streams_group_heartbeat,
    sync_group,
    txn_offset_commit,
)
from brokertwin.state.cell.not_committed import RESULTS
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Asked, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Body
from brokertwin.state.core.tables import decode_item
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.replication import copying, internal_logs
from brokertwin.state.replication.copying import Place
from brokertwin.state.replication.internal_logs import Required
from brokertwin.state.share.state_bodies import DELETE, INITIALIZE, READ, SUMMARY, WRITE

Places = Iterable[Place | None]


def body_of(asked: Asked) -> Body | None:
    """What was asked; None of a request that waits, but for one that has been verified."""
    if isinstance(asked, Request):
        body: Body = asked.body
        return body
    if asked.api_key != txn_offset_commit.API.key:
        return None
    return decode_item(asked.state, txn_offset_commit.TxnOffsetCommitState).body


def required(broker: Broker, api_key: int, body: Body, response: Any) -> list[Required]:
    """What has to be committed before an answer without records is told; nothing where all is."""
    waits = _WAITING.get(api_key)
    found = []
    for place in dict.fromkeys(waits(broker, body, response) if waits is not None else ()):
        log = broker.log(*place) if place is not None and _leads(broker, place) else None
        if place is not None and log is not None and log.high_watermark < log.log_end_offset:
            found.append(Required(*place, log.log_end_offset))
    return found


def _leads(broker: Broker, place: Place) -> bool:
    partition = copying.partition_of(broker, place)
    return partition is not None and partition.leader == broker.id


def _of_group(broker: Broker, body: Any) -> Places:
    return [internal_logs.group_place(broker, body.group_id)]


def _heartbeat(broker: Broker, body: Any, response: Any) -> Places:
    is_told = response.error_code not in (Error.NONE, Error.REBALANCE_IN_PROGRESS)
    return [] if is_told else _of_group(broker, body)


def _joined(broker: Broker, body: Any, response: Any) -> Places:
    is_consumers = isinstance(groups.find(broker, body.group_id), ConsumerGroup)
    return _of_group(broker, body) if is_consumers and not response.error_code else []


def _leave(broker: Broker, body: Any, _response: Any) -> Places:
    group = groups.find(broker, body.group_id)
    return _of_group(broker, body) if isinstance(group, ClassicGroup | ConsumerGroup) else []


def _commit(broker: Broker, body: Any, response: Any) -> Places:
    codes = {each.error_code for topic in response.topics for each in topic.partitions}
    return _of_group(broker, body) if Error.OFFSET_METADATA_TOO_LARGE in codes else []


def _fetch(broker: Broker, body: Any, response: Any) -> Places:
    if not body.require_stable:
        return []
    if not body.groups:
        return [] if response.error_code else _of_group(broker, body)
    told = [each.group_id for each in response.groups if not each.error_code]
    return [internal_logs.group_place(broker, each) for each in told]


def _delete_offsets(broker: Broker, body: Any, response: Any) -> Places:
    return [] if response.error_code else _of_group(broker, body)


def _delete_groups(broker: Broker, _body: Any, response: Any) -> Places:
    own = RESULTS[delete_groups.API.key]
    told = [each.group_id for each in response.results if each.error_code in own]
    return [internal_logs.group_place(broker, each) for each in told]


def _share_offsets(api_key: int) -> Callable[[Broker, Any, Any], Places]:
    def found(broker: Broker, body: Any, response: Any) -> Places:
        is_found = response.error_code in RESULTS[api_key]
        return _of_group(broker, body) if is_found else []

    return found


def _state(broker: Broker, body: Any, response: Any) -> Places:
    """Where the states lie that an answer is about."""
    return [
        internal_logs.state_place(broker, body.group_id, result.topic_id, each.partition)
        for result in response.results
        for each in result.partitions
        if each.error_code in RESULTS[READ]
    ]


_WAITING: dict[int, Callable[[Broker, Any, Any], Places]] = {
    heartbeat.API.key: _heartbeat,
    consumer_group_heartbeat.API.key: _heartbeat,
    share_group_heartbeat.API.key: _heartbeat,
    streams_group_heartbeat.API.key: _heartbeat,
    join_group.API.key: _joined,
    sync_group.API.key: _joined,
    leave_group.API.key: _leave,
    offset_commit.API.key: _commit,
    txn_offset_commit.API.key: _commit,
    offset_fetch.API.key: _fetch,
    offset_delete.API.key: _delete_offsets,
    delete_groups.API.key: _delete_groups,
    **{
        each.API.key: _share_offsets(each.API.key)
        for each in (alter_share_group_offsets, delete_share_group_offsets)
    },
    **dict.fromkeys((INITIALIZE, READ, WRITE, DELETE, SUMMARY), _state),
}
"""In which logs an answer waits for what is there, by API."""
