"""Invariants of ACLs (id and pattern) and tokens (id and digest)."""

from collections import Counter

from brokertwin.state.access import delegation_tokens
from brokertwin.state.access.authorizer import Pattern, PatternType, PrefixLengths, entries
from brokertwin.state.core.check import Violations, by_kind
from brokertwin.state.core.tables import Table

_KINDS = ("token", "token-digest", "acl", "acl-id", "acl-prefixes")


def check(table: Table, prefix: str) -> Violations:
    """Check ACLs and tokens of the image with this key prefix."""
    if by_kind(table).keys().isdisjoint(_KINDS):
        return  # there are none
    tokens = {each.digest: each.token_id for each in delegation_tokens.all_tokens(table, prefix)}
    digests = f"{prefix}/token-digest/"
    by_digest = {
        key.removeprefix(digests): item.token_id
        for key, item in table.items(digests, delegation_tokens.TokenId)
    }
    if by_digest != tokens:
        yield f"{prefix}: digests have the tokens {by_digest}, the tokens are {tokens}"
    by_pattern = {acl_id: pattern for pattern, acl_id, _ in entries(table, prefix)}
    ids = f"{prefix}/acl-id/"
    by_id = {key.removeprefix(ids): pattern for key, pattern in table.items(ids, Pattern)}
    if by_id != by_pattern:
        yield f"{prefix}: ids have the ACLs {sorted(by_id)}, patterns have {sorted(by_pattern)}"
    lengths = f"{prefix}/acl-prefixes/"
    counted = {
        (int(key.removeprefix(lengths)), length): count
        for key, item in table.items(lengths, PrefixLengths)
        for length, count in item.counts.items()
    }
    prefixes = {p for p in by_pattern.values() if p.pattern_type == PatternType.PREFIXED}
    found = Counter((pattern.resource_type, len(pattern.name)) for pattern in prefixes)
    if counted != found:
        yield f"{prefix}: {counted} prefixes are counted instead of {dict(found)}"
