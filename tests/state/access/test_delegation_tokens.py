"""Delegation tokens in the state machine: permissions and expiry.

`tests/gateway/security/test_delegation_tokens_like_kafka.py` compares the responses with a real
broker.
"""

from typing import Any

import pytest

from brokertwin.state.access.authorizer import CLASS_NAME, Operation, ResourceType
from brokertwin.state.access.delegation_tokens import TokenId
from brokertwin.state.cell.check import check
from tests.support.machine import START, Bench

ALICE, BOB, CAROL, ADMIN = "User:alice", "User:bob", "User:carol", "User:admin"
HOUR_MS, DAY_MS, WEEK_MS = 3_600_000, 86_400_000, 604_800_000


def edge(name: str = "", **other: Any) -> dict[str, Any]:
    return {"isEnabled": True, "isAllowed": True, "tokenId": name, "digest": f"of {name}", **other}


def create(bench: Bench, name: str, who: str = ALICE, **fields: Any) -> dict[str, Any]:
    body = {"renewers": [], "maxLifetimeMs": -1, "edge": edge(name), **fields}
    return bench.request("CREATE_DELEGATION_TOKEN", 3, body, principal=who)


def renew(bench: Bench, name: str, who: str = ALICE, period_ms: int = -1, **more: Any) -> Any:
    body = {"renewPeriodMs": period_ms, "edge": edge(name, **more)}
    response = bench.request("RENEW_DELEGATION_TOKEN", 2, body, principal=who)
    return response["errorCode"], response["expiryTimestampMs"]


def expire(bench: Bench, name: str, who: str = ALICE, period_ms: int = -1, **more: Any) -> Any:
    body = {"expiryTimePeriodMs": period_ms, "edge": edge(name, **more)}
    response = bench.request("EXPIRE_DELEGATION_TOKEN", 2, body, principal=who)
    return response["errorCode"], response["expiryTimestampMs"]


def seen(bench: Bench, who: str = ALICE, owners: Any = None, broker: int = 1, **more: Any) -> Any:
    named = owners and [{"principalType": "User", "principalName": each} for each in owners]
    body = {"owners": owners if not owners else named, "edge": edge(**more)}
    response = bench.request(
        "DESCRIBE_DELEGATION_TOKEN", 3, body, principal=who, broker=broker, host="h"
    )
    return response["errorCode"] or [each["tokenId"] for each in response["tokens"]]


def renewers(*names: str) -> list[dict[str, str]]:
    return [{"principalType": "User", "principalName": name} for name in names]


def test_times_of_a_token_follow_settings_and_request() -> None:
    bench = Bench()
    response = create(bench, "a")
    times = ("issueTimestampMs", "expiryTimestampMs", "maxTimestampMs")
    assert [response[each] - START for each in times] == [0, DAY_MS, WEEK_MS]
    response = create(bench, "b", maxLifetimeMs=HOUR_MS)
    assert [response[each] - START for each in times] == [0, HOUR_MS, HOUR_MS]
    assert create(bench, "c", maxLifetimeMs=2**62)["maxTimestampMs"] - START == WEEK_MS
    assert renew(bench, "a", period_ms=HOUR_MS) == (0, START + HOUR_MS)
    assert renew(bench, "a", period_ms=WEEK_MS) == (0, START + DAY_MS)
    assert expire(bench, "a", period_ms=2**63 - 1) == (0, START + WEEK_MS)
    assert renew(bench, "b") == (0, START + HOUR_MS)
    assert renew(bench, "b", period_ms=1) == (0, START + 1)


@pytest.mark.parametrize(
    ("more", "error", "time"), [({"isAllowed": False}, 64, -1), ({"isEnabled": False}, 61, 0)]
)
def test_tokens_require_a_secret_key_and_an_allowed_connection(
    more: dict[str, Any], error: int, time: int
) -> None:
    bench = Bench()
    create(bench, "a")
    assert create(bench, "b", edge=edge("b", **more))["errorCode"] == error
    assert create(bench, "b", edge=edge("b", **more))["maxTimestampMs"] == time
    assert renew(bench, "a", **more) == expire(bench, "a", **more) == (error, time)
    assert seen(bench, **more) == error
    assert seen(bench) == ["a"]


def test_owners_and_renewers_renew_and_expire() -> None:
    bench = Bench()
    create(bench, "a", renewers=renewers("bob"))
    assert renew(bench, "a", CAROL)[0] == expire(bench, "a", CAROL)[0] == 63
    assert renew(bench, "x", CAROL)[0] == expire(bench, "x", CAROL)[0] == 62
    assert renew(bench, "a", BOB)[0] == 0
    assert expire(bench, "a", BOB) == (0, START)
    assert renew(bench, "a", BOB)[0] == 62
    group = [{"principalType": "Group", "principalName": "g"}]
    assert create(bench, "a", renewers=group)["errorCode"] == 67
    assert seen(bench) == []


def test_visibility_of_a_token() -> None:
    bench = Bench(brokers=(1, 2), authorizer_class_name=CLASS_NAME, super_users=ADMIN)
    create(bench, "a", renewers=renewers("bob"))
    create(bench, "c", CAROL)
    assert [seen(bench, who) for who in (ALICE, BOB, CAROL)] == [["a"], ["a"], ["c"]]
    assert seen(bench, ADMIN, broker=2) == ["a", "c"]
    assert seen(bench, ADMIN, owners=["bob"]) == ["a"]
    assert seen(bench, ADMIN, owners=["carol", "nobody"]) == ["c"]
    assert seen(bench, ADMIN, owners=[]) == []
    assert seen(bench, "User:ANONYMOUS", login="c") == ["c"]
    for operation, kind, name in (
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "a"),
        (Operation.DESCRIBE_TOKENS, ResourceType.USER, CAROL),
    ):
        acl = {"resourceType": int(kind), "resourceName": name, "principal": "User:eve"}
        acl |= {"host": "h", "operation": int(operation), "permissionType": 3}
        bench.request("CREATE_ACLS", 3, creations=[acl], principal=ADMIN)
    assert seen(bench, "User:eve") == ["a", "c"]


def test_token_for_another_owner_requires_permission() -> None:
    bench = Bench(authorizer_class_name=CLASS_NAME, super_users=ADMIN)
    for_bob = {"ownerPrincipalType": "User", "ownerPrincipalName": "bob"}
    refused = create(bench, "a", **for_bob)
    assert (refused["errorCode"], refused["principalName"]) == (65, "bob")
    response = create(bench, "a", ADMIN, **for_bob)
    assert (response["principalName"], response["tokenRequesterPrincipalName"]) == ("bob", "admin")
    assert seen(bench, BOB) == ["a"]
    assert renew(bench, "a", ADMIN)[0] == 63
    assert renew(bench, "a", BOB)[0] == 0


def test_expired_token_is_rejected_and_removed_by_the_next_check() -> None:
    bench = Bench(brokers=(1, 2))
    create(bench, "a", maxLifetimeMs=HOUR_MS // 2)
    create(bench, "b")
    bench.now = START // HOUR_MS * HOUR_MS + HOUR_MS - 1
    assert renew(bench, "a")[0] == 66
    assert expire(bench, "a", period_ms=1000)[0] == 66
    assert seen(bench, broker=2) == ["a", "b"]
    bench.reload()
    bench.now += 1
    assert seen(bench, broker=2) == seen(bench) == ["b"]
    assert renew(bench, "a")[0] == 62
    kinds = [each["record"]["type"] for each in bench.records()]
    assert kinds.count("DelegationTokenRemoved") == 3  # of the controller and each broker


def test_check_finds_a_digest_without_its_token() -> None:
    bench = Bench()
    create(bench, "a")
    bench.is_checked = False
    bench.cell.tables.metadata.put("1/token-digest/z", TokenId("z"))
    assert "digests have the tokens" in "; ".join(check(bench.cell))
