"""Uncommitted writes that delay a response without records.

Such a response can depend on records that no follower has replicated, for example on a member that
a new coordinator would not know. It waits until the high watermark has passed the end of the log of
the group, or of the share group's state. If the timeout expires first, the response is an error
(`uncommitted.py`).

    heartbeats                       errors do not wait, except `27 REBALANCE_IN_PROGRESS`
    JoinGroup, SyncGroup             of a member of a consumer group; others wait only for their own
                                     records
    LeaveGroup                       of an existing classic or consumer group
    OffsetDelete, DeleteGroups       unless the group has an error; DeleteGroups waits with results
    OffsetCommit, TxnOffsetCommit    with `12 OFFSET_METADATA_TOO_LARGE`
    OffsetFetch                      with requireStable, unless the group has an error
    AlterShareGroupOffsets           without an error
    DeleteShareGroupOffsets          also with `68 NON_EMPTY_GROUP`, `69 GROUP_ID_NOT_FOUND`
    states of share groups           with every result of a share coordinator

Other reads (OffsetFetch, Describe) do not wait, nor do the APIs of transaction coordinators.

Source: `CoordinatorRuntime.CoordinatorContext.append` in Kafka; compared with a real broker.
"""

from collections.abc import Callable, Iterable
from typing import Any

from brokertwin.protocol.errors import Error
from brokertwin.state.apis.uncommitted import ACCEPTED, RESULTS_OF_GROUPS, RESULTS_OF_STATES
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.replication import internal_logs
from brokertwin.state.replication.copying import Place

Places = Iterable[Place | None]


def of_heartbeat(broker: Broker, body: Any, response: Any) -> Places:
    is_error = response.error_code not in (Error.NONE, Error.REBALANCE_IN_PROGRESS)
    return [] if is_error else _of_group(broker, body)


def of_member(broker: Broker, body: Any, response: Any) -> Places:
    is_consumer_group = isinstance(groups.find(broker, body.group_id), ConsumerGroup)
    return _of_group(broker, body) if is_consumer_group and not response.error_code else []


def of_leave(broker: Broker, body: Any, _response: Any) -> Places:
    group = groups.find(broker, body.group_id)
    return _of_group(broker, body) if isinstance(group, ClassicGroup | ConsumerGroup) else []


def of_commit(broker: Broker, body: Any, response: Any) -> Places:
    codes = {each.error_code for topic in response.topics for each in topic.partitions}
    return _of_group(broker, body) if Error.OFFSET_METADATA_TOO_LARGE in codes else []


def of_fetch(broker: Broker, body: Any, response: Any) -> Places:
    if not body.require_stable:
        return []
    if not body.groups:
        return [] if response.error_code else _of_group(broker, body)
    groups = [each.group_id for each in response.groups if not each.error_code]
    return [internal_logs.group_place(broker, each) for each in groups]


def of_deleted_offsets(broker: Broker, body: Any, response: Any) -> Places:
    return [] if response.error_code else _of_group(broker, body)


def of_deleted_groups(broker: Broker, _body: Any, response: Any) -> Places:
    groups = [e.group_id for e in response.results if e.error_code in RESULTS_OF_GROUPS]
    return [internal_logs.group_place(broker, each) for each in groups]


def _of_results(results: frozenset[Error]) -> Callable[[Broker, Any, Any], Places]:
    def found(broker: Broker, body: Any, response: Any) -> Places:
        return _of_group(broker, body) if response.error_code in results else []

    return found


of_altered_share_offsets = _of_results(ACCEPTED)
of_deleted_share_offsets = _of_results(RESULTS_OF_GROUPS)


def of_share_states(broker: Broker, body: Any, response: Any) -> Places:
    """Requests to a share coordinator: the partitions that store the states."""
    return [
        internal_logs.state_place(broker, body.group_id, result.topic_id, each.partition)
        for result in response.results
        for each in result.partitions
        if each.error_code in RESULTS_OF_STATES
    ]


def _of_group(broker: Broker, body: Any) -> Places:
    return [internal_logs.group_place(broker, body.group_id)]
