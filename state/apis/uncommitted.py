"""Responses of coordinators whose records were not committed.

After the timeout they have 15 COORDINATOR_NOT_AVAILABLE. If the broker is no longer the leader,
they have 16 NOT_COORDINATOR. The error replaces an accepted result. An error that the response
already has stays, unless it is a result (`Api.results`).

    LeaveGroup, OffsetDelete, Alter- and       the error alone, without the parts
    DeleteShareGroupOffsets
    OffsetFetch                                16 NOT_COORDINATOR in both cases, for each group
                                               without an error
    WriteTxnMarkers                            the log's own error
    states of share groups                     the error and its message, for each partition

Source: `GroupCoordinatorService`, `ShareCoordinatorService`, `TransactionStateManager` in Kafka;
compared with a real broker.
"""

from collections.abc import Callable, Set
from typing import Any

import msgspec

from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.groups.share_offsets import ERROR_MESSAGES
from brokertwin.state.share import state_store
from brokertwin.state.share.state_store import Operation

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
"""Error of a coordinator's log to the error that clients see."""

ACCEPTED: frozenset[Error] = frozenset({Error.NONE})

RESULTS_OF_GROUPS = ACCEPTED | {Error.GROUP_ID_NOT_FOUND, Error.NON_EMPTY_GROUP}
"""Results of deletions that name a group."""

RESULTS_OF_STATES = frozenset(Error) - {Error.NOT_COORDINATOR, Error.CLUSTER_AUTHORIZATION_FAILED}
"""Results of a share coordinator: all errors but those of requests that it turned away."""

Uncommitted = Callable[[Any, Error, BrokerSettings], Body]
"""Makes the response for an error of the log."""


def coordinator_error(error: Error) -> Error:
    """Return the error that clients see for an error of a coordinator's log."""
    return _COORDINATORS.get(error, error)


def failed(
    body: Body, error: Error, results: Set[Error] = ACCEPTED, message: str | None = None
) -> Body:
    """Return the response with `error` in place of each result.

    A response about one thing keeps nothing else. One about several keeps their names.
    """
    changes: dict[str, Any] = {}
    for name in body.__struct_fields__:
        value = getattr(body, name)
        if isinstance(value, list) and value and isinstance(value[0], Body):
            parts = [failed(each, error, results, message) for each in value]
            if parts != value:
                changes[name] = parts
    codes = [name for name in body.__struct_fields__ if name.endswith("error_code")]
    if not changes and all(getattr(body, name) in results for name in codes):
        changes = dict.fromkeys(codes, int(error))
        if codes == ["error_code"]:
            changes = {**_defaults(type(body)), **changes, **_message(body, message)}
    return msgspec.structs.replace(body, **changes)


def error_alone(response: Body, error: Error, _settings: BrokerSettings) -> Body:
    """Return the response with the error and without its parts."""
    reported = coordinator_error(error)
    message = _message(response, ERROR_MESSAGES.get(reported))
    nothing = {**_defaults(type(response)), "error_code": int(reported), **message}
    return msgspec.structs.replace(response, **nothing)


def error_of_the_log(response: Body, error: Error, _settings: BrokerSettings) -> Body:
    return failed(response, error)


def of_states(operation: Operation, event: str) -> Uncommitted:
    """Return a function for an operation on share states.

    `event` is Kafka's name for the operation.
    """

    def uncommitted(response: Body, error: Error, settings: BrokerSettings) -> Body:
        reported = coordinator_error(error)
        why = ERROR_MESSAGES.get(reported, "")
        if reported is Error.COORDINATOR_NOT_AVAILABLE:
            timeout_ms = settings.share_coordinator_write_timeout_ms
            why = f"CoordinatorWriteEvent(name={event}) timed out after {timeout_ms}ms"
        return failed(
            response, reported, RESULTS_OF_STATES, state_store.failure_message(operation, why)
        )

    return uncommitted


_KEPT = frozenset(
    {
        *("throttle_time_ms", "group_id", "group_instance_id", "topic_name"),
        *("partition", "partition_index"),
    }
)
"""Fields that an error leaves unchanged."""


def _defaults(body_type: type[Body]) -> dict[str, Any]:
    """Return the default values of a response, without the fields of `_KEPT`."""
    return {
        field.name: field.default
        if field.default_factory is msgspec.NODEFAULT
        else field.default_factory()
        for field in msgspec.structs.fields(body_type)
        if field.name not in _KEPT
    }


def _message(body: Body, message: str | None) -> dict[str, str]:
    has_field = "error_message" in body.__struct_fields__
    return {"error_message": message} if message and has_field else {}
