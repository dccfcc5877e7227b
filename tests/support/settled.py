"""Waiting until a real broker acts on what its controller has decided."""

from typing import Any

from tests.support.gateways import Client
from tests.support.patience import wait_until

GROUP_RESOURCE, SET = 32, 0
KEY, FIRST = "consumer.session.timeout.ms", 45_000
NAME = "settled"
"""A group without members whose setting is changed."""


def settle(client: Client) -> None:
    """Until all that the controller has answered by now is in effect at the client's broker.

    A broker takes in one change of metadata after the other, and lets its readers see each before
    its quotas, ACLs and coordinators know it: when a later one, of a group that nobody knows, is
    seen, those before have gone through. Raises AssertionError where that one is refused.
    """
    resource: dict[str, Any] = {"resourceType": GROUP_RESOURCE, "resourceName": NAME}
    asked = {"resources": [resource | {"configurationKeys": [KEY]}]}

    def seen() -> str:
        (found,) = client.call("DESCRIBE_CONFIGS", 4, asked)["results"]
        return str(found["configs"][0]["value"])

    value = str(FIRST + (int(seen()) + 1 - FIRST) % 1000)
    configs = [{"name": KEY, "configOperation": SET, "value": value}]
    body = {"resources": [resource | {"configs": configs}], "validateOnly": False}
    answer = client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
    assert not answer["responses"][0]["errorCode"], answer

    wait_until(lambda: seen() == value)
