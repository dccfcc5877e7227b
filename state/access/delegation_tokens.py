"""Delegation tokens: who has one, for whom, until when (KIP-48, KIP-373).

A token's secret, its hmac, never comes here. Whoever holds the secret key of the tokens (a gateway,
`delegation.token.secret.key`) draws a token's id, computes the hmac of it, and gives the event what
only the edge knows (`Edge`): the id, a digest of the hmac, whether there are tokens at all, and
whether the connection may ask for any. By the digest a token is found that is to be renewed or
expired, by its id one that somebody logs in with.

Items of the table `metadata`, of every machine:

    <machine>/token/<token id>       Token
    <machine>/token-digest/<digest>  TokenId

Times are ms since 1970. A token is no use after `expiry_timestamp`, which is renewed up to
`max_timestamp`; the controller forgets it at the next check
(`delegation.token.expiry.check.interval.ms`), as in Kafka.

Sources: `DelegationTokenControlManager`, `DelegationTokenManager.filterToken`, `TokenInformation`,
`KafkaApis.allowTokenRequests` in Kafka.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import DelegationTokenRemoved, DelegationTokenWritten
from brokertwin.state.core.tables import Table, escape
from brokertwin.state.core.wire.additions import DelegationTokenEdge

USER_TYPE = "User"
LONG_MAX = 2**63 - 1
NO_TIME = -1


class Refused(NamedTuple):
    """Why a request about tokens is not looked at, and what its answer has for a time."""

    error: Error
    time: int


def refused(edge: DelegationTokenEdge) -> Refused | None:
    """Whether such a request may come at all."""
    if not edge.is_allowed:
        return Refused(Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    if not edge.is_enabled:
        return Refused(Error.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    return None


class Token(msgspec.Struct):
    """A token. Principals are as `User:alice`."""

    token_id: str
    digest: str
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int

    def is_expired(self, now: int) -> bool:
        """Whether it is no use any more."""
        return min(self.max_timestamp, self.expiry_timestamp) < now

    def may_be_renewed_by(self, principal: str) -> bool:
        """Whether somebody owns it or is one of those who may renew it."""
        return principal == self.owner or principal in self.renewers

    def is_known_to(self, principal: str) -> bool:
        """Whether somebody sees it without any right to: who has made it does, too."""
        return principal == self.requester or self.may_be_renewed_by(principal)

    def written(self, expiry_timestamp: int) -> DelegationTokenWritten:
        """The record of it with another time of expiry."""
        known = msgspec.structs.asdict(self)
        return DelegationTokenWritten(**(known | {"expiry_timestamp": expiry_timestamp}))


class TokenId(msgspec.Struct, array_like=True):
    """The id of the token that a digest is of."""

    token_id: str


def later(now: int, by: int) -> int:
    """A time after another, as far as Kafka's times go."""
    return min(now + by, LONG_MAX)


def principal(kind: str, name: str) -> str:
    """A principal as events have it."""
    return f"{kind}:{name}"


def parts(principal_text: str) -> tuple[str, str]:
    """Type and name of a principal."""
    kind, _, name = principal_text.partition(":")
    return kind, name


def by_id(table: Table, prefix: str, token_id: str) -> Token | None:
    """The token with this id."""
    return table.get(_key(prefix, token_id), Token)


def by_digest(table: Table, prefix: str, digest: str) -> Token | None:
    """The token with this digest of its hmac."""
    found = table.get(_digest_key(prefix, digest), TokenId)
    return by_id(table, prefix, found.token_id) if found is not None else None


def all_tokens(table: Table, prefix: str) -> Iterator[Token]:
    """Every token, expired ones too."""
    for _, token in table.items(f"{prefix}/token/", Token):
        yield token


def expired(table: Table, prefix: str, now: int) -> list[DelegationTokenRemoved]:
    """The tokens that a check forgets."""
    return [
        DelegationTokenRemoved(token.token_id)
        for token in all_tokens(table, prefix)
        if token.is_expired(now)
    ]


def apply_written(table: Table, prefix: str, record: DelegationTokenWritten) -> None:
    """A token is new, or expires at another time."""
    apply_removed(table, prefix, DelegationTokenRemoved(record.token_id))
    table.put(_key(prefix, record.token_id), Token(**msgspec.structs.asdict(record)))
    table.put(_digest_key(prefix, record.digest), TokenId(record.token_id))


def apply_removed(table: Table, prefix: str, record: DelegationTokenRemoved) -> None:
    """A token is gone."""
    token = by_id(table, prefix, record.token_id)
    if token is not None:
        table.drop(_key(prefix, record.token_id))
        table.drop(_digest_key(prefix, token.digest))


def _key(prefix: str, token_id: str) -> str:
    return f"{prefix}/token/{escape(token_id)}"


def _digest_key(prefix: str, digest: str) -> str:
    return f"{prefix}/token-digest/{escape(digest)}"
