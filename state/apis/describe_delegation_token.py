"""DescribeDelegationToken (key 41, versions 1 to 3): list visible tokens.

Any broker responds, from its metadata image. In this order:

    the connection is not allowed    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    no secret key                    61 DELEGATION_TOKEN_AUTH_DISABLED
    an empty list of owners          no tokens

The list of owners selects the tokens that they own, may renew or have created; without a list, all
tokens. Of these, a client sees the tokens that it owns, may renew or has created, and those with
DESCRIBE on the token or DESCRIBE_TOKENS on its owner. Expired tokens are listed until the
controller removes them.

The gateway adds each token's hmac to the response. When a client logs in with a token, the gateway
requests that token without any permission check (`edge.login`).

Sources: `KafkaApis.handleDescribeTokensRequest`, `DelegationTokenManager.filterToken` in Kafka;
KIP-48, KIP-373.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.generated.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from brokertwin.state.access import delegation_tokens
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.access.delegation_tokens import Token
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request


def handle(broker: Broker, request: Request) -> Decision:
    """List the visible tokens without changing any state."""
    body: DescribeDelegationTokenRequest = request.body
    refused = delegation_tokens.refusal(body.edge)
    if refused is not None:
        raise Refused(refused.error)
    if body.edge.login:
        tokens = delegation_tokens.by_id(broker, body.edge.login)
        shown = [tokens] if tokens is not None else []
    else:
        shown = [
            token
            for token in delegation_tokens.all_tokens(broker)
            if _is_selected(body.owners, token) and _may_see(broker, request, token)
        ]
    response = DescribeDelegationTokenResponse(tokens=[_described(each) for each in shown])
    return Decision(response=response)


def _is_selected(owners: list[DescribeDelegationTokenOwner] | None, token: Token) -> bool:
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


API = Api(kafka_apis.DESCRIBE_DELEGATION_TOKEN, handle)
