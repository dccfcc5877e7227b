"""What must hold of the ACLs of an image: each is found by its id and by its pattern."""

from collections import Counter

from brokerstream.state.access.authorizer import Pattern, PatternType, PrefixLengths, entries
from brokerstream.state.core.check import Violations
from brokerstream.state.core.tables import Table


def check(table: Table, prefix: str) -> Violations:
    """ACLs of the image whose keys begin with `prefix`."""
    by_pattern = {acl_id: pattern for pattern, acl_id, _ in entries(table, prefix)}
    ids = f"{prefix}/acl-id/"
    by_id = {key.removeprefix(ids): pattern for key, pattern in table.items(ids, Pattern)}
    if by_id != by_pattern:
        yield f"{prefix}: ids name the ACLs {sorted(by_id)}, patterns have {sorted(by_pattern)}"
    lengths = f"{prefix}/acl-prefixes/"
    counted = {
        (int(key.removeprefix(lengths)), length): count
        for key, item in table.items(lengths, PrefixLengths)
        for length, count in item.counts.items()
    }
    prefixes = {p for p in by_pattern.values() if p.pattern_type == PatternType.PREFIXED}
    found = Counter((pattern.resource_type, len(pattern.name)) for pattern in prefixes)
    if counted != found:
        yield f"{prefix}: {counted} prefixes are counted, there are {dict(found)}"
