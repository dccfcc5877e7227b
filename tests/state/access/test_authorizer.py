"""The authorizer compared with its definition and with responses of Kafka 4.3.1."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.access import authorizer
from brokertwin.state.access.authorizer import (
    CLASS_NAME,
    Acl,
    Client,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.records import AccessControlEntryAdded, AccessControlEntryRemoved
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import CellTables, MachineTables
from tests.support.machine import Bench
from tests.support.recorded import exchanges, replay

SUPER_USERS = "User:admin;User:broker"
ALICE = Client("User:alice", "10.0.0.1")
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}

names = st.text(alphabet="ab/", min_size=1, max_size=3)
operations = st.sampled_from([each for each in Operation if each > Operation.ALL])
types = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
patterns = st.builds(
    Pattern,
    types,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    names | st.just("*"),
)
acls = st.builds(
    Acl,
    st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"]),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from([each for each in Operation if each >= Operation.ALL]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
entries = st.lists(st.tuples(patterns, acls), max_size=8, unique=True)
Entries = list[tuple[Pattern, Acl]]


def image_of(given_entries: Entries) -> MachineTables:
    at = CellTables().of(CONTROLLER)
    for number, (pattern, acl) in enumerate(given_entries):
        authorizer.apply_added(at, added(str(number), pattern, acl))
    return at


def added(acl_id: str, pattern: Pattern, acl: Acl) -> AccessControlEntryAdded:
    return AccessControlEntryAdded(
        acl_id,
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def is_allowed(
    given_entries: Entries,
    operation: Operation,
    name: str,
    resource_type: ResourceType = ResourceType.TOPIC,
    **settings: Any,
) -> bool:
    return authorizer.allows(
        image_of(given_entries),
        BrokerSettings(authorizer_class_name=CLASS_NAME, **settings),
        ALICE,
        operation,
        resource_type,
        name,
    )


def covers(pattern: Pattern, resource_type: ResourceType, name: str) -> bool:
    if pattern.resource_type != resource_type:
        return False
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, "*")


def by_definition(
    given_entries: Entries, operation: Operation, resource_type: ResourceType, name: str
) -> bool | None:
    """Result of reading all ACLs one by one; None if the resource has no ACL."""
    found = [acl for pattern, acl in given_entries if covers(pattern, resource_type, name)]
    if not found:
        return None
    mine = [a for a in found if a.principal in ("User:alice", "User:*")]
    mine = [a for a in mine if a.host in (ALICE.host, "*")]
    denied = {a.operation for a in mine if a.permission == Permission.DENY}
    allowed = {a.operation for a in mine if a.permission == Permission.ALLOW}
    if denied & {operation, Operation.ALL}:
        return False
    return bool(allowed & {operation, Operation.ALL, *IMPLIED.get(operation, ())})


@given(entries, operations, types, names, st.booleans())
def test_result_equals_the_definition(
    given_entries: Entries,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    for_everyone: bool,
) -> None:
    expected = by_definition(given_entries, operation, resource_type, name)
    actual = is_allowed(
        given_entries, operation, name, resource_type, allow_everyone_if_no_acl_found=for_everyone
    )
    assert actual is (for_everyone if expected is None else expected)


@given(entries, operations, names, st.sampled_from(["exact", "prefix", "all"]))
def test_denial_overrides_any_permission(
    given_entries: Entries, operation: Operation, name: str, how: str
) -> None:
    pattern = {
        "exact": Pattern(ResourceType.TOPIC, PatternType.LITERAL, name),
        "prefix": Pattern(ResourceType.TOPIC, PatternType.PREFIXED, name[:1]),
        "all": Pattern(ResourceType.TOPIC, PatternType.LITERAL, "*"),
    }[how]
    denial = (pattern, Acl("User:alice", "*", operation, Permission.DENY))
    assert not is_allowed([*given_entries, denial], operation, name)


@given(entries, operations, names)
def test_super_user_may_do_everything(
    given_entries: Entries, operation: Operation, name: str
) -> None:
    assert is_allowed(given_entries, operation, name, super_users="User:x; User:alice ;")


@pytest.mark.parametrize(("operation", "implying"), IMPLIED.items())
def test_allowing_acl_implies_operations_and_denying_does_not(
    operation: Operation, implying: set[Operation]
) -> None:
    pattern = Pattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
    everything = Acl("User:alice", "*", Operation.ALL, Permission.ALLOW)
    for other in implying:
        allowing = Acl("User:alice", "*", other, Permission.ALLOW)
        denying = Acl("User:alice", "*", other, Permission.DENY)
        assert is_allowed([(pattern, allowing)], operation, "t")
        assert is_allowed([(pattern, everything), (pattern, denying)], operation, "t")


def test_prefix_covers_names_that_start_with_it_and_literal_only_itself() -> None:
    reads = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)
    prefix = Pattern(ResourceType.TOPIC, PatternType.PREFIXED, "pre")
    literal = Pattern(ResourceType.TOPIC, PatternType.LITERAL, "pre")
    for name, by_prefix in (("pre", True), ("prefix", True), ("pr", False), ("a-pre", False)):
        assert is_allowed([(prefix, reads)], Operation.READ, name) is by_prefix
        assert is_allowed([(literal, reads)], Operation.READ, name) is (name == "pre")


@given(entries, st.data())
def test_added_and_removed_acls_leave_nothing(given_entries: Entries, data: st.DataObject) -> None:
    at = image_of(given_entries)
    for number in data.draw(st.permutations(range(len(given_entries)))):
        assert sorted(map(repr, authorizer.all_acls(at)))
        authorizer.apply_removed(at, AccessControlEntryRemoved(str(number)))
    assert at.tables.metadata.keys() == []


@given(entries, operations)
def test_permission_on_any_topic_agrees_with_single_topics(
    given_entries: Entries, operation: Operation
) -> None:
    at = image_of(given_entries)
    settings = BrokerSettings(authorizer_class_name=CLASS_NAME)
    found = authorizer.allows_any(at, settings, ALICE, operation, ResourceType.TOPIC)
    implied = {operation, Operation.ALL, *IMPLIED.get(operation, ())}
    if found:
        assert any(
            pattern.resource_type == ResourceType.TOPIC
            and acl.permission == Permission.ALLOW
            and acl.operation in implied
            for pattern, acl in given_entries
        )
    direct = [entry for entry in given_entries if entry[1].operation in (operation, Operation.ALL)]
    for name in [
        "hardcode",
        *(pattern.name for pattern, _ in given_entries if pattern.name != "*"),
    ]:
        if by_definition(direct, operation, ResourceType.TOPIC, name):
            assert found


@pytest.mark.parametrize("for_everyone", [False, True])
def test_authorized_operations_agree_with_the_recorded_authorizer(for_everyone: bool) -> None:
    """60 random sets of ACLs, for two clients and a super user."""
    bench = Bench(
        authorizer_class_name=CLASS_NAME,
        super_users=SUPER_USERS,
        allow_everyone_if_no_acl_found=for_everyone,
    )
    name = "operations_for_everyone" if for_everyone else "operations"
    assert replay(bench, exchanges(name)) == []


def test_write_permission_on_any_topic_agrees_with_the_recorded_authorizer() -> None:
    bench = Bench(authorizer_class_name=CLASS_NAME, super_users=SUPER_USERS)
    first = {"transactionalId": None, "transactionTimeoutMs": 60000}
    bench.request("INIT_PRODUCER_ID", 4, first, principal="User:admin")
    assert replay(bench, exchanges("any_topic")) == []
