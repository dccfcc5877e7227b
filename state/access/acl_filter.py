"""Which ACLs a filter of DescribeAcls and DeleteAcls picks.

Sources: `ResourcePatternFilter`, `AccessControlEntryFilter` in Kafka; KIP-140, KIP-290.
"""

from enum import IntEnum

from brokertwin.state.access.authorizer import (
    WILDCARD,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from brokertwin.state.core.wire.generated.shared import AclFilter


def is_malformed(wanted: AclFilter) -> bool:
    """Whether a code is 0, UNKNOWN, with which Kafka does not even decode the request."""
    return 0 in (
        wanted.resource_type_filter,
        wanted.pattern_type_filter,
        wanted.operation,
        wanted.permission_type,
    )


def is_unknown_pattern(wanted: AclFilter) -> bool:
    """Whether the resource type or the pattern type is none that Kafka has."""
    return not (
        is_known(ResourceType, wanted.resource_type_filter)
        and is_known(PatternType, wanted.pattern_type_filter)
    )


def is_unknown_entry(wanted: AclFilter) -> bool:
    """Whether the operation or the permission is none that Kafka has."""
    return not (
        is_known(Operation, wanted.operation) and is_known(Permission, wanted.permission_type)
    )


def is_known(kind: type[IntEnum], code: int) -> bool:
    """Whether `code` stands for anything; 0 stands for what is unknown."""
    return 0 < code < len(kind)


def matches(wanted: AclFilter, pattern: Pattern, acl: Acl) -> bool:
    """Whether the filter picks the ACL of a pattern."""
    return (
        wanted.resource_type_filter in (ResourceType.ANY, pattern.resource_type)
        and _matches_name(wanted, pattern)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and wanted.operation in (Operation.ANY, acl.operation)
        and wanted.permission_type in (Permission.ANY, acl.permission)
    )


def _matches_name(wanted: AclFilter, pattern: Pattern) -> bool:
    kind, name = wanted.pattern_type_filter, wanted.resource_name_filter
    if kind not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
        return False
    if name is None:
        return True
    if kind != PatternType.MATCH:
        return name == pattern.name
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)
