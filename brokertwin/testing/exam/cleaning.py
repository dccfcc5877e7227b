"""Deletes the groups, configurations of groups and topics of an exam.

Transactional ids cannot be deleted; brokers drop idle ones after transactional.id.expiration.ms.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from brokertwin.clients.io.blocking import (
    BlockingConnection,
    BrokerClosedError,
    UndecodableResponseError,
)
from brokertwin.testing.exam.bodies import CLIENT_ID
from brokertwin.testing.exam.site import Site

CLEANING_S = 60.0
AT_ONCE = 50
LEAVING_EPOCH = -1
GROUP_RESOURCE = 32
ANY_NAME = 2
KINDS = {
    "consumer": ("ConsumerGroupDescribe", "ConsumerGroupHeartbeat", 1),
    "share": ("ShareGroupDescribe", "ShareGroupHeartbeat", 1),
    "streams": ("StreamsGroupDescribe", "StreamsGroupHeartbeat", 0),
}
"""Group type to the API that describes it, the API that its members leave with, and its version."""


def clean(site: Site, prefix: str) -> None:
    """Delete groups and topics with a prefix, if the brokers claim the APIs."""
    for address in site.brokers.values():
        deadline = time.monotonic() + CLEANING_S
        with suppress(OSError, BrokerClosedError, UndecodableResponseError):
            connection = BlockingConnection(address, _until(deadline), CLIENT_ID, site.security)
            try:
                _Cleaning(connection, site, prefix).run()
            finally:
                connection.close()


class _Cleaning:
    """Cleaning through one broker, which deletes the groups that it coordinates."""

    def __init__(self, connection: BlockingConnection, site: Site, prefix: str) -> None:
        self._connection, self._site, self._prefix = connection, site, prefix

    def run(self) -> None:
        """Delete everything with the prefix."""
        listed = self._call("ListGroups", 5, {}).get("groups", ())
        groups = [
            (each["groupId"], each.get("groupType", "classic").lower())
            for each in listed
            if each["groupId"].startswith(self._prefix)
        ]
        for group, kind in groups:
            self._empty(group, kind)
        for chunk in _chunks([group for group, _ in groups]):
            self._call("DeleteGroups", 2, {"groupsNames": chunk})
        self._delete_configs()
        self._delete_quotas()
        for chunk in _chunks(self._topics()):
            self._call("DeleteTopics", 5, {"topicNames": chunk, "timeoutMs": 30_000})

    def _call(self, api: str, most: int, body: Any) -> Any:
        """Return the response, or an empty one if the API is not claimed."""
        version = self._site.version(api, most)
        if version is None:
            return {}
        return self._connection.call(api, version, body, is_strict=False)

    def _empty(self, group: str, kind: str) -> None:
        if kind not in KINDS:
            for described in self._call("DescribeGroups", 5, {"groups": [group]}).get("groups", ()):
                members = [
                    {"memberId": each["memberId"], "groupInstanceId": each.get("groupInstanceId")}
                    for each in described["members"]
                ]
                if members:
                    self._call("LeaveGroup", 5, {"groupId": group, "members": members})
            return
        describing, leaving, version = KINDS[kind]
        for described in self._call(describing, 1, {"groupIds": [group]}).get("groups", ()):
            for each in described["members"]:
                body = {
                    "groupId": group,
                    "memberId": each["memberId"],
                    "memberEpoch": LEAVING_EPOCH,
                    "instanceId": each.get("instanceId"),
                    "endpointInformationEpoch": 0,
                }
                self._call(leaving, version, body)

    def _delete_configs(self) -> None:
        if self._site.version("ListConfigResources", 1) != 1:
            return
        listed = self._call("ListConfigResources", 1, {"resourceTypes": [GROUP_RESOURCE]})
        names = [each["resourceName"] for each in listed["configResources"]]
        resources = [
            {"resourceType": GROUP_RESOURCE, "resourceName": name, "configs": []}
            for name in names
            if name.startswith(self._prefix)
        ]
        if resources:
            self._call("AlterConfigs", 2, {"resources": resources, "validateOnly": False})

    def _delete_quotas(self) -> None:
        match = {"entityType": "client-id", "matchType": ANY_NAME}
        listed = self._call("DescribeClientQuotas", 1, {"components": [match], "strict": True})
        entries = [
            {
                "entity": [
                    {"entityType": part["entityType"], "entityName": part["entityName"]}
                    for part in entry["entity"]
                ],
                "ops": [
                    {"key": each["key"], "value": 0, "remove": True} for each in entry["values"]
                ],
            }
            for entry in listed.get("entries") or ()
            if (entry["entity"][0]["entityName"] or "").startswith(self._prefix)
        ]
        if entries:
            self._call("AlterClientQuotas", 1, {"entries": entries, "validateOnly": False})

    def _topics(self) -> list[str]:
        if not self._site.version("Metadata", 12):
            return []
        topics = self._call("Metadata", 12, {"topics": None})["topics"]
        names = [each["name"] or "" for each in topics]
        return [name for name in names if name.startswith(self._prefix)]


def _until(deadline: float) -> Callable[[], float]:
    return lambda: deadline


def _chunks(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE))
