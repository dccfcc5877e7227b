"""Delegation tokens: owners, renewers, expiry (KIP-48, KIP-373).

The state never contains a token's secret, its hmac. The component with the secret key (a gateway,
`delegation.token.secret.key`) generates token ids and hmacs. It adds its facts to the event
(`TokenEdge`): the id, a digest of the hmac, whether tokens are enabled, and whether the connection
may request any. Renewals and expirations find a token by digest, logins by id.

Items of the table `metadata`, of every machine:

    <machine>/token/<token id>       Token
    <machine>/token-digest/<digest>  TokenId

Times are ms since 1970. A token is invalid after `expiry_timestamp`, which is renewed up to
`max_timestamp`. The controller removes it at the next check
(`delegation.token.expiry.check.interval.ms`), as in Kafka.

Sources: `DelegationTokenControlManager`, `DelegationTokenManager.filterToken`, `TokenInformation`,
`KafkaApis.allowTokenRequests` in Kafka.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from brokertwin.protocol.additions import TokenEdge
from brokertwin.protocol.errors import Error
from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import DelegationTokenRemoved, DelegationTokenWritten
from brokertwin.state.core.tables import MachineTables, escape

USER_TYPE = "User"
LONG_MAX = 2**63 - 1
NO_TIME = -1


class TokenRefusal(NamedTuple):
    """Error of a rejected request about tokens, and the time in its response."""

    error: Error
    time: int


def refusal(edge: TokenEdge) -> TokenRefusal | None:
    """Why the edge's facts reject a request, or None."""
    if not edge.is_allowed:
        return TokenRefusal(Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    if not edge.is_enabled:
        return TokenRefusal(Error.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    return None


class Token(msgspec.Struct):
    """A token. Principals are like `User:alice`."""

    token_id: str
    digest: str
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int

    def is_expired(self, now: int) -> bool:
        return min(self.max_timestamp, self.expiry_timestamp) < now

    def may_be_renewed_by(self, principal: str) -> bool:
        return principal == self.owner or principal in self.renewers

    def is_known_to(self, principal: str) -> bool:
        """True if the token is visible without DESCRIBE permission."""
        return principal == self.requester or self.may_be_renewed_by(principal)

    def written(self, expiry_timestamp: int) -> DelegationTokenWritten:
        fields = msgspec.structs.asdict(self)
        return DelegationTokenWritten(**(fields | {"expiry_timestamp": expiry_timestamp}))


class TokenId(msgspec.Struct, array_like=True):
    token_id: str


def later(now: int, by: int) -> int:
    """A later time, limited to Kafka's range."""
    return min(now + by, LONG_MAX)


def principal(kind: str, name: str) -> str:
    return f"{kind}:{name}"


def parts(principal_text: str) -> tuple[str, str]:
    kind, _, name = principal_text.partition(":")
    return kind, name


def by_id(at: MachineTables, token_id: str) -> Token | None:
    return at.tables.metadata.get(_key(at, token_id), Token)


def by_digest(at: MachineTables, digest: str) -> Token | None:
    token = at.tables.metadata.get(_digest_key(at, digest), TokenId)
    return by_id(at, token.token_id) if token is not None else None


def all_tokens(at: MachineTables) -> Iterator[Token]:
    for _, token in at.tables.metadata.items(f"{at.prefix}/token/", Token):
        yield token


def expired(at: MachineTables, now: int) -> list[DelegationTokenRemoved]:
    return [
        DelegationTokenRemoved(token.token_id) for token in all_tokens(at) if token.is_expired(now)
    ]


@applies(DelegationTokenWritten)
def apply_written(at: MachineTables, record: DelegationTokenWritten) -> None:
    """Add a token or change its expiry."""
    apply_removed(at, DelegationTokenRemoved(record.token_id))
    at.tables.metadata.put(_key(at, record.token_id), Token(**msgspec.structs.asdict(record)))
    at.tables.metadata.put(_digest_key(at, record.digest), TokenId(record.token_id))


@applies(DelegationTokenRemoved)
def apply_removed(at: MachineTables, record: DelegationTokenRemoved) -> None:
    token = by_id(at, record.token_id)
    if token is not None:
        at.tables.metadata.drop(_key(at, record.token_id))
        at.tables.metadata.drop(_digest_key(at, token.digest))


def _key(at: MachineTables, token_id: str) -> str:
    return f"{at.prefix}/token/{escape(token_id)}"


def _digest_key(at: MachineTables, digest: str) -> str:
    return f"{at.prefix}/token-digest/{escape(digest)}"
