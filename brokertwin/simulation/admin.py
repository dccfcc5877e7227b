"""An administrator: deletes records, lets them expire, creates and deletes a topic.

Each step is repeated at another broker until a response confirms it. The auditor is notified of
possible losses before the request, because a request without response may have been processed.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.simulation.audit_losses import EVERYBODY
from brokertwin.simulation.auditor import Auditor
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.cluster import SimulatedCluster
from brokertwin.simulation.plan import (
    DENIED_GROUP,
    DENIED_ID,
    DENIED_TOPIC,
    PASSING,
    FaultKind,
    Injection,
    pick,
)
from brokertwin.state.access.authorizer import Operation, PatternType, Permission, ResourceType

RETENTION_MS, SEGMENT_MS = 1_000, 300
AGAIN_MS = 700
TOPIC_RESOURCE = 2
SET, DELETE = 0, 1
READ_UP_TO = 0.8
"""Maximum part of the acknowledged records of a partition that are deleted at once."""

THROTTLED, THROTTLED_BYTES = ("orders-tx", "producer-1"), 150.0
BATCH = "batch"
"""A group without members, whose offsets an administrator changes."""

Resource = tuple[ResourceType, str]
Right = tuple[Operation, Permission, str]
ORDERS = (ResourceType.TOPIC, DENIED_TOPIC)
RIGHTS: dict[FaultKind, tuple[Resource, Operation]] = {
    FaultKind.DENY_READ: (ORDERS, Operation.READ),
    FaultKind.DENY_GROUP: ((ResourceType.GROUP, DENIED_GROUP), Operation.READ),
    FaultKind.DENY_ID: ((ResourceType.TRANSACTIONAL_ID, DENIED_ID), Operation.WRITE),
}
"""Denied operations and their resources."""


class AdminStep(NamedTuple):
    """A request that is repeated until `is_done` holds for its response.

    It starts `after_ms` after the previous step.
    """

    api: str
    version: int
    body: dict[str, Any]
    is_done: Callable[[dict[str, Any]], bool]
    after_ms: int = 0


class SimulatedAdmin:
    """An administrator without a connection."""

    def __init__(self, cluster: SimulatedCluster, clock: VirtualClock, auditor: Auditor) -> None:
        self._cluster = cluster
        self._clock = clock
        self._auditor = auditor
        self._count = 0
        self._busy: list[FaultKind] = []

    @property
    def is_idle(self) -> bool:
        return not self._busy

    def apply(self, injection: Injection) -> str:
        """Start the steps of an injection, one of each kind at a time.

        Returns their target, or "" without effect.
        """
        if injection.fault in self._busy:
            return ""
        match injection.fault:
            case FaultKind.DELETE_RECORDS:
                what, steps = self._deletion(injection.whom)
            case FaultKind.RETENTION:
                what, steps = "orders", self._retention(injection.lasts_ms)
            case FaultKind.DENY:
                user = pick((EVERYBODY, *self._cluster.plan.writers), injection.whom) or EVERYBODY
                what, steps = f"orders, to {user}", self._denial(injection.lasts_ms, user)
            case FaultKind.DENY_READ | FaultKind.DENY_GROUP | FaultKind.DENY_ID:
                what, steps = "everybody", self._denial_of(injection.fault, injection.lasts_ms)
            case FaultKind.QUOTA:
                what, steps = "orders-tx and producer-1", _throttling(injection.lasts_ms)
            case FaultKind.OFFSETS:
                what, steps = "group batch", _offset_changes(injection.whom)
            case _:
                what, steps = PASSING, _passing(injection.lasts_ms)
        if steps:
            self._busy.append(injection.fault)
            self._next(steps, injection.fault)
        return what

    # Steps

    def _deletion(self, whom: float) -> tuple[str, list[AdminStep]]:
        """Delete records of an `orders` partition up to an acknowledged one."""
        acked = self._auditor.records.acked_offsets("orders")
        at = pick(sorted(acked), whom)
        if at is None:
            return "", []
        offsets = sorted(acked[at])
        offset = offsets[int(len(offsets) * READ_UP_TO * (whom * 7 % 1))]
        losses = self._auditor.losses
        losses.deletes(at, offset)
        part = {"partitionIndex": at.partition, "offset": offset}
        body = {"topics": [{"name": at.topic, "partitions": [part]}], "timeoutMs": 2_000}

        def is_done(response: dict[str, Any]) -> bool:
            (result,) = response["topics"][0]["partitions"]
            if not result["errorCode"]:
                losses.deleted(at, result["lowWatermark"])
            return not result["errorCode"]

        return f"{at.topic}-{at.partition} {offset}", [
            AdminStep("DELETE_RECORDS", 2, body, is_done)
        ]

    def _retention(self, lasts_ms: int) -> list[AdminStep]:
        """Set a short retention of `orders` for some time."""
        losses = self._auditor.losses
        losses.grows_old(RETENTION_MS)

        def is_over(response: dict[str, Any]) -> bool:
            if _is_set(response):
                losses.stays(self._clock.now)
            return _is_set(response)

        api = "INCREMENTAL_ALTER_CONFIGS"
        return [
            AdminStep(api, 1, _limits(SET), _is_set),
            AdminStep(api, 1, _limits(DELETE), is_over, lasts_ms),
        ]

    def _denial(self, lasts_ms: int, user: str) -> list[AdminStep]:
        """Deny writing to `orders` to a user, or to all, for some time."""
        losses = self._auditor.losses
        losses.denies(user)
        deny = (Operation.WRITE, Permission.DENY, user)
        return self._for_a_while(ORDERS, deny, lasts_ms, losses.denied)

    def _denial_of(self, fault: FaultKind, lasts_ms: int) -> list[AdminStep]:
        denials = self._auditor.denials
        denials.denies(fault)
        resource, operation = RIGHTS[fault]
        deny = (operation, Permission.DENY, EVERYBODY)
        return self._for_a_while(resource, deny, lasts_ms, denials.denied)

    def _for_a_while(
        self, resource: Resource, deny: Right, lasts_ms: int, denied: Callable[[int, int], None]
    ) -> list[AdminStep]:
        """Create an ACL and delete it later; all else is allowed.

        `denied` is called with the begin and end of the denial.
        """
        allow = (Operation.ALL, Permission.ALLOW, EVERYBODY)
        created = {"creations": [_acl(resource, *allow), _acl(resource, *deny)]}
        deleted_filters = {"filters": [_filter(resource, *deny)]}

        def is_created(response: dict[str, Any]) -> bool:
            is_done = not any(each["errorCode"] for each in response["results"])
            if is_done:
                denied(self._clock.now, self._clock.now + lasts_ms)
            return is_done

        def is_gone(response: dict[str, Any]) -> bool:
            return not response["filterResults"][0]["errorCode"]

        return [
            AdminStep("CREATE_ACLS", 3, created, is_created),
            AdminStep("DELETE_ACLS", 3, deleted_filters, is_gone, lasts_ms),
        ]

    # Requests

    def _next(self, steps: Sequence[AdminStep], kind: FaultKind) -> None:
        if not steps:
            self._busy.remove(kind)
            return
        self._clock.after(steps[0].after_ms, lambda: self._send(steps[0], steps[1:], kind))

    def _send(self, step: AdminStep, then: Sequence[AdminStep], kind: FaultKind) -> None:
        """Send a request to one broker, and to the next one without a confirmation."""
        self._count += 1
        brokers = self._cluster.settings.brokers
        is_pending = True

        def take(document: dict[str, Any]) -> None:
            nonlocal is_pending
            response = document.get("response")
            if is_pending and response is not None and step.is_done(response):
                is_pending = False
                self._auditor.say(f"admin: {step.api} is done")
                self._next(then, kind)

        def again() -> None:
            nonlocal is_pending
            if is_pending:
                is_pending = False
                self._send(step, then, kind)

        broker = brokers[self._count % len(brokers)]
        self._cluster.call("admin", step.api, step.version, step.body, broker, take)
        self._clock.after(AGAIN_MS, again)


def _limits(operation: int) -> dict[str, Any]:
    """Set a short retention and segment age, or restore Kafka's defaults."""
    values = {"retention.ms": RETENTION_MS, "segment.ms": SEGMENT_MS}
    configs = [
        {"name": name, "value": str(value), "configOperation": operation}
        for name, value in values.items()
    ]
    topic = {"resourceType": TOPIC_RESOURCE, "resourceName": "orders", "configs": configs}
    return {"resources": [topic]}


def _acl(
    resource: Resource, operation: Operation, permission: Permission, user: str
) -> dict[str, Any]:
    kind, name = resource
    return {
        "resourceType": int(kind),
        "resourceName": name,
        "resourcePatternType": int(PatternType.LITERAL),
        "principal": f"User:{user}",
        "host": "*",
        "operation": int(operation),
        "permissionType": int(permission),
    }


def _filter(
    resource: Resource, operation: Operation, permission: Permission, user: str
) -> dict[str, Any]:
    names = {"resourceType": "resourceTypeFilter", "resourceName": "resourceNameFilter"}
    names |= {"resourcePatternType": "patternTypeFilter", "principal": "principalFilter"}
    names |= {"host": "hostFilter"}
    acl = _acl(resource, operation, permission, user)
    return {names.get(name, name): value for name, value in acl.items()}


def _is_set(response: dict[str, Any]) -> bool:
    return not response["responses"][0]["errorCode"]


def _throttling(lasts_ms: int) -> list[AdminStep]:
    """Limit the bytes of the writers for some time."""

    def body(value: float, *, is_removed: bool) -> dict[str, Any]:
        entries = [
            {
                "entity": [{"entityType": "client-id", "entityName": name}],
                "ops": [{"key": "producer_byte_rate", "value": value, "remove": is_removed}],
            }
            for name in THROTTLED
        ]
        return {"entries": entries, "validateOnly": False}

    def is_done(response: dict[str, Any]) -> bool:
        return not any(each["errorCode"] for each in response["entries"])

    api = "ALTER_CLIENT_QUOTAS"
    return [
        AdminStep(api, 1, body(THROTTLED_BYTES, is_removed=False), is_done),
        AdminStep(api, 1, body(0.0, is_removed=True), is_done, lasts_ms),
    ]


def _offset_changes(whom: float) -> list[AdminStep]:
    """Commit offsets of a group without members, then reset, delete and commit them again."""

    def commit(offset: int, after_ms: int) -> AdminStep:
        part = {
            "partitionIndex": 0,
            "committedOffset": offset,
            "committedLeaderEpoch": -1,
            "committedMetadata": "",
        }
        body = {
            "groupId": BATCH,
            "generationIdOrMemberEpoch": -1,
            "memberId": "",
            "groupInstanceId": None,
            "topics": [{"name": "orders", "partitions": [part]}],
        }
        return AdminStep("OFFSET_COMMIT", 8, body, _is_stored, after_ms)

    if whom < 0.5:
        named = [{"name": "orders", "partitions": [{"partitionIndex": 0}]}]
        removal = AdminStep(
            "OFFSET_DELETE",
            0,
            {"groupId": BATCH, "topics": named},
            lambda response: not response["errorCode"],
            300,
        )
    else:
        removal = AdminStep(
            "DELETE_GROUPS",
            2,
            {"groupsNames": [BATCH]},
            lambda response: not response["results"][0]["errorCode"],
            300,
        )
    high, low = 5 + int(whom * 10), 1 + int(whom * 4)
    return [commit(high, 0), commit(low, 300), removal, commit(low - 1, 300)]


def _is_stored(response: dict[str, Any]) -> bool:
    return not response["topics"][0]["partitions"][0]["errorCode"]


def _passing(lasts_ms: int) -> list[AdminStep]:
    """Create a topic with one partition and delete it later."""
    made = {"name": PASSING, "numPartitions": 1, "replicationFactor": -1}
    created = (Error.NONE, Error.TOPIC_ALREADY_EXISTS)
    deleted_filters = (Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION)
    times = {"timeoutMs": 2_000}
    return [
        AdminStep(
            "CREATE_TOPICS",
            7,
            {"topics": [made], **times},
            lambda response: response["topics"][0]["errorCode"] in created,
        ),
        AdminStep(
            "DELETE_TOPICS",
            5,
            {"topicNames": [PASSING], **times},
            lambda response: response["responses"][0]["errorCode"] in deleted_filters,
            lasts_ms,
        ),
    ]
