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


def is_malformed(wanted: AclFilter) -> bool:
    """True if a code is 0, UNKNOWN; Kafka cannot decode such a request."""
    return 0 in (
        wanted.resource_type_filter,
        wanted.pattern_type_filter,
        wanted.operation,
        wanted.permission_type,
    )


def is_unknown_pattern(wanted: AclFilter) -> bool:
    """True if Kafka does not have the resource type or pattern type."""
    return not (
        is_known(ResourceType, wanted.resource_type_filter)
        and is_known(PatternType, wanted.pattern_type_filter)
    )


def is_unknown_entry(wanted: AclFilter) -> bool:
    """True if Kafka does not have the operation or permission."""
    return not (
        is_known(Operation, wanted.operation) and is_known(Permission, wanted.permission_type)
    )


def is_known(kind: type[IntEnum], code: int) -> bool:
    """True if Kafka has the code; 0 means unknown."""
    return 0 < code < len(kind)


def matches(wanted: AclFilter, pattern: Pattern, acl: Acl) -> bool:
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
