"""Authorization of clients by the ACLs of an image.

The rules are those of Kafka's `StandardAuthorizer`. An ACL belongs to a resource pattern: a literal
name (`*` for every name) or a prefix. Of the ACLs whose pattern covers a resource, those apply that
name the principal (or `User:*`), its host (or `*`) and the operation (or ALL):

    the principal is one of super.users              allowed
    an applying ACL denies                           denied
    an applying ACL allows                           allowed
    there are ACLs of the resource, but none applies denied
    there is no ACL of the resource                  allow.everyone.if.no.acl.found

An ACL that allows READ, WRITE, DELETE or ALTER also allows DESCRIBE; one that allows ALTER_CONFIGS
also allows DESCRIBE_CONFIGS. A denial implies nothing.

Without `authorizer.class.name` everything is allowed, as in Kafka.

Sources: KIP-11, KIP-290 (prefixes), KIP-801; `StandardAuthorizerData`, `AclControlManager`,
`AclEntry`, `Authorizer.authorizeByResourceType` in Kafka.
"""

from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import AccessControlEntryAdded, AccessControlEntryRemoved
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import MachineTables

CLASS_NAME = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only implemented authorizer."""

CLUSTER_NAME = "kafka-cluster"
"""Name of the only resource of the type CLUSTER."""

WILDCARD = "*"
WILDCARD_PRINCIPAL = "User:*"
_ANY_NAME = "hardcode"


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Kind of an ACL's resource name; ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """An ACL's effect."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_IMPLYING = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Operations that imply another one."""

OPERATIONS = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""Operations in the authorized operations of responses (`AclEntry` in Kafka)."""


class Acl(msgspec.Struct, frozen=True, array_like=True):
    """An access control entry; the principal is like `User:alice`.

    `operation` and `permission` are codes of `Operation` and `Permission`; unknown ones are kept.
    """

    principal: str
    host: str
    operation: int
    permission: int


class Pattern(msgspec.Struct, frozen=True, array_like=True):
    resource_type: int
    pattern_type: int
    name: str


class PatternAcls(msgspec.Struct, array_like=True):
    acls: dict[Uuid, Acl]


class PrefixLengths(msgspec.Struct, array_like=True):
    """Numbers of prefixed patterns of a resource type, by length in characters."""

    counts: dict[int, int]


class Client(msgspec.Struct, frozen=True, array_like=True):
    """Principal and host address of a client."""

    principal: str
    host: str


def needs(operation: Operation) -> str:
    """The controller's message for a denied cluster operation.

    Kafka's text also has the request, as Java prints it.
    """
    return f"Request needs {operation.name} permission."


def allows(
    at: MachineTables,
    settings: BrokerSettings,
    client: Client,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
) -> bool:
    """True if `client` may do `operation` on a resource of the image with this key prefix."""
    if client.principal in _super_users(settings.super_users):
        return True
    is_allowed = is_known = False
    for acls in _covering(at, resource_type, name):
        is_known = True
        for acl in acls.acls.values():
            if _applies(acl, client, operation):
                if acl.permission == Permission.DENY:
                    return False
                is_allowed = True
    return is_allowed if is_known else settings.allow_everyone_if_no_acl_found


def allows_any(
    at: MachineTables,
    settings: BrokerSettings,
    client: Client,
    operation: Operation,
    resource_type: ResourceType,
) -> bool:
    """True if `client` may do `operation` on any resource of a type, existing or not.

    Only ACLs of this operation or ALL apply. If a prefix is denied, a literal name or longer prefix
    below it cannot be allowed.
    """
    if allows(at, settings, client, operation, resource_type, _ANY_NAME):
        return True
    denied: set[Pattern] = set()
    allowed: set[Pattern] = set()
    for pattern, acl in all_acls(at, resource_type):
        if _names_client(acl, client) and acl.operation in (operation, Operation.ALL):
            (denied if acl.permission == Permission.DENY else allowed).add(pattern)
    if Pattern(resource_type, PatternType.LITERAL, WILDCARD) in denied:
        return False
    return any(not _is_dominated(pattern, denied) for pattern in allowed)


def all_acls(at: MachineTables, resource_type: int | None = None) -> Iterator[tuple[Pattern, Acl]]:
    for pattern, _, acl in entries(at, resource_type):
        yield pattern, acl


def entries(
    at: MachineTables, resource_type: int | None = None
) -> Iterator[tuple[Pattern, Uuid, Acl]]:
    """Like `all_acls`, with ids."""
    below = _acls_key(at) if resource_type is None else f"{_acls_key(at)}{resource_type}/"
    for key, acls in at.tables.metadata.items(below, PatternAcls):
        type_code, pattern_code, name = key.removeprefix(_acls_key(at)).split("/", 2)
        pattern = Pattern(int(type_code), int(pattern_code), name)
        for acl_id, acl in acls.acls.items():
            yield pattern, acl_id, acl


def find(at: MachineTables, pattern: Pattern, acl: Acl) -> Uuid | None:
    acls = at.tables.metadata.get(_pattern_key(at, pattern), PatternAcls)
    if acls is not None:
        for acl_id, entry in acls.acls.items():
            if entry == acl:
                return acl_id
    return None


def has_id(at: MachineTables, acl_id: Uuid) -> bool:
    return _id_key(at, acl_id) in at.tables.metadata


@applies(AccessControlEntryAdded)
def apply_added(at: MachineTables, record: AccessControlEntryAdded) -> None:
    pattern = Pattern(record.resource_type, record.pattern_type, record.resource_name)
    acl = Acl(record.principal, record.host, record.operation, record.permission_type)
    key = _pattern_key(at, pattern)
    if key not in at.tables.metadata:
        at.tables.metadata.put(key, PatternAcls({}))
        _count_prefix(at, pattern, 1)
    at.tables.metadata.change(key, PatternAcls).acls[record.id] = acl
    at.tables.metadata.put(_id_key(at, record.id), pattern)


@applies(AccessControlEntryRemoved)
def apply_removed(at: MachineTables, record: AccessControlEntryRemoved) -> None:
    pattern = at.tables.metadata.get(_id_key(at, record.id), Pattern)
    if pattern is None:
        return
    at.tables.metadata.drop(_id_key(at, record.id))
    key = _pattern_key(at, pattern)
    acls = at.tables.metadata.change(key, PatternAcls)
    acls.acls = {acl_id: acl for acl_id, acl in acls.acls.items() if acl_id != record.id}
    if not acls.acls:
        at.tables.metadata.drop(key)
        _count_prefix(at, pattern, -1)


def _count_prefix(at: MachineTables, pattern: Pattern, step: int) -> None:
    """Count the lengths of prefixes, so that a look-up tries only existing lengths."""
    if pattern.pattern_type != PatternType.PREFIXED:
        return
    key = _lengths_key(at, pattern.resource_type)
    if key not in at.tables.metadata:
        at.tables.metadata.put(key, PrefixLengths({}))
    lengths = at.tables.metadata.change(key, PrefixLengths)
    size = len(pattern.name)
    lengths.counts[size] = lengths.counts.get(size, 0) + step
    if lengths.counts[size] == 0:
        del lengths.counts[size]
    if not lengths.counts:
        at.tables.metadata.drop(key)


def _covering(at: MachineTables, resource_type: ResourceType, name: str) -> Iterator[PatternAcls]:
    literals = (name,) if name == WILDCARD else (name, WILDCARD)
    patterns = [Pattern(resource_type, PatternType.LITERAL, literal) for literal in literals]
    lengths = at.tables.metadata.get(_lengths_key(at, resource_type), PrefixLengths)
    if lengths is not None:
        patterns += [
            Pattern(resource_type, PatternType.PREFIXED, name[:size])
            for size in sorted(lengths.counts)
            if size <= len(name)
        ]
    for pattern in patterns:
        acls = at.tables.metadata.get(_pattern_key(at, pattern), PatternAcls)
        if acls is not None:
            yield acls


def _names_client(acl: Acl, client: Client) -> bool:
    return acl.principal in (client.principal, WILDCARD_PRINCIPAL) and acl.host in (
        client.host,
        WILDCARD,
    )


def _applies(acl: Acl, client: Client, operation: Operation) -> bool:
    if not _names_client(acl, client):
        return False
    if acl.operation in (operation, Operation.ALL):
        return True
    is_implied = acl.operation in _IMPLYING.get(operation, ())
    return is_implied and acl.permission == Permission.ALLOW


def _is_dominated(allowed: Pattern, denied: set[Pattern]) -> bool:
    if allowed.pattern_type == PatternType.LITERAL:
        if allowed.name == WILDCARD:
            return False
        if allowed in denied:
            return True
    return any(
        Pattern(allowed.resource_type, PatternType.PREFIXED, allowed.name[:size]) in denied
        for size in range(1, len(allowed.name) + 1)
    )


@lru_cache(maxsize=64)
def _super_users(setting: str) -> frozenset[str]:
    return frozenset(user.strip() for user in setting.split(";") if user.strip())


def _acls_key(at: MachineTables) -> str:
    return f"{at.prefix}/acl/"


def _pattern_key(at: MachineTables, pattern: Pattern) -> str:
    return f"{at.prefix}/acl/{pattern.resource_type:d}/{pattern.pattern_type:d}/{pattern.name}"


def _id_key(at: MachineTables, acl_id: Uuid) -> str:
    return f"{at.prefix}/acl-id/{acl_id}"


def _lengths_key(at: MachineTables, resource_type: int) -> str:
    return f"{at.prefix}/acl-prefixes/{resource_type:d}"
