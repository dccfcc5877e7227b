"""Audit of an ACL that denies something else than writing for some time.

It denies reading `orders`, a group, or a transactional id. After the request for the ACL, clients
may be rejected. From some time after its response until the request for its deletion, no request is
granted.
"""

from collections.abc import Callable, Mapping
from typing import Any

from brokertwin.protocol.errors import Error
from brokertwin.simulation.audit_losses import ACL_KNOWN_MS
from brokertwin.simulation.plan import DENIED_GROUP, DENIED_ID, DENIED_TOPIC, FaultKind

REFUSALS: dict[FaultKind, Error] = {
    FaultKind.DENY_READ: Error.TOPIC_AUTHORIZATION_FAILED,
    FaultKind.DENY_GROUP: Error.GROUP_AUTHORIZATION_FAILED,
    FaultKind.DENY_ID: Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
APIS: dict[FaultKind, frozenset[str]] = {
    FaultKind.DENY_READ: frozenset({"FETCH"}),
    FaultKind.DENY_GROUP: frozenset(
        {"JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT", "OFFSET_COMMIT"}
    ),
    FaultKind.DENY_ID: frozenset({"INIT_PRODUCER_ID", "ADD_PARTITIONS_TO_TXN", "END_TXN"}),
}
"""APIs that require the denied permission."""


class DenialAudit:
    """Audit of one denial.

    Attributes:
        refused: number of rejected requests.
    """

    def __init__(self, violate: Callable[[str], None]) -> None:
        self._violate = violate
        self._fault: FaultKind | None = None
        self._range = range(0)
        self._pending: dict[str, int] = {}
        self._topic_ids: set[str] = set()
        self.refused = 0

    @property
    def errors(self) -> frozenset[Error]:
        return frozenset() if self._fault is None else frozenset({REFUSALS[self._fault]})

    def denies(self, fault: FaultKind) -> None:
        self._fault = fault

    def denied(self, now: int, until: int) -> None:
        self._range = range(now + ACL_KNOWN_MS, until)

    def on_request(self, request_id: str, api: str, body: Any, now: int) -> None:
        if self._fault is not None and api in APIS[self._fault] and self._is_about(body):
            self._pending[request_id] = now

    def _is_about(self, body: Any) -> bool:
        if self._fault is FaultKind.DENY_GROUP:
            return bool(body.group_id == DENIED_GROUP)
        if self._fault is FaultKind.DENY_ID:
            return DENIED_ID in (
                getattr(body, "transactional_id", None),
                getattr(body, "v3_and_below_transactional_id", None),
            )
        return True

    def on_response(
        self, request_id: str, api: str, body: Mapping[str, Any], now: int, is_steady: bool
    ) -> None:
        """Check a response; `is_steady`: all brokers know the ACL."""
        if api == "METADATA":
            self._topic_ids.update(
                topic.get("topicId", "")
                for topic in body["topics"]
                if topic["name"] == DENIED_TOPIC
            )
        sent = self._pending.pop(request_id, None)
        if sent is None:
            return
        codes = self._codes(api, body)
        self.refused += any(code in self.errors for code in codes)
        if is_steady and sent in self._range and now in self._range and Error.NONE in codes:
            self._violate(f"{api} is granted at {now}; {self._fault}")

    def _codes(self, api: str, body: Mapping[str, Any]) -> list[int]:
        """Return the error codes of the denied resource; of a Fetch only with data."""
        if api == "FETCH":
            return [
                each["errorCode"]
                for topic in body["responses"]
                if topic.get("topic") == DENIED_TOPIC or topic.get("topicId") in self._topic_ids
                for each in topic["partitions"]
                if each["batches"] or each["errorCode"]
            ]
        if api == "OFFSET_COMMIT":
            return [each["errorCode"] for t in body["topics"] for each in t["partitions"]]
        if api == "ADD_PARTITIONS_TO_TXN":
            topics = body.get("resultsByTopicV3AndBelow") or ()
            return [e["partitionErrorCode"] for t in topics for e in t["resultsByPartition"]]
        return [body["errorCode"]]
