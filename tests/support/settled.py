"""Waiting until a real broker acts on what its controller has decided."""

from typing import Any

from tests.support.gateways import Client
from tests.support.patience import wait_until

GROUP_RESOURCE, SET = 32, 0
KEY, FIRST = "consumer.session.timeout.ms", 45_000
NAME = "settled"
"""A group without members whose setting is changed."""


def settle(client: Client) -> None:
    """Wait until all changes acknowledged by the controller are in effect at the client's broker.

    A broker applies metadata changes in order. Readers see a change before its quotas, ACLs and
    coordinators do. When a later change of an unused group is visible, all earlier ones are in
    effect. Raises AssertionError if that change is refused.
    """
    resource: dict[str, Any] = {"resourceType": GROUP_RESOURCE, "resourceName": NAME}
    request = {"resources": [resource | {"configurationKeys": [KEY]}]}

    def seen() -> str:
        (result,) = client.call("DESCRIBE_CONFIGS", 4, request)["results"]
        return str(result["configs"][0]["value"])

    value = str(FIRST + (int(seen()) + 1 - FIRST) % 1000)
    configs = [{"name": KEY, "configOperation": SET, "value": value}]
    body = {"resources": [resource | {"configs": configs}], "validateOnly": False}
    response = client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
    assert not response["responses"][0]["errorCode"], response

    wait_until(lambda: seen() == value)
