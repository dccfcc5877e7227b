"""What is answered where something was not committed, by API.

Source: `GroupCoordinatorService`, `ShareCoordinatorService`, `TransactionStateManager` in Kafka; a
real one was asked. The error is 15 where time is up, and 16 where the broker does not lead any
more. It takes the place of what was accepted; an error stays, unless it is a result (`RESULTS`).

    LeaveGroup, OffsetDelete, Alter- and       the error alone, nothing of their parts
    DeleteShareGroupOffsets
    OffsetFetch                                16 in both cases, for each group that had no error
    states of share groups                     the error and why, for each partition
"""

from typing import Any

import msgspec

from brokertwin.state.apis import (
    alter_share_group_offsets,
    delete_groups,
    delete_share_group_offsets,
    heartbeat,
    init_producer_id,
    leave_group,
    offset_commit,
    offset_delete,
    txn_offset_commit,
)
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Body
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.wire.generated.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from brokertwin.state.groups.share_offsets import ERROR_MESSAGES
from brokertwin.state.share import state_store
from brokertwin.state.share.state_bodies import DELETE, INITIALIZE, READ, SUMMARY, WRITE
from brokertwin.state.share.state_store import Operation
from brokertwin.state.transactions import transaction_markers

_COORDINATORS = {
    **dict.fromkeys(
        (
            Error.UNKNOWN_TOPIC_OR_PARTITION,
            Error.NOT_ENOUGH_REPLICAS,
            Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            Error.REQUEST_TIMED_OUT,
        ),
        Error.COORDINATOR_NOT_AVAILABLE,
    ),
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
}
"""What a coordinator tells of an error of its log."""

ACCEPTED: frozenset[Error] = frozenset({Error.NONE})

OF_STATES = frozenset(Error) - {Error.NOT_COORDINATOR, Error.CLUSTER_AUTHORIZATION_FAILED}
"""What a share coordinator has looked at, whatever it has found: all but who was turned away."""

RESULTS: dict[int, frozenset[Error]] = {
    alter_share_group_offsets.API.key: ACCEPTED,
    delete_groups.API.key: ACCEPTED | {Error.GROUP_ID_NOT_FOUND, Error.NON_EMPTY_GROUP},
    delete_share_group_offsets.API.key: (
        ACCEPTED | {Error.GROUP_ID_NOT_FOUND, Error.NON_EMPTY_GROUP}
    ),
    heartbeat.API.key: ACCEPTED | {Error.REBALANCE_IN_PROGRESS},
    init_producer_id.API.key: ACCEPTED | {Error.CONCURRENT_TRANSACTIONS},
    offset_commit.API.key: ACCEPTED | {Error.OFFSET_METADATA_TOO_LARGE},
    txn_offset_commit.API.key: ACCEPTED | {Error.OFFSET_METADATA_TOO_LARGE},
    **dict.fromkeys((INITIALIZE, READ, WRITE, DELETE, SUMMARY), OF_STATES),
}
"""The errors that an API's answer has as results: where nothing is committed they are no more."""

WHOLE = frozenset(
    each.API.key
    for each in (
        alter_share_group_offsets,
        delete_share_group_offsets,
        leave_group,
        offset_delete,
    )
)
"""APIs whose answers say nothing of their parts then."""

_STEPS: dict[int, tuple[Operation, str]] = {
    INITIALIZE: ("initialize", "initialize-share-group-state"),
    READ: ("read", "read-update-leader-epoch-state"),
    WRITE: ("write", "write-share-group-state"),
    DELETE: ("delete", "delete-share-group-state"),
    SUMMARY: ("read summary", "read-share-group-state-summary"),
}
"""What a share coordinator is asked, and what it calls that."""


_KEPT = frozenset(
    {
        *("throttle_time_ms", "group_id", "group_instance_id", "topic_name"),
        *("partition", "partition_index"),
    }
)
"""Fields that an error leaves unchanged."""


def coordinators(error: Error) -> Error:
    """What a client is told for an error of a coordinator's log."""
    return _COORDINATORS.get(error, error)


def answer(api_key: int, response: Body, error: Error, settings: BrokerSettings) -> Body:
    """What is told in place of a response, for an error of the log."""
    told = error if api_key == transaction_markers.KEY else coordinators(error)
    if isinstance(response, OffsetFetchResponse):
        return _nothing_fetched(response)
    words = _words(api_key, told, settings)
    if api_key in WHOLE:
        nothing = {**_defaults(type(response)), "error_code": int(told), **_said(response, words)}
        return msgspec.structs.replace(response, **nothing)
    return failed(response, told, RESULTS.get(api_key, ACCEPTED), words)


def failed(
    body: Body, error: Error, accepted: frozenset[Error] = ACCEPTED, words: str | None = None
) -> Body:
    """An answer where nothing was committed: what was accepted (0) has the error instead.

    An answer about one thing says nothing else then; one about several keeps what they are.
    `accepted`: errors that are as good as 0 here.
    """
    changes: dict[str, Any] = {}
    for name in body.__struct_fields__:
        value = getattr(body, name)
        if isinstance(value, list) and value and isinstance(value[0], Body):
            parts = [failed(each, error, accepted, words) for each in value]
            if parts != value:
                changes[name] = parts
    codes = [name for name in body.__struct_fields__ if name.endswith("error_code")]
    if not changes and all(getattr(body, name) in accepted for name in codes):
        changes = dict.fromkeys(codes, int(error))
        if codes == ["error_code"]:
            changes = {**_defaults(type(body)), **changes, **_said(body, words)}
    return msgspec.structs.replace(body, **changes)


def _defaults(body_type: type[Body]) -> dict[str, Any]:
    """The defaults of the fields that do not identify the result."""
    return {
        field.name: field.default
        if field.default_factory is msgspec.NODEFAULT
        else field.default_factory()
        for field in msgspec.structs.fields(body_type)
        if field.name not in _KEPT
    }


def _said(body: Body, words: str | None) -> dict[str, str]:
    return {"error_message": words} if words and "error_message" in body.__struct_fields__ else {}


def _words(api_key: int, error: Error, settings: BrokerSettings) -> str | None:
    """Kafka's words, where an answer has room for them."""
    if api_key not in _STEPS:
        return ERROR_MESSAGES.get(error) if api_key in WHOLE else None
    operation, event = _STEPS[api_key]
    why = ERROR_MESSAGES.get(error, "")
    if error is Error.COORDINATOR_NOT_AVAILABLE:
        time_out = settings.share_coordinator_write_timeout_ms
        why = f"CoordinatorWriteEvent(name={event}) timed out after {time_out}ms"
    return state_store.failure_message(operation, why)


def _nothing_fetched(response: OffsetFetchResponse) -> Body:
    """OffsetFetch tells a group that another broker coordinates it now, whatever it was."""
    error = int(Error.NOT_COORDINATOR)
    if not response.groups:
        return msgspec.structs.replace(response, topics=[], error_code=error)
    groups = [
        each
        if each.error_code
        else OffsetFetchResponseGroup(group_id=each.group_id, error_code=error)
        for each in response.groups
    ]
    return msgspec.structs.replace(response, groups=groups)
