"""RenewDelegationToken (key 39, versions 1 to 2): extend a token.

Runs on the controller. Errors, in this order:

    not allowed on the connection  64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    no secret key                  61 DELEGATION_TOKEN_AUTH_DISABLED
    no such token                  62 DELEGATION_TOKEN_NOT_FOUND
    expired token                  66 DELEGATION_TOKEN_EXPIRED
    neither its owner nor renewer  63 DELEGATION_TOKEN_OWNER_MISMATCH

The extension is at most `delegation.token.expiry.time.ms`, and never beyond the token's maximum
lifetime. The gateway keeps the request's HMAC and sends its digest in `edge.digest`.

Sources: `KafkaApis.handleRenewTokenRequest`, `DelegationTokenControlManager` in Kafka; KIP-48.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.additions import TokenEdge
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from brokertwin.state.access import delegation_tokens
from brokertwin.state.access.delegation_tokens import Token
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request


def handle(controller: Controller, request: Request) -> Decision:
    """Write the token with its new expiry time."""
    body: RenewDelegationTokenRequest = request.body
    token = requested_token(controller, body.edge)
    if token.is_expired(controller.now):
        raise Refused(Error.DELEGATION_TOKEN_EXPIRED, expiry_timestamp_ms=0)
    if not token.may_be_renewed_by(request.principal):
        raise Refused(Error.DELEGATION_TOKEN_OWNER_MISMATCH, expiry_timestamp_ms=0)
    period_ms = controller.settings.delegation_token_expiry_time_ms
    if body.renew_period_ms > 0:
        period_ms = min(period_ms, body.renew_period_ms)
    expiry = min(token.max_timestamp, controller.now + period_ms)
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=expiry)
    return Decision(records=[token.written(expiry)], response=response)


def requested_token(controller: Controller, edge: TokenEdge) -> Token:
    """Return the token whose HMAC the client sent. Raises Refused."""
    refused = delegation_tokens.refusal(edge)
    if refused is not None:
        raise Refused(refused.error, expiry_timestamp_ms=refused.time)
    token = delegation_tokens.by_digest(controller, edge.digest)
    if token is None:
        raise Refused(Error.DELEGATION_TOKEN_NOT_FOUND, expiry_timestamp_ms=0)
    return token


API = Api(kafka_apis.RENEW_DELEGATION_TOKEN, handle)
