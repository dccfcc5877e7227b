"""Filters of DescribeAcls and DeleteAcls.

Sources: `ResourcePatternFilter`, `AccessControlEntryFilter` in Kafka; KIP-140, KIP-290.
"""

from enum import IntEnum

from brokertwin.protocol.generated.shared import AclFilter
from brokertwin.state.access.authorizer import (
    WILDCARD,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)


def is_malformed(acl_filter: AclFilter) -> bool:
    """True if a code is 0, UNKNOWN; Kafka cannot decode such a request."""
    return 0 in (
        acl_filter.resource_type_filter,
        acl_filter.pattern_type_filter,
        acl_filter.operation,
        acl_filter.permission_type,
    )


def is_unknown_pattern(acl_filter: AclFilter) -> bool:
    """True if Kafka does not have the resource type or pattern type."""
    return not (
        is_known(ResourceType, acl_filter.resource_type_filter)
        and is_known(PatternType, acl_filter.pattern_type_filter)
    )


def is_unknown_entry(acl_filter: AclFilter) -> bool:
    """True if Kafka does not have the operation or permission."""
    return not (
        is_known(Operation, acl_filter.operation)
        and is_known(Permission, acl_filter.permission_type)
    )


def is_known(kind: type[IntEnum], code: int) -> bool:
    """True if Kafka has the code; 0 means unknown."""
    return 0 < code < len(kind)


def matches(acl_filter: AclFilter, pattern: Pattern, acl: Acl) -> bool:
    return (
        acl_filter.resource_type_filter in (ResourceType.ANY, pattern.resource_type)
        and _matches_name(acl_filter, pattern)
        and acl_filter.principal_filter in (None, acl.principal)
        and acl_filter.host_filter in (None, acl.host)
        and acl_filter.operation in (Operation.ANY, acl.operation)
        and acl_filter.permission_type in (Permission.ANY, acl.permission)
    )


def _matches_name(acl_filter: AclFilter, pattern: Pattern) -> bool:
    kind, name = acl_filter.pattern_type_filter, acl_filter.resource_name_filter
    if kind not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
        return False
    if name is None:
        return True
    if kind != PatternType.MATCH:
        return name == pattern.name
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)
