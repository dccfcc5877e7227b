"""Waiting until a real broker acts on what its controller has decided."""

import uuid
from typing import Any

from tests.support.gateways import Client
from tests.support.patience import wait_until

GROUP_RESOURCE, SET = 32, 0
KEY, VALUE = "consumer.assignment.interval.ms", "1"


def settle(client: Client) -> None:
    """Until all that the controller has answered by now is in effect at the client's broker.

    A broker takes in one change of metadata after the other, and lets its readers see each before
    its quotas, ACLs and coordinators know it: when a later one, of a group that nobody knows, is
    seen, those before have gone through. Raises AssertionError where that one is refused.
    """
    resource: dict[str, Any] = {"resourceType": GROUP_RESOURCE, "resourceName": str(uuid.uuid4())}
    configs = [{"name": KEY, "configOperation": SET, "value": VALUE}]
    body = {"resources": [resource | {"configs": configs}], "validateOnly": False}
    answer = client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
    assert not answer["responses"][0]["errorCode"], answer

    def is_seen() -> bool:
        asked = {"resources": [resource | {"configurationKeys": [KEY]}]}
        (found,) = client.call("DESCRIBE_CONFIGS", 4, asked)["results"]
        return [each["value"] for each in found["configs"]] == [VALUE]

    wait_until(is_seen)
