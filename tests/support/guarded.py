"""A bench with an authorizer, where Alice asks and may do what she is let do."""

from typing import Any

from brokertwin.state.access.authorizer import Operation, PatternType, ResourceType
from tests.support.machine import Bench

ADMIN, ALICE = "User:ANONYMOUS", "User:alice"


class Guarded(Bench):
    """Mixed into a bench; requests are the administrator's until `principal` is another."""

    principal = ADMIN

    def send(
        self, api: str | int, version: int, body: dict[str, Any] | None = None, **event: Any
    ) -> str:
        return super().send(api, version, body, **{"principal": self.principal, **event})

    def let(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        acl = {"resourceType": resource_type, "resourceName": name, "principal": ALICE}
        acl |= {"resourcePatternType": PatternType.LITERAL, "host": "*"}
        acl |= {"operation": operation, "permissionType": 3}
        response = self.request("CREATE_ACLS", 3, creations=[acl], principal=ADMIN)
        assert [each["errorCode"] for each in response["results"]] == [0]
