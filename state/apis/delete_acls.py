"""DeleteAcls (key 31, versions 1 to 3): delete ACLs that match filters.

Runs on the controller. The checks, in this order:

    a code is 0 (UNKNOWN)                  the connection is closed, like for any malformed request
    no ALTER on the cluster                31 CLUSTER_AUTHORIZATION_FAILED for every filter
    no authorizer                          54 SECURITY_DISABLED for every filter
    another code that Kafka does not have  42 INVALID_REQUEST for that filter

An ACL that matches several filters is in the result of each. Kafka returns the ACLs of a filter
unordered; here they are sorted.

Sources: `AclApis`, `DeleteAclsRequest`, `AclControlManager` in Kafka; KIP-140, KIP-290.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from brokertwin.protocol.generated.shared import AclFilter
from brokertwin.state.access import acl_filter, authorizer
from brokertwin.state.access.authorizer import Acl, Operation, Pattern, needs
from brokertwin.state.apis.create_acls import NO_AUTHORIZER
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import AccessControlEntryRemoved


def _handle(controller: Controller, request: Request) -> Decision:
    body: DeleteAclsRequest = request.body
    if any(acl_filter.is_malformed(each) for each in body.filters):
        return Decision(closes_connection=True)
    if not controller.allows_cluster(request, Operation.ALTER):
        return _refuse_all(body, Error.CLUSTER_AUTHORIZATION_FAILED, needs(Operation.ALTER))
    if not controller.settings.authorizer_class_name:
        return _refuse_all(body, Error.SECURITY_DISABLED, NO_AUTHORIZER)
    gone: dict[Uuid, None] = {}
    results = [_filtered(controller, each, gone) for each in body.filters]
    return Decision(
        records=[AccessControlEntryRemoved(acl_id) for acl_id in gone],
        response=DeleteAclsResponse(filter_results=results),
    )


def _filtered(
    controller: Controller, entry_filter: AclFilter, gone: dict[Uuid, None]
) -> DeleteAclsFilterResult:
    """Return the ACLs that match a filter, and add their ids to `gone`."""
    fault = None
    if acl_filter.is_unknown_pattern(entry_filter):
        fault = "Unknown patternFilter."
    elif acl_filter.is_unknown_entry(entry_filter):
        fault = "Unknown entryFilter."
    if fault is not None:
        return DeleteAclsFilterResult(error_code=Error.INVALID_REQUEST, error_message=fault)
    picked = []
    for pattern, acl_id, acl in authorizer.entries(controller):
        if acl_filter.matches(entry_filter, pattern, acl):
            gone[acl_id] = None
            picked.append(_matching(pattern, acl))
    return DeleteAclsFilterResult(matching_acls=picked)


def _matching(pattern: Pattern, acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _refuse_all(body: DeleteAclsRequest, error: Error, message: str) -> Decision:
    results = [
        DeleteAclsFilterResult(error_code=error, error_message=message) for _ in body.filters
    ]
    return Decision(response=DeleteAclsResponse(filter_results=results))


API = Api(kafka_apis.DELETE_ACLS, _handle)
