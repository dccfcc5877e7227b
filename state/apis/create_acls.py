"""CreateAcls (key 30, versions 1 to 3): create ACLs, each independently.

Runs on the controller. The checks, in this order:

    a code is 0 (UNKNOWN)                           the connection is closed, like for any
                                                    malformed request
    no ALTER on the cluster                         31 CLUSTER_AUTHORIZATION_FAILED for every ACL
    no authorizer                                   54 SECURITY_DISABLED for every ACL
    a code reserved for filters (ANY, MATCH)        -1 UNKNOWN_SERVER_ERROR for every ACL
    a cluster name other than `kafka-cluster`,      42 INVALID_REQUEST for that ACL
    an empty name, an unknown code, a principal
    without a colon

Creating an existing ACL succeeds and changes nothing. Operations are not checked against the
resource type, and hosts are not checked at all.

ACL ids are derived from the event's nonce.

Sources: `AclApis`, `CreateAclsRequest`, `AclControlManager` in Kafka; KIP-140, KIP-290, KIP-801.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from brokertwin.state.access import authorizer
from brokertwin.state.access.acl_filter import is_known
from brokertwin.state.access.authorizer import (
    CLUSTER_NAME,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    needs,
)
from brokertwin.state.cluster import topics
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import AccessControlEntryAdded, Record

NO_AUTHORIZER = "No Authorizer is configured."


def _handle(controller: Controller, request: Request) -> Decision:
    body: CreateAclsRequest = request.body
    if any(0 in _codes(each) for each in body.creations):
        return Decision(closes_connection=True)
    if not controller.allows_cluster(request, Operation.ALTER):
        return _refuse_all(body, Error.CLUSTER_AUTHORIZATION_FAILED, needs(Operation.ALTER))
    if not controller.settings.authorizer_class_name:
        return _refuse_all(body, Error.SECURITY_DISABLED, NO_AUTHORIZER)
    if any(_is_for_filters(each) for each in body.creations):
        return _refuse_all(body, Error.UNKNOWN_SERVER_ERROR, None)
    records: dict[tuple[Pattern, Acl], Record] = {}
    results = []
    for each in body.creations:
        fault = _fault(each)
        if fault is not None:
            results.append(AclCreationResult(error_code=Error.INVALID_REQUEST, error_message=fault))
            continue
        results.append(AclCreationResult())
        pattern = Pattern(each.resource_type, each.resource_pattern_type, each.resource_name)
        acl = Acl(each.principal, each.host, each.operation, each.permission_type)
        if authorizer.find(controller, pattern, acl) is None and (pattern, acl) not in records:
            acl_id = _new_id(controller, request, len(records))
            records[pattern, acl] = _record(acl_id, pattern, acl)
    return Decision(records=list(records.values()), response=CreateAclsResponse(results=results))


def _codes(each: AclCreation) -> tuple[int, ...]:
    return (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)


def _is_for_filters(each: AclCreation) -> bool:
    any_of_all = (ResourceType.ANY, PatternType.ANY, Operation.ANY, Permission.ANY)
    is_any = any(code == any_code for code, any_code in zip(_codes(each), any_of_all, strict=True))
    return is_any or each.resource_pattern_type == PatternType.MATCH


def _fault(each: AclCreation) -> str | None:
    """Return Kafka's error message for an invalid ACL, or None."""
    if each.resource_type == ResourceType.CLUSTER and each.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not each.resource_name:
        return "Invalid empty resource name"
    if not is_known(ResourceType, each.resource_type):
        return "Invalid resourceType UNKNOWN"
    if not is_known(PatternType, each.resource_pattern_type):
        return "Invalid patternType UNKNOWN"
    if not is_known(Operation, each.operation):
        return "Invalid operation UNKNOWN"
    if not is_known(Permission, each.permission_type):
        return "Invalid permissionType UNKNOWN"
    if ":" not in each.principal:
        return (
            f"Could not parse principal from `{each.principal}` (no colon is present separating"
            " the principal type from the principal name)"
        )
    return None


def _record(acl_id: Uuid, pattern: Pattern, acl: Acl) -> AccessControlEntryAdded:
    return AccessControlEntryAdded(
        id=acl_id,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _new_id(controller: Controller, request: Request, number: int) -> Uuid:
    attempt = 0
    while True:
        seeds = (request.nonce, str(controller.now), str(number), str(attempt))
        acl_id = topics.derive_uuid("acl", *seeds)
        if not authorizer.has_id(controller, acl_id):
            return acl_id
        attempt += 1


def _refuse_all(body: CreateAclsRequest, error: Error, message: str | None) -> Decision:
    results = [AclCreationResult(error_code=error, error_message=message) for _ in body.creations]
    return Decision(response=CreateAclsResponse(results=results))


API = Api(kafka_apis.CREATE_ACLS, _handle)
