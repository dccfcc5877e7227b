"""DescribeDelegationToken (key 41, versions 1 to 3): the tokens that somebody may know of.

Answered by any broker, from its image. In this order:

    the connection may not      64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    no secret key               61 DELEGATION_TOKEN_AUTH_DISABLED
    an empty list of owners     no tokens

Of the tokens that the owners have, may renew or have made, or of all, those are shown that oneself
has, may renew or has made, and those with DESCRIBE on the token or DESCRIBE_TOKENS on its owner.
Expired ones are shown until the controller forgets them.

The gateway puts each token's hmac into the answer, and asks for one token, whoever asks, where
somebody logs in with it (`edge.login`).

Sources: `KafkaApis.handleDescribeTokensRequest`, `DelegationTokenManager.filterToken` in Kafka;
KIP-48, KIP-373.
"""

from brokertwin.state.access import delegation_tokens
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.access.delegation_tokens import Token
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.wire.generated.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(broker: Broker, request: Request) -> Decision:
    """Reads; nothing changes."""
    body: DescribeDelegationTokenRequest = request.body
    refused = delegation_tokens.refusal(body.edge)
    if refused is not None:
        return Decision(response=DescribeDelegationTokenResponse(error_code=refused.error))
    table, prefix = broker.tables.metadata, broker.prefix
    if body.edge.login:
        found = delegation_tokens.by_id(table, prefix, body.edge.login)
        shown = [found] if found is not None else []
    else:
        shown = [
            token
            for token in delegation_tokens.all_tokens(table, prefix)
            if _is_asked_for(body.owners, token) and _may_see(broker, request, token)
        ]
    response = DescribeDelegationTokenResponse(tokens=[_described(each) for each in shown])
    return Decision(response=response)


def _is_asked_for(owners: list[DescribeDelegationTokenOwner] | None, token: Token) -> bool:
    return owners is None or any(
        token.is_known_to(delegation_tokens.principal(each.principal_type, each.principal_name))
        for each in owners
    )


def _may_see(broker: Broker, request: Request, token: Token) -> bool:
    return (
        token.is_known_to(request.principal)
        or broker.allows(request, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or broker.allows(request, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(token: Token) -> DescribedDelegationToken:
    owner_type, owner_name = delegation_tokens.parts(token.owner)
    requester_type, requester_name = delegation_tokens.parts(token.requester)
    renewers = [delegation_tokens.parts(each) for each in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiry_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=k, principal_name=n) for k, n in renewers
        ],
    )


API = Api(kafka_apis.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest, handle)
