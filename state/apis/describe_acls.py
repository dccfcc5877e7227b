"""DescribeAcls (key 29, versions 1 to 3): list ACLs that match a filter.

The broker responds from its metadata image. The checks, in this order:

    a code is 0 (UNKNOWN)                  the connection is closed, like for any malformed request
    no DESCRIBE on the cluster             31 CLUSTER_AUTHORIZATION_FAILED
    no authorizer                          54 SECURITY_DISABLED
    another code that Kafka does not have  no ACL matches

Kafka returns resources and their ACLs unordered; here they are sorted.

Sources: `AclApis`, `DescribeAclsRequest`, `DescribeAclsResponse` in Kafka; KIP-140, KIP-290.
"""

from itertools import groupby

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from brokertwin.protocol.generated.shared import AclFilter
from brokertwin.state.access import acl_filter, authorizer
from brokertwin.state.access.authorizer import Operation, needs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request


def _handle(broker: Broker, request: Request) -> Decision:
    body: AclFilter = request.body
    if acl_filter.is_malformed(body):
        return Decision(closes_connection=True)
    if not broker.allows_cluster(request, Operation.DESCRIBE):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED, needs(Operation.DESCRIBE))
    if not broker.settings.authorizer_class_name:
        raise Refused(Error.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    picked = [
        (pattern, acl)
        for pattern, _, acl in authorizer.entries(broker)
        if acl_filter.matches(body, pattern, acl)
    ]
    resources = []
    for pattern, group in groupby(picked, key=lambda entry: entry[0]):
        acls = sorted((acl.principal, acl.host, acl.operation, acl.permission) for _, acl in group)
        resources.append(
            DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=[
                    AclDescription(
                        principal=principal,
                        host=host,
                        operation=operation,
                        permission_type=permission,
                    )
                    for principal, host, operation, permission in acls
                ],
            )
        )
    return Decision(response=DescribeAclsResponse(resources=resources))


API = Api(kafka_apis.DESCRIBE_ACLS, _handle)
