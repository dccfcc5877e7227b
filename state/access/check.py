"""Invariants of ACLs (id and pattern) and tokens (id and digest)."""

from collections import Counter

from brokertwin.state.access import delegation_tokens
from brokertwin.state.access.authorizer import Pattern, PatternType, PrefixLengths, entries
from brokertwin.state.core.check import Violations, by_kind
from brokertwin.state.core.tables import MachineTables

_KINDS = ("token", "token-digest", "acl", "acl-id", "acl-prefixes")


def check(at: MachineTables) -> Violations:
    """Check ACLs and tokens of the image with this key prefix."""
    if by_kind(at.tables.metadata).keys().isdisjoint(_KINDS):
        return  # there are none
    tokens = {each.digest: each.token_id for each in delegation_tokens.all_tokens(at)}
    digests = f"{at.prefix}/token-digest/"
    by_digest = {
        key.removeprefix(digests): item.token_id
        for key, item in at.tables.metadata.items(digests, delegation_tokens.TokenId)
    }
    if by_digest != tokens:
        yield f"{at.prefix}: digests have the tokens {by_digest}, the tokens are {tokens}"
    by_pattern = {acl_id: pattern for pattern, acl_id, _ in entries(at)}
    ids = f"{at.prefix}/acl-id/"
    by_id = {
        key.removeprefix(ids): pattern for key, pattern in at.tables.metadata.items(ids, Pattern)
    }
    if by_id != by_pattern:
        yield f"{at.prefix}: ids have the ACLs {sorted(by_id)}, patterns have {sorted(by_pattern)}"
    lengths = f"{at.prefix}/acl-prefixes/"
    counted = {
        (int(key.removeprefix(lengths)), length): count
        for key, item in at.tables.metadata.items(lengths, PrefixLengths)
        for length, count in item.counts.items()
    }
    prefixes = {p for p in by_pattern.values() if p.pattern_type == PatternType.PREFIXED}
    counts = Counter((pattern.resource_type, len(pattern.name)) for pattern in prefixes)
    if counted != counts:
        yield f"{at.prefix}: {counted} prefixes are counted instead of {dict(counts)}"
