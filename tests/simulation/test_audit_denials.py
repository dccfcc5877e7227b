"""Audit of ACL denials: requests that may be rejected, and those that must be."""

from types import SimpleNamespace
from typing import Any

import pytest

from brokertwin.simulation.audit_denials import REFUSALS, DenialAudit
from brokertwin.simulation.audit_losses import ACL_KNOWN_MS
from brokertwin.simulation.plan import (
    DENIED_GROUP,
    DENIED_ID,
    DENIED_TOPIC,
    OF_DENIALS,
    FaultKind,
    draw,
)

NOW, UNTIL = 1_000, 9_000
SURE = NOW + ACL_KNOWN_MS
TOPIC_ID = "an id"
METADATA = {"topics": [{"name": DENIED_TOPIC, "topicId": TOPIC_ID}]}


def fetched(code: int, *batches: str, topic: str = TOPIC_ID) -> dict[str, Any]:
    partition = {"errorCode": code, "batches": list(batches)}
    return {"responses": [{"topicId": topic, "partitions": [partition]}]}


def on_response(
    fault: FaultKind,
    api: str,
    response: dict[str, Any],
    at: tuple[int, int] = (SURE, SURE + 1),
    is_steady: bool = True,
    **body: str,
) -> tuple[bool, int]:
    """Return whether a response is a violation, and the number of rejected requests."""
    violations: list[str] = []
    denials = DenialAudit(violations.append)
    assert denials.errors == frozenset()
    denials.denies(fault)
    denials.denied(NOW, UNTIL)
    assert denials.errors == {REFUSALS[fault]}
    denials.on_response("m", "METADATA", METADATA, NOW, is_steady)
    denials.on_request("r", api, SimpleNamespace(**body), at[0])
    denials.on_response("r", api, response, at[1], is_steady)
    return bool(violations), denials.refused


@pytest.mark.parametrize(
    ("fault", "api", "body"),
    [
        (FaultKind.DENY_GROUP, "HEARTBEAT", {"group_id": DENIED_GROUP}),
        (FaultKind.DENY_GROUP, "CONSUMER_GROUP_HEARTBEAT", {"group_id": DENIED_GROUP}),
        (FaultKind.DENY_ID, "END_TXN", {"transactional_id": DENIED_ID}),
        (FaultKind.DENY_ID, "INIT_PRODUCER_ID", {"transactional_id": DENIED_ID}),
    ],
)
def test_granting_a_denied_operation_is_a_violation(
    fault: FaultKind, api: str, body: dict[str, str]
) -> None:
    granted, refused = {"errorCode": 0}, {"errorCode": int(REFUSALS[fault])}
    assert on_response(fault, api, granted, **body) == (True, 0)
    assert on_response(fault, api, refused, **body) == (False, 1)
    assert on_response(fault, api, granted, at=(SURE - 1, SURE + 1), **body) == (False, 0)
    assert on_response(fault, api, granted, at=(SURE, UNTIL), **body) == (False, 0)
    assert on_response(fault, api, granted, is_steady=False, **body) == (False, 0)
    assert on_response(fault, api, granted, **dict.fromkeys(body, "another")) == (False, 0)


def test_reading_denied_records_is_a_violation() -> None:
    assert on_response(FaultKind.DENY_READ, "FETCH", fetched(0, "b")) == (True, 0)
    assert on_response(FaultKind.DENY_READ, "FETCH", fetched(29)) == (False, 1)
    assert on_response(FaultKind.DENY_READ, "FETCH", fetched(0)) == (False, 0)
    assert on_response(FaultKind.DENY_READ, "FETCH", fetched(0, "b", topic="another")) == (False, 0)


@pytest.mark.parametrize(("code", "is_wrong"), [(0, True), (30, False)])
def test_committing_an_offset_of_a_denied_group_is_a_violation(code: int, is_wrong: bool) -> None:
    response = {"topics": [{"partitions": [{"errorCode": code}]}]}
    body = {"group_id": DENIED_GROUP}
    assert on_response(FaultKind.DENY_GROUP, "OFFSET_COMMIT", response, **body)[0] == is_wrong


@pytest.mark.parametrize(("code", "is_wrong"), [(0, True), (53, False)])
def test_adding_a_partition_under_a_denied_transactional_id_is_a_violation(
    code: int, is_wrong: bool
) -> None:
    response = {
        "resultsByTopicV3AndBelow": [{"resultsByPartition": [{"partitionErrorCode": code}]}]
    }
    body = {"v3_and_below_transactional_id": DENIED_ID}
    assert on_response(FaultKind.DENY_ID, "ADD_PARTITIONS_TO_TXN", response, **body)[0] == is_wrong


def test_each_kind_of_denial_is_drawn_alone() -> None:
    plans = [draw(seed) for seed in range(400)]
    denied = [
        [fault for fault in (FaultKind.DENY, *OF_DENIALS) if plan.has(fault)] for plan in plans
    ]
    assert {fault for each in denied for fault in each} == {FaultKind.DENY, *OF_DENIALS}
    assert max(map(len, denied)) == 1
