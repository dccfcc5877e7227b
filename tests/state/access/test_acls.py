"""CreateAcls, DescribeAcls and DeleteAcls, with the errors and messages of Kafka 4.3.1."""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.access import authorizer
from brokertwin.state.access.authorizer import CLASS_NAME, Operation, PatternType, ResourceType
from brokertwin.state.cell.apply import apply
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.configs.config_keys import InvalidConfigError
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.records import RecordEntry
from brokertwin.state.core.tables import CellTables
from tests.support.machine import Bench
from tests.support.recorded import exchanges, replay

SUPER_USERS = "User:admin;User:broker"
EVERYTHING = {
    "resourceTypeFilter": 1,
    "resourceNameFilter": None,
    "patternTypeFilter": 1,
    "principalFilter": None,
    "hostFilter": None,
    "operation": 1,
    "permissionType": 1,
}


def secured(**settings: Any) -> Bench:
    return Bench(authorizer_class_name=CLASS_NAME, super_users=SUPER_USERS, **settings)


def acl(name: str = "orders", **other: Any) -> dict[str, Any]:
    """An ACL; by default Alice may read the topic `name`."""
    return {
        "resourceType": ResourceType.TOPIC,
        "resourceName": name,
        "resourcePatternType": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permissionType": 3,
        **other,
    }


def create(bench: Bench, *acls: dict[str, Any], principal: str = "User:admin") -> list[int]:
    response = bench.request("CREATE_ACLS", 3, creations=list(acls), principal=principal)
    return [result["errorCode"] for result in response["results"]]


def described(bench: Bench, **filters: Any) -> list[str]:
    response = bench.request("DESCRIBE_ACLS", 3, EVERYTHING, **filters, principal="User:admin")
    return [resource["resourceName"] for resource in response["resources"]]


def test_whole_session_agrees_with_the_recorded_broker() -> None:
    assert replay(secured(), exchanges("acls")) == []


def test_without_an_authorizer_there_are_no_acls_as_recorded() -> None:
    assert replay(Bench(), exchanges("no_authorizer")) == []


def test_every_broker_applies_an_acl_to_its_own_image() -> None:
    bench = secured(brokers=(1, 2))
    assert create(bench, acl(), acl()) == [Error.NONE, Error.NONE]
    for broker in (1, 2):
        response = bench.request(
            "DESCRIBE_ACLS", 3, EVERYTHING, principal="User:admin", broker=broker
        )
        assert [len(resource["acls"]) for resource in response["resources"]] == [1]
    kinds = [entry["record"]["type"] for entry in bench.records()]
    assert kinds == ["AccessControlEntryAdded"] * 3
    assert len({entry["record"]["id"] for entry in bench.records()}) == 1


def test_acls_survive_a_micro_batch() -> None:
    bench = secured()
    create(bench, acl("a"), acl("a", operation=Operation.WRITE), acl("b", resourcePatternType=4))
    bench.reload()
    assert described(bench) == ["a", "b"]
    deleted = {"filters": [{**EVERYTHING, "resourceNameFilter": "a"}]}
    response = bench.request("DELETE_ACLS", 3, deleted, principal="User:admin")
    assert len(response["filterResults"][0]["matchingAcls"]) == 2
    bench.reload()
    assert described(bench) == ["b"]


def test_denied_client_changes_nothing() -> None:
    bench = secured()
    create(bench, acl())
    assert create(bench, acl("other"), principal="User:eve") == [Error.CLUSTER_AUTHORIZATION_FAILED]
    response = bench.request("DELETE_ACLS", 3, filters=[EVERYTHING], principal="User:eve")
    assert response["filterResults"][0]["errorCode"] == Error.CLUSTER_AUTHORIZATION_FAILED
    assert described(bench) == ["orders"]


def test_undecodable_code_closes_the_connection() -> None:
    bench = secured()
    event_id = bench.send("CREATE_ACLS", 3, creations=[acl(operation=0)])
    assert bench.responses[event_id]["closesConnection"] is True
    assert bench.responses[event_id]["response"] is None


def test_authorizer_is_configured_by_kafkas_names() -> None:
    settings, warnings = parse(
        {
            "authorizer.class.name": CLASS_NAME,
            "super.users": "User:admin;User:CN=broker,O=acme",
            "allow.everyone.if.no.acl.found": "true",
        }
    )
    assert settings.authorizer_class_name == CLASS_NAME
    assert settings.super_users == "User:admin;User:CN=broker,O=acme"
    assert settings.allow_everyone_if_no_acl_found
    assert warnings == []
    with pytest.raises(InvalidConfigError, match="StandardAuthorizer"):
        parse({"authorizer.class.name": "com.example.Authorizer"})


def test_replayed_records_give_the_same_acls() -> None:
    bench = secured(brokers=(1, 2))
    create(bench, acl("a"), acl("a", operation=Operation.WRITE), acl("b", resourcePatternType=4))
    deleted = {"filters": [{**EVERYTHING, "operation": int(Operation.WRITE)}]}
    bench.request("DELETE_ACLS", 3, deleted, principal="User:admin")
    tables = CellTables()
    for row in bench.of(outputs.RECORDS):
        entry = msgspec.json.decode(row.value or b"", type=RecordEntry)
        apply(tables.of(entry.machine), entry.record)
    for machine in (CONTROLLER, 1, 2):
        kept = list(authorizer.entries(tables.of(machine)))
        assert kept == list(authorizer.entries(bench.cell.tables.of(machine)))
        assert [pattern.name for pattern, _, _ in kept] == ["a", "b"]
